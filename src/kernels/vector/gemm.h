/* The matrix product, by the shape:
 *   B (N, K), few rows of A   C^T = B A^T: the large B is read in place, once; A is packed
 *   B (N, K), else            B is packed into panels
 *   B (K, N), few rows or A (K, M)   by rows
 *   B (K, N), many rows       B is packed into panels
 * An element has the same bits in each: one chain of K-blocks. */
#ifndef QN_KERNELS_VECTOR_GEMM_H
#define QN_KERNELS_VECTOR_GEMM_H

#include "kernels/vector/product.h"

typedef enum gemm_way { GEMM_SWAPPED, GEMM_PANELS, GEMM_ROWS } gemm_way;

/* Swapped, A is packed and C is turned; else B is packed. */
static bool is_swap_less(const qn_gemm_shape *d) {
    return d->m * (d->k + d->n) < d->n * d->k;
}

static gemm_way gemm_choose(const qn_gemm_shape *d) {
    if (d->transpose_b)
        return d->m <= FEW_ROWS && !d->transpose_a && is_swap_less(d) ? GEMM_SWAPPED : GEMM_PANELS;
    return d->m <= FEW_ROWS || d->transpose_a ? GEMM_ROWS : GEMM_PANELS;
}

static void gemm_swapped(qn_team *team, const qn_gemm_shape *d, const float *a, int64_t a_step,
                         const float *b, const float *bias_row, qn_activation activation, float *c,
                         float *workspace) {
    float *turned = workspace + round_up(panels_size(d->m, d->k), 16);
    product t = {.m = d->n,
                 .n = d->m,
                 .k = d->k,
                 .a = b,
                 .a_step = d->k,
                 .panels = workspace,
                 .c = turned,
                 .c_row = padded(d->m)};
    pack_transposed(team, &t, a, a_step);
    run_by_panels(team, &t, NULL);
    run_swap(team, &t, bias_row, activation, c, d->n);
}

/* Rows of A are a_step apart. */
static void gemm_stepped(qn_team *team, const qn_gemm_shape *shape, const float *a, int64_t a_step,
                         const float *b, const float *bias_row, qn_activation activation, float *c,
                         float *workspace) {
    const gemm_way way = gemm_choose(shape);
    if (way == GEMM_SWAPPED) {
        gemm_swapped(team, shape, a, a_step, b, bias_row, activation, c, workspace);
        return;
    }
    product t = {.m = shape->m,
                 .n = shape->n,
                 .k = shape->k,
                 .a = a,
                 .a_step = a_step,
                 .a_columns = shape->transpose_a,
                 .b = b,
                 .b_row = shape->n,
                 .panels = workspace,
                 .chunk = shape->k,
                 .add = shape->add,
                 .c = c,
                 .c_row = shape->n,
                 .bias = bias_row,
                 .activation = activation};
    if (way == GEMM_ROWS) {
        run_by_rows(team, &t, workspace);
        return;
    }
    const filter_rows rows = {.w = b, .depth = shape->k, .channel_step = shape->n, .taps_w = 1};
    if (shape->transpose_b)
        pack_transposed(team, &t, b, shape->k);
    else
        pack_rows(team, &t, &rows);
    run_by_panels(team, &t, NULL);
}

static void vector_gemm(qn_team *team, const qn_gemm_shape *shape, const void *a, const void *b,
                        const void *bias_row, qn_activation activation, void *c, void *workspace) {
    gemm_stepped(team, shape, a, shape->transpose_a ? shape->m : shape->k, b, bias_row, activation,
                 c, workspace);
}

static size_t gemm_bytes(const qn_gemm_shape *d, gemm_way way, int n_threads) {
    int64_t count = 0;
    switch (way) {
    case GEMM_SWAPPED:
        count = round_up(panels_size(d->m, d->k), 16) + d->n * padded(d->m);
        break;
    case GEMM_PANELS:
        count = panels_size(d->n, d->k);
        break;
    case GEMM_ROWS:
        count = (int64_t)n_threads * ROWS_SCRATCH;
        break;
    }
    return (size_t)count * sizeof(float);
}

static size_t vector_gemm_workspace(const qn_gemm_shape *d, int n_threads) {
    return gemm_bytes(d, gemm_choose(d), n_threads);
}

/* The most for this shape and all smaller ones, whichever way they go. */
static size_t vector_gemm_bound(const qn_gemm_shape *d, int n_threads) {
    size_t most = 0;
    for (int way = GEMM_SWAPPED; way <= GEMM_ROWS; way++) {
        const size_t bytes = gemm_bytes(d, (gemm_way)way, n_threads);
        most = bytes > most ? bytes : most;
    }
    return most;
}

#endif
