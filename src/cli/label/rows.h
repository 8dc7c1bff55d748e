/* Rows of numbers and texts that a labeller labels: a table from a file, from one that grows, or
 * from a pipe. Separator, header and columns are found by the first line and by what the labeller
 * knows; the decimal mark and the encoding by the file, or, where it is yet to be written, by what
 * has come. What is understood is told in the words of quern train. */
#ifndef QN_CLI_LABEL_ROWS_H
#define QN_CLI_LABEL_ROWS_H

#include "cli/options.h"
#include "data/table/table.h"
#include "label/rows.h"
#include "os/files/stream.h"

enum { LABEL_ROW_BYTES = 16384 };

typedef struct label_rows {
    const char *name; /* as it was given, for messages */
    const qn_labeller *labeller;
    qn_csv_reader reader;
    qn_label_places places;
    qn_in_stream *in; /* or */
    qn_file *file;
    int64_t file_at; /* what is read next */
    qn_stream_decoder decoder;
    qn_csv_form told;           /* as it was told last */
    char head[LABEL_ROW_BYTES]; /* [head_at..n_head) of what has been read is yet to be given */
    size_t n_head, head_at;
    const char *header; /* "yes", "no"; else as the first line shows */
    bool follows;       /* the end of the file is not the end */
    bool skips_bad;     /* a row that cannot be read is told and passed over */
    bool has_begun;     /* the first record was looked at */
    int64_t n_bad, n_filled;
    int64_t n_filled_of[QN_LABEL_MAX_FEATURES]; /* by column */
} label_rows;

/* data: csv:FILE, or - for standard input. What it holds is released by close, also on failure. */
qn_status label_rows_open(label_rows *rows, const char *data, const qn_labeller *labeller,
                          const arguments *a);
void label_rows_close(label_rows *rows);

/* The next row as numbers, a missing one as its column's median. *is_end: there is none, or the
 * user has interrupted. *is_bad: it is passed over. A failure names the line. */
qn_status label_rows_next(label_rows *rows, float *x, bool *is_end, bool *is_bad);

/* Says how many rows were passed over and values filled in, if any were. */
void label_rows_tell(const label_rows *rows);

/* The options that say how rows are written, for files that are opened whole; those that labellers
 * have no use for are refused. */
qn_status label_read_form(const arguments *a, qn_data_options *how);

#endif
