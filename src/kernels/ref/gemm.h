/* The matrix product. A task is some columns of C; it packs its columns of B first. */
#ifndef QN_KERNELS_REF_GEMM_H
#define QN_KERNELS_REF_GEMM_H

#include "kernels/ref/elementwise.h"
#include "kernels/ref/tile.h"

enum { GEMM_COLUMNS = 4 * NR };

typedef struct gemm_context {
    const qn_gemm_shape *shape;
    const real *a, *b, *bias;
    qn_activation activation;
    real *c, *panels; /* panels: (threads, K, GEMM_COLUMNS) */
    int64_t c_row;
} gemm_context;

/* panel (K, GEMM_COLUMNS) = columns [first, first + width) of op(B), zero padded. */
static void gemm_pack(const gemm_context *g, int64_t first, int64_t width, real *restrict panel) {
    const qn_gemm_shape *d = g->shape;
    const int64_t row = d->transpose_b ? 1 : d->n, column = d->transpose_b ? d->k : 1;
    if (width < GEMM_COLUMNS)
        memset(panel, 0, (size_t)(d->k * GEMM_COLUMNS) * sizeof *panel);
    for (int64_t p = 0; p < d->k; p++) {
        const real *restrict b = g->b + p * row + first * column;
        for (int64_t j = 0; j < width; j++)
            panel[p * GEMM_COLUMNS + j] = b[j * column];
    }
}

static void gemm_store(const gemm_context *g, const real *sums, int64_t i, int64_t j, int64_t rows,
                       int64_t columns) {
    for (int64_t y = 0; y < rows; y++) {
        real row[NR];
        for (int64_t x = 0; x < columns; x++)
            row[x] = sums[y * NR + x] + (g->bias ? g->bias[j + x] : 0);
        activate_row(g->activation, columns, row, g->c + (i + y) * g->c_row + j);
    }
}

/* The sums to go on from: zeros beyond the rows and columns that are there. */
static void gemm_load(const gemm_context *g, int64_t i, int64_t j, int64_t rows, int64_t columns,
                      real *sums) {
    memset(sums, 0, MR * NR * sizeof *sums);
    for (int64_t y = 0; y < rows; y++)
        memcpy(sums + y * NR, g->c + (i + y) * g->c_row + j, (size_t)columns * sizeof *sums);
}

static void gemm_task(void *context, int64_t begin, int64_t end, int thread) {
    const gemm_context *g = context;
    const qn_gemm_shape *d = g->shape;
    real *panel = g->panels + thread * d->k * GEMM_COLUMNS, sums[MR * NR];
    const int64_t dense = d->transpose_a ? d->m : d->k, a_row = d->a_row ? d->a_row : dense;
    const int64_t row = d->transpose_a ? 1 : a_row, step = d->transpose_a ? a_row : 1;
    for (int64_t task = begin; task < end; task++) {
        const int64_t first = task * GEMM_COLUMNS;
        const int64_t width = min_int(GEMM_COLUMNS, d->n - first);
        gemm_pack(g, first, width, panel);
        for (int64_t i = 0; i < d->m; i += MR) {
            const real *a[MR];
            for (int64_t y = 0; y < MR; y++)
                a[y] = g->a + min_int(i + y, d->m - 1) * row;
            for (int64_t j = 0; j < width; j += NR) {
                const int64_t rows = min_int(MR, d->m - i), columns = min_int(NR, width - j);
                if (d->add)
                    gemm_load(g, i, first + j, rows, columns, sums);
                sum_tile(d->k, a, step, panel + j, GEMM_COLUMNS, d->add, sums);
                gemm_store(g, sums, i, first + j, rows, columns);
            }
        }
    }
}

static void gemm(qn_team *team, const qn_gemm_shape *shape, const void *a, const void *b,
                 const void *bias_, qn_activation activation, void *c, void *workspace) {
    gemm_context g = {.shape = shape,
                      .a = a,
                      .b = b,
                      .bias = bias_,
                      .activation = activation,
                      .c = c,
                      .panels = workspace,
                      .c_row = shape->c_row ? shape->c_row : shape->n};
    qn_team_run(team, ceil_div(shape->n, GEMM_COLUMNS), gemm_task, &g);
}

static size_t gemm_workspace(const qn_gemm_shape *shape, int n_threads) {
    return (size_t)(n_threads * shape->k * GEMM_COLUMNS) * sizeof(real);
}

#endif
