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

static const vector zeros;

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

/* from[x * step], or zeros where `checked` and pixel x is not in [0, w). */
static inline __attribute__((always_inline)) vector load_pixel(bool checked, const float *from,
                                                               int64_t x, int64_t w, int64_t step) {
    return load(!checked || (uint64_t)x < (uint64_t)w ? from + x * step : (const float *)&zeros);
}

/* Bit x: whether pixel first + x, x < n <= 31, is in [0, w). */
static inline unsigned inside_bits(int64_t first, int n, int64_t w) {
    const int64_t below = first < 0 ? -first : 0, above = first + n > w ? first + n - w : 0;
    return below + above < n ? ((1U << (n - below - above)) - 1) << below : 0;
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
    int64_t rows, out_step;
    float *out;
    const float *next;
} forward_row;

/* One pixel of any window. */
static void forward_pixel(const qn_depthwise *d, const forward_row *v, int64_t j, int64_t c) {
    const int64_t first = j * d->step_w + d->offset_w, row_step = d->w * d->image_step;
    vector sum = v->bias ? load(v->bias + c) : (vector){0};
    for (int64_t r = 0; r < v->rows; r++) {
        for (int64_t s = 0; s < d->taps_w; s++) {
            const int64_t x = first + s * d->dilation_w;
            if (x >= 0 && x < d->w)
                sum += load(v->from + r * d->dilation_h * row_step + x * d->image_step + c) *
                       load(v->filter + (r * d->taps_w + s) * d->c + c);
        }
    }
    *(vector *)(v->out + j * v->out_step + c) = sum;
}

/* Channels [begin, end), nv vectors at a time, of so many pixels from j on; nv, wide, taps and step
 * are constants. */
static inline __attribute__((always_inline)) void forward_wide(const qn_depthwise *d,
                                                               forward_row *v, int nv, int wide,
                                                               int taps, int step, int64_t j,
                                                               int64_t begin, int64_t end) {
    const int64_t first = j * step + d->offset_w, image_step = d->image_step;
    const int64_t row_step = d->dilation_h * d->w * image_step, rows = v->rows;
    const int64_t width = d->c, out_step = v->out_step, count = d->columns - j;
    const unsigned inside = inside_bits(first, (wide - 1) * step + taps, d->w);
    const float *image = v->from + first * image_step, *bias = v->bias, *filter = v->filter;
    float *out = v->out + j * out_step;
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
        for (int64_t r = 0; r < rows; r++, row += row_step, weight += taps * width) {
            vector weights[3 * LINE_VECTORS];
#pragma GCC unroll 8
            for (int s = 0; s < taps * nv; s++)
                weights[s] = load(weight + s / nv * width + s % nv * VL);
            const float *pixel = row;
            unsigned bits = inside;
            HIDE(bits);
#pragma GCC unroll 32
            for (int x = 0; x < (wide - 1) * step + taps; x++, pixel += image_step) {
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
        for (int e = 0; e < wide; e++, to += out_step) {
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
                                       float *out, int64_t out_step) {
    const int64_t taps = d->dilation_w == 1 ? d->taps_w : 0;
    const int64_t top = i * d->step_h + d->offset_h, row_step = d->w * d->image_step;
    int64_t begin = 0, end = d->taps_h;
    while (begin < end && top + begin * d->dilation_h < 0)
        begin++;
    while (begin < end && top + (end - 1) * d->dilation_h >= d->h)
        end--;
    forward_row v = {.from = image + (top + begin * d->dilation_h) * row_step,
                     .filter = filter + begin * d->taps_w * d->c,
                     .bias = bias,
                     .rows = end - begin,
                     .out_step = out_step,
                     .out = out,
                     .next = image + (top + d->taps_h) * row_step};
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
                fetch_lines(lines, next[0] + call * lines * LINE_FLOATS);
                fetch_lines(lines * step * step,
                            next[1] + call * lines * step * step * LINE_FLOATS);
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
