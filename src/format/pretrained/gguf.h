/* The GGUF format of language models: a header, pairs of key and value, a table of tensors, and the
 * tensors' bytes, each at a multiple of the alignment. Versions 2 and 3, little-endian.
 *
 * The reader trusts nothing: counts, lengths and extents are compared with what is left of the file
 * before anything is allocated or read; a key or tensor that is there twice, tensors that overlap
 * and one that ends behind the file are refused. Values and tensors are not copied: they point into
 * the bytes that were parsed. Leaves out: version 1, big-endian files, lists of lists, and models
 * that are split into several files. */
#ifndef QN_FORMAT_PRETRAINED_GGUF_H
#define QN_FORMAT_PRETRAINED_GGUF_H

#include "format/pretrained/tensors.h"

/* In the numbers that files have for them. */
typedef enum qn_gguf_kind {
    QN_GGUF_U8,
    QN_GGUF_I8,
    QN_GGUF_U16,
    QN_GGUF_I16,
    QN_GGUF_U32,
    QN_GGUF_I32,
    QN_GGUF_F32,
    QN_GGUF_BOOL,
    QN_GGUF_TEXT,
    QN_GGUF_LIST,
    QN_GGUF_U64,
    QN_GGUF_I64,
    QN_GGUF_F64,
    QN_GGUF_KINDS
} qn_gguf_kind;

/* A value, or a list of n of one kind. */
typedef struct qn_gguf_value {
    qn_gguf_kind kind; /* of the elements; never QN_GGUF_LIST */
    bool is_list;
    uint64_t n;          /* 1 where it is no list */
    const uint8_t *data; /* (bytes): the elements, one behind the other */
    size_t bytes;
} qn_gguf_value;

typedef struct qn_gguf_pair {
    const char *key;
    qn_gguf_value value;
} qn_gguf_pair;

/* Invariant: pairs are sorted by key and differ in it. */
typedef struct qn_gguf {
    qn_arena texts;
    qn_pretrained_tensors tensors;
    qn_gguf_pair *pairs; /* (n_pairs), in texts */
    size_t n_pairs;
    uint32_t version;
} qn_gguf;

void qn_gguf_init(qn_gguf *file, const qn_allocator *allocator);
void qn_gguf_deinit(qn_gguf *file);

/* Fills an initialised *file from a whole file's bytes, which must outlive it. place names the file
 * in messages. */
qn_status qn_gguf_parse(qn_gguf *file, const char *place, const uint8_t *data, size_t bytes);

/* Whether bytes begin as a GGUF file does. */
bool qn_gguf_is(const uint8_t *data, size_t bytes);

/* The value of a key, or null. */
const qn_gguf_value *qn_gguf_find(const qn_gguf *file, const char *key);

/* Element i as a number. False: it is a text, or no number that a double holds exactly. */
bool qn_gguf_get_number(const qn_gguf_value *value, uint64_t i, double *number);

/* The text that *at, inside a value of texts, points to; *at goes behind it. Not ended by 0. */
const char *qn_gguf_next_text(const uint8_t **at, size_t *bytes);

#endif
