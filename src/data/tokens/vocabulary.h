/* The tokens of a language model: numbers and texts in bytes, and which token a text is. */
#ifndef QN_DATA_TOKENS_VOCABULARY_H
#define QN_DATA_TOKENS_VOCABULARY_H

#include "base/memory.h"

enum { QN_MOST_TOKENS = 1 << 24 };

typedef struct qn_token {
    const char *text; /* (bytes); null: the number is not used */
    uint32_t bytes;
} qn_token;

/* Invariant: a slot of table is -1 or a token that texts are split into, found from its hash on;
 * special tokens are in list alone. */
typedef struct qn_vocabulary {
    qn_arena texts;
    qn_token *list; /* (n) of capacity */
    size_t n, capacity;
    int32_t *table; /* (n_table), a power of two */
    size_t n_table, longest;
} qn_vocabulary;

void qn_vocabulary_init(qn_vocabulary *vocabulary, const qn_allocator *allocator);
void qn_vocabulary_deinit(qn_vocabulary *vocabulary);

/* Gives a number its text, which is copied. QN_ERROR_FORMAT: the number has another text, or is
 * beyond QN_MOST_TOKENS. */
qn_status qn_vocabulary_set(qn_vocabulary *vocabulary, int64_t number, const char *text,
                            size_t bytes);

/* Makes the table: once all texts are set. is_split says which tokens texts are split into. */
qn_status qn_vocabulary_finish(qn_vocabulary *vocabulary, const bool *is_split);

/* The token of a text, the first of several; -1: none. */
int32_t qn_vocabulary_find(const qn_vocabulary *vocabulary, const char *text, size_t bytes);

uint64_t qn_tokens_hash(const char *text, size_t bytes);

#endif
