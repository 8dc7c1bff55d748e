/* Text pairs, sorted by key. Only checkpoint.c accesses the struct's fields. */
#ifndef QN_FORMAT_METADATA_H
#define QN_FORMAT_METADATA_H

#include "format/safetensors.h"
#include "quern/checkpoint.h"
#include "quern/data.h"

/* Invariant: pairs[i].key < pairs[i + 1].key; all texts live in texts. A value that is replaced
 * stays in texts until the end. */
struct qn_metadata {
    const qn_allocator *allocator;
    qn_arena texts;
    qn_safetensors_pair *pairs; /* (n_pairs) of capacity */
    size_t n_pairs, capacity;
};

/* What samples were when they were prepared: "bytes", as numbers of 0 to 1, or "numbers". */
#define QN_ELEMENTS         "preparation.elements"
#define QN_ELEMENTS_NUMBERS "numbers"
#define QN_ELEMENTS_BYTES   "bytes"

/* Sets all pairs of another one, which may be null. */
qn_status qn_metadata_add(qn_metadata *metadata, const qn_metadata *from);

/* A list of texts as JSON, and from it, in the metadata's memory. */
qn_status qn_metadata_set_texts(qn_metadata *metadata, const char *key, const char *const *texts,
                                int n);
qn_status qn_metadata_get_texts(qn_metadata *metadata, const char *key, const char *const **texts,
                                int *n);

/* The table of the preparation, in the metadata's memory; null: it has none. */
qn_status qn_metadata_get_table(qn_metadata *metadata, const qn_table **table);

#endif
