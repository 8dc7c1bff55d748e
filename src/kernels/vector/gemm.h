/* The matrix product, by the shape:
 *   B (N, K), few rows of A   C^T = B A^T: the large B is read in place, once; A is packed, for up
 *                             to four rows by quads (quad_tile.h)
 *   B (N, K), else            B is packed into panels
 *   B (K, N), few rows or A (K, M)   by rows; up to eight of A (M, K) streamed
 *   B (K, N), many rows       B is packed into panels
 * or by a tiling (kernels/tilings.h), of those that can and take no more workspace. An element has
 * the same bits in each: one chain of K-blocks. */
#ifndef QN_KERNELS_VECTOR_GEMM_H
#define QN_KERNELS_VECTOR_GEMM_H

#include "kernels/vector/product.h"

typedef enum gemm_way { GEMM_SWAPPED, GEMM_PANELS, GEMM_ROWS } gemm_way;

static int64_t c_row_of(const qn_gemm_shape *d) {
    return d->c_row ? d->c_row : d->n;
}

/* Swapped, A is packed and C is turned; else B is packed. */
static bool is_exchange_less(const qn_gemm_shape *d) {
    return d->m * (d->k + d->n) < d->n * d->k;
}

static gemm_way gemm_choose(const qn_gemm_shape *d) {
    if (d->transpose_b)
        return is_better_exchanged(d->m, d->n, d->k) && !d->transpose_a && is_exchange_less(d)
                   ? GEMM_SWAPPED
                   : GEMM_PANELS;
    return has_few_rows(d->m, d->n, d->k) || d->transpose_a ? GEMM_ROWS : GEMM_PANELS;
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

/* A has columns: by rows alone, since sums may go on. */
static gemm_way gemm_tiling_way(const qn_gemm_shape *d, qn_tiling tiling, int n_threads) {
    const gemm_way fixed = gemm_choose(d), other = d->transpose_b ? GEMM_SWAPPED : GEMM_ROWS;
    static const gemm_way ways[] = {GEMM_PANELS, GEMM_PANELS, GEMM_ROWS, GEMM_SWAPPED};
    const gemm_way way = ways[tiling.kinds[QN_TILING_WAY]];
    if (tiling.kinds[QN_TILING_WAY] == QN_TILING_WAY_FIXED || d->transpose_a ||
        (way != GEMM_PANELS && way != other) ||
        gemm_bytes(d, way, n_threads) > gemm_bytes(d, fixed, n_threads))
        return fixed;
    return way;
}

static void gemm_exchanged(qn_team *team, const qn_gemm_shape *d, const float *a, int64_t a_stride,
                           const float *b, const float *bias_row, qn_activation activation,
                           qn_tiling tiling, float *c, float *workspace) {
    if (d->m <= QUAD_MOST) {
        const product t = {.m = d->m,
                           .n = d->n,
                           .k = d->k,
                           .a = a,
                           .a_stride = a_stride,
                           .panels = workspace,
                           .b = b,
                           .c = c,
                           .c_row = c_row_of(d),
                           .bias = bias_row,
                           .activation = activation};
        run_quads(team, &t, d->k);
        return;
    }
    float *turned = workspace + round_up(panels_size(d->m, d->k), 16);
    product t = {.m = d->n,
                 .n = d->m,
                 .k = d->k,
                 .a = b,
                 .a_stride = d->k,
                 .panels = workspace,
                 .c = turned,
                 .c_row = padded(d->m),
                 .tiling = tiling};
    pack_transposed(team, &t, a, a_stride);
    run_by_panels(team, &t, NULL);
    run_swap(team, &t, bias_row, activation, c, c_row_of(d));
}

/* Rows of A are a_step apart. */
static void gemm_strided(qn_team *team, const qn_gemm_shape *shape, const float *a,
                         int64_t a_stride, const float *b, const float *bias_row,
                         qn_activation activation, float *c, float *workspace) {
    const int n_threads = qn_team_size(team);
    const unsigned known = shape->transpose_a ? ROWS_TILINGS : PANELS_TILINGS | 1u << QN_TILING_WAY;
    qn_tiling tiling = {{0}};
    if (shape->tilings &&
        !qn_tilings_take(shape->tilings, qn_tiling_key_gemm(shape, n_threads), known, &tiling))
        return;
    const gemm_way way = gemm_tiling_way(shape, tiling, n_threads);
    if (way == GEMM_SWAPPED) {
        gemm_exchanged(team, shape, a, a_stride, b, bias_row, activation, tiling, c, workspace);
        return;
    }
    product t = {.m = shape->m,
                 .n = shape->n,
                 .k = shape->k,
                 .a = a,
                 .a_stride = a_stride,
                 .a_columns = shape->transpose_a,
                 .b = b,
                 .b_row = shape->n,
                 .panels = workspace,
                 .chunk = shape->k,
                 .add = shape->add,
                 .c = c,
                 .c_row = c_row_of(shape),
                 .bias = bias_row,
                 .activation = activation,
                 .tiling = tiling};
    if (way == GEMM_ROWS) {
        (can_stream(&t) ? run_streamed : run_by_rows)(team, &t, workspace);
        return;
    }
    const filter_rows rows = {.w = b, .depth = shape->k, .channel_stride = shape->n, .taps_w = 1};
    if (shape->transpose_b)
        pack_transposed(team, &t, b, shape->k);
    else
        pack_rows(team, &t, &rows);
    run_by_panels(team, &t, NULL);
}

static void vector_gemm(qn_team *team, const qn_gemm_shape *shape, const void *a, const void *b,
                        const void *bias_row, qn_activation activation, void *c, void *workspace) {
    const int64_t dense = shape->transpose_a ? shape->m : shape->k;
    gemm_strided(team, shape, a, shape->a_row ? shape->a_row : dense, b, bias_row, activation, c,
                 workspace);
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
