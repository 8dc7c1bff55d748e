/* Losses on the outputs of any network of a file: what the task "arrays" trains. Inputs and targets
 * are in the file's layout; images are turned to channels last inside the graph. */
#ifndef QN_ONNX_TARGETS_H
#define QN_ONNX_TARGETS_H

#include "onnx/import.h"

typedef enum qn_loss {
    QN_LOSS_AUTO = 0,      /* by the targets; of an output: it does not train */
    QN_LOSS_CROSS_ENTROPY, /* of softmax(output) with classes; negative: ignored */
    QN_LOSS_BCE,           /* binary cross entropy of sigmoid(output), each element */
    QN_LOSS_MSE,           /* mean of (output - target)^2 */
    QN_LOSS_L1,            /* mean of |output - target| */
    QN_LOSS_HUBER,         /* mean of Huber's loss with delta 1 */
    QN_LOSS_OWN,           /* the output is the loss: one number */
    QN_LOSSES
} qn_loss;

/* "cross-entropy", ...; QN_LOSS_AUTO: "auto", QN_LOSS_OWN: "none". */
extern const char *const qn_loss_names[QN_LOSSES];

typedef struct qn_onnx_target {
    qn_loss loss;
    int class_axis; /* of a cross entropy, in the file's order */
} qn_onnx_target;

/* What a program is built from. Its inputs are those of the file, then a target for each output
 * with a loss but QN_LOSS_OWN: classes, QN_I32 (rows), or reals (N, elements of a sample). Its
 * results are, except in training, for each of these outputs the losses and the output, of which
 * the classes are the last axis: (rows), (rows, C); else (N) or (N, elements), (N, elements). The
 * last result is the loss. */
typedef struct qn_onnx_targets {
    qn_onnx_network *network;
    const qn_shape *inputs;        /* (n_inputs), in the file's order, with the batch */
    const qn_onnx_target *outputs; /* (n_outputs) */
} qn_onnx_targets;

/* The outputs' extents for inputs of these, in the file's order; of whole numbers rank -1. */
qn_status qn_onnx_find_outputs(qn_onnx_network *network, const qn_shape *inputs, qn_shape *outputs);

/* Whether an output is that of a node of a type, which nothing else reads. */
bool qn_onnx_output_is_of(const qn_onnx_network *network, int output, const char *type);

/* Leaves activations at the end out that losses have of their own: the softmax before a cross
 * entropy, the sigmoid before a binary one. All others are built from now on. */
qn_status qn_onnx_leave_out(qn_onnx_network *network, const qn_onnx_target *outputs);

/* Of qn_program_options; user: qn_onnx_targets. */
qn_value qn_onnx_build_targets(qn_graph *graph, void *user, int phase, qn_value *kept);

#endif
