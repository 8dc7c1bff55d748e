/* Reading a table's file record by record, and what its fields show: counts for each column, from
 * which kinds.c decides what a column is. */
#ifndef QN_DATA_TABLE_SCAN_H
#define QN_DATA_TABLE_SCAN_H

#include "base/memory.h"
#include "data/table/table.h"

/* A text of a column that is told apart from others. */
typedef struct csv_text {
    const char *text;
    double value;   /* of a number */
    int32_t number; /* in the order of appearance, then in the order that the column's kind has */
} csv_text;

/* list[i] in order of appearance; slots is a hash table of i + 1 with twice the places. */
typedef struct csv_texts {
    csv_text *list; /* (n) of capacity */
    size_t n, capacity, most;
    int32_t *slots; /* (2 * most), 0: free; null: texts are not kept */
    bool has_too_many;
} csv_texts;

typedef struct csv_column {
    const char *name;       /* of the header; "column 3": there is none */
    const char *first_line; /* its text in the first record */
    int64_t n_missing, n_numbers, n_integers, n_truths, n_dates, n_texts; /* n_texts: the rest */
    int64_t n_huge, n_padded; /* numbers beyond floats; with zeros in front: 01 */
    int64_t n_again;          /* fields equal to the first line's */
    int64_t n_day_first, n_month_first, n_either;
    double first, least, most, last; /* of numbers; first: as it would be of row 0 */
    bool is_counting;                /* each number is the row's, plus the first */
    bool is_rising;                  /* each number is above the one before */
    int64_t odd_line, odd_day_line;  /* the first that is no number, no date; 0: none */
    int64_t missing_line;            /* the first without a value */
    char odd[41], odd_day[41];
    csv_texts texts;
    uint64_t *seen; /* (QN_CSV_SEEN / 64) bits of hashes of texts; null: not counted */
    /* what it is */
    qn_csv_role role;
    qn_column_kind kind;
    bool has_kind, is_day_first;
    const char *left_out; /* why */
    double time_before;   /* of the row before, of a column of time; NaN: unknown */
    int64_t n_values;
    int32_t place, n_classes;
} csv_column;

enum { QN_CSV_SEEN = 1 << 16 };

typedef struct csv_table {
    const qn_csv_options *options;
    const qn_data_options *how;
    qn_csv_reader reader;
    qn_decoder decoder;
    qn_arena arena;
    qn_sink sink;
    char separator, decimal;
    bool shows_decimal; /* decimal was told, or numbers show it */
    bool has_hint;      /* the first line is sep=; as spreadsheets write it, and no record */
    size_t n_columns;
    csv_column *columns; /* (n_columns) */
    size_t *targets;     /* (n_targets) */
    size_t n_targets, n_stored;
    qn_csv_targets are;
    bool has_header, is_named; /* is_named: names that were told stand in the first line */
    int64_t first_line;        /* of the first record */
    int64_t n_rows;            /* scanned, without a header */
    int64_t n_dropped;
} csv_table;

/* A table of a file, whose encoding is found; to be closed before the file. */
qn_status qn_csv_open_table(const qn_csv_options *options, qn_file *source, csv_table **table);
void qn_csv_close_table(csv_table *t);

/* Begins at the first record with the table's separator. */
void qn_csv_begin(csv_table *t);

/* Begins at the first row: behind the header, if there is one. */
qn_status qn_csv_begin_rows(csv_table *t);

/* The next record, which has as many fields as the first. */
qn_status qn_csv_next_row(csv_table *t, bool *is_end);

/* Finds separator and decimal mark by the first records, unless they are told. */
qn_status qn_csv_find_dialect(csv_table *t);

/* Reads the first record: the columns, which have the names there for now. */
qn_status qn_csv_read_first(csv_table *t);

/* Finds the targets, by name if they are told. */
qn_status qn_csv_find_targets(csv_table *t);

/* Finds the columns of groups and of time, which are no inputs: those that options name. */
qn_status qn_csv_find_marks(csv_table *t);

/* Finds the column of time by its name, where nothing names it and windows are asked for. After a
 * scan. */
qn_status qn_csv_find_time(csv_table *t);

/* Counts what all fields behind the first record are. */
qn_status qn_csv_scan(csv_table *t);

/* Counts the first record, which is a row as well. */
qn_status qn_csv_scan_first(csv_table *t);

/* Whether the first line is a header: t->has_header. After a scan. */
qn_status qn_csv_find_header(csv_table *t);

/* Decides what each column is, and its place. After the header. */
qn_status qn_csv_find_kinds(csv_table *t);

/* Keeps the texts of columns from now on, at most so many. */
qn_status qn_csv_keep_texts(csv_table *t, csv_texts *texts, size_t most);

/* The text's entry, a new one if it was not met before; *found null: there are too many. */
qn_status qn_csv_find_text(csv_table *t, csv_texts *texts, const char *text, csv_text **found);

/* Fails with file, line and column, and what is wrong with the text. */
qn_status qn_csv_fail(const csv_table *t, int64_t line, size_t column, const char *text,
                      const char *what);

/* Whether a list of names with commas has a name; a name may have commas where it is the only one.
 */
bool qn_csv_names(const char *list, const char *name);

#endif
