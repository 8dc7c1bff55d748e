/* The micro-kernel for products of few rows of A with a B (K, N) that comes from memory: some rows
 * of B are read from end to end, as memory is read fastest, and added to sums that stay in a cache.
 * Compiled with -ffp-contract=fast, as tile.h. */
#include "kernels/vector/depthwise_rows.h"

/* Rows of B that are multiplied at a time: their vectors fill the registers. */
enum { STREAM_DEPTH = VL == 16 ? 8 : 4, STREAM_VECTORS = 2 };

static inline __attribute__((always_inline)) void
stream_columns(int depth, int nv, int64_t m, const float *a, int64_t a_stride, const float *b,
               int64_t b_row, int64_t next, float *sums, int64_t sums_row) {
    vector row[STREAM_DEPTH][STREAM_VECTORS];
#pragma GCC unroll 8
    for (int p = 0; p < depth; p++) {
#pragma GCC unroll 2
        for (int v = 0; v < nv; v++)
            row[p][v] = load(b + p * b_row + v * VL);
        for (int x = 0; x < nv * VL; x += LINE_FLOATS)
            __builtin_prefetch(b + p * b_row + next + x, 0, 2);
    }
    for (int64_t i = 0; i < m; i++, a += a_stride, sums += sums_row) {
        vector sum[STREAM_VECTORS];
#pragma GCC unroll 2
        for (int v = 0; v < nv; v++)
            sum[v] = load(sums + v * VL);
#pragma GCC unroll 8
        for (int p = 0; p < depth; p++) {
#pragma GCC unroll 2
            for (int v = 0; v < nv; v++)
                sum[v] += row[p][v] * a[p];
        }
#pragma GCC unroll 2
        for (int v = 0; v < nv; v++)
            *(vector *)(sums + v * VL) = sum[v];
    }
}

/* Where no rows follow, those at hand stand for the next. */
void STREAM_TILE(int64_t m, int64_t n, int64_t depth, const float *a, int64_t a_stride,
                 const float *b, int64_t b_row, bool has_next, float *sums, int64_t sums_row) {
    for (; depth >= STREAM_DEPTH; depth -= STREAM_DEPTH) {
        const int64_t next = has_next || depth >= 2 * STREAM_DEPTH ? STREAM_DEPTH * b_row : 0;
        int64_t j = 0;
        for (; j + STREAM_VECTORS * VL <= n; j += STREAM_VECTORS * VL)
            stream_columns(STREAM_DEPTH, STREAM_VECTORS, m, a, a_stride, b + j, b_row, next,
                           sums + j, sums_row);
        for (; j < n; j += VL)
            stream_columns(STREAM_DEPTH, 1, m, a, a_stride, b + j, b_row, next, sums + j, sums_row);
        a += STREAM_DEPTH;
        b += STREAM_DEPTH * b_row;
    }
    for (; depth > 0; depth--, a++, b += b_row) {
        for (int64_t j = 0; j < n; j += VL)
            stream_columns(1, 1, m, a, a_stride, b + j, b_row, 0, sums + j, sums_row);
    }
}
