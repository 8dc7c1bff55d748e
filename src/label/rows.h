/* Rows of numbers and texts from CSV: one sample in each record. */
#ifndef QN_LABEL_ROWS_H
#define QN_LABEL_ROWS_H

#include "format/csv.h"
#include "label/columns.h"

/* Where the columns of the labelled samples are in a stream's records. */
typedef struct qn_label_places {
    size_t n_fields;               /* of each record; 0: the columns, in their order */
    int of[QN_LABEL_MAX_FEATURES]; /* (columns) the field of each, where n_fields is not 0 */
} qn_label_places;

/* Whether a record is names of columns: it has all names of the labelled samples', or one that is
 * no number above a column of numbers; it is of texts alone; or it has as many fields as there are
 * columns, and one of a column of numbers is no number. */
bool qn_label_row_is_header(const qn_csv_reader *row, const qn_label_columns *columns);

/* Finds the columns by their names in a header. Fields that the labelled samples did not have are
 * ignored, and the log is told; a failure names the columns that are missing. Where the labelled
 * samples had no names, columns are in their order. */
qn_status qn_label_row_match(const qn_csv_reader *header, const qn_label_columns *columns,
                             const qn_log *log, qn_label_places *places);

/* Turns a record into one finite number for each column. A failure names the column. */
qn_status qn_label_row_parse(const qn_csv_reader *row, const qn_label_columns *columns,
                             const qn_label_places *places, float *x);

#endif
