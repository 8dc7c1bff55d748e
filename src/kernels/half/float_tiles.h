/* Winograd's transforms of bf16 (integer/winograd.h), in f32 and rounded to bf16 behind them, and
 * what becomes of outputs. The points are those of the float kernels (vector/winograd_lines.h),
 * whose factors are small: a rounded plane costs an output some 0.4 % of the root mean square,
 * which is what rounding its 3x3 inputs has cost before. */
#ifndef QN_KERNELS_HALF_FLOAT_TILES_H
#define QN_KERNELS_HALF_FLOAT_TILES_H

enum { LINE = 7, POINTS = LINE * LINE, CHUNK = 2 * VL };

#include "kernels/vector/winograd_lines.h"

typedef uint16_t halves __attribute__((vector_size(VL * 4), may_alias, aligned(2)));

/* Numbers of a pair of vectors, rounded, in their order. */
static inline __attribute__((always_inline)) halves round_both(vector low, vector high);

/* Up to VL numbers of a pixel from c on; null: it is beyond the image. */
static inline __attribute__((always_inline)) vector load_half(const stored *pixel, int64_t c,
                                                              int64_t n) {
    return pixel && n > 0 ? widen_halves(pixel + c, mask_of(n)) : (vector){0};
}

static inline __attribute__((always_inline)) void
see_window(const stored *const pixels[SEEN_PIXELS], int64_t c, int64_t n, halves seen[POINTS]) {
    vector both[2][POINTS];
    for (int half = 0; half < 2; half++) {
        vector columns[6][LINE];
#pragma GCC unroll 6
        for (int j = 0; j < 6; j++) {
            vector d[6];
#pragma GCC unroll 6
            for (int i = 0; i < 6; i++)
                d[i] = load_half(pixels[6 * i + j], c + half * VL, n - half * VL);
            input_line(d, columns[j]);
        }
#pragma GCC unroll 7
        for (int i = 0; i < LINE; i++) {
            vector d[6];
#pragma GCC unroll 6
            for (int j = 0; j < 6; j++)
                d[j] = columns[j][i];
            input_line(d, both[half] + LINE * i);
        }
    }
    for (int i = 0; i < POINTS; i++)
        seen[i] = round_both(both[0][i], both[1][i]);
}

/* Channels [c, c + n) of filter k; turned by half a turn where errors go to the data. */
static inline __attribute__((always_inline)) void see_filter(const tiling *t, int64_t k, int64_t c,
                                                             int64_t n, halves seen[POINTS]) {
    const stored *w = t->filter + k * 9 * t->filter_c;
    vector both[2][POINTS];
    for (int half = 0; half < 2; half++) {
        vector columns[3][LINE];
#pragma GCC unroll 3
        for (int j = 0; j < 3; j++) {
            vector g[3];
#pragma GCC unroll 3
            for (int i = 0; i < 3; i++) {
                const int tap = 3 * i + j;
                g[i] = load_half(w + (t->is_turned ? 8 - tap : tap) * t->filter_c, c + half * VL,
                                 n - half * VL);
            }
            filter_line(g, columns[j]);
        }
#pragma GCC unroll 7
        for (int i = 0; i < LINE; i++) {
            const vector g[3] = {columns[0][i], columns[1][i], columns[2][i]};
            filter_line(g, both[half] + LINE * i);
        }
    }
    for (int i = 0; i < POINTS; i++)
        seen[i] = round_both(both[0][i], both[1][i]);
}

static inline __attribute__((always_inline)) void
see_error(const stored *const pixels[16], int64_t k, int64_t n, halves seen[POINTS]) {
    vector both[2][POINTS];
    for (int half = 0; half < 2; half++) {
        vector columns[4][LINE];
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            vector d[4];
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++)
                d[i] = load_half(pixels[4 * i + j], k + half * VL, n - half * VL);
            gradient_line(d, columns[j]);
        }
#pragma GCC unroll 7
        for (int i = 0; i < LINE; i++) {
            const vector d[4] = {columns[0][i], columns[1][i], columns[2][i], columns[3][i]};
            gradient_line(d, both[half] + LINE * i);
        }
    }
    for (int i = 0; i < POINTS; i++)
        seen[i] = round_both(both[0][i], both[1][i]);
}

/* ---- outputs ---- */

/* The 16 outputs of a vector of columns, of sums (POINTS, COLUMNS). */
static inline __attribute__((always_inline)) void make_outputs(const float *sums,
                                                               vector outputs[16]) {
    vector columns[LINE][4];
#pragma GCC unroll 7
    for (int j = 0; j < LINE; j++) {
        vector m[LINE];
#pragma GCC unroll 7
        for (int i = 0; i < LINE; i++)
            m[i] = *(const vector *)(sums + (LINE * i + j) * COLUMNS);
        output_line(m, columns[j]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        vector m[LINE];
#pragma GCC unroll 7
        for (int j = 0; j < LINE; j++)
            m[j] = columns[j][i];
        output_line(m, outputs + 4 * i);
    }
}

/* Nine numbers of a filter's gradient, of sums whose points are `apart`. */
static inline __attribute__((always_inline)) void make_gradient(const float *sums, int64_t apart,
                                                                vector y[9]) {
    vector columns[LINE][3];
#pragma GCC unroll 7
    for (int j = 0; j < LINE; j++) {
        vector u[LINE];
#pragma GCC unroll 7
        for (int i = 0; i < LINE; i++)
            u[i] = *(const vector *)(sums + (LINE * i + j) * apart);
        filter_gradient_line(u, columns[j]);
    }
#pragma GCC unroll 3
    for (int i = 0; i < 3; i++) {
        vector u[LINE];
#pragma GCC unroll 7
        for (int j = 0; j < LINE; j++)
            u[j] = columns[j][i];
        filter_gradient_line(u, y + 3 * i);
    }
}

typedef struct finished {
    int nothing;
} finished;

static void finish_panel(const tiling *t, int64_t first_tile, int64_t n, int64_t panel,
                         const float *sums, finished *made) {
    const product *g = &t->to;
    const int64_t first = panel * COLUMNS, width = least(COLUMNS, g->n - first);
    (void)made;
    for (int64_t tile = 0; tile < n; tile++, sums += POINTS * COLUMNS) {
        const corner at = corner_of(t, first_tile + tile);
        const int64_t rows = least(4, t->p - at.y), columns = least(4, t->q - at.x);
        const int64_t begin = ((at.image * t->p + at.y) * t->q + at.x) * g->y_apart + first;
        for (int64_t j = 0; j < width; j += VL) {
            const vector bias = bias_of(g, first + j, width - j);
            vector outputs[16];
            make_outputs(sums + j, outputs);
            for (int64_t i = 0; i < rows; i++) {
                for (int64_t x = 0; x < columns; x++)
                    store_last(g, outputs[4 * i + x], bias, begin + (i * t->q + x) * g->y_apart + j,
                               mask_of(width - j));
            }
        }
    }
}

static void raise_finished(const tiling *t, const finished *made) {
    (void)t;
    (void)made;
}

#endif
