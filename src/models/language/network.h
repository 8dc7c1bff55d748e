/* The network of a language model, built from the row of its family and from what its files say:
 * layers of attention and feed-forward parts over a residual stream. Parameters have the names of
 * GGUF files, whichever kind of file they come from. A part that a family has no tensors of is not
 * built, so a new family of known parts needs no code here. */
#ifndef QN_MODELS_LANGUAGE_NETWORK_H
#define QN_MODELS_LANGUAGE_NETWORK_H

#include "models/language/description.h"
#include "quern/graph.h"

/* What is laid out by position: [0] for layers that attend to all, [1] for those of a window. For T
 * tokens that attend to U keys, masks are 0 where a key counts and much below where it does not. */
typedef struct qn_language_tables {
    qn_value cosines[2], sines[2]; /* (T, width / 2) of rotary positions */
    qn_value mask[2];              /* (T, U) */
    qn_value positions;            /* (T), QN_I32, of learned ones; QN_NO_VALUE: from 0 on */
} qn_language_tables;

/* Keys and values of earlier tokens, which attention reads before those of the call's own. */
typedef struct qn_language_past {
    qn_value keys, values; /* (layers, key heads, past, head width); QN_NO_VALUE: none */
} qn_language_past;

typedef struct qn_language_call {
    qn_value tokens; /* (N, T), QN_I32 */
    qn_language_tables tables;
    qn_language_past past; /* N is 1 with it */
    bool trains;           /* parameters may be trained */
} qn_language_call;

/* The residual stream after the last norm (N * T, E). made (may be null) gets this call's own keys
 * and values (layers, key heads, T, head width). */
qn_value qn_language_build(qn_graph *graph, const qn_language *language,
                           const qn_language_call *call, qn_language_past *made);

/* Logits (rows, V) of rows of that stream. */
qn_value qn_language_logits(qn_graph *graph, const qn_language *language, qn_value x, bool trains);

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

/* Tables by themselves: rows of a mask, keys before `past` first, of which those from past_length
 * on are not there; window 0: all. */
void qn_language_mask(int64_t n, int64_t past, int64_t past_length, int64_t window, float *mask);

#endif
