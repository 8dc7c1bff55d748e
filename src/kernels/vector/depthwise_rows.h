/* Depthwise convolution, a row at a time: a vector holds neighbouring channels, several outputs of
 * a row are summed in registers (eight where the row is that long: with fewer a sum waits for the
 * one before), and each input is loaded once for all of them; outside of the image zeros are
 * loaded. Windows of one to three taps at steps of one and two are unrolled; in others the pixels
 * go one by one. Compiled with -ffp-contract=fast, as tile.h. */
#ifndef QN_KERNELS_VECTOR_DEPTHWISE_ROWS_H
#define QN_KERNELS_VECTOR_DEPTHWISE_ROWS_H

#include "kernels/vector/tiles.h"

typedef float vector __attribute__((vector_size(VL * 4), aligned(4), may_alias));

enum { PIXELS_WIDE = 4, MOST_WIDE = 8, FAR_FLOATS = 65536, LINE_FLOATS = 16 };

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

/* Whether an image is too large to stay in the second cache: what is a pixel away is then to be
 * fetched, for it lies too far for a processor to guess. */
static inline bool is_far(const qn_depthwise *d) {
    return VL >= 8 && d->h * d->w * d->image_step >= FAR_FLOATS;
}

/* The next channels of so many pixels. */
static inline __attribute__((always_inline)) void fetch_next(int pixels, const float *from,
                                                             int64_t step) {
#pragma GCC unroll 8
    for (int e = 0; e < pixels; e++)
        __builtin_prefetch(from + e * step + LINE_FLOATS);
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

/* So many pixels from j on; checked, wide, taps and step are constants. */
static inline __attribute__((always_inline)) void
forward_wide(const qn_depthwise *d, bool checked, int wide, int taps, int step, const float *image,
             const float *filter, const float *bias, int64_t i, int64_t j, int64_t c, float *out,
             int64_t out_step) {
    const vector start = bias ? load(bias + c) : (vector){0};
    vector sums[MOST_WIDE];
#pragma GCC unroll 8
    for (int e = 0; e < wide; e++)
        sums[e] = start;
    const bool far = step == 1 && is_far(d);
    if (far)
        fetch_next(wide, out + c, out_step);
    for (int64_t r = 0; r < d->taps_h; r++) {
        const int64_t y = i * d->step_h + d->offset_h + r * d->dilation_h;
        if (y < 0 || y >= d->h)
            continue;
        const float *from = image + y * d->w * d->image_step + c;
        const int64_t first = j * step + d->offset_w;
        vector weights[3];
        if (far && r + 1 == d->taps_h)
            fetch_next(wide, from + first * d->image_step, d->image_step);
#pragma GCC unroll 4
        for (int s = 0; s < taps; s++)
            weights[s] = load(filter + (r * taps + s) * d->c + c);
#pragma GCC unroll 32
        for (int x = 0; x < (wide - 1) * step + taps; x++) {
            const vector input = load_pixel(checked, from, first + x, d->w, d->image_step);
#pragma GCC unroll 4
            for (int s = 0; s < taps; s++) {
                if (x >= s && (x - s) % step == 0 && (x - s) / step < wide)
                    sums[(x - s) / step] += input * weights[s];
            }
        }
    }
#pragma GCC unroll 8
    for (int e = 0; e < wide; e++)
        *(vector *)(out + e * out_step + c) = sums[e];
}

/* One vector of channels of a row, from pixel 0 on, `wide` at a time: how many pixels are done. The
 * last ones overlap those before: they write the same again. */
static inline __attribute__((always_inline)) int64_t
forward_channels(const qn_depthwise *d, int wide, int taps, int step, const float *image,
                 const float *filter, const float *bias, int64_t i, int64_t c, int64_t low,
                 int64_t high, float *out, int64_t out_step) {
    int64_t j = 0;
    while (d->columns >= wide && j < d->columns) {
        j = j + wide <= d->columns ? j : d->columns - wide;
        if (j >= low && j + wide <= high)
            forward_wide(d, false, wide, taps, step, image, filter, bias, i, j, c,
                         out + j * out_step, out_step);
        else
            forward_wide(d, true, wide, taps, step, image, filter, bias, i, j, c,
                         out + j * out_step, out_step);
        j += wide;
    }
    return j;
}

static inline __attribute__((always_inline)) void
forward_row_of(const qn_depthwise *d, int taps, int step, const float *image, const float *filter,
               const float *bias, int64_t i, float *out, int64_t out_step) {
    int64_t low, high;
    inner_columns(d, &low, &high);
    for (int64_t c = 0; c < d->c; c = next_channel(c, d->c)) {
        int64_t j = 0;
        if (taps && d->columns >= MOST_WIDE)
            j = forward_channels(d, MOST_WIDE, taps, step, image, filter, bias, i, c, low, high,
                                 out, out_step);
        else if (taps)
            j = forward_channels(d, PIXELS_WIDE, taps, step, image, filter, bias, i, c, low, high,
                                 out, out_step);
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
    const bool fetches = VL >= 8 && step == 1;
    if (fetches)
        fetch_next(PIXELS_WIDE, dy + j * d->dy_step, d->dy_step);
#pragma GCC unroll 4
    for (int r = 0; r < 3; r++) {
        if (!rows[r])
            continue;
        if (fetches && r == 2)
            fetch_next(PIXELS_WIDE, rows[r] + first * d->image_step, d->image_step);
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
            int64_t end, int64_t low, int64_t high, float *to, int64_t to_step) {
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
        for (int64_t j = 0; j < d->columns; j += PIXELS_WIDE) {
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
    for (int64_t block = first; block < last; block++) {
        const int64_t c = block * VL + VL <= d->c ? block * VL : d->c - VL;
        float *to = sums + block * VL;
        if (step == 1)
            filter_nine(d, 1, image + c, dy + c, begin, end, low, high, to, width);
        else if (step == 2)
            filter_nine(d, 2, image + c, dy + c, begin, end, low, high, to, width);
        else
            filter_any(d, image, dy, begin, end, c, to, width);
    }
}

const qn_depthwise_rows DEPTHWISE = {depthwise_forward_row_wide, depthwise_filter_rows};

#endif
