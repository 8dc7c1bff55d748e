/* What recognises groups of nodes that are one operator here: the nodes of a model, and how one
 * looks around among them. */
#ifndef QN_ONNX_RECOGNISE_H
#define QN_ONNX_RECOGNISE_H

#include "onnx/import.h"

typedef struct qn_onnx_recogniser {
    qn_onnx_model *model;
    qn_onnx_node *nodes; /* (n_nodes); type "" where one went into another */
    qn_arena *arena;
} qn_onnx_recogniser;

/* The node of a type that gives the name, or null; it has so many inputs at least. */
qn_onnx_node *qn_onnx_maker(const qn_onnx_recogniser *r, const char *name, const char *type,
                            int n_inputs);

/* How many nodes and outputs read it. */
int qn_onnx_count_reads(const qn_onnx_recogniser *r, const char *name);

/* A tensor of the file, be it an initialiser or a node's; or null. */
const qn_onnx_tensor *qn_onnx_tensor_named(const qn_onnx_recogniser *r, const char *name);

/* A single real number; NaN where it is none. */
double qn_onnx_number_named(const qn_onnx_recogniser *r, const char *name);

void qn_onnx_remove(qn_onnx_node *node);

/* The last node of a group as another operator with these inputs; false: memory is out. */
bool qn_onnx_replace(qn_onnx_recogniser *r, qn_onnx_node *last, const char *type,
                     const char *const *inputs, int n_inputs, const qn_onnx_attribute *attributes,
                     int n_attributes);

/* Whether memory was enough: a product of a softmax becomes "QuernAttention", an LSTM whose gates
 * were put into ONNX's order gets them as they were (recognise_layers.c). */
bool qn_onnx_join_attention(qn_onnx_recogniser *r, qn_onnx_node *product);
bool qn_onnx_join_lstm(qn_onnx_recogniser *r, qn_onnx_node *lstm);

#endif
