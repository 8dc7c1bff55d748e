/* Rows of numbers and texts from CSV: one sample in each record. How they are written is found by
 * their first record and the columns of the labelled samples, and by the first number that shows
 * it: rows are labelled as they arrive. */
#ifndef QN_LABEL_ROWS_H
#define QN_LABEL_ROWS_H

#include "format/csv.h"
#include "label/columns.h"

/* Where the columns of the labelled samples are in a stream's records. */
typedef struct qn_label_places {
    size_t n_fields;               /* of each record; 0: the columns, in their order */
    int of[QN_LABEL_MAX_FEATURES]; /* (columns) the field of each, where n_fields is not 0 */
    char decimal;                  /* mark of the numbers; 0: none has shown it yet */
    bool takes_gaps;               /* a number that is missing is NaN, instead of a failure */
} qn_label_places;

/* What separates the fields of a first record, text[0..n): what gives it the names of all columns;
 * else as many fields as there are columns, or one more; else a comma. */
char qn_label_row_separator(const char *text, size_t n, const qn_label_columns *columns);

/* Whether a record is names of columns: it has all names of the labelled samples', or one that is
 * no number above a column of numbers; it is of texts alone; or it has as many fields as there are
 * columns, and one of a column of numbers is no number. */
bool qn_label_row_is_header(const qn_csv_reader *row, const qn_label_columns *columns);

/* Finds the columns by their names in a header. Fields that the labelled samples did not have are
 * ignored, and the log is told; a failure names the columns that are missing. Where the labelled
 * samples had no names, columns are in their order. */
qn_status qn_label_row_match(const qn_csv_reader *header, const qn_label_columns *columns,
                             const qn_log *log, qn_label_places *places);

/* Turns a record into one finite number for each column, or NaN. Its numbers may show the decimal
 * mark. A failure names the column. */
qn_status qn_label_row_parse(const qn_csv_reader *row, const qn_label_columns *columns,
                             qn_label_places *places, float *x);

#endif
