/* The inside of tokenizers, for the files that make them. */
#ifndef QN_DATA_TOKENS_BUILD_H
#define QN_DATA_TOKENS_BUILD_H

#include "data/tokens/merges.h"
#include "data/tokens/split.h"
#include "data/tokens/tokenizer.h"

/* How a token that is found in the text before all others is found. */
typedef struct qn_added {
    int32_t token;
    bool takes_left, takes_right; /* white space beside it is part of it */
} qn_added;

/* A word whose tokens are remembered. */
enum { QN_CACHED_BYTES = 30, QN_CACHED_TOKENS = 7, QN_CACHE_WORDS = 1 << 14 };
typedef struct qn_cached {
    int32_t tokens[QN_CACHED_TOKENS];
    uint8_t bytes, n; /* bytes 0: free */
    char text[QN_CACHED_BYTES];
} qn_cached;

/* Where SentencePiece's mark of a blank is put before a text: the first, each between added tokens;
 * or each, whether it begins with a blank or not. */
typedef enum qn_prefix {
    QN_PREFIX_NONE,
    QN_PREFIX_FIRST,
    QN_PREFIX_EACH,
    QN_PREFIX_ALWAYS
} qn_prefix;

#define QN_BLANK_MARK "\xe2\x96\x81" /* U+2581 */
enum { QN_BLANK_BYTES = 3 };

struct qn_tokenizer {
    const qn_allocator *allocator;
    qn_vocabulary vocabulary;
    qn_merges merges;
    bool is_byte_level;
    bool composes;     /* text is brought to NFC first */
    bool whole_words;  /* a word that is a token is not made of pairs */
    bool fuses;        /* neighbouring unknown characters are one token */
    bool cuts_at_gaps; /* no token goes on behind a blank that follows another character */
    qn_prefix prefix;
    const qn_split *split;    /* of byte-level ones; null: one word */
    int32_t byte_tokens[256]; /* -1: none */
    int32_t unknown;          /* -1: none */
    uint8_t *classes;         /* (QN_CLASSES_BYTES) */
    qn_added *added;          /* (n_added) of added_capacity, sorted by text, longer ones first */
    size_t n_added, added_capacity;
    uint32_t added_begin[257]; /* those whose text begins with byte i are [i] to [i + 1] */
    qn_cached *cache;          /* (QN_CACHE_WORDS) */
    char *changed;             /* of changed_capacity: a text after its normaliser */
    size_t changed_capacity;
    int32_t *symbols; /* of symbol_capacity */
    size_t symbol_capacity;
};

/* An empty one; and what is left to do once vocabulary, added tokens and settings are filled in.
 * is_split: as qn_vocabulary_finish has it. Then merges are added. */
qn_status qn_tokenizer_create(const qn_allocator *allocator, qn_tokenizer **tokenizer);
qn_status qn_tokenizer_finish(qn_tokenizer *tokenizer, const bool *is_split);

/* After the merges: what can be known of all tokens. */
void qn_tokenizer_settle(qn_tokenizer *tokenizer);

/* Adds one to the added tokens. */
qn_status qn_tokenizer_add(qn_tokenizer *tokenizer, qn_added added);

/* Bytes of a token's text in the characters that byte-level vocabularies write bytes as, into to,
 * which has as many bytes as text: their count; -1: it has another character. */
int64_t qn_bytes_of_characters(const char *text, size_t bytes, char *to);

/* "<0x0A>": 10; else -1. */
int qn_byte_of_token(const char *text, size_t bytes);

/* Adds the merge of the first `left` bytes of a text with the others: all three must be tokens. */
qn_status qn_tokenizer_merge(qn_tokenizer *tokenizer, const char *text, size_t left, size_t bytes);

/* Space for so many bytes in the tokenizer's changed. */
qn_status qn_tokenizer_reserve(qn_tokenizer *tokenizer, size_t bytes);

#endif
