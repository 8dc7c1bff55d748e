/* Tokenizers of language models: text into tokens, as the model's own tokenizer does it. Two kinds:
 * byte-level byte-pair encoding (GPT-2, Llama 3, Qwen, SmolLM), and SentencePiece's byte-pair
 * encoding over characters with bytes for those that the vocabulary lacks (Llama 2, Gemma). They
 * come from a GGUF file or from tokenizer.json.
 *
 * Special and added tokens in the text are found first, the longest at each place. Text may be any
 * bytes: a byte that is no UTF-8 is a character of its own, so that byte-level tokens hold the text
 * unless the vocabulary lacks a byte. Leaves out: unigram and word-piece models
 * (data/text/wordpiece.h), normalisers and patterns that are not known by name, and the tokens that
 * a model expects around a text. What a tokenizer has and this one would do differently is refused
 * by name. */
#ifndef QN_DATA_TOKENS_TOKENIZER_H
#define QN_DATA_TOKENS_TOKENIZER_H

#include "base/memory.h"
#include "format/pretrained/pretrained.h"

typedef struct qn_tokenizer qn_tokenizer;

/* Numbers of tokens. */
typedef struct qn_tokens {
    const qn_allocator *allocator;
    int32_t *list; /* (n) of capacity */
    size_t n, capacity;
} qn_tokens;

void qn_tokens_init(qn_tokens *tokens, const qn_allocator *allocator);
void qn_tokens_deinit(qn_tokens *tokens);

/* The tokenizer of a GGUF file, or of a folder with tokenizer.json, which needs no weights. */
qn_status qn_tokenizer_open(const qn_allocator *allocator, const char *path,
                            qn_tokenizer **tokenizer);

/* From a GGUF file's values, and from a folder's file of that name; place is for messages. */
qn_status qn_tokenizer_of_gguf(const qn_allocator *allocator, const qn_gguf *file,
                               const char *place, qn_tokenizer **tokenizer);
qn_status qn_tokenizer_of_json(const qn_allocator *allocator, const char *folder, const char *name,
                               qn_tokenizer **tokenizer);
void qn_tokenizer_destroy(qn_tokenizer *tokenizer);

/* "byte-level BPE", and how words are split: "Llama 3"; "" where they are not. */
const char *qn_tokenizer_kind(const qn_tokenizer *tokenizer);
const char *qn_tokenizer_split(const qn_tokenizer *tokenizer);

/* Bytes that the vocabulary has neither a token for nor an unknown one: they are left out of texts,
 * as by the model's own tokenizer. */
int qn_tokenizer_missing(const qn_tokenizer *tokenizer);

/* Numbers are below this. */
int32_t qn_tokenizer_count(const qn_tokenizer *tokenizer);

/* The bytes that a token stands for in a text; a number that is not used has none. In
 * SentencePiece's, U+2581 stands for a blank. */
const char *qn_tokenizer_token(const qn_tokenizer *tokenizer, int32_t token, size_t *bytes);

/* Whether a token is found in texts before all others, as special ones are. */
bool qn_tokenizer_is_added(const qn_tokenizer *tokenizer, int32_t token);

/* Appends the tokens of a text. On failure tokens is as it was. */
qn_status qn_tokenizer_encode(qn_tokenizer *tokenizer, const char *text, size_t bytes,
                              qn_tokens *tokens);

#endif
