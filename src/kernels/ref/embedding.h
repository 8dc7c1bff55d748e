/* Rows of a table by index, and their gradient. Forwards a task is a bundle of rows; backwards it
 * is a run of columns, in which all rows are added in their order, so that rows which meet in one
 * row of the table are added up in the same order whatever the team. */
#ifndef QN_KERNELS_REF_EMBEDDING_H
#define QN_KERNELS_REF_EMBEDDING_H

#include "kernels/ref/elementwise.h"

enum { EMBEDDING_COLUMNS = 32 };

typedef struct embedding_context {
    int64_t rows, c, table_rows;
    const real *from;
    const int32_t *indices; /* (rows) */
    real *to;
} embedding_context;

static int64_t embedding_row(const embedding_context *e, int64_t row) {
    return max_int(0, min_int(e->indices[row], e->table_rows - 1));
}

static void embedding_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const embedding_context *e = context;
    const int64_t bundle = rows_per_task(e->c);
    for (int64_t row = begin * bundle; row < min_int(e->rows, end * bundle); row++) {
        if (e->indices[row] == INT32_MIN) {
            for (int64_t j = 0; j < e->c; j++)
                e->to[row * e->c + j] = (real)NAN;
            continue;
        }
        memcpy(e->to + row * e->c, e->from + embedding_row(e, row) * e->c,
               (size_t)e->c * sizeof *e->to);
    }
}

static void embedding(qn_team *team, int64_t rows, int64_t c, int64_t table_rows, const void *table,
                      const int32_t *indices, void *y) {
    embedding_context e = {rows, c, table_rows, table, indices, y};
    qn_team_run(team, ceil_div(rows, rows_per_task(c)), embedding_task, &e);
}

static void embedding_clear_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const embedding_context *e = context;
    const int64_t n = e->table_rows * e->c, first = begin * ELEMENTS_PER_TASK;
    memset(e->to + first, 0, (size_t)(min_int(n, end * ELEMENTS_PER_TASK) - first) * sizeof *e->to);
}

static void embedding_add_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const embedding_context *e = context;
    const int64_t first = begin * EMBEDDING_COLUMNS;
    const int64_t width = min_int(e->c, end * EMBEDDING_COLUMNS) - first;
    for (int64_t row = 0; row < e->rows; row++) {
        const real *restrict from = e->from + row * e->c + first;
        real *restrict to = e->to + embedding_row(e, row) * e->c + first;
        if (e->indices[row] == INT32_MIN)
            continue;
        for (int64_t j = 0; j < width; j++)
            to[j] += from[j];
    }
}

static void embedding_backward(qn_team *team, int64_t rows, int64_t c, int64_t table_rows,
                               const void *dy, const int32_t *indices, bool add, void *dtable) {
    embedding_context e = {rows, c, table_rows, dy, indices, dtable};
    if (!add)
        qn_team_run(team, ceil_div(table_rows * c, ELEMENTS_PER_TASK), embedding_clear_task, &e);
    qn_team_run(team, ceil_div(c, EMBEDDING_COLUMNS), embedding_add_task, &e);
}

#endif
