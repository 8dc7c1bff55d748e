/* The small JSON files of a folder: config.json and others, as trees of cJSON. */
#ifndef QN_FORMAT_PRETRAINED_JSON_FILE_H
#define QN_FORMAT_PRETRAINED_JSON_FILE_H

#include "quern/base.h"

struct cJSON;

/* A file of at most 64 MiB whose outermost value is an object; the caller deletes the tree. */
qn_status qn_json_file_read(const qn_allocator *allocator, const char *folder, const char *name,
                            struct cJSON **tree);

#endif
