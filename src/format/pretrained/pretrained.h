/* A language model as people have it on disk: a GGUF file, or a folder of Hugging Face's with
 * config.json and safetensors. Both are mapped; tensors point into the files, whose clean pages the
 * system may drop at any time. Settings are read from here by models/language. */
#ifndef QN_FORMAT_PRETRAINED_PRETRAINED_H
#define QN_FORMAT_PRETRAINED_PRETRAINED_H

#include "format/pretrained/gguf.h"
#include "format/pretrained/shards.h"

struct cJSON;

/* tensors are those of gguf or of shards. */
typedef struct qn_pretrained {
    const qn_allocator *allocator;
    char *path; /* (path_bytes) */
    size_t path_bytes;
    bool is_gguf;
    qn_gguf gguf;
    const void *memory; /* (bytes) of the GGUF file, mapped */
    size_t bytes;
    qn_shards shards;
    struct cJSON *config; /* config.json of a folder */
    const qn_pretrained_tensors *tensors;
} qn_pretrained;

/* Whether something that a path leads to looks like a language model: a file that begins as GGUF
 * does, or a folder with config.json. */
bool qn_pretrained_is(const qn_allocator *allocator, const char *path);

qn_status qn_pretrained_open(const qn_allocator *allocator, const char *path,
                             qn_pretrained **pretrained);
void qn_pretrained_close(qn_pretrained *pretrained);

/* Bytes of the files with weights. */
int64_t qn_pretrained_bytes(const qn_pretrained *pretrained);

#endif
