/* Rows of numbers and texts from CSV: one sample in each record. */
#ifndef QN_LABEL_ROWS_H
#define QN_LABEL_ROWS_H

#include "format/csv.h"
#include "label/columns.h"

/* Turns a record into one finite number for each column. A failure names the column. */
qn_status qn_label_row_parse(const qn_csv_reader *row, const qn_label_columns *columns, float *x);

/* Whether a record could be names of columns: it has as many fields as there are columns, and they
 * are the names of the labelled samples' columns, or one of a column of numbers is no number. */
bool qn_label_row_is_header(const qn_csv_reader *row, const qn_label_columns *columns);

#endif
