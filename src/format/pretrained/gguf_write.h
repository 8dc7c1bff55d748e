/* Writing GGUF files of version 3: pairs of text or of one f32, and tensors of f32. */
#ifndef QN_FORMAT_PRETRAINED_GGUF_WRITE_H
#define QN_FORMAT_PRETRAINED_GGUF_WRITE_H

#include "format/pretrained/tensors.h"

/* text null: the number. */
typedef struct qn_gguf_entry {
    const char *key, *text;
    float number;
} qn_gguf_entry;

/* Replaces path as a whole. Of the tensors, which have one or two axes, name, shape and data are
 * read. */
qn_status qn_gguf_write(const char *path, const qn_gguf_entry *entries, size_t n_entries,
                        const qn_pretrained_tensor *tensors, size_t n_tensors);

#endif
