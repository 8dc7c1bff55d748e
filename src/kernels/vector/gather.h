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

/* Floats [begin, end) of the rows of pixels [first, first + count) go to `to`, to_row apart, and
 * zeros after them up to `width`. */
static void gather_rows(const window *g, int64_t first, int64_t count, int64_t begin, int64_t end,
                        float *to, int64_t to_row, int64_t width) {
    const int64_t run = g->run_taps * g->depth, runs_w = g->taps_w / g->run_taps;
    const int64_t first_run = begin / run, last_run = (end - 1) / run;
    int64_t j = first % g->columns, i = first / g->columns % g->rows;
    int64_t n = first / g->columns / g->rows;
    for (int64_t pixel = 0; pixel < count; pixel++, to += to_row) {
        const int64_t y = i * g->step_h + g->offset_h, x = j * g->step_w + g->offset_w;
        float *at = to;
        int64_t r = first_run / runs_w, s = first_run % runs_w;
        for (int64_t u = first_run; u <= last_run; u++) {
            const int64_t from = max_int(begin - u * run, 0), until = min_int(end - u * run, run);
            gather_run(g, n, y + r * g->dilation_h, x + s * g->dilation_w, from, until, at);
            at += until - from;
            if (++s == runs_w) {
                s = 0;
                r++;
            }
        }
        zero_floats(at, width - (end - begin));
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
