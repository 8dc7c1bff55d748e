/* What writers of operators (operators.c) use of the exporter. A value of the graph has up
 * to two names in the file: of its own order of axes, and with its channels second, which
 * convolutions, pools and norms of ONNX want. What is there in one order only is transposed when it
 * is asked for in the other. */
#ifndef QN_ONNX_EXPORT_EXPORT_H
#define QN_ONNX_EXPORT_EXPORT_H

#include "format/onnx/onnx_file.h"
#include "graph/graph.h"
#include "quern/onnx.h"

typedef enum qn_onnx_order { QN_ONNX_PLAIN = 0, QN_ONNX_CHANNELS_SECOND } qn_onnx_order;

typedef struct qn_onnx_exporter qn_onnx_exporter;

/* An operator: how its node is written, and what it reads there, where that is not the node's
 * inputs. */
enum { QN_ONNX_MOST_READ = 8 };
typedef struct qn_onnx_writer {
    const char *op;
    void (*write)(qn_onnx_exporter *e, const qn_node *node);
    int (*read)(const qn_graph *graph, const qn_node *node, qn_value read[QN_ONNX_MOST_READ]);
} qn_onnx_writer;
extern const qn_onnx_writer qn_onnx_writers[]; /* ended by an op null */

const qn_graph *qn_onnx_exporter_graph(const qn_onnx_exporter *e);
const qn_onnx_export_options *qn_onnx_exporter_options(const qn_onnx_exporter *e);
void qn_onnx_export_fail(qn_onnx_exporter *e, qn_status status, const char *message);

/* Where an attribute of a node is. */
const void *qn_onnx_field(const qn_node *node, const char *name);

/* The same with another batch and other lengths: an axis of a value, which is open where its
 * extents differ, and the node itself. Where the batch is a fixed one they are what they are. */
int64_t qn_onnx_other_extent(const qn_onnx_exporter *e, qn_value value, int axis);
bool qn_onnx_is_open(const qn_onnx_exporter *e, qn_value value, int axis);
const qn_node *qn_onnx_other_node(const qn_onnx_exporter *e, const qn_node *node);

/* The name of a value in an order; that in which it is there, plain if both. */
const char *qn_onnx_name(qn_onnx_exporter *e, qn_value value, qn_onnx_order order);
qn_onnx_order qn_onnx_order_of(const qn_onnx_exporter *e, qn_value value);

/* Says the name of a value in an order: its own, or another value's that is the same. */
const char *qn_onnx_call_it(qn_onnx_exporter *e, qn_value value, qn_onnx_order order,
                            const char *name);

/* The same, and it is there in no other order from then on. */
void qn_onnx_rename(qn_onnx_exporter *e, qn_value value, qn_onnx_order order, const char *name);

/* Zeroed memory that lives as long as the export; null after a failure. */
void *qn_onnx_room(qn_onnx_exporter *e, size_t count, size_t size);

/* A text with another in it, likewise. */
const char *qn_onnx_text_with(qn_onnx_exporter *e, const char *begin, const char *end);

/* What was put so far. */
const qn_onnx_node *qn_onnx_exporter_nodes(const qn_onnx_exporter *e, int *n);
const qn_onnx_tensor *qn_onnx_exporter_tensors(const qn_onnx_exporter *e, int *n);
qn_status qn_onnx_exporter_status(const qn_onnx_exporter *e);

/* What is about to be written (check.c): lists of whole numbers are whole where operators want
 * them. And a network of a file with other tensors in place of its own can still be built. */
qn_status qn_onnx_check_types(const qn_onnx_model *model);
qn_status qn_onnx_check_changes(qn_onnx_exporter *e, qn_onnx_network *network,
                                const qn_onnx_change *changes, int n_changes);

/* An imported network as the file that it came from, with other numbers (rewrite.c). */
qn_status qn_onnx_export_again(qn_onnx_exporter *e, const qn_onnx_export_options *options,
                               qn_metadata **pairs, const char *path);

/* "NODE/suffix". */
const char *qn_onnx_part(qn_onnx_exporter *e, const qn_node *node, const char *suffix);

/* A value that is held in int8 (narrow.c): its name in the network, its scales along an axis (-1:
 * one scale), their zero points, and, of a parameter, its numbers as the network has them. */
typedef struct qn_onnx_narrow {
    const char *name;
    int axis;
    int64_t n_scales;
    float *scales;   /* (n_scales) */
    int8_t *zeros;   /* (n_scales) */
    int8_t *numbers; /* or null */
} qn_onnx_narrow;

/* Which values of a network are, by the numerics of the options. */
qn_status qn_onnx_measure_narrow(qn_onnx_exporter *e, qn_onnx_narrow **list, int *n);

/* Null: a value is not. */
const qn_onnx_narrow *qn_onnx_find_narrow(const qn_onnx_exporter *e, qn_value value);

/* The name of a parameter of int8 as reals. */
const char *qn_onnx_put_narrow(qn_onnx_exporter *e, const qn_onnx_narrow *narrow, qn_value value,
                               qn_onnx_order order);

/* Rounds a value that was written, if it is held so; what reads it from then on reads that. */
void qn_onnx_round(qn_onnx_exporter *e, qn_value value);

/* The network of a classifier in training form over a batch: its logits. */
qn_value qn_onnx_build_classifier(const qn_onnx_exporter *e, qn_graph *graph, int64_t batch);

/* A node from some names to one; null after a failure. */
qn_onnx_node *qn_onnx_put(qn_onnx_exporter *e, const char *type, const char *name,
                          const char *const *inputs, int n_inputs, const char *output);
/* The same from all inputs of a graph's node, in one order, with its name. */
qn_onnx_node *qn_onnx_put_all(qn_onnx_exporter *e, const char *type, const qn_node *node,
                              qn_onnx_order order, const char *output);
void qn_onnx_put_int(qn_onnx_exporter *e, qn_onnx_node *node, const char *name, int64_t value);
void qn_onnx_put_float(qn_onnx_exporter *e, qn_onnx_node *node, const char *name, double value);
/* The text stays the caller's. */
void qn_onnx_put_text(qn_onnx_exporter *e, qn_onnx_node *node, const char *name, const char *text);
void qn_onnx_put_ints(qn_onnx_exporter *e, qn_onnx_node *node, const char *name,
                      const int64_t *values, int n);

/* Names of further outputs, n in all. */
void qn_onnx_put_outputs(qn_onnx_exporter *e, qn_onnx_node *node, const char *const *names, int n);

/* The last node that was put. */
qn_onnx_node *qn_onnx_last(qn_onnx_exporter *e);

/* A constant, whose data stays where it is, and an element of it in another order: the index in
 * (A, C, ...) of that in (A, ..., C). */
const char *qn_onnx_put_tensor(qn_onnx_exporter *e, const char *name, qn_onnx_type type,
                               const int64_t *dims, int n_dims, const void *data, size_t bytes);
int64_t qn_onnx_index_in(qn_onnx_order order, qn_shape shape, int64_t i);
int qn_onnx_dims_in(qn_onnx_order order, qn_shape shape, int64_t *dims);

/* Names of constants: a number, a list of whole numbers, or of floats. */
const char *qn_onnx_number(qn_onnx_exporter *e, qn_onnx_type type, double number);
/* Zeros of a whole type: n of them, or, if it is negative, a scalar. */
const char *qn_onnx_zeros(qn_onnx_exporter *e, qn_onnx_type type, int64_t n);
const char *qn_onnx_whole(qn_onnx_exporter *e, const char *name, const int64_t *values, int n);
const char *qn_onnx_reals(qn_onnx_exporter *e, const char *name, const double *values, int n);

const char *qn_onnx_real_tensor(qn_onnx_exporter *e, const char *name, const double *values,
                                const int64_t *dims, int n_dims);

/* What was put into the file beside the network (preparation.c). */
typedef struct qn_onnx_inside {
    bool is_prepared; /* mean and deviation of samples, in front */
    bool is_restored; /* scales of targets, at the end */
} qn_onnx_inside;
qn_onnx_inside *qn_onnx_exporter_inside(qn_onnx_exporter *e);

/* The name of the prepared input: what samples are, times scale, plus shift. It is the input's own
 * where nothing is to be put into the file, or cannot be. n_axes: of a sample in the file. Null: a
 * failure. */
const char *qn_onnx_prepare(qn_onnx_exporter *e, const char *input, bool is_image, int n_axes);

/* The name of the outputs in the units of the targets, which is restored, or, where training did
 * not scale them, output. Null: a failure. */
const char *qn_onnx_restore_targets(qn_onnx_exporter *e, const char *output, int64_t n_outputs,
                                    const char *restored);

/* Means or scales of n targets, 0 and 1 where they are not scaled; null: a failure. */
const float *qn_onnx_target_numbers(qn_onnx_exporter *e, bool are_means, int64_t n);

/* The options' pairs, with the preparation as who reads the file's input needs it: the caller's,
 * or, where it was put into the file, what is left to do. */
qn_status qn_onnx_describe_preparation(qn_onnx_exporter *e, qn_metadata **pairs);

/* An axis of a value's own order in another. */
int64_t qn_onnx_axis_in(qn_onnx_order order, int64_t axis, int rank);

/* The name of a list of whole numbers that is an open shape where some of other are not those of
 * values: all of them are extents of a batch, so many times the first extent of what the network is
 * given. */
const char *qn_onnx_shape_list(qn_onnx_exporter *e, const char *name, const int64_t *values,
                               const int64_t *other, int n);

/* Axes that are sampled anew, and what such a node reads (resample.c). */
void qn_onnx_write_resample(qn_onnx_exporter *e, const qn_node *node);
void qn_onnx_write_quantise(qn_onnx_exporter *e, const qn_node *node);
void qn_onnx_write_dequantise(qn_onnx_exporter *e, const qn_node *node);
int qn_onnx_read_resample(const qn_graph *graph, const qn_node *node,
                          qn_value read[QN_ONNX_MOST_READ]);

#endif
