/* The network of a language model, built from the row of its family and from what its files say:
 * layers of attention and feed-forward parts over a residual stream. Parameters have the names of
 * GGUF files, whichever kind of file they come from. A part that a family has no tensors of is not
 * built, so a new family of known parts needs no code here. */
#ifndef QN_MODELS_LANGUAGE_NETWORK_H
#define QN_MODELS_LANGUAGE_NETWORK_H

#include "models/language/description.h"
#include "quern/graph.h"

/* Cosines and sines (P, width / 2) of rotary positions: [0] for layers that attend to all, [1] for
 * those of a window. */
typedef struct qn_language_tables {
    qn_value cosines[2], sines[2];
} qn_language_tables;

/* Keys and values of earlier tokens, which attention reads before those of the call's own. */
typedef struct qn_language_past {
    qn_value keys, values; /* (layers, past, key heads, head width); QN_NO_VALUE: none */
} qn_language_past;

typedef struct qn_language_call {
    qn_value tokens;    /* (N, T), QN_I32 */
    qn_value positions; /* (N, T), QN_I32; QN_NO_VALUE: 0 to T - 1 */
    qn_value first;     /* (N, T), QN_I32, the first key that counts; QN_NO_VALUE: 0 */
    qn_language_tables tables;
    qn_language_past past; /* N is 1 with it */
    bool has_parameters; /* weights are the engine's; else they stay in the files where they can */
    bool trains;         /* and may be trained */
} qn_language_call;

/* No table, no past: all QN_NO_VALUE. */
qn_language_call qn_language_call_of(qn_value tokens);

/* The residual stream after the last norm (N * T, E). made (may be null) gets this call's own keys
 * and values (layers, T, key heads, head width). */
qn_value qn_language_build(qn_graph *graph, const qn_language *language,
                           const qn_language_call *call, qn_language_past *made);

/* Logits (rows, V) of rows of that stream; or the losses (rows) of labels (rows), a negative one of
 * which makes its loss 0. */
qn_value qn_language_logits(qn_graph *graph, const qn_language *language,
                            const qn_language_call *call, qn_value x);
qn_value qn_language_losses(qn_graph *graph, const qn_language *language,
                            const qn_language_call *call, qn_value x, qn_value labels);

/* Whether the files hold weights that could be trained as they are: none in blocks. */
bool qn_language_has_floats(const qn_language *language);

/* Sixteen digits that tell the model from others: of its tensors' names, types and shapes, and of
 * the beginning and the end of each. */
enum { QN_LANGUAGE_HASH_TEXT = 17 };
void qn_language_hash(const qn_language *language, char text[QN_LANGUAGE_HASH_TEXT]);

/* The tensor of the files that a parameter is made of, or null; and its values in the parameter's
 * order, of so many rows from first on. A folder's norms may get 1 added, and its matrices may be
 * stored with inputs as rows. */
const qn_pretrained_tensor *qn_language_tensor_of(const qn_language *language,
                                                  const char *parameter);
void qn_language_widen(const qn_language *language, const char *parameter,
                       const qn_pretrained_tensor *tensor, float *to);

#endif
