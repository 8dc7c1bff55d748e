/* CSV to rows of numbers, in one pass and bounded memory. The result is
 *     n_rows x { float column[n_columns]; int32_t id; float value; }
 *     int32_t class_of[n_ids]   the class of an id
 *     char names[names_bytes]   class names, zero-terminated, or nothing
 *     qn_csv_footer
 * id numbers the distinct labels in order of appearance; value is a label that is a number. */
#ifndef QN_DATA_CSV_H
#define QN_DATA_CSV_H

#include "data/cache.h"

typedef struct qn_csv_footer {
    char magic[8];
    int64_t n_rows, n_columns, n_ids, names_bytes;
    int64_t are_targets; /* 1: labels are values, not classes */
} qn_csv_footer;

#define QN_CSV_MAGIC "quernCS1"

typedef struct qn_csv_options {
    const qn_allocator *allocator;
    const char *label; /* name of its column; null: the last */
} qn_csv_options;

/* A qn_derive; context: qn_csv_options. Failures name file, line and column. */
qn_status qn_csv_convert(void *context, qn_file *source, qn_sink sink);

#endif
