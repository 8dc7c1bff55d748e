/* A table that is open as a source, for the files that make one up: csv.c reads rows, recordings.c
 * what makes several of them one sample. */
#ifndef QN_DATA_TABLE_CSV_H
#define QN_DATA_TABLE_CSV_H

#include "data/table/encode.h"
#include "data/windows/windows.h"

typedef struct qn_csv_source {
    qn_source_base base;
    qn_file *file;
    qn_csv_footer footer;
    int64_t row_bytes;
    const qn_csv_record *records; /* (n_columns) */
    const qn_csv_names_of *names; /* (n_columns) */
    qn_csv_encoder encoder;
    int64_t n_lists; /* of labels, in a column of lists */
    int n_labels;
    const uint8_t *lists;          /* (n_lists, n_labels) 1: the label is in the list */
    bool are_raw;                  /* rows are given as they are: texts by their numbers */
    const int32_t *column_of;      /* (n_stored) */
    int32_t group, time;           /* places in a row; -1: there is none */
    const qn_csv_names_of *groups; /* the column of groups, or null */
    int32_t n_groups;              /* its texts; 0: too many to be kept */
    const int64_t *starts;         /* (n_starts) first rows of files; null: of one file */
    size_t n_starts;
    qn_windows windows; /* file null: a sample is a row */
    qn_table *table;    /* of columns found here, whose medians are to be found; or null */
} qn_csv_source;

enum { QN_CSV_PIECE = 256 }; /* numbers of rows that are read at a time */

/* A class, which is nothing where it is to be predicted, or a number of the targets. */
void qn_csv_put_target(const qn_csv_source *csv, int target, float value, void *y);

/* Writes n values of a row, from a place on, into a sample. */
void qn_csv_put_values(const qn_csv_source *csv, const float *values, int64_t from, int64_t n,
                       float *x, void *y);

/* What the inputs among n values of a row are, from a place on, whatever else the file has: the sum
 * over them, by names and texts. */
uint64_t qn_csv_hash_values(const qn_csv_source *csv, const float *values, int64_t from, int64_t n);

/* Finds the columns of groups and of time, and makes windows of the rows where options ask for
 * them. All else of the source is known. path: the user's. */
qn_status qn_csv_find_recordings(qn_csv_source *csv, const char *path, qn_data_source *source);

/* The row that stands for training sample `index` where medians are found. */
qn_status qn_csv_row_of(const qn_csv_source *csv, int64_t index, int64_t *row);

#endif
