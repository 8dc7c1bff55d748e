/* The weights of a Hugging Face folder: model.safetensors, or the files that
 * model.safetensors.index.json lists. The files are mapped. The index must be right: a tensor that
 * is not in the file it names, or is in a file and not in the index, is refused, and so is a file
 * name with a folder in it. */
#ifndef QN_FORMAT_PRETRAINED_SHARDS_H
#define QN_FORMAT_PRETRAINED_SHARDS_H

#include "format/pretrained/tensors.h"

typedef struct qn_shard {
    const char *name;   /* in the folder */
    const void *memory; /* (bytes), mapped */
    size_t bytes;
} qn_shard;

typedef struct qn_shards {
    qn_arena texts;
    qn_pretrained_tensors tensors;
    qn_shard *list; /* (n) of capacity */
    size_t n, capacity;
} qn_shards;

void qn_shards_init(qn_shards *shards, const qn_allocator *allocator);
void qn_shards_deinit(qn_shards *shards);

/* Fills initialised *shards. */
qn_status qn_shards_open(qn_shards *shards, const char *folder);

#endif
