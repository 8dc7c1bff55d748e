/* Scans a folder of images before training: which files are readable, and their pixels at the
 * needed size, kept in the user's cache folder, so that no epoch decodes a file again and none can
 * fail later. An unchanged folder is not scanned again. */
#ifndef QN_DATA_IMAGES_SCAN_H
#define QN_DATA_IMAGES_SCAN_H

#include "data/source.h"
#include "os/os.h"

typedef struct qn_image_entry {
    const char *name; /* within the folder of its class, in the source's arena */
    int32_t class;
    int32_t row;      /* in the store */
    uint8_t is_told;  /* that it cannot be read any more; set atomically */
    uint64_t content; /* a hash that pictures of the same pixels share (image.h) */
} qn_image_entry;

/* The files of one split; entries are sorted by class, then name. */
typedef struct qn_image_list {
    const char *root;        /* in the source's arena */
    qn_image_entry *entries; /* (n) of capacity */
    size_t n, capacity;
} qn_image_list;

/* Pixels of the entries that can be read: of the first list, then of the second, (H, W, C) bytes
 * each. file null: they were too many to keep, or there is no room. */
typedef struct qn_image_store {
    qn_file *file;
    size_t row_bytes;
} qn_image_store;

/* Path of an entry; false: it is too long. */
bool qn_image_path(const qn_image_list *list, const char *const *classes,
                   const qn_image_entry *entry, char *path, size_t bytes);

/* Looks at all files of both lists (of which the second may be empty), takes those out that cannot
 * be read, and tells which. With options.strict the first of them is an error. */
qn_status qn_images_scan(const qn_source_base *base, const char *const *classes,
                         qn_image_list lists[2], const qn_shape *size, qn_image_store *store);

#endif
