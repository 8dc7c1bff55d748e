/* Building graphs. A graph is a list of nodes over values. Building is sticky: the first failure is
 * kept, later calls do nothing, and qn_graph_finish reports it, so calls can be nested without
 * checks. Images are channels last: (N, H, W, C). Filters are (K, R, S, C / groups); weights of
 * linear layers are (out, in).
 *
 * Threads: one thread builds a graph. */
#ifndef QUERN_GRAPH_H
#define QUERN_GRAPH_H

#include "quern/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { QN_MAX_RANK = 6 };

/* Extents, outermost first; dims beyond the rank are 0. */
typedef struct qn_shape {
    int rank;
    int64_t dims[QN_MAX_RANK];
} qn_shape;

/* QN_SHAPE(2, 3) is the shape 2x3. */
#ifdef __cplusplus
}
template <class... T> constexpr qn_shape QN_SHAPE(T... extents) {
    static_assert(sizeof...(extents) <= QN_MAX_RANK, "a shape of too many extents");
    return qn_shape{static_cast<int>(sizeof...(extents)), {static_cast<int64_t>(extents)...}};
}
extern "C" {
#else
#define QN_SHAPE(...)                                                                              \
    ((qn_shape){.rank = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                 \
                .dims = {__VA_ARGS__}})
#endif

typedef struct qn_graph qn_graph;

/* Number of a value in its graph. */
typedef struct qn_value {
    int32_t id;
} qn_value;

/* No value: an omitted input, or the result after a failure. */
#ifdef __cplusplus
#define QN_NO_VALUE (qn_value{-1})
#else
#define QN_NO_VALUE ((qn_value){-1})
#endif

typedef struct qn_graph_options {
    size_t size;                   /* QN_OPTIONS_INIT(qn_graph_options) */
    const qn_allocator *allocator; /* null: the C library's heap */
    qn_dtype real;   /* QN_F32 (also for 0) or QN_F64: of inputs, parameters, constants */
    bool training;   /* batch norm and dropout as in training */
    bool no_dropout; /* dropout passes its input through, also in training */
} qn_graph_options;

QN_API qn_status qn_graph_create(const qn_graph_options *options, qn_graph **graph);
QN_API void qn_graph_destroy(qn_graph *graph);

/* The first failure of building, if there was one. */
QN_API qn_status qn_graph_finish(qn_graph *graph);

QN_API bool qn_graph_is_training(const qn_graph *graph);
QN_API qn_shape qn_graph_shape(const qn_graph *graph, qn_value value);

/* Adds a prefix to all names until the matching leave: "stage1." and so on, nested with dots.
 * Names of nodes and parameters are unique, and random numbers and checkpoints depend on them. */
QN_API void qn_graph_enter(qn_graph *graph, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
QN_API void qn_graph_leave(qn_graph *graph);

/* Until the matching leave, names of nodes and values get the prefix, but names of parameters do
 * not, and a parameter that already exists is reused, as the graph's last update leaves it: the
 * same layers applied to other data ("real", then "fake"). */
QN_API void qn_graph_call(qn_graph *graph, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Inputs of a step: data (real), integers (QN_I32: tokens, positions), and labels. */
QN_API qn_value qn_input(qn_graph *graph, const char *name, qn_shape shape);
QN_API qn_value qn_index_input(qn_graph *graph, const char *name, qn_shape shape);
QN_API qn_value qn_label(qn_graph *graph, const char *name, qn_dtype dtype, qn_shape shape);

/* Marks a value to be read after a run; results are numbered in the order of the calls. */
QN_API void qn_result(qn_graph *graph, qn_value value);

/* Initial values of a parameter. Every element is a function of (seed, name, element). */
typedef enum qn_initial_kind {
    QN_INITIAL_ZERO = 0,
    QN_INITIAL_ONE,
    QN_INITIAL_UNIFORM, /* in [-scale, scale) */
    QN_INITIAL_NORMAL,  /* mean 0, standard deviation scale */
} qn_initial_kind;

typedef struct qn_initial {
    qn_initial_kind kind;
    double scale;
} qn_initial;

/* A parameter, shared under its name by all graphs of a trainer. If it is not trainable (running
 * statistics of batch norm), it is stored and saved but has no gradient. */
QN_API qn_value qn_parameter(qn_graph *graph, const char *name, qn_shape shape, qn_initial initial,
                             bool trainable);

/* Values that a parameter starts with, of any type, at
 *     data[i0 * strides[0] + i1 * strides[1] + ...]:
 * the parameter's axes may lie there in another order, and the data at any address. They stay where
 * they are until the engines of the graph have been made. */
typedef struct qn_given {
    qn_dtype dtype;
    const void *data;
    int64_t strides[QN_MAX_RANK]; /* in elements */
} qn_given;

/* A parameter with given initial values, which are converted to the graph's type. */
QN_API qn_value qn_parameter_from(qn_graph *graph, const char *name, qn_shape shape,
                                  const qn_given *given, bool trainable);

/* The graph as text, one node per line, owned by the graph; null if memory is out. */
QN_API const char *qn_graph_print(qn_graph *graph);

#ifdef __cplusplus
}
#endif
#endif
