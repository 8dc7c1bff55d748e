/* CSV to rows of numbers, in one pass and bounded memory. The result is
 *     n_rows x { float column[n_columns]; int32_t id; float value; }
 *     int32_t class_of[n_ids]   the class of an id
 *     char names[names_bytes]   class names, zero-terminated, or nothing
 *     char texts[texts_bytes]   if texts are read: int32_t n[n_columns], 0: a column of numbers;
 *                               then of each column its name ("": none) and its n texts
 *     qn_csv_footer
 * id numbers the distinct labels in order of appearance; value is a label that is a number. In a
 * column of texts a field is the number of its text, or -1 where there are too many of them. */
#ifndef QN_DATA_CSV_H
#define QN_DATA_CSV_H

#include "data/cache.h"

typedef struct qn_csv_footer {
    char magic[8];
    int64_t n_rows, n_columns, n_ids, names_bytes;
    int64_t are_targets; /* 1: labels are values, not classes */
    int64_t texts_bytes;
} qn_csv_footer;

enum { QN_CSV_MOST_TEXTS = 1024 }; /* of a column that are told apart */

#define QN_CSV_MAGIC "quernCS2"

typedef struct qn_csv_options {
    const qn_allocator *allocator;
    const char *label; /* name of its column; null: the last */
    bool reads_texts;  /* columns may be of texts: those where half of the fields are no numbers */
} qn_csv_options;

/* A qn_derive; context: qn_csv_options. Failures name file, line and column. */
qn_status qn_csv_convert(void *context, qn_file *source, qn_sink sink);

#endif
