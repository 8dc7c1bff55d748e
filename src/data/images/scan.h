/* Scans a folder of images before training: which files are readable, and their pixels at the
 * needed size, kept in the user's cache folder, so that no epoch decodes a file again and none can
 * fail later. An unchanged folder is not scanned again. */
#ifndef QN_DATA_IMAGES_SCAN_H
#define QN_DATA_IMAGES_SCAN_H

#include "data/images/tree.h"
#include "os/os.h"

/* Pixels of the entries that can be read: of one list after the other, (H, W, C) bytes each.
 * file null: they were too many to keep, or there is no room. */
typedef struct qn_image_store {
    qn_file *file;
    size_t row_bytes;
} qn_image_store;

/* Path of an entry; false: it is too long. */
bool qn_image_path(const qn_image_list *list, const qn_image_entry *entry, char *path,
                   size_t bytes);

/* Looks at all files of all lists (of which some may be empty), takes those out that cannot be
 * read, and tells which. With options.strict the first of them is an error. */
qn_status qn_images_scan(const qn_source_base *base, qn_image_list lists[QN_SPLITS],
                         const qn_shape *size, qn_image_store *store);

#endif
