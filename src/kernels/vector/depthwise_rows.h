/* Depthwise convolution, a row at a time: a vector holds neighbouring channels, several outputs of
 * a row are summed in registers (eight where the row is that long: with fewer a sum waits for the
 * one before), and each input is loaded once for all of them. A bit for each input says whether it
 * is inside of the image; what is outside is left out. Windows of one to three taps at steps of one
 * and two are unrolled; in others the pixels go one by one. Compiled with -ffp-contract=fast, as
 * tile.h. */
#ifndef QN_KERNELS_VECTOR_DEPTHWISE_ROWS_H
#define QN_KERNELS_VECTOR_DEPTHWISE_ROWS_H

#include "kernels/vector/tiles.h"

typedef float vector __attribute__((vector_size(VL * 4), aligned(4), may_alias));

enum { PIXELS_WIDE = 4, MOST_WIDE = 8, LINE_FLOATS = 16 };

/* Vectors of channels that are taken together: a line's, where the registers hold their sums. */
enum { LINE_VECTORS = VL == 8 ? 2 : 1 };

static inline vector load(const float *from) {
    return *(const vector *)from;
}

/* A load of its own: a compiler would repeat it in each multiplication. */
static inline vector load_once(const float *from) {
    return *(const volatile vector *)from;
}

/* Lets the compiler think that x changes here, so that it makes what depends on x only now: ahead
 * of a loop it would make more than there are registers. */
#define HIDE(x) __asm__ volatile("" : "+r"(x))

/* Bit x: whether pixel first + x, x < n <= 31, is in [0, w). */
static inline unsigned inside_bits(int64_t first, int n, int64_t w) {
    const int64_t below = first < 0 ? -first : 0, above = first + n > w ? first + n - w : 0;
    return below + above < n ? ((1U << (n - below - above)) - 1) << below : 0;
}

/* The first channel of the n after c; the last n overlap those before. */
static inline int64_t next_channel(int64_t c, int n, int64_t end) {
    return c + 2 * n <= end || c + n == end ? c + n : end - n;
}

/* ---- forward ---- */

/* Fetches so many lines. Channels of neighbouring pixels lie too far apart for a processor to guess
 * what comes next. */
static inline __attribute__((always_inline)) void fetch_lines(int lines, const float *at) {
#pragma GCC unroll 32
    for (int e = 0; e < lines; e++)
        __builtin_prefetch(at + e * LINE_FLOATS, 0, 3);
}

/* A row of outputs. `next`: what the next row needs and this does not, fetched slice by slice. */
typedef struct forward_row {
    const float *from, *filter, *bias; /* the first row inside of the image, and its taps */
    int64_t rows, out_stride;
    float *out;
    const float *next;
} forward_row;

/* One pixel of any window. */
static void forward_pixel(const qn_depthwise *d, const forward_row *v, int64_t j, int64_t c) {
    const int64_t first = j * d->step_w + d->offset_w, row_stride = d->w * d->image_stride;
    vector sum = v->bias ? load(v->bias + c) : (vector){0};
    for (int64_t r = 0; r < v->rows; r++) {
        for (int64_t s = 0; s < d->taps_w; s++) {
            const int64_t x = first + s * d->dilation_w;
            if (x >= 0 && x < d->w)
                sum += load(v->from + r * d->dilation_h * row_stride + x * d->image_stride + c) *
                       load(v->filter + (r * d->taps_w + s) * d->c + c);
        }
    }
    *(vector *)(v->out + j * v->out_stride + c) = sum;
}

/* Channels [begin, end), nv vectors at a time, of so many pixels from j on; nv, wide, taps and step
 * are constants. */
static inline __attribute__((always_inline)) void forward_wide(const qn_depthwise *d,
                                                               forward_row *v, int nv, int wide,
                                                               int taps, int step, int64_t j,
                                                               int64_t begin, int64_t end) {
    const int64_t first = j * step + d->offset_w, image_stride = d->image_stride;
    const int64_t row_stride = d->dilation_h * d->w * image_stride, rows = v->rows;
    const int64_t width = d->c, out_stride = v->out_stride, count = d->columns - j;
    const unsigned inside = inside_bits(first, (wide - 1) * step + taps, d->w);
    const float *image = v->from + first * image_stride, *bias = v->bias, *filter = v->filter;
    float *out = v->out + j * out_stride;
    for (int64_t c = begin; c < end; c = next_channel(c, nv * VL, end)) {
        vector sums[MOST_WIDE];
#pragma GCC unroll 8
        for (int e = 0; e < wide * nv; e++)
            sums[e] = bias ? load(bias + c + e % nv * VL) : (vector){0};
        if (VL >= 8) {
            const int lines = wide * nv * VL / LINE_FLOATS * step * step;
            fetch_lines(lines, v->next);
            v->next += lines * LINE_FLOATS;
        }
        const float *row = image + c, *weight = filter + c;
        for (int64_t r = 0; r < rows; r++, row += row_stride, weight += taps * width) {
            vector weights[3 * LINE_VECTORS];
#pragma GCC unroll 8
            for (int s = 0; s < taps * nv; s++)
                weights[s] = load(weight + s / nv * width + s % nv * VL);
            const float *pixel = row;
            unsigned bits = inside;
            HIDE(bits);
#pragma GCC unroll 32
            for (int x = 0; x < (wide - 1) * step + taps; x++, pixel += image_stride) {
                HIDE(pixel);
                if (!(bits >> x & 1))
                    continue;
#pragma GCC unroll 2
                for (int u = 0; u < nv; u++) {
                    const vector input = load_once(pixel + u * VL);
#pragma GCC unroll 4
                    for (int s = 0; s < taps; s++) {
                        if (x >= s && (x - s) % step == 0 && (x - s) / step < wide)
                            sums[(x - s) / step * nv + u] += input * weights[s * nv + u];
                    }
                }
            }
        }
        float *to = out + c;
#pragma GCC unroll 8
        for (int e = 0; e < wide; e++, to += out_stride) {
            HIDE(to);
            if (wide < MOST_WIDE && e >= count)
                break;
#pragma GCC unroll 2
            for (int u = 0; u < nv; u++)
                *(vector *)(to + u * VL) = sums[e * nv + u];
        }
    }
}

/* Channels [begin, end) of a row, nv vectors at a time. The last pixels are taken with some of
 * those before, which are written again the same. */
static inline __attribute__((always_inline)) void forward_channels(const qn_depthwise *d,
                                                                   forward_row *v, int nv, int taps,
                                                                   int step, int64_t begin,
                                                                   int64_t end) {
    const int64_t last = d->columns > PIXELS_WIDE ? d->columns - PIXELS_WIDE : 0;
    int64_t j = 0;
    for (; nv == 1 && LINE_VECTORS == 1 && j + MOST_WIDE <= d->columns; j += MOST_WIDE)
        forward_wide(d, v, nv, MOST_WIDE, taps, step, j, begin, end);
    for (; j < d->columns; j += PIXELS_WIDE)
        forward_wide(d, v, nv, PIXELS_WIDE, taps, step, j < last ? j : last, begin, end);
}

/* A line of the cache is best read once: its vectors are taken together, of fewer pixels. */
static inline __attribute__((always_inline)) void
forward_row_of(const qn_depthwise *d, forward_row *v, int taps, int step) {
    const int64_t lines = LINE_VECTORS > 1 ? d->c / LINE_FLOATS * LINE_FLOATS : 0;
    if (lines > 0)
        forward_channels(d, v, LINE_VECTORS, taps, step, 0, lines);
    if (lines < d->c)
        forward_channels(d, v, 1, taps, step, lines + VL <= d->c ? lines : d->c - VL, d->c);
}

static void depthwise_forward_row_wide(const qn_depthwise *d, const float *image,
                                       const float *filter, const float *bias, int64_t i,
                                       float *out, int64_t out_stride) {
    const int64_t taps = d->dilation_w == 1 ? d->taps_w : 0;
    const int64_t top = i * d->step_h + d->offset_h, row_stride = d->w * d->image_stride;
    int64_t begin = 0, end = d->taps_h;
    while (begin < end && top + begin * d->dilation_h < 0)
        begin++;
    while (begin < end && top + (end - 1) * d->dilation_h >= d->h)
        end--;
    forward_row v = {.from = image + (top + begin * d->dilation_h) * row_stride,
                     .filter = filter + begin * d->taps_w * d->c,
                     .bias = bias,
                     .rows = end - begin,
                     .out_stride = out_stride,
                     .out = out,
                     .next = image + (top + d->taps_h) * row_stride};
    if (taps == 3 && d->step_w == 1)
        forward_row_of(d, &v, 3, 1);
    else if (taps == 3 && d->step_w == 2)
        forward_row_of(d, &v, 3, 2);
    else if (taps == 2 && d->step_w == 1)
        forward_row_of(d, &v, 2, 1);
    else if (taps == 1 && d->step_w == 1)
        forward_row_of(d, &v, 1, 1);
    else
        for (int64_t c = 0; c < d->c; c = next_channel(c, VL, d->c)) {
            for (int64_t j = 0; j < d->columns; j++)
                forward_pixel(d, &v, j, c);
        }
}

/* ---- filter ---- */

/* FILTER_VECTORS: vectors of channels whose sums at nine taps are made together, as the registers
 * hold them: the sums of one wait for each other. AHEAD: strips of PIXELS_WIDE pixels, less one, by
 * which what comes next is fetched before its turn. */
enum { FILTER_VECTORS = VL == 16 ? 2 : 1, AHEAD = 15 };

/* What one pixel adds at a row of taps; sums are sums_step apart from tap to tap. */
static void filter_pixel(const qn_depthwise *d, const float *row, const float *dy, int64_t j,
                         int64_t c, float *sums, int64_t sums_stride) {
    for (int64_t s = 0; s < d->taps_w; s++) {
        const int64_t x = j * d->step_w + d->offset_w + s * d->dilation_w;
        vector *sum = (vector *)(sums + s * sums_stride);
        if (x >= 0 && x < d->w)
            *sum += load(row + x * d->image_stride + c) * load(dy + j * d->dy_stride + c);
    }
}

/* What PIXELS_WIDE pixels from j on add at nine taps of nv vectors of channels, those at rows of
 * the image that `rows` has a bit of; `row` is the first. Each input is loaded once. */
static inline __attribute__((always_inline)) void add_nine(const qn_depthwise *d, int nv, int step,
                                                           unsigned rows, const float *row,
                                                           const float *dy, int64_t j,
                                                           vector *sums) {
    const int64_t first = j * step + d->offset_w, image_stride = d->image_stride;
    unsigned bits = inside_bits(first, (PIXELS_WIDE - 1) * step + 3, d->w);
    vector gradient[PIXELS_WIDE * FILTER_VECTORS];
    dy += j * d->dy_stride;
#pragma GCC unroll 8
    for (int e = 0; e < PIXELS_WIDE; e++, dy += d->dy_stride) {
        HIDE(dy);
#pragma GCC unroll 2
        for (int u = 0; u < nv; u++)
            gradient[e * nv + u] =
                __builtin_expect(j + e < d->columns, 1) ? load_once(dy + u * VL) : (vector){0};
    }
#pragma GCC unroll 4
    for (int r = 0; r < 3; r++) {
        if (!(rows >> r & 1))
            continue;
        const float *pixel = row + (r * d->w + first) * image_stride;
#pragma GCC unroll 16
        for (int x = 0; x < (PIXELS_WIDE - 1) * step + 3; x++, pixel += image_stride) {
            HIDE(pixel);
            if (!(bits >> x & 1))
                continue;
#pragma GCC unroll 2
            for (int u = 0; u < nv; u++) {
                const vector input = load_once(pixel + u * VL);
#pragma GCC unroll 4
                for (int s = 0; s < 3; s++) {
                    if (x >= s && (x - s) % step == 0 && (x - s) / step < PIXELS_WIDE)
                        sums[(3 * r + s) * nv + u] += input * gradient[(x - s) / step * nv + u];
                }
            }
        }
    }
}

/* Fetches nv vectors of so many pixels. */
static inline __attribute__((always_inline)) void fetch_pixels(int pixels, int nv, const float *at,
                                                               int64_t step) {
#pragma GCC unroll 8
    for (int e = 0; e < pixels; e++, at += step) {
        HIDE(at);
        fetch_lines(nv, at);
    }
}

/* What rows [begin, end) of outputs add at nine taps of nv vectors of channels: all sums stay in
 * registers. The same pixels of `next`, an image and its dy, are fetched; null: not. */
static inline __attribute__((always_inline)) void
filter_nine(const qn_depthwise *d, int nv, int step, const float *image, const float *dy,
            int64_t begin, int64_t end, float *to, int64_t to_stride, const float *const next[2]) {
    vector sums[9 * FILTER_VECTORS];
#pragma GCC unroll 18
    for (int e = 0; e < 9 * nv; e++)
        sums[e] = load(to + e / nv * to_stride + e % nv * VL);
    for (int64_t i = begin; i < end; i++) {
        const int64_t top = i * d->step_h + d->offset_h;
        const unsigned rows = inside_bits(top, 3, d->h);
        for (int64_t j = 0; j < d->columns; j += PIXELS_WIDE) {
            if (VL >= 8 && next[0]) {
                const float *at = next[0] + ((top + 3 - step) * d->w + j * step) * d->image_stride;
                fetch_pixels(PIXELS_WIDE * step, nv, at, d->image_stride);
                if (step == 2)
                    fetch_pixels(PIXELS_WIDE * step, nv, at + d->w * d->image_stride,
                                 d->image_stride);
            }
            add_nine(d, nv, step, rows, image + top * d->w * d->image_stride,
                     dy + i * d->columns * d->dy_stride, j, sums);
            if (VL >= 8 && next[1])
                fetch_pixels(PIXELS_WIDE, nv, next[1] + (i * d->columns + j) * d->dy_stride,
                             d->dy_stride);
        }
    }
#pragma GCC unroll 18
    for (int e = 0; e < 9 * nv; e++)
        *(vector *)(to + e / nv * to_stride + e % nv * VL) = sums[e];
}

/* The same at any number of taps, pixel by pixel. */
static void filter_any(const qn_depthwise *d, const float *image, const float *dy, int64_t begin,
                       int64_t end, int64_t c, float *to, int64_t to_stride) {
    for (int64_t i = begin; i < end; i++) {
        for (int64_t r = 0; r < d->taps_h; r++) {
            const int64_t y = i * d->step_h + d->offset_h + r * d->dilation_h;
            for (int64_t j = 0; y >= 0 && y < d->h && j < d->columns; j++)
                filter_pixel(d, image + y * d->w * d->image_stride,
                             dy + i * d->columns * d->dy_stride, j, c,
                             to + r * d->taps_w * to_stride, to_stride);
        }
    }
}

static void depthwise_filter_rows(const qn_depthwise *d, const float *image, const float *dy,
                                  int64_t begin, int64_t end, int64_t first, int64_t last,
                                  float *sums) {
    const int64_t width = (d->c + VL - 1) / VL * VL;
    const bool is_nine = d->taps_h == 3 && d->taps_w == 3 && d->dilation_h * d->dilation_w == 1;
    const int64_t step = is_nine ? d->step_w : 0, rows = end - begin;
    const int64_t strips = rows * ((d->columns + PIXELS_WIDE - 1) / PIXELS_WIDE);
    int64_t ahead = 2 * (AHEAD / strips + 1);
    ahead = ahead < last - first ? ahead : last - first;
    for (int64_t block = first, n; block < last; block += n) {
        const int64_t c = block * VL + VL <= d->c ? block * VL : d->c - VL;
        float *to = sums + block * VL;
        n = (step == 1 || step == 2) && block + FILTER_VECTORS <= last &&
                    (block + FILTER_VECTORS) * VL <= d->c
                ? FILTER_VECTORS
                : 1;
        /* So many channels on, past the last ones in the rows after these. Of two vectors of a line
         * one fetches the image, one dy. */
        const int64_t after = block + ahead - (VL == 8 ? block % 2 : 0);
        const int64_t next_c = (after < last ? after : after - last + first) * VL;
        const int64_t next_row = after < last ? 0 : rows;
        const float *next[2] = {image + next_c + next_row * d->step_h * d->w * d->image_stride,
                                dy + next_c + next_row * d->columns * d->dy_stride};
        if (VL == 8)
            next[block % 2] = 0;
        if (step == 1 && n > 1)
            filter_nine(d, FILTER_VECTORS, 1, image + c, dy + c, begin, end, to, width, next);
        else if (step == 2 && n > 1)
            filter_nine(d, FILTER_VECTORS, 2, image + c, dy + c, begin, end, to, width, next);
        else if (step == 1)
            filter_nine(d, 1, 1, image + c, dy + c, begin, end, to, width, next);
        else if (step == 2)
            filter_nine(d, 1, 2, image + c, dy + c, begin, end, to, width, next);
        else
            filter_any(d, image, dy, begin, end, c, to, width);
    }
}

const qn_depthwise_rows DEPTHWISE = {depthwise_forward_row_wide, depthwise_filter_rows};

#endif
