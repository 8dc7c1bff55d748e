/* The inside of a build: one run over a file's nodes that adds them to a graph. Items are found by
 * name; memory of folded constants is the build's, that of constants which became values the
 * network's (engines read them after the build). What translators see is translate.h. */
#ifndef QN_ONNX_BUILDER_H
#define QN_ONNX_BUILDER_H

#include "onnx/trains.h"
#include "onnx/translate.h"

/* A tensor of the file that became a parameter. Of a name that other nodes give it (Identity), or
 * of one that is made for a node that shares it with others, item is that name. */
typedef struct qn_onnx_record {
    struct qn_onnx_record *next;
    const qn_onnx_tensor *tensor;
    const char *item, *parameter; /* names: of the item, of the graph's parameter */
    bool is_constant_node;
    int n_dims, order[QN_MAX_RANK]; /* axis i of the parameter is the file's order[i] */
    const char *node;               /* that made it: its first output, and which input it was */
    int input;
} qn_onnx_record;

struct qn_onnx_builder {
    const qn_onnx_model *model;
    qn_graph *graph;
    const qn_onnx_decisions *decisions;
    qn_onnx_decisions own_decisions; /* where none are given */
    qn_arena *kept;                  /* of the network */
    qn_arena arena;
    int n_items, most_items;
    qn_onnx_item *items;      /* (n_items): inputs, initialisers, outputs of nodes */
    size_t capacity;          /* a power of two, at least twice n_items */
    int *table;               /* (capacity) by hash of the name: number of an item + 1, or 0 */
    const qn_onnx_node *node; /* that is being built */
    uint64_t read;            /* its attributes that were asked for, a bit each */
    int statistic;            /* the input that a batch norm reads a copy of */
    qn_onnx_record *records;  /* in the memory of the network, the last first */
    bool is_moving;           /* places of integers are moved (integers.h) */
    const bool *wanted;       /* nodes that are built, (n_nodes); null: all */
    const bool *left_out;     /* (n_nodes): its output is its first input, as a softmax at the end;
                             null: none */
    int64_t file_batch,
        batch; /* first extent of the first input: what the file says (-1: open), and is */
};

/* Items of all that the file gives; nothing is built yet. decisions null: those that follow from
 * the model alone. */
qn_status qn_onnx_builder_init(qn_onnx_builder *b, const qn_onnx_model *model,
                               const qn_onnx_decisions *decisions, qn_graph *graph, qn_arena *kept);
void qn_onnx_builder_deinit(qn_onnx_builder *b);

qn_onnx_item *qn_onnx_find_item(const qn_onnx_builder *b, const char *name);

/* A name that is free in the graph; null, which the graph keeps, where memory is out or name null.
 */
const char *qn_onnx_free_name(qn_onnx_builder *b, const char *name);

/* The type that an item of a value has unless somebody says otherwise. */
qn_onnx_type qn_onnx_type_of_value(const qn_graph *graph, qn_value value);

/* All nodes in turn; the first failure names its node and is the graph's, too. */
qn_status qn_onnx_builder_run(qn_onnx_builder *b);

/* The nodes of a graph inside of a node, over names that are given around it; what it gives is then
 * found by name. Run again, it is built again. */
qn_status qn_onnx_builder_run_inner(qn_onnx_builder *b, const qn_onnx_model *graph);

/* A node of a call, whatever computes it; its inputs are checked. */
qn_status qn_onnx_build_with(qn_onnx_call *call);

/* If an input of the node has no elements: gives what follows from that. *is_done: it did. */
qn_status qn_onnx_build_empty(qn_onnx_call *call, bool *is_done);

/* A name of a graph inside of a node stands for what another one does. */
qn_status qn_onnx_bind(qn_onnx_builder *b, const char *name, const qn_onnx_item *same);

/* Whether a node, or a graph inside of it, reads a name. */
bool qn_onnx_node_reads(const qn_onnx_node *node, const char *name);

/* An item as a value, of a call or without one (outputs of the network). */
qn_value qn_onnx_item_value(qn_onnx_builder *b, qn_onnx_item *item);

/* A tensor's shape; QN_ERROR_UNSUPPORTED above QN_MAX_RANK. */
qn_status qn_onnx_tensor_shape(const qn_onnx_tensor *tensor, qn_shape *shape);

bool qn_onnx_type_is_real(qn_onnx_type type);

/* Ours of the same numbers; QN_NONE: there is none. */
qn_dtype qn_onnx_dtype_of(qn_onnx_type type);

/* The tensor's elements as doubles, or whole numbers; in the arena. Null: memory is out, or the
 * type or rank is none of those known. */
const qn_onnx_constant *qn_onnx_read_constant(qn_arena *arena, const qn_onnx_tensor *tensor);

/* A tensor's numbers where they lie, of its type. */
void qn_onnx_read_reals(const qn_onnx_tensor *tensor, qn_given *given);

#endif
