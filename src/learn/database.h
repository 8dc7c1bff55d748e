/* SQLite, as far as the store of samples needs it. The library is opened when the first database
 * is: few programs need it. What was changed between begin and commit is there as a whole or not at
 * all, whatever ends the program or the system; what is deleted is overwritten. */
#ifndef QN_LEARN_DATABASE_H
#define QN_LEARN_DATABASE_H

#include "quern/base.h"

typedef struct qn_database qn_database;

/* Opens a file, or makes it. QN_ERROR_UNSUPPORTED: SQLite is not installed; QN_ERROR_FORMAT: the
 * file is no database. most_bytes: of the file; 0: no limit. */
qn_status qn_database_open(const qn_allocator *allocator, const char *path, int64_t most_bytes,
                           qn_database **database);
/* No more bytes than so many, in the whole file. */
qn_status qn_database_limit(qn_database *database, int64_t most_bytes);

void qn_database_close(qn_database *database);

/* Statements without values, separated by semicolons. */
qn_status qn_database_run(qn_database *database, const char *statements);

/* Others may read while a change is made, and wait for it to change something (for ten seconds). */
qn_status qn_database_begin(qn_database *database);
qn_status qn_database_commit(qn_database *database);
void qn_database_roll_back(qn_database *database);

/* A statement's values and results, by place from 0. */
typedef enum qn_cell_kind {
    QN_CELL_COUNT,
    QN_CELL_NUMBER,
    QN_CELL_TEXT,
    QN_CELL_BYTES
} qn_cell_kind;

typedef struct qn_cell {
    qn_cell_kind kind;
    int64_t count;
    double number;
    const char *text;
    const void *bytes;
    size_t n_bytes;
} qn_cell;

static inline qn_cell qn_cell_count(int64_t count) {
    return (qn_cell){.kind = QN_CELL_COUNT, .count = count};
}

static inline qn_cell qn_cell_number(double number) {
    return (qn_cell){.kind = QN_CELL_NUMBER, .number = number};
}

static inline qn_cell qn_cell_text(const char *text) {
    return (qn_cell){.kind = QN_CELL_TEXT, .text = text};
}

static inline qn_cell qn_cell_bytes(const void *bytes, size_t n) {
    return (qn_cell){.kind = QN_CELL_BYTES, .bytes = bytes, .n_bytes = n};
}

typedef struct qn_rows qn_rows;

/* One statement with n values for its ?; rows: its results, closed in any case. */
qn_status qn_rows_open(qn_database *database, const char *statement, int n, const qn_cell *values,
                       qn_rows **rows);
/* The next row; *is_end: there is none. */
qn_status qn_rows_next(qn_rows *rows, bool *is_end);
int64_t qn_rows_count(qn_rows *rows, int column);
double qn_rows_number(qn_rows *rows, int column);
/* Valid until the next row. "" and null where it is empty. */
const char *qn_rows_text(qn_rows *rows, int column);
const void *qn_rows_bytes(qn_rows *rows, int column, size_t *n);
void qn_rows_close(qn_rows *rows);

/* A statement without results. */
qn_status qn_database_change(qn_database *database, const char *statement, int n,
                             const qn_cell *values);

/* The first number of the first row; otherwise: where there is no row. */
qn_status qn_database_ask(qn_database *database, const char *statement, int n,
                          const qn_cell *values, int64_t otherwise, int64_t *count);

#endif
