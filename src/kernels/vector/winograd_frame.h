/* The two-dimensional transforms of Winograd convolutions, given those of one dimension: of a
 * plane's columns, then of its rows. A line has `size` values of an image, or of a filter, and
 * `points` values at points; both, and the line's transform, are constants where these functions
 * are inlined, so that a plane stays in registers. */
#ifndef QN_KERNELS_VECTOR_WINOGRAD_FRAME_H
#define QN_KERNELS_VECTOR_WINOGRAD_FRAME_H

#include "kernels/vector/depthwise_rows.h"
#include "kernels/vector/tiles.h"

#if VL >= 8
#include <immintrin.h>
#endif

enum { MOST_POINTS = QN_WINOGRAD_LINE, MOST_SIZE = 6, MOST_OUT = 4 };

typedef void line_transform(const vector *from, vector *to);

#define INLINED static inline __attribute__((always_inline))

/* ---- the first n lanes of a vector, 1 <= n <= VL ----  What lies beyond is not touched; when
 * read, it counts as zeros. */

static inline int64_t lanes_from(int64_t c, int64_t n) {
    return n - c < VL ? n - c : VL;
}

#if VL == 16
static inline vector load_part(const float *from, int64_t n) {
    return (vector)_mm512_maskz_loadu_ps((__mmask16)(0xffff >> (VL - n)), from);
}

static inline void store_part(float *to, vector v, int64_t n) {
    _mm512_mask_storeu_ps(to, (__mmask16)(0xffff >> (VL - n)), (__m512)v);
}
#elif VL == 8
static const int32_t part_masks[2 * VL] = {-1, -1, -1, -1, -1, -1, -1, -1};

static inline vector load_part(const float *from, int64_t n) {
    return (vector)_mm256_maskload_ps(from,
                                      _mm256_loadu_si256((const __m256i *)(part_masks + VL - n)));
}

static inline void store_part(float *to, vector v, int64_t n) {
    _mm256_maskstore_ps(to, _mm256_loadu_si256((const __m256i *)(part_masks + VL - n)), (__m256)v);
}
#else
static __attribute__((noinline)) vector load_part(const float *from, int64_t n) {
    vector v = {0};
    for (int64_t i = 0; i < n; i++)
        v[i] = from[i];
    return v;
}

static __attribute__((noinline)) void store_part(float *to, vector v, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        to[i] = v[i];
}
#endif

static inline vector load_lanes(const float *from, int64_t n) {
    return n == VL ? load(from) : load_part(from, n);
}

static inline void store_lanes(float *to, vector v, int64_t n) {
    if (n == VL)
        *(vector *)to = v;
    else
        store_part(to, v, n);
}

/* ---- planes ----  Point (i, j) of channel c is at planes + (i points + j) plane_stride + c. */

INLINED vector load_inside(const qn_winograd_tile *t, int i, int j, int64_t c, int64_t lanes) {
    if (i < t->top || i >= t->bottom || j < t->left || j >= t->right)
        return (vector){0};
    return load_lanes(t->pixels + i * t->row_stride + j * t->pixel_stride + c, lanes);
}

/* The lines of a row's points, from the columns' to planes. */
INLINED void store_rows(int size, int points, line_transform *line,
                        vector columns[MOST_SIZE][MOST_POINTS], float *planes,
                        int64_t plane_stride) {
#pragma GCC unroll 7
    for (int i = 0; i < points; i++) {
        vector d[MOST_SIZE], v[MOST_POINTS];
#pragma GCC unroll 6
        for (int j = 0; j < size; j++)
            d[j] = columns[j][i];
        line(d, v);
#pragma GCC unroll 7
        for (int j = 0; j < points; j++)
            *(vector *)(planes + (i * points + j) * plane_stride) = v[j];
    }
}

/* Pixels of channels [c, n); `plain`: the tile is inside, and the channels are whole vectors. */
INLINED void some_pixels_to_planes(bool plain, int size, int points, line_transform *line,
                                   const qn_winograd_tile *t, int64_t c, int64_t n, float *planes,
                                   int64_t plane_stride) {
    for (; c < n; c += VL) {
        vector columns[MOST_SIZE][MOST_POINTS];
#pragma GCC unroll 6
        for (int j = 0; j < size; j++) {
            vector d[MOST_SIZE];
#pragma GCC unroll 6
            for (int i = 0; i < size; i++)
                d[i] = plain ? load(t->pixels + i * t->row_stride + j * t->pixel_stride + c)
                             : load_inside(t, i, j, c, lanes_from(c, n));
            line(d, columns[j]);
        }
        store_rows(size, points, line, columns, planes + c, plane_stride);
    }
}

INLINED void pixels_to_planes(int size, int points, line_transform *line, const qn_winograd_tile *t,
                              int64_t n, float *planes, int64_t plane_stride) {
    const bool inside = t->top == 0 && t->left == 0 && t->bottom == size && t->right == size;
    const int64_t plain = inside ? n / VL * VL : 0;
    some_pixels_to_planes(true, size, points, line, t, 0, plain, planes, plane_stride);
    some_pixels_to_planes(false, size, points, line, t, plain, n, planes, plane_stride);
}

INLINED void taps_to_planes(int size, int points, line_transform *line, const float *taps,
                            int64_t row_stride, int64_t tap_stride, int64_t n, float *planes,
                            int64_t plane_stride) {
    for (int64_t c = 0; c < n; c += VL) {
        vector columns[MOST_SIZE][MOST_POINTS];
#pragma GCC unroll 3
        for (int j = 0; j < size; j++) {
            vector g[MOST_SIZE];
#pragma GCC unroll 3
            for (int i = 0; i < size; i++)
                g[i] = load_lanes(taps + i * row_stride + j * tap_stride + c, lanes_from(c, n));
            line(g, columns[j]);
        }
        store_rows(size, points, line, columns, planes + c, plane_stride);
    }
}

/* ---- and back ---- */

INLINED void load_columns(int points, line_transform *line, const float *planes,
                          int64_t plane_stride, vector columns[MOST_POINTS][MOST_OUT]) {
#pragma GCC unroll 7
    for (int j = 0; j < points; j++) {
        vector m[MOST_POINTS];
#pragma GCC unroll 7
        for (int i = 0; i < points; i++)
            m[i] = load(planes + (i * points + j) * plane_stride);
        line(m, columns[j]);
    }
}

INLINED void row_of_columns(int i, int points, line_transform *line,
                            vector columns[MOST_POINTS][MOST_OUT], vector *row) {
    vector m[MOST_POINTS];
#pragma GCC unroll 7
    for (int j = 0; j < points; j++)
        m[j] = columns[j][i];
    line(m, row);
}

/* `anywhere`: tiles may begin outside of the image. */
INLINED void planes_to_pixels(bool anywhere, int size, int points, line_transform *line,
                              const float *planes, int64_t plane_stride, int64_t n,
                              const float *bias, const qn_winograd_tile *t) {
    for (int64_t c = 0; c < n; c += VL) {
        const int64_t lanes = lanes_from(c, n);
        const vector shift = bias ? load_lanes(bias + c, lanes) : (vector){0};
        vector columns[MOST_POINTS][MOST_OUT];
        load_columns(points, line, planes + c, plane_stride, columns);
#pragma GCC unroll 4
        for (int i = 0; i < size; i++) {
            vector y[MOST_OUT] = {{0}};
            row_of_columns(i, points, line, columns, y);
            float *row = t->pixels + i * t->row_stride + c;
            /* few tests: those of each pixel's four borders would cost a seventh of the function */
            for (int j = 0; i < t->bottom && j < t->right; j++) {
                if (!anywhere || (i >= t->top && j >= t->left))
                    store_lanes(row + j * t->pixel_stride, y[j] + shift, lanes);
            }
        }
    }
}

INLINED void planes_to_taps(int size, int points, line_transform *line, const float *planes,
                            int64_t plane_stride, int64_t n, float *taps, int64_t row_stride,
                            int64_t tap_stride, bool add) {
    for (int64_t c = 0; c < n; c += VL) {
        const int64_t lanes = lanes_from(c, n);
        vector columns[MOST_POINTS][MOST_OUT];
        load_columns(points, line, planes + c, plane_stride, columns);
#pragma GCC unroll 3
        for (int i = 0; i < size; i++) {
            vector g[MOST_OUT];
            row_of_columns(i, points, line, columns, g);
#pragma GCC unroll 3
            for (int j = 0; j < size; j++) {
                float *to = taps + i * row_stride + j * tap_stride + c;
                store_lanes(to, add ? (vector)(load_lanes(to, lanes) + g[j]) : g[j], lanes);
            }
        }
    }
}

#endif
