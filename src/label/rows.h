/* Rows of numbers from CSV: one sample in each record. */
#ifndef QN_LABEL_ROWS_H
#define QN_LABEL_ROWS_H

#include "format/csv.h"
#include "quern/label.h"

/* Turns a record into exactly n finite numbers. A failure names the column. */
qn_status qn_label_row_parse(const qn_csv_reader *row, int n, float *x);

/* Whether a record could be names of columns: it has n fields, and one of them is no number. */
bool qn_label_row_is_header(const qn_csv_reader *row, int n);

#endif
