/* Texts as the tokens of a language model, cut into windows of one length. A window lies in one
 * text; the last of a text may be shorter. Every token is predicted once, from those before it in
 * its window: where the model begins texts with a token, so does every window, else it begins with
 * the last token of the window before, and the first of a text is not predicted. */
#ifndef QN_TASKS_LANGUAGE_WINDOWS_H
#define QN_TASKS_LANGUAGE_WINDOWS_H

#include "data/text/corpus.h"
#include "models/language/model.h"

/* Of the tokens of all texts: [begin, begin + n) are predicted. */
typedef struct qn_window_of_tokens {
    int64_t begin;
    int32_t n;
    bool is_first; /* of its text */
} qn_window_of_tokens;

typedef struct qn_windows {
    const qn_allocator *allocator;
    qn_tokens tokens;
    bool *learned; /* (tokens.n) of learned_capacity: what is predicted; null: everything */
    size_t learned_capacity;
    qn_window_of_tokens *list; /* (n) of capacity */
    size_t n, capacity;
    int64_t length;      /* of a window */
    int32_t begin_token; /* -1: none */
    int64_t n_predicted; /* tokens */
    int64_t n_bytes;     /* that these stand for */
    int64_t n_lost;      /* bytes of texts that the vocabulary lacks */
} qn_windows;

void qn_windows_init(qn_windows *windows, const qn_allocator *allocator);
void qn_windows_deinit(qn_windows *windows);

/* Adds a text's windows. */
qn_status qn_windows_add(qn_windows *windows, qn_language_model *model, const char *text,
                         size_t bytes);

/* Adds tokens as they are, with what of them is learned; windows of which nothing is are left out.
 * begin_token is -1. */
qn_status qn_windows_add_learned(qn_windows *windows, const qn_tokenizer *tokenizer,
                                 const qn_tokens *tokens, const bool *learned);

/* Inputs and labels (length each) of a window; labels behind its end, or of what is not learned,
 * are -1. */
void qn_windows_fill(const qn_windows *windows, size_t index, int32_t *tokens, int32_t *labels);

#endif
