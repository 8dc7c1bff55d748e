/* The products of the recurrence from the reference's tile. */
#ifndef QN_KERNELS_REF_LSTM_TILE_H
#define QN_KERNELS_REF_LSTM_TILE_H

#include "kernels/ref/tile.h"

enum { LSTM_ROWS = MR, LSTM_COLUMNS = NR };

/* sums (rows, LSTM_COLUMNS) = a (rows, depth) panel (depth, LSTM_COLUMNS); all LSTM_ROWS rows of
 * the sums are written. */
static void lstm_tile(int64_t depth, const real *a, int64_t a_row, int64_t rows, const real *panel,
                      real *sums) {
    const real *starts[MR];
    for (int64_t i = 0; i < MR; i++)
        starts[i] = a + min_int(i, rows - 1) * a_row;
    sum_tile(depth, starts, 1, panel, LSTM_COLUMNS, false, sums);
}

/* panel (k, LSTM_COLUMNS) = w (width, k) transposed, zeros beyond width. */
static void lstm_transpose(const real *w, int64_t width, int64_t k, real *panel) {
    for (int64_t p = 0; p < k; p++) {
        for (int64_t j = 0; j < LSTM_COLUMNS; j++)
            panel[p * LSTM_COLUMNS + j] = j < width ? w[j * k + p] : 0;
    }
}

#include "kernels/ref/lstm.h"

#endif
