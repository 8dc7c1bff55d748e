/* Which initialisers of a file train. Files say so at best: PyTorch's current exporter marks every
 * initialiser as parameter, buffer or constant (value_info, or the signature in the model's
 * properties), and names what a folded one was made of. Where nothing says so, the operators that
 * read an initialiser and its name decide, and the decision is unsure unless it is a layer's weight
 * under a weight's name. What a node "Constant" gives never trains. The user's lists come first. */
#ifndef QN_ONNX_TRAINS_H
#define QN_ONNX_TRAINS_H

#include "base/memory.h"
#include "format/onnx/onnx_file.h"
#include "quern/onnx.h"

typedef struct qn_onnx_decisions {
    int n;
    qn_onnx_initializer *list;           /* (n): the file's order, graphs inside of nodes last */
    const qn_onnx_initializer **by_name; /* (n), sorted */
    int n_missing;        /* parameters of PyTorch's module that the file has no more */
    const char **missing; /* (n_missing) their names */
} qn_onnx_decisions;

/* train_only: patterns; what they name in full trains if it is real, what they fit with "*" or
 * "?" if the decision is unsure. required: names, one a line: these train and nothing else.
 * Null: nobody says so. In the arena. */
qn_status qn_onnx_decide(const qn_onnx_model *model, const char *train_only, const char *required,
                         qn_arena *arena, qn_onnx_decisions *decisions);

/* Null: it is no initialiser, or a node's that nobody asked for. */
const qn_onnx_initializer *qn_onnx_find_decision(const qn_onnx_decisions *decisions,
                                                 const char *name);

#endif
