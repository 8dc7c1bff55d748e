/* What an operator is. One file of ops/ holds an operator with the operators of its gradient; one
 * row in ops/list.c makes it known. */
#ifndef QN_GRAPH_OP_H
#define QN_GRAPH_OP_H

#include "kernels/kernels.h"
#include "os/swap.h"
#include "quern/graph.h"
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
    QN_ATTRIBUTE_CONV2D,     /* qn_conv2d_shape */
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

/* What an operator does with the swap file. */
typedef enum qn_swapping {
    QN_SWAPPING_NONE,
    QN_SWAPPING_STORE,  /* begins to write a value */
    QN_SWAPPING_STORED, /* waits for that */
    QN_SWAPPING_LOAD,   /* begins to read a copy */
    QN_SWAPPING_LOADED, /* waits for that */
} qn_swapping;

/* Where a node that swaps does so: the file, and, of one that begins something, its place in the
 * file and its request. */
typedef struct qn_swap_place {
    qn_swap *file;
    int64_t offset;
    int request;
} qn_swap_place;

/* A node about to run: its tensors' descriptions and memory. Axis shapes as the operator says. */
typedef struct qn_call {
    const struct qn_node *node;
    const void *attributes;
    const qn_kernels *kernels; /* of the graph's real type */
    qn_team *team;
    const qn_tensor *inputs, *outputs;
    void *const *in; /* null: left out */
    void *const *out;
    /* Elements from one row (all axes but the last) of each to the next; null: all are dense. */
    const int64_t *in_steps, *out_steps;
    void *workspace;
    uint64_t seed, step;       /* with the node's key: its random stream */
    const qn_swap_place *swap; /* of a node that swaps */
} qn_call;

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
    uint32_t integer_inputs;        /* whose type the shape rule checks; the rest are real */
    /* Words for the names of outputs 1 and on, "conv1.WORD"; null: their number. */
    const char *output_names[QN_MAX_OUTPUTS];
    /* Fails with the reason, without the node's name, which the builder adds. */
    qn_status (*infer)(qn_infer *infer);
    /* Null: no gradient flows (integer inputs, updates, gradient operators). */
    void (*gradient)(qn_graph *graph, const qn_gradient *gradient);
    bool stops_gradient; /* its outputs are constants to autodiff, and that is no mistake */
    /* Null: no arithmetic. Bytes left 0 are those of all inputs and outputs. */
    qn_cost (*cost)(const void *attributes, const qn_tensor *inputs, const qn_tensor *outputs);
    /* Null: none. */
    size_t (*workspace)(const qn_kernels *kernels, const void *attributes, const qn_tensor *inputs,
                        const qn_tensor *outputs, int n_threads);
    void (*run)(const qn_call *call);
    /* Input that output 0 may share its memory with if it is not read later, as a bit mask. */
    uint32_t in_place;
    /* Output 0 is input 0 in another shape: no memory of its own, nothing to run. */
    bool is_view;
    /* Its arithmetic is products: what a model's FLOPs count. */
    bool is_product;
    /* Output i takes over the storage of input overwrites[i] - 1 (0: of none): an update. */
    int8_t overwrites[QN_MAX_OUTPUTS];
    /* Inputs and outputs whose rows may lie apart (steps of qn_call) and begin at any element, as
     * bit masks; the last bit stands for all further inputs too. Operators with one of the
     * functions below: only where it says so. */
    uint32_t apart_inputs, apart_outputs;
    /* Whether a row of output 0 is the inputs' rows side by side. Inputs that lie there already are
     * not copied. Null: never. */
    bool (*joins_columns)(const void *attributes, qn_shape first_input);
    /* The first of the columns of input 0 that output 0 is, or -1: it is not columns. If it lies
     * there already, nothing is copied. Null: never. */
    int64_t (*cuts_column)(const void *attributes, qn_shape input);
    qn_swapping swapping;
    /* Makes the attributes, a copy of a node's over a whole batch, those of piece number `piece` of
     * so many equal pieces of the batch. Null: they are the same. */
    void (*cut)(const struct qn_graph *graph, const struct qn_node *node, int64_t piece,
                int64_t pieces, void *attributes);
    /* For operators that sum over the batch: such a sum may be made piece by piece. Outputs without
     * the batch's axis then have an input each, behind all others, with the sums of the pieces
     * before, which output 0 may take the place of. Says the chunk that pieces but the last must be
     * whole numbers of, in the first axis of input 0, or 0: not with these attributes. Null: never.
     */
    int64_t (*chunk)(const qn_kernels *kernels, const void *attributes, const qn_tensor *inputs);
    /* Its kernel takes a cut (kernels/cuts.h): run during a question, it does nothing else. */
    bool takes_cut;
    /* What it makes of one sample depends on all of them. */
    bool looks_at_batch;
    int n_samples; /* variants for the tests */
    qn_sample *sample;
};

#endif
