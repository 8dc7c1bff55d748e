/* The training graph: nodes over values, in the order in which they were added, which is a
 * topological one. Nodes and values never move and live until the graph is destroyed.
 *
 * Invariants (qn_graph_check):
 *     nodes[i]->inputs are outputs of nodes before i, or have no producer
 *     values[v]->producer < 0  <=>  kind is input, label, parameter, optimiser state, or an
 *                                   accumulated gradient (all given from outside the graph)
 *     values[v]->overwrites = u >= 0  =>  u has no producer or overwrites a value itself, and no
 *                                         other value overwrites u */
#ifndef QN_GRAPH_GRAPH_H
#define QN_GRAPH_GRAPH_H

#include "base/memory.h"
#include "graph/op.h"
#include "quern/graph.h"
#include "tensor/tensor.h"

/* What a value is for; memory reports and planners go by it. */
typedef enum qn_kind {
    QN_KIND_INPUT,
    QN_KIND_LABEL,
    QN_KIND_PARAMETER,
    QN_KIND_GRADIENT,
    QN_KIND_STATE, /* of the optimiser */
    QN_KIND_FEATURE,
    QN_KIND_WORKSPACE,
    QN_KIND_COUNT
} qn_kind;

const char *qn_kind_name(qn_kind kind);

/* Which channels of a weight are trained where not all are. */
typedef enum qn_part_choice {
    QN_PART_LARGEST,  /* those with the largest sums of squares when training began */
    QN_PART_SMALLEST, /* the smallest */
    QN_PART_FIRST,
    QN_PART_CHOICES
} qn_part_choice;

typedef struct qn_weight_part {
    int64_t n; /* channels; 0: all */
    int axis;  /* that they are along */
    qn_part_choice by;
} qn_weight_part;

typedef struct qn_value_info {
    const char *name;
    qn_kind kind;
    qn_tensor tensor;
    int32_t producer;      /* node, or -1: given from outside */
    int32_t output;        /* which output of the producer */
    int32_t overwrites;    /* value whose storage this one takes over: an update in place; or -1 */
    bool is_overwritten;   /* some value overwrites this one */
    qn_initial initial;    /* of a parameter or state */
    const qn_given *given; /* values that it starts with instead; or null */
    const void *lent;    /* of a source: where it lies, which is only read; null: engines hold it */
    bool trainable;      /* of a parameter */
    qn_weight_part part; /* likewise: what of it is trained */
    bool is_part;        /* of a state: a copy of what is trained of a parameter */
    bool is_head;        /* likewise: of the layer that makes the outputs, where a tuning looked */
    bool is_result;      /* read from outside after the run, so alive to its end */
    bool wants_gradient; /* of an input: autodiff makes its gradient too, a result */
    int16_t space;       /* given from outside: the memory space where it lies; 0: the host's */
} qn_value_info;

typedef struct qn_node {
    const qn_op *op;
    const char *name;
    uint64_t key; /* hash of the name: the purpose of its random stream */
    const void *attributes;
    int n_inputs, n_outputs;
    qn_value *inputs; /* an id of -1: left out */
    qn_value *outputs;
    const qn_tensor *input_tensors; /* (n_inputs): their descriptions */
} qn_node;

/* Where the texts of the scopes outside of one end. */
typedef struct qn_scope {
    size_t scope_end, parameter_end;
    bool is_call;
} qn_scope;

enum { QN_MAX_RESULTS = 32 };

struct qn_graph {
    const qn_allocator *allocator;
    qn_arena arena;
    qn_dtype real;
    bool training, no_dropout;
    qn_status status; /* first failure of building, with its text below */
    char message[512];
    char scope[256];           /* "fake.stage1.0." */
    char parameter_scope[256]; /* "stage1.0.": without calls */
    int depth, n_calls;        /* of scopes; n_calls of them are calls */
    qn_scope scopes[16];       /* (depth) */
    int n_nodes, n_values, n_results;
    qn_value results[QN_MAX_RESULTS]; /* (n_results), in the order of qn_result */
    size_t node_capacity, value_capacity;
    qn_node **nodes;
    qn_value_info **values;
    size_t *names;                 /* open-addressing table over value names: id + 1, or 0 */
    size_t name_capacity, n_names; /* capacity: 0 or a power of two, more than n_names */
};

/* Sources of this name are made by what builds the graph, whenever it does: they never change, and
 * no checkpoint holds them. */
#define QN_CONSTANT_PREFIX "constant."

/* Keeps a failure (the first one). */
void qn_graph_fail(qn_graph *graph, qn_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* base with a number behind it that makes it free in the current scope ("add" -> "add1"), or base
 * itself if it is free and need not be numbered; in the graph's memory. Null after a failure. */
const char *qn_graph_unique(qn_graph *graph, const char *base, bool is_numbered);

/* Adds a node. name null: the operator's name and a number. attributes (op->attributes_bytes) are
 * copied. The shape rule runs; outputs get kind feature map (autodiff makes gradients of them), an
 * update's the kind of what it overwrites. On failure the graph keeps the message and null is
 * returned. */
const qn_node *qn_graph_add(qn_graph *graph, const qn_op *op, const char *name,
                            const qn_value *inputs, int n_inputs, const void *attributes);

/* The same for an operator with one output: that output, or QN_NO_VALUE. */
qn_value qn_graph_add1(qn_graph *graph, const qn_op *op, const char *name, const qn_value *inputs,
                       int n_inputs, const void *attributes);

/* A value given from outside: kind parameter, state, gradient (accumulated), input, or label. */
qn_value qn_graph_add_source(qn_graph *graph, qn_kind kind, const char *name, qn_tensor tensor,
                             qn_initial initial, bool trainable);

/* As qn_parameter, of any type. */
qn_value qn_graph_add_parameter(qn_graph *graph, const char *name, qn_tensor tensor,
                                qn_initial initial, bool trainable);

/* Makes a source start with values, of which *given is copied and the data are not. Null: nothing.
 */
void qn_graph_give(qn_graph *graph, qn_value source, const qn_given *given);

/* A source that nothing changes and that lies in memory of the caller's, dense and at any address:
 * engines of the graph read it there, hold no copy and save none. data must not be null. */
void qn_graph_lend(qn_graph *graph, qn_value source, const void *data);

/* Information on a value; null for QN_NO_VALUE and after a failure. */
qn_value_info *qn_graph_value(const qn_graph *graph, qn_value value);

/* Description of a value; dtype QN_NONE for QN_NO_VALUE. */
qn_tensor qn_graph_tensor(const qn_graph *graph, qn_value value);

/* The value that holds what v held, as the graph's last update left it: v, if nothing updates it.
 */
qn_value qn_graph_latest(const qn_graph *graph, qn_value v);

/* The value whose memory a value shows: what it is a view of, through all views, or itself. */
qn_value qn_graph_unview(const qn_graph *graph, qn_value v);

/* Value by its full name, or QN_NO_VALUE. */
qn_value qn_graph_find(const qn_graph *graph, const char *name);

/* " name=value" of a node's attributes, in the graph's memory; null when memory is out. */
const char *qn_node_print_attributes(qn_graph *graph, const qn_node *node);

/* The invariants at the top; a violation is QN_ERROR_ARGUMENT with the node's name. */
qn_status qn_graph_check(const qn_graph *graph);

#endif
