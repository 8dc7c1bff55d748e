/* Depthwise convolution, a row at a time: a vector holds neighbouring channels, several outputs of
 * a row are summed in registers (eight where the row is that long: with fewer a sum waits for the
 * one before), and each input is loaded once for all of them; outside of the image zeros are
 * loaded. Windows of one to three taps at steps of one and two are unrolled; in others the pixels
 * go one by one. Compiled with -ffp-contract=fast, as tile.h. */
#ifndef QN_KERNELS_VECTOR_DEPTHWISE_ROWS_H
#define QN_KERNELS_VECTOR_DEPTHWISE_ROWS_H

#include "kernels/vector/tiles.h"

typedef float vector __attribute__((vector_size(VL * 4), aligned(4), may_alias));

enum { PIXELS_WIDE = 4, MOST_WIDE = 8, LINE_FLOATS = 16 };

/* Vectors of channels that are taken together: a line's, where the registers hold their sums. */
enum { LINE_VECTORS = VL == 8 ? 2 : 1 };

static const vector zeros;

static inline vector load(const float *from) {
    return *(const vector *)from;
}

/* from[x * step], or zeros where `checked` and pixel x is not in [0, w). */
static inline __attribute__((always_inline)) vector load_pixel(bool checked, const float *from,
                                                               int64_t x, int64_t w, int64_t step) {
    return load(!checked || (uint64_t)x < (uint64_t)w ? from + x * step : (const float *)&zeros);
}

/* Pixels whose windows lie inside of a row: [*low, *high). */
static inline void inner_columns(const qn_depthwise *d, int64_t *low, int64_t *high) {
    const int64_t room = d->w - (d->taps_w - 1) * d->dilation_w - 1 - d->offset_w;
    const int64_t begin = d->offset_w < 0 ? (-d->offset_w + d->step_w - 1) / d->step_w : 0;
    const int64_t end = room < 0 ? 0 : room / d->step_w + 1;
    *low = begin < d->columns ? begin : d->columns;
    *high = end < d->columns ? end : d->columns;
    *high = *high < *low ? *low : *high;
}

/* The first channel of the vector after c; the last vector overlaps the one before. */
static inline int64_t next_channel(int64_t c, int64_t end) {
    return c + 2 * VL <= end || c + VL == end ? c + VL : end - VL;
}

/* ---- forward ---- */

/* What comes next, a row of outputs or of the image, is fetched a slice in each call: so many
 * lines, the call's number of slices after `row`. Channels of neighbouring pixels lie too far apart
 * for a processor to guess. */
static inline __attribute__((always_inline)) void fetch_lines(int lines, const float *row,
                                                              int64_t call, bool is_written) {
    const float *at = row + call * lines * LINE_FLOATS;
#pragma GCC unroll 16
    for (int e = 0; e < lines; e++) {
        if (is_written)
            __builtin_prefetch(at + e * LINE_FLOATS, 1);
        else
            __builtin_prefetch(at + e * LINE_FLOATS, 0, 2);
    }
}

/* One pixel, taps outside of the image left out. */
static void forward_pixel(const qn_depthwise *d, const float *image, const float *filter,
                          const float *bias, int64_t i, int64_t j, int64_t c, float *out) {
    vector sum = bias ? load(bias + c) : (vector){0};
    for (int64_t r = 0; r < d->taps_h; r++) {
        const int64_t y = i * d->step_h + d->offset_h + r * d->dilation_h;
        if (y < 0 || y >= d->h)
            continue;
        for (int64_t s = 0; s < d->taps_w; s++) {
            const int64_t x = j * d->step_w + d->offset_w + s * d->dilation_w;
            if (x >= 0 && x < d->w)
                sum += load(image + (y * d->w + x) * d->image_step + c) *
                       load(filter + (r * d->taps_w + s) * d->c + c);
        }
    }
    *(vector *)(out + c) = sum;
}

/* So many pixels from j on, nv vectors of channels of each, of the outputs from `row` on; checked,
 * nv, wide, taps and step are constants. */
static inline __attribute__((always_inline)) void
forward_wide(const qn_depthwise *d, bool checked, int nv, int wide, int taps, int step,
             const float *image, const float *filter, const float *bias, int64_t i, int64_t j,
             int64_t c, float *out, int64_t out_step, const float *row) {
    vector sums[MOST_WIDE];
#pragma GCC unroll 8
    for (int e = 0; e < wide * nv; e++)
        sums[e] = bias ? load(bias + c + e % nv * VL) : (vector){0};
    if (VL >= 8) {
        const int64_t call = c / (nv * VL) * ((d->columns + wide - 1) / wide) + j / wide;
        const int lines = wide * nv * VL / LINE_FLOATS;
        fetch_lines(lines, row + d->columns * out_step, call, true);
        fetch_lines(lines * step * step,
                    image + (i * d->step_h + d->offset_h + d->taps_h) * d->w * d->image_step, call,
                    false);
    }
    for (int64_t r = 0; r < d->taps_h; r++) {
        const int64_t y = i * d->step_h + d->offset_h + r * d->dilation_h;
        if (y < 0 || y >= d->h)
            continue;
        const float *from = image + y * d->w * d->image_step + c;
        const int64_t first = j * step + d->offset_w;
        vector weights[3 * LINE_VECTORS];
#pragma GCC unroll 8
        for (int s = 0; s < taps * nv; s++)
            weights[s] = load(filter + (r * taps + s / nv) * d->c + c + s % nv * VL);
#pragma GCC unroll 32
        for (int x = 0; x < ((wide - 1) * step + taps) * nv; x++) {
            const int v = x % nv, at = x / nv;
            const vector input =
                load_pixel(checked, from + v * VL, first + at, d->w, d->image_step);
#pragma GCC unroll 4
            for (int s = 0; s < taps; s++) {
                if (at >= s && (at - s) % step == 0 && (at - s) / step < wide)
                    sums[(at - s) / step * nv + v] += input * weights[s * nv + v];
            }
        }
    }
#pragma GCC unroll 8
    for (int e = 0; e < wide * nv; e++)
        *(vector *)(out + e / nv * out_step + c + e % nv * VL) = sums[e];
}

/* nv vectors of channels of a row, from pixel 0 on, `wide` pixels at a time: how many pixels are
 * done. The last ones overlap those before: they write the same again. */
static inline __attribute__((always_inline)) int64_t
forward_channels(const qn_depthwise *d, int nv, int wide, int taps, int step, const float *image,
                 const float *filter, const float *bias, int64_t i, int64_t c, int64_t low,
                 int64_t high, float *out, int64_t out_step) {
    int64_t j = 0;
    while (d->columns >= wide && j < d->columns) {
        j = j + wide <= d->columns ? j : d->columns - wide;
        if (j >= low && j + wide <= high)
            forward_wide(d, false, nv, wide, taps, step, image, filter, bias, i, j, c,
                         out + j * out_step, out_step, out);
        else
            forward_wide(d, true, nv, wide, taps, step, image, filter, bias, i, j, c,
                         out + j * out_step, out_step, out);
        j += wide;
    }
    return j;
}

/* A line of the cache is best read once: its vectors are taken together, of fewer pixels. */
static inline __attribute__((always_inline)) void
forward_row_of(const qn_depthwise *d, int taps, int step, const float *image, const float *filter,
               const float *bias, int64_t i, float *out, int64_t out_step) {
    int64_t low, high, c = 0;
    inner_columns(d, &low, &high);
    for (; taps && LINE_VECTORS > 1 && d->columns >= PIXELS_WIDE && c + LINE_FLOATS <= d->c;
         c += LINE_FLOATS)
        forward_channels(d, LINE_VECTORS, PIXELS_WIDE, taps, step, image, filter, bias, i, c, low,
                         high, out, out_step);
    for (c = c < d->c && c + VL > d->c ? d->c - VL : c; c < d->c; c = next_channel(c, d->c)) {
        int64_t j = 0;
        if (taps && LINE_VECTORS == 1 && d->columns >= MOST_WIDE)
            j = forward_channels(d, 1, MOST_WIDE, taps, step, image, filter, bias, i, c, low, high,
                                 out, out_step);
        else if (taps)
            j = forward_channels(d, 1, PIXELS_WIDE, taps, step, image, filter, bias, i, c, low,
                                 high, out, out_step);
        for (; j < d->columns; j++)
            forward_pixel(d, image, filter, bias, i, j, c, out + j * out_step);
    }
}

static void depthwise_forward_row_wide(const qn_depthwise *d, const float *image,
                                       const float *filter, const float *bias, int64_t i,
                                       float *out, int64_t out_step) {
    const int64_t taps = d->dilation_w == 1 ? d->taps_w : 0;
    if (taps == 3 && d->step_w == 1)
        forward_row_of(d, 3, 1, image, filter, bias, i, out, out_step);
    else if (taps == 3 && d->step_w == 2)
        forward_row_of(d, 3, 2, image, filter, bias, i, out, out_step);
    else if (taps == 2 && d->step_w == 1)
        forward_row_of(d, 2, 1, image, filter, bias, i, out, out_step);
    else if (taps == 1 && d->step_w == 1)
        forward_row_of(d, 1, 1, image, filter, bias, i, out, out_step);
    else
        forward_row_of(d, 0, 1, image, filter, bias, i, out, out_step);
}

/* ---- filter ---- */

/* What one pixel adds at a row of taps; sums are sums_step apart from tap to tap. */
static void filter_pixel(const qn_depthwise *d, const float *row, const float *dy, int64_t j,
                         int64_t c, float *sums, int64_t sums_step) {
    for (int64_t s = 0; s < d->taps_w; s++) {
        const int64_t x = j * d->step_w + d->offset_w + s * d->dilation_w;
        vector *sum = (vector *)(sums + s * sums_step);
        if (x >= 0 && x < d->w)
            *sum += load(row + x * d->image_step + c) * load(dy + j * d->dy_step + c);
    }
}

/* What PIXELS_WIDE pixels from j on add at nine taps, whose rows of the image are `rows` (null:
 * outside): each input is loaded once. */
static inline __attribute__((always_inline)) void add_nine(const qn_depthwise *d, bool checked,
                                                           int step, const float *const rows[3],
                                                           const float *dy, int64_t j,
                                                           vector sums[9]) {
    const int64_t first = j * step + d->offset_w;
    vector gradient[PIXELS_WIDE];
#pragma GCC unroll 8
    for (int e = 0; e < PIXELS_WIDE; e++)
        gradient[e] = load_pixel(checked, dy, j + e, d->columns, d->dy_step);
#pragma GCC unroll 4
    for (int r = 0; r < 3; r++) {
        if (!rows[r])
            continue;
#pragma GCC unroll 16
        for (int x = 0; x < (PIXELS_WIDE - 1) * step + 3; x++) {
            const vector input = load_pixel(checked, rows[r], first + x, d->w, d->image_step);
#pragma GCC unroll 4
            for (int s = 0; s < 3; s++) {
                if (x >= s && (x - s) % step == 0 && (x - s) / step < PIXELS_WIDE)
                    sums[3 * r + s] += input * gradient[(x - s) / step];
            }
        }
    }
}

/* What rows [begin, end) of outputs add at nine taps of one vector of channels: all sums stay in
 * registers. */
static inline __attribute__((always_inline)) void
filter_nine(const qn_depthwise *d, int step, const float *image, const float *dy, int64_t begin,
            int64_t end, int64_t low, int64_t high, float *to, int64_t to_step,
            const float *const next[2], int64_t call) {
    vector sums[9];
#pragma GCC unroll 16
    for (int tap = 0; tap < 9; tap++)
        sums[tap] = load(to + tap * to_step);
    for (int64_t i = begin; i < end; i++) {
        const float *rows[3], *row = dy + i * d->columns * d->dy_step;
#pragma GCC unroll 4
        for (int r = 0; r < 3; r++) {
            const int64_t y = i * d->step_h + d->offset_h + r;
            rows[r] = y >= 0 && y < d->h ? image + y * d->w * d->image_step : 0;
        }
        for (int64_t j = 0; j < d->columns; j += PIXELS_WIDE, call++) {
            if (VL >= 8) {
                const int lines = PIXELS_WIDE * VL / LINE_FLOATS;
                fetch_lines(lines, next[0], call, false);
                fetch_lines(lines * step * step, next[1], call, false);
            }
            if (j >= low && j + PIXELS_WIDE <= high)
                add_nine(d, false, step, rows, row, j, sums);
            else
                add_nine(d, true, step, rows, row, j, sums);
        }
    }
#pragma GCC unroll 16
    for (int tap = 0; tap < 9; tap++)
        *(vector *)(to + tap * to_step) = sums[tap];
}

/* The same at any number of taps, pixel by pixel. */
static void filter_any(const qn_depthwise *d, const float *image, const float *dy, int64_t begin,
                       int64_t end, int64_t c, float *to, int64_t to_step) {
    for (int64_t i = begin; i < end; i++) {
        for (int64_t r = 0; r < d->taps_h; r++) {
            const int64_t y = i * d->step_h + d->offset_h + r * d->dilation_h;
            for (int64_t j = 0; y >= 0 && y < d->h && j < d->columns; j++)
                filter_pixel(d, image + y * d->w * d->image_step, dy + i * d->columns * d->dy_step,
                             j, c, to + r * d->taps_w * to_step, to_step);
        }
    }
}

static void depthwise_filter_rows(const qn_depthwise *d, const float *image, const float *dy,
                                  int64_t begin, int64_t end, int64_t first, int64_t last,
                                  float *sums) {
    const int64_t width = (d->c + VL - 1) / VL * VL;
    const bool is_nine = d->taps_h == 3 && d->taps_w == 3 && d->dilation_h * d->dilation_w == 1;
    const int64_t step = is_nine ? d->step_w : 0;
    int64_t low, high;
    inner_columns(d, &low, &high);
    /* What the next rows need. */
    const float *next[2] = {dy + end * d->columns * d->dy_step,
                            image + (end * d->step_h + d->offset_h + 2) * d->w * d->image_step};
    const int64_t calls = (end - begin) * ((d->columns + PIXELS_WIDE - 1) / PIXELS_WIDE);
    for (int64_t block = first; block < last; block++) {
        const int64_t c = block * VL + VL <= d->c ? block * VL : d->c - VL;
        float *to = sums + block * VL;
        if (step == 1)
            filter_nine(d, 1, image + c, dy + c, begin, end, low, high, to, width, next,
                        block * calls);
        else if (step == 2)
            filter_nine(d, 2, image + c, dy + c, begin, end, low, high, to, width, next,
                        block * calls);
        else
            filter_any(d, image, dy, begin, end, c, to, width);
    }
}

const qn_depthwise_rows DEPTHWISE = {depthwise_forward_row_wide, depthwise_filter_rows};

#endif
