/* Rows of a convolution's input matrix: what the filter meets at a pixel, as R * S * C contiguous
 * floats, read from an image without ever writing that matrix. A window is described so that the
 * forward pass, the backward pass to the data (with dy as the image and the filter turned round)
 * and the backward pass to the filter share it. */
#ifndef QN_KERNELS_VECTOR_GATHER_H
#define QN_KERNELS_VECTOR_GATHER_H

#include "kernels/ref/real.h"

typedef float vector __attribute__((vector_size(VL * 4), aligned(4), may_alias));

/* Pixel (i, j) of a grid of rows x columns meets, at tap (r, s), pixel
 * (i * step_h + offset_h + r * dilation_h, likewise w) of the image; outside are zeros.
 *     run_taps divides taps_w; taps_h * taps_w * depth floats a row */
typedef struct window {
    const float *image; /* (N, image_h, image_w, channels); depth of the channels are used */
    const float *end;   /* of the tensor that the image is in */
    int64_t image_h, image_w, channels, depth;
    int64_t rows, columns;
    int64_t taps_h, taps_w, run_taps; /* run_taps: neighbouring taps that are contiguous */
    int64_t step_h, step_w, offset_h, offset_w, dilation_h, dilation_w;
} window;

static window window_finish(window g) {
    g.run_taps = g.dilation_w == 1 && g.depth == g.channels ? g.taps_w : 1;
    return g;
}

/* Whether the rows already lie in memory, `channels` apart. */
static bool window_is_direct(const window *g) {
    return g->taps_h * g->taps_w == 1 && g->step_h == 1 && g->step_w == 1 && g->offset_h == 0 &&
           g->offset_w == 0 && g->rows == g->image_h && g->columns == g->image_w;
}

static inline void copy_floats(float *restrict to, const float *restrict from, int64_t n) {
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        *(vector *)(to + i) = *(const vector *)(from + i);
    for (; i < n; i++)
        to[i] = from[i];
}

static inline void zero_floats(float *to, int64_t n) {
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        *(vector *)(to + i) = (vector){0};
    for (; i < n; i++)
        to[i] = 0;
}

/* Floats [begin, end) of one run, whose first tap is pixel (y, x) of image n. */
static inline void gather_run(const window *g, int64_t n, int64_t y, int64_t x, int64_t begin,
                              int64_t end, float *to) {
    const int64_t depth = g->depth;
    int64_t low = begin, high = begin; /* the part that is inside of the image */
    if (y >= 0 && y < g->image_h) {
        low = max_int(begin, min_int(end, x < 0 ? -x * depth : 0));
        high = max_int(low, min_int(end, (g->image_w - x) * depth));
    }
    zero_floats(to, low - begin);
    if (low < high)
        copy_floats(to + low - begin,
                    g->image + ((n * g->image_h + y) * g->image_w + x) * g->channels + low,
                    high - low);
    zero_floats(to + high - begin, end - high);
}

typedef float quad __attribute__((vector_size(16), aligned(4), may_alias));

static inline __attribute__((always_inline)) void copy_quads(int64_t count, int n_quads,
                                                             const float *from, int64_t from_stride,
                                                             float *to, int64_t to_row) {
    for (int64_t j = 0; j < count; j++, from += from_stride, to += to_row) {
#pragma GCC unroll 8
        for (int i = 0; i < n_quads; i++)
            *(quad *)(to + 4 * i) = *(const quad *)(from + 4 * i);
    }
}

/* Copies `count` runs of n floats, from_step apart, to places to_row apart, in whole vectors: up to
 * VL - 1 floats further are read and written. Short runs go by small vectors, without a loop. */
static inline void copy_runs(int64_t count, int64_t n, const float *from, int64_t from_stride,
                             float *to, int64_t to_row) {
    switch (ceil_div(n, 4)) {
    case 1:
        copy_quads(count, 1, from, from_stride, to, to_row);
        return;
    case 2:
        copy_quads(count, 2, from, from_stride, to, to_row);
        return;
    case 3:
        copy_quads(count, 3, from, from_stride, to, to_row);
        return;
    case 5:
        copy_quads(count, 5, from, from_stride, to, to_row);
        return;
    default:
        break;
    }
    for (int64_t j = 0; j < count; j++, from += from_stride, to += to_row) {
        int64_t i = 0;
        for (; i + VL <= n; i += VL)
            *(vector *)(to + i) = *(const vector *)(from + i);
        for (; i < n; i += 4)
            *(quad *)(to + i) = *(const quad *)(from + i);
    }
}

/* The part of pixels [first, last) of a grid row whose runs of taps lie inside of the image. */
static inline void inner_pixels(const window *g, int64_t *first, int64_t *last) {
    const int64_t room = g->image_w - (g->taps_w - 1) * g->dilation_w - 1 - g->offset_w;
    const int64_t high = room < 0 ? 0 : room / g->step_w + 1;
    *first = min_int(*last, max_int(*first, ceil_div(max_int(0, -g->offset_w), g->step_w)));
    *last = max_int(*first, min_int(*last, high));
}

/* Whole rows of pixels [first, last) of grid row i of image n, a run of taps at a time. What a copy
 * writes too much, the copy of the next run writes again. */
static void gather_grid_row(const window *g, int64_t n, int64_t i, int64_t first, int64_t last,
                            float *to, int64_t to_row) {
    const int64_t run = g->run_taps * g->depth, step = g->step_w * g->channels;
    const int64_t runs_w = g->taps_w / g->run_taps;
    int64_t low = first, high = last;
    inner_pixels(g, &low, &high);
    for (int64_t u = 0; u < g->taps_h * runs_w; u++, to += run) {
        const int64_t y = i * g->step_h + g->offset_h + u / runs_w * g->dilation_h;
        const int64_t x = g->offset_w + u % runs_w * g->dilation_w;
        int64_t until = y >= 0 && y < g->image_h ? high : low;
        const float *from = g->image + ((n * g->image_h + y) * g->image_w + x) * g->channels;
        while (until > low && g->end - (from + (until - 1) * step) < run + VL)
            until--;
        for (int64_t j = first; j < low; j++)
            gather_run(g, n, y, j * g->step_w + x, 0, run, to + (j - first) * to_row);
        copy_runs(until - low, run, from + low * step, step, to + (low - first) * to_row, to_row);
        for (int64_t j = until; j < last; j++)
            gather_run(g, n, y, j * g->step_w + x, 0, run, to + (j - first) * to_row);
    }
}

/* gather_rows below, for whole rows. */
static void gather_whole_rows(const window *g, int64_t first, int64_t count, float *to,
                              int64_t to_row, int64_t width) {
    const int64_t size = g->taps_h * g->taps_w * g->depth;
    while (count > 0) {
        const int64_t j = first % g->columns, i = first / g->columns;
        const int64_t part = min_int(count, g->columns - j);
        gather_grid_row(g, i / g->rows, i % g->rows, j, j + part, to, to_row);
        for (int64_t pixel = 0; pixel < part && width > size; pixel++)
            zero_floats(to + pixel * to_row + size, width - size);
        to += part * to_row;
        first += part;
        count -= part;
    }
}

/* Floats [begin, end) of that row, however its runs lie. */
static inline void gather_part(const window *g, int64_t n, int64_t y, int64_t x, int64_t begin,
                               int64_t end, float *to) {
    const int64_t run = g->run_taps * g->depth, runs_w = g->taps_w / g->run_taps;
    const int64_t first_run = begin / run, last_run = (end - 1) / run;
    int64_t r = first_run / runs_w, s = first_run % runs_w;
    for (int64_t u = first_run; u <= last_run; u++) {
        const int64_t from = max_int(begin - u * run, 0), until = min_int(end - u * run, run);
        gather_run(g, n, y + r * g->dilation_h, x + s * g->dilation_w, from, until, to);
        to += until - from;
        if (++s == runs_w) {
            s = 0;
            r++;
        }
    }
}

/* Floats [begin, end) of the rows of pixels [first, first + count) go to `to`, to_row apart, and
 * zeros after them up to `width`. Up to VL - 1 more floats of `to` are written. */
static void gather_rows(const window *g, int64_t first, int64_t count, int64_t begin, int64_t end,
                        float *to, int64_t to_row, int64_t width) {
    if (begin == 0 && end == g->taps_h * g->taps_w * g->depth) {
        gather_whole_rows(g, first, count, to, to_row, width);
        return;
    }
    int64_t j = first % g->columns, i = first / g->columns % g->rows;
    int64_t n = first / g->columns / g->rows;
    for (int64_t pixel = 0; pixel < count; pixel++, to += to_row) {
        gather_part(g, n, i * g->step_h + g->offset_h, j * g->step_w + g->offset_w, begin, end, to);
        zero_floats(to + end - begin, width - (end - begin));
        if (++j == g->columns) {
            j = 0;
            if (++i == g->rows) {
                i = 0;
                n++;
            }
        }
    }
}

#endif
