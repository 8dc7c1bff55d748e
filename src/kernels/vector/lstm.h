/* The products of the recurrence from the tiles of an instruction set; the rest is the reference's
 * source. An element is a chain of K-blocks, as in every product. */
#ifndef QN_KERNELS_VECTOR_LSTM_H
#define QN_KERNELS_VECTOR_LSTM_H

#include "kernels/vector/product.h"

enum { LSTM_ROWS = TILE_ROWS, LSTM_COLUMNS = TILE_COLUMNS };

/* sums (rows, LSTM_COLUMNS) = a (rows, depth) panel (depth, LSTM_COLUMNS). */
static void lstm_tile(int64_t depth, const float *a, int64_t a_row, int64_t rows,
                      const float *panel, float *sums) {
    for (int64_t p = 0; p < depth; p += DEPTH_STEP)
        TILES[0][TILE_VECTORS - 1][rows - 1](min_int(DEPTH_STEP, depth - p), a + p, a_row,
                                             panel + p * LSTM_COLUMNS, LSTM_COLUMNS, sums,
                                             LSTM_COLUMNS, p > 0);
}

/* panel (k, LSTM_COLUMNS) = w (width, k) transposed, zeros beyond width. */
static void lstm_transpose(const float *w, int64_t width, int64_t k, float *panel) {
    transpose_block(w, k, width, k, panel, LSTM_COLUMNS, LSTM_COLUMNS);
}

#include "kernels/ref/lstm.h"

#endif
