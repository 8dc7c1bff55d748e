/* The interface of an operator: shapes, gradient, cost, names, properties. One file of ops/ holds
 * an operator with the operators of its gradient; a row of ops/operators.def registers it. The
 * device's tables say how a device runs it (device/). */
#ifndef QN_GRAPH_OP_H
#define QN_GRAPH_OP_H

#include "quern/graph.h"
#include "tensor/arithmetic.h"
#include "tensor/tensor.h"

struct qn_node;
struct qn_graph;
typedef struct qn_op qn_op;

enum { QN_MAX_OUTPUTS = 5 };

/* A field of an operator's attributes, so that they can be printed, saved and compared. */
typedef enum qn_attribute_type {
    QN_ATTRIBUTE_BOOL,
    QN_ATTRIBUTE_INT,
    QN_ATTRIBUTE_INT64,
    QN_ATTRIBUTE_DOUBLE,
    QN_ATTRIBUTE_SHAPE,
    QN_ATTRIBUTE_ACTIVATION, /* qn_activation */
    QN_ATTRIBUTE_WINDOW,     /* qn_window */
    QN_ATTRIBUTE_CONV2D,     /* qn_convolution */
} qn_attribute_type;

typedef struct qn_attribute {
    const char *name; /* null ends the list */
    qn_attribute_type type;
    size_t offset;
} qn_attribute;

/* The shape rule's view of a node: reads attributes and inputs, writes outputs. */
typedef struct qn_infer {
    const void *attributes;
    int n_inputs;
    const qn_tensor *inputs; /* dtype QN_NONE: left out */
    int n_outputs;           /* preset to 1 */
    qn_tensor outputs[QN_MAX_OUTPUTS];
} qn_infer;

/* Work of one call: arithmetic operations (a multiply-add is two) and bytes that must move. */
typedef struct qn_cost {
    int64_t flops, bytes;
} qn_cost;

/* The gradient rule's view: it adds nodes that work out d(inputs) from d(outputs). */
typedef struct qn_gradient {
    const struct qn_node *node;
    const qn_value *outputs; /* d(output), or QN_NO_VALUE: zero */
    const bool *wanted;      /* which inputs need one */
    qn_value *inputs;        /* preset to QN_NO_VALUE; d(input) goes here */
} qn_gradient;

/* One example for the tests that walk the operator list: builds the operator over inputs and
 * parameters of odd shapes and returns the value whose gradient is checked. */
typedef qn_value qn_sample(qn_graph *graph, int variant);

struct qn_op {
    const char *name;
    size_t attributes_bytes;
    const qn_attribute *attributes; /* its fields; null: none */
    int min_inputs, max_inputs;     /* max_inputs -1: any number */
    uint32_t optional_inputs;       /* that may be left out, as a bit mask; the rest may not */
    /* Of any type, which the shape rule checks, as a bit mask whose last bit stands for all further
     * inputs; the rest are real, of one type. */
    uint32_t any_type_inputs;
    /* That may be 16-bit floats, all of one type and two axes or more, as a bit mask: output 0 is
     * then of that type, too. It is what would be computed in f32, rounded once. */
    uint32_t halves;
    /* Words for the names of outputs 1 and on, "conv1.WORD"; null: their number. */
    const char *output_names[QN_MAX_OUTPUTS];
    /* Fails with the reason, without the node's name, which the builder adds. */
    qn_status (*infer)(qn_infer *infer);
    /* Null: no gradient flows (integer inputs, updates, gradient operators). */
    void (*gradient)(qn_graph *graph, const qn_gradient *gradient);
    /* Null: no arithmetic. Bytes left 0 are those of all inputs and outputs. */
    qn_cost (*cost)(const void *attributes, const qn_tensor *inputs, const qn_tensor *outputs);
    /* Input that output 0 may share its memory with if it is not read later, as a bit mask. */
    uint32_t in_place;
    /* ---- what it is ---- */

    /* Its outputs are constants to autodiff, and that is no mistake. */
    bool stops_gradient : 1;
    /* Output 0 is input 0 in another shape, that of its attributes if they have one: no memory of
     * its own, nothing to run. */
    bool is_view : 1;
    /* It computes nothing and makes nothing: what stands behind it in the graph happens after input
     * 0 was made, and what that was copied from is held until then. A plan makes it a wait. */
    bool is_wait : 1;
    /* It may run only once in a step: it talks to what is outside of the program. */
    bool runs_once : 1;
    /* Its arithmetic is products: what a model's FLOPs count. */
    bool is_product : 1;
    /* Each row of output 0 is products of windows of input 0, a picture, with a filter. */
    bool is_convolution : 1;
    /* Channel k of output 0 is products of input 0 with row k of the weight (K, ..., C) at input 1,
     * to which element k of the bias at input 2 is added where there is one. */
    bool is_linear : 1;
    /* Of such an operator: its gradient heeds what of the weight is trained (qn_weight_part). */
    bool trains_parts : 1;
    /* Output 0 is its attributes' qn_activation, which is all that they have, of input 0. */
    bool is_activation : 1;
    /* Output 0 is input 0 normalised, times the scale at input 1, plus the shift at input 2. */
    bool is_norm : 1;
    /* It moves running statistics, inputs 2 and 3, towards a batch's, inputs 0 and 1. */
    bool moves_statistics : 1;
    /* Output 0 has each of its inputs in a range of one axis. */
    bool joins : 1;
    /* Every element of output 0 is made of the one number that input 0 is. */
    bool is_broadcast : 1;
    /* It sums over the batch: such a sum may be made piece by piece. Outputs without the batch's
     * axis then have an input each, behind all others, with the sums of the pieces before, which
     * output 0 may take the place of. By which pieces the bits are those of one sum, a device says
     * (device/device.h: chunk). */
    bool sums_batch : 1;
    /* What it makes of one sample depends on all of them. */
    bool looks_at_batch : 1;
    /* Whether output 0 is input 0 plus input 1, before its activation if it has one. Null: never.
     */
    bool (*is_sum)(const void *attributes);

    /* Output i takes over the storage of input overwrites[i] - 1 (0: of none): an update. */
    int8_t overwrites[QN_MAX_OUTPUTS];
    /* Of an update of reals: the inputs, as a bit mask, that must be finite: of others it changes
     * nothing (device/call.h). */
    uint32_t finite_inputs;
    /* Inputs and outputs whose rows may lie apart (steps of qn_call) and begin at any element, as
     * bit masks; the last bit stands for all further inputs too. Operators with one of the
     * functions below: only where it says so. */
    uint32_t strided_inputs, strided_outputs;
    /* Whether a row of output 0 is the inputs' rows side by side. Inputs that a plan has put there
     * (qn_call's is_placed) are not copied. Null: never. */
    bool (*joins_columns)(const void *attributes, qn_shape first_input);
    /* The first of the columns of input 0 that output 0 is, or -1: it is not columns. If a plan has
     * put it there, nothing is copied. Null: never. */
    int64_t (*sliced_column)(const void *attributes, qn_shape input);
    /* The memory space that its outputs lie in (plan/plan.h), wherever it runs. Null: that of its
     * lane, and all that it reads lies there too. */
    int (*output_space)(const void *attributes);
    /* Makes the attributes, a copy of a node's over a whole batch, those of piece number `piece` of
     * so many equal pieces of the batch. Null: they are the same. */
    void (*split)(const struct qn_graph *graph, const struct qn_node *node, int64_t piece,
                  int64_t pieces, void *attributes);
    /* The input whose scale output 0 has, exactly, where numbers share one: inputs are chosen or
     * moved, and others count by their sign or are indices. -1: none. Null: never. */
    int (*scaled_by)(const void *attributes);
    int n_samples; /* variants for the tests */
    qn_sample *sample;
};

#endif
