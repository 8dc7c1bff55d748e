/* Cross entropy whose last product, of x (N, C) with a table (V, C) held as blocks, is made in
 * slices of the table: logits of some rows and of a slice meet the largest so far and the sum of
 * the weights, as in causal attention with the table for keys and values, so that the loss and its
 * slopes to x come of one visit. Rows without a label are left out. A row's bits do not depend on
 * the rows beside it, and slices depend on C alone. */
#ifndef QN_KERNELS_LANGUAGE_SLICED_H
#define QN_KERNELS_LANGUAGE_SLICED_H

#include "kernels/blocks.h"
#include "kernels/language/running.h"

enum {
    SLICED_NUMBERS = 1 << 16, /* of a slice */
    SLICED_LEAST = 48,        /* rows of a slice */
    SLICED_MOST = 256,
    SLICED_ROWS = 288 /* rows of x in a task, at most */
};

typedef struct sliced_context {
    const qn_kernels *kernels;
    const qn_sliced_operands *o;
    int64_t slice, rows, tasks;
    char *workspace;
    size_t thread_bytes;
} sliced_context;

/* Memory of one thread. */
typedef struct sliced_scratch {
    real *x, *sums;           /* (rows, C): of rows with a label; slopes of the logits' sums */
    real *logits, *bends;     /* (rows, slice); what the cap makes of a small change, or null */
    real *table;              /* (slice, C) */
    real *largest, *at_label; /* (rows) */
    real *bend_at_label;      /* (rows) */
    double *totals;           /* (rows) */
    int64_t *of;              /* (rows): numbers of the rows */
    void *product;
} sliced_scratch;

static size_t sliced_lay_out(const sliced_context *c, char *place, sliced_scratch *s) {
    const int64_t rows = c->rows, columns = c->o->table.columns;
    char *at = place;
    s->x = take_reals(&at, rows * columns);
    s->sums = c->o->makes_slopes ? take_reals(&at, rows * columns) : NULL;
    s->logits = take_reals(&at, rows * c->slice);
    s->bends = c->o->soft_cap > 0 ? take_reals(&at, rows * c->slice) : NULL;
    s->table = take_reals(&at, c->slice * columns);
    s->largest = take_reals(&at, rows);
    s->at_label = take_reals(&at, rows);
    s->bend_at_label = take_reals(&at, rows);
    s->totals = take_bytes(&at, rows, sizeof(double));
    s->of = take_bytes(&at, rows, sizeof(int64_t));
    s->product = at;
    return (size_t)(at - place);
}

/* How many rows have a label is not known before: each number goes its own way. */
static size_t sliced_product_bytes(const sliced_context *c) {
    const int64_t columns = c->o->table.columns;
    const int64_t slices[] = {c->slice, c->o->table.rows % c->slice};
    size_t most = 0;
    for (int i = 0; i < 2; i++) {
        for (int64_t rows = 1; slices[i] > 0 && rows <= c->rows; rows++) {
            const qn_gemm_shape shapes[] = {
                {.m = rows, .n = slices[i], .k = columns, .transpose_b = true},
                {.m = rows, .n = columns, .k = slices[i]},
            };
            for (int k = 0; k < 1 + c->o->makes_slopes; k++) {
                const size_t bytes = c->kernels->gemm_workspace(&shapes[k], 1);
                most = bytes > most ? bytes : most;
            }
        }
    }
    return (most + QN_ALIGNMENT - 1) / QN_ALIGNMENT * QN_ALIGNMENT;
}

static sliced_context sliced_of(const qn_kernels *kernels, const qn_sliced_operands *o,
                                int n_threads) {
    sliced_context c = {.kernels = kernels, .o = o};
    sliced_scratch unused;
    c.slice = SLICED_NUMBERS / o->table.columns;
    c.slice = max_int(SLICED_LEAST, min_int(SLICED_MOST, c.slice / SLICED_LEAST * SLICED_LEAST));
    c.slice = min_int(c.slice, o->table.rows);
    /* Equal shares, of as many rows as may be: each task widens the table. */
    const int64_t rounds = ceil_div(o->n, (int64_t)n_threads * SLICED_ROWS);
    c.rows = ceil_div(o->n, rounds * n_threads);
    c.tasks = ceil_div(o->n, c.rows);
    c.thread_bytes = sliced_lay_out(&c, (char *)(uintptr_t)QN_ALIGNMENT, &unused);
    c.thread_bytes += sliced_product_bytes(&c);
    return c;
}

static size_t sliced_cross_entropy_workspace(const qn_kernels *kernels,
                                             const qn_sliced_operands *operands, int n_threads) {
    return sliced_of(kernels, operands, n_threads).thread_bytes * (size_t)n_threads;
}

/* Rows [first, last) that have a label, dense; how many. A label beyond the table makes NaN. */
static int64_t sliced_open(const sliced_context *c, int64_t first, int64_t last,
                           const sliced_scratch *s) {
    const qn_sliced_operands *o = c->o;
    const int64_t columns = o->table.columns;
    int64_t n = 0;
    for (int64_t row = first; row < last; row++) {
        if (o->makes_slopes)
            memset((real *)o->slopes + row * columns, 0, (size_t)columns * sizeof(real));
        ((real *)o->losses)[row] = o->labels[row] < o->table.rows ? 0 : (real)NAN;
        if (o->labels[row] < 0 || o->labels[row] >= o->table.rows)
            continue;
        memcpy(s->x + n * columns, (const real *)o->x + row * columns,
               (size_t)columns * sizeof(real));
        s->totals[n] = 0;
        s->of[n++] = row;
    }
    if (s->sums)
        memset(s->sums, 0, (size_t)(n * columns) * sizeof(real));
    return n;
}

/* Logits of n rows and a slice with the cap, and those at labels. */
static void sliced_logits(const sliced_context *c, int64_t n, int64_t first, int64_t width,
                          const sliced_scratch *s) {
    const real cap = (real)c->o->soft_cap;
    const qn_gemm_shape shape = {.m = n, .n = width, .k = c->o->table.columns, .transpose_b = true};
    c->kernels->gemm(NULL, &shape, s->x, s->table, NULL, no_activation, s->logits, s->product);
    for (int64_t i = 0; cap > 0 && i < n * width; i++) {
        const real bounded = REAL_TANH(s->logits[i] / cap);
        s->logits[i] = cap * bounded;
        s->bends[i] = 1 - bounded * bounded;
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = c->o->labels[s->of[i]] - first;
        if (at < 0 || at >= width)
            continue;
        s->at_label[i] = s->logits[i * width + at];
        s->bend_at_label[i] = cap > 0 ? s->bends[i * width + at] : 1;
    }
}

static void sliced_add(const sliced_context *c, int64_t n, int64_t width, const sliced_scratch *s) {
    const int64_t columns = c->o->table.columns;
    for (int64_t i = 0; i < n; i++) {
        real *logits = s->logits + i * width;
        weigh_running(0, width, width, s->sums ? columns : 0, logits, &s->largest[i], &s->totals[i],
                      s->sums ? s->sums + i * columns : NULL);
        for (int64_t j = 0; s->sums && s->bends && j < width; j++)
            logits[j] *= s->bends[i * width + j];
    }
    if (!s->sums)
        return;
    const qn_gemm_shape shape = {.m = n, .n = columns, .k = width, .add = true};
    c->kernels->gemm(NULL, &shape, s->logits, s->table, NULL, no_activation, s->sums, s->product);
}

static void sliced_finish(const sliced_context *c, int64_t n, const sliced_scratch *s) {
    const qn_sliced_operands *o = c->o;
    const int64_t columns = o->table.columns;
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = s->of[i];
        const double log_sum = log(s->totals[i]) + (double)s->largest[i];
        ((real *)o->losses)[row] = (real)(log_sum - (double)s->at_label[i]);
        if (!s->sums)
            continue;
        const real inverse = (real)(1 / s->totals[i]), bend = s->bend_at_label[i];
        real *slopes = (real *)o->slopes + row * columns;
        qn_block_row_widen(c->kernels, &o->table, o->labels[row], 0, columns, s->table);
        for (int64_t j = 0; j < columns; j++)
            slopes[j] = s->sums[i * columns + j] * inverse - s->table[j] * bend;
    }
}

static void sliced_task(void *context, int64_t begin, int64_t end, int thread) {
    const sliced_context *c = context;
    const qn_block_matrix *table = &c->o->table;
    sliced_scratch s;
    sliced_lay_out(c, c->workspace + (size_t)thread * c->thread_bytes, &s);
    for (int64_t task = begin; task < end; task++) {
        const int64_t last = min_int(c->o->n, (task + 1) * c->rows);
        const int64_t n = sliced_open(c, task * c->rows, last, &s);
        for (int64_t first = 0; n > 0 && first < table->rows; first += c->slice) {
            const int64_t width = min_int(c->slice, table->rows - first);
            for (int64_t i = 0; i < width; i++)
                qn_block_row_widen(c->kernels, table, first + i, 0, table->columns,
                                   s.table + i * table->columns);
            sliced_logits(c, n, first, width, &s);
            sliced_add(c, n, width, &s);
        }
        sliced_finish(c, n, &s);
    }
}

static void sliced_cross_entropy(const qn_kernels *kernels, qn_team *team,
                                 const qn_sliced_operands *operands, void *workspace) {
    sliced_context c = sliced_of(kernels, operands, qn_team_size(team));
    c.workspace = workspace;
    qn_team_run(team, c.tasks, sliced_task, &c);
}

#endif
