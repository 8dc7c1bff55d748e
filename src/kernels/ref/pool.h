/* Pooling. Forward, a task is a row of outputs; backward, a row of inputs, which gathers from the
 * windows that hold it, so that no two tasks write one place. Max pooling goes through the taps of
 * a pixel with some vectors of channels, whose results stay in registers. */
#ifndef QN_KERNELS_REF_POOL_H
#define QN_KERNELS_REF_POOL_H

#include "kernels/ref/lanes.h"

typedef struct pool_context {
    const qn_conv2d_shape *shape;
    const real *x;
    real *y;
    uint16_t *index;
    const uint16_t *index_in;
} pool_context;

/* The `count` taps of an axis at which an output meets inputs or an input outputs: the place met at
 * the first one and its number, and the steps to the next one's. */
typedef struct pool_taps {
    int64_t count;
    int64_t place, place_step;
    int64_t number, number_step;
} pool_taps;

/* The taps of window p that lie inside of the image. */
static __attribute__((noinline)) pool_taps taps_of_window(int64_t p, int64_t taps, int64_t stride,
                                                          int64_t pad, int64_t dilation,
                                                          int64_t extent) {
    pool_taps t = {.place = p * stride - pad, .place_step = dilation, .number_step = 1};
    for (; t.number < taps && t.place < 0; t.number++)
        t.place += dilation;
    while (t.number + t.count < taps && t.place + t.count * dilation < extent)
        t.count++;
    return t;
}

/* The windows that hold input h of an axis at tap r: *p, if there is one. */
static bool window_of(int64_t h, int64_t tap, int64_t stride, int64_t pad, int64_t dilation,
                      int64_t outputs, int64_t *p) {
    int64_t offset = h + pad - tap * dilation;
    if (offset < 0 || offset % stride != 0)
        return false;
    *p = offset / stride;
    return *p < outputs;
}

/* The taps at which windows hold input h. */
static __attribute__((noinline)) pool_taps taps_of_input(int64_t h, int64_t taps, int64_t stride,
                                                         int64_t pad, int64_t dilation,
                                                         int64_t outputs) {
    pool_taps t = {0};
    for (int64_t tap = 0, p; tap < taps; tap++) {
        if (!window_of(h, tap, stride, pad, dilation, outputs, &p))
            continue;
        if (t.count == 0) {
            t.place = p;
            t.number = tap;
        } else if (t.count == 1) {
            t.place_step = p - t.place;
            t.number_step = tap - t.number;
        }
        t.count++;
    }
    return t;
}

/* The pixels that a pixel meets, in an image `width` wide. */
typedef struct pool_pixels {
    int64_t width;
    pool_taps rows, columns;
} pool_pixels;

/* The number of the first one in row i of them, and of its tap. */
static inline int64_t first_pixel(const pool_pixels *m, int64_t i) {
    return (m->rows.place + i * m->rows.place_step) * m->width + m->columns.place;
}

static inline real_int first_tap(const qn_conv2d_shape *d, const pool_pixels *m, int64_t i) {
    return (real_int)((m->rows.number + i * m->rows.number_step) * d->s + m->columns.number);
}

/* Max pooling takes POOL_VECTORS vectors of channels side by side. It reads several rows of pixels
 * at once, which the processor does not guess: they are fetched POOL_AHEAD elements ahead. */
#if defined(__AVX__) || defined(__ARM_NEON)
enum { POOL_VECTORS = 4 };
#else
enum { POOL_VECTORS = 1 };
#endif
enum { POOL_BLOCK = POOL_VECTORS * ROW_LANES, POOL_AHEAD = 2048 };

typedef uint16_t tap_lanes __attribute__((vector_size(ROW_LANES * sizeof(uint16_t)),
                                          aligned(sizeof(uint16_t)), may_alias));

#define EACH_VECTOR(v, n) _Pragma("GCC unroll 4") for (int64_t v = 0; v < (n); v++)

/* Vector v of those at x. With a width of less than a vector there is one alone, of so many lanes.
 */
static inline __attribute__((always_inline)) row_lanes lanes_at(const real *x, int64_t v,
                                                                int64_t width) {
    row_lanes lanes = {0};
    if (width == ROW_LANES)
        return *(const row_lanes *)(x + v * ROW_LANES);
    for (int64_t l = 0; l < width; l++)
        lanes[l] = x[l];
    return lanes;
}

static inline row_choice chosen_of(row_choice is_chosen, row_choice a, row_choice b) {
    return (a & is_chosen) | (b & ~is_chosen);
}

/* The first largest of a window that is not empty, for n vectors of `width` channels. */
static inline __attribute__((always_inline)) void
max_pool_vectors(int64_t n, int64_t width, const qn_conv2d_shape *d, const pool_pixels *m,
                 const real *x, real *y, uint16_t *index) {
    const int64_t step = m->columns.place_step * d->c;
    row_lanes best[POOL_VECTORS];
    row_choice number[POOL_VECTORS];
    EACH_VECTOR(v, n) {
        best[v] = (row_lanes){0} - (real)INFINITY;
        number[v] = (row_choice){0} + first_tap(d, m, 0);
    }
    for (int64_t i = 0; i < m->rows.count; i++) {
        const real *at = x + first_pixel(m, i) * d->c;
        real_int tap = first_tap(d, m, i);
        EACH_VECTOR(v, n)
        __builtin_prefetch(at + POOL_AHEAD + v * ROW_LANES);
        for (int64_t j = 0; j < m->columns.count; j++, tap++) {
            EACH_VECTOR(v, n) {
                const row_lanes next = lanes_at(at, v, width);
                const row_choice better = (next > best[v]) | (next != next);
                best[v] = (row_lanes)chosen_of(better, (row_choice)next, (row_choice)best[v]);
                number[v] = chosen_of(better, (row_choice){0} + tap, number[v]);
            }
            at += step;
        }
    }
    EACH_VECTOR(v, n) {
        const tap_lanes numbers = __builtin_convertvector(number[v], tap_lanes);
        if (width == ROW_LANES) {
            *(row_lanes *)(y + v * ROW_LANES) = best[v];
            *(tap_lanes *)(index + v * ROW_LANES) = numbers;
        } else {
            memcpy(y, &best[v], (size_t)width * sizeof *y);
            memcpy(index, &numbers, (size_t)width * sizeof *index);
        }
    }
}

/* All channels of an output. The last vector may begin within the one before. */
static void max_pool_output(const qn_conv2d_shape *d, const pool_pixels *m, const real *x, real *y,
                            uint16_t *index) {
    int64_t c = 0;
    if (m->rows.count == 0 || m->columns.count == 0) {
        memset(y, 0, (size_t)d->c * sizeof *y);
        memset(index, 0, (size_t)d->c * sizeof *index);
        return;
    }
    for (; POOL_VECTORS > 1 && c + POOL_BLOCK <= d->c; c += POOL_BLOCK)
        max_pool_vectors(POOL_VECTORS, ROW_LANES, d, m, x + c, y + c, index + c);
    for (; c < d->c; c += ROW_LANES) {
        const int64_t width = min_int(ROW_LANES, d->c), first = min_int(c, d->c - width);
        if (POOL_VECTORS > 1 && width == ROW_LANES)
            max_pool_vectors(1, ROW_LANES, d, m, x + first, y + first, index + first);
        else
            max_pool_vectors(1, width, d, m, x + first, y + first, index + first);
    }
}

static void max_pool_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pool_context *m = context;
    const qn_conv2d_shape *d = m->shape;
    pool_pixels met = {.width = d->w};
    for (int64_t row = begin; row < end; row++) {
        met.rows = taps_of_window(row % d->p, d->r, d->stride_h, d->pad_top, d->dilation_h, d->h);
        for (int64_t q = 0; q < d->q; q++) {
            const int64_t pixel = row * d->q + q;
            met.columns = taps_of_window(q, d->s, d->stride_w, d->pad_left, d->dilation_w, d->w);
            max_pool_output(d, &met, m->x + row / d->p * d->h * d->w * d->c,
                            m->y + pixel * y_stride_of(d), m->index + pixel * d->c);
        }
    }
}

static void max_pool(qn_team *team, const qn_conv2d_shape *shape, const void *x, void *y,
                     uint16_t *index) {
    pool_context m = {.shape = shape, .x = x, .y = y, .index = index};
    qn_team_run(team, shape->n * shape->p, max_pool_task, &m);
}

/* Adds to dx (C) what one window passes back: all of dy / taps, or dy where the index is tap. */
static void pool_pass_back(int64_t c, const real *restrict dy, const uint16_t *restrict index,
                           uint16_t tap, real factor, real *restrict dx) {
    if (!index) {
        for (int64_t j = 0; j < c; j++)
            dx[j] += factor * dy[j];
        return;
    }
    for (int64_t j = 0; j < c; j++)
        dx[j] += index[j] == tap ? dy[j] : 0;
}

/* What a sum over a window is multiplied with to be its mean. */
static real mean_factor(const qn_conv2d_shape *d, int64_t p, int64_t q) {
    int64_t taps = d->r * d->s;
    if (d->inside)
        taps = taps_of_window(p, d->r, d->stride_h, d->pad_top, d->dilation_h, d->h).count *
               taps_of_window(q, d->s, d->stride_w, d->pad_left, d->dilation_w, d->w).count;
    return 1 / (real)(taps > 0 ? taps : 1);
}

static void pool_backward_row(const pool_context *m, int64_t n, int64_t h) {
    const qn_conv2d_shape *d = m->shape;
    real *row = m->y + (n * d->h + h) * d->w * d->c;
    memset(row, 0, (size_t)(d->w * d->c) * sizeof *row);
    for (int64_t r = 0; r < d->r; r++) {
        int64_t p, q;
        if (!window_of(h, r, d->stride_h, d->pad_top, d->dilation_h, d->p, &p))
            continue;
        for (int64_t s = 0; s < d->s; s++) {
            for (q = 0; q < d->q; q++) {
                const int64_t w = q * d->stride_w - d->pad_left + s * d->dilation_w;
                const int64_t pixel = (n * d->p + p) * d->q + q;
                if (w >= 0 && w < d->w)
                    pool_pass_back(d->c, m->x + pixel * y_stride_of(d),
                                   m->index_in ? m->index_in + pixel * d->c : NULL,
                                   (uint16_t)(r * d->s + s), m->index_in ? 1 : mean_factor(d, p, q),
                                   row + w * d->c);
            }
        }
    }
}

/* The sum of the dy of the windows whose largest an input was, for POOL_BLOCK channels. */
static inline void max_pool_gather(const qn_conv2d_shape *d, const pool_pixels *m, const real *dy,
                                   const uint16_t *index, real *dx) {
    const int64_t c = d->c, y_stride = y_stride_of(d);
    row_lanes sum[POOL_VECTORS] = {{0}};
    for (int64_t i = 0; i < m->rows.count; i++) {
        int64_t pixel = first_pixel(m, i);
        real_int tap = first_tap(d, m, i);
        EACH_VECTOR(v, POOL_VECTORS) {
            __builtin_prefetch(dy + pixel * y_stride + POOL_AHEAD + v * ROW_LANES);
            if (v % 2 == 0)
                __builtin_prefetch(index + pixel * c + POOL_AHEAD + v * ROW_LANES);
        }
        for (int64_t j = 0; j < m->columns.count; j++) {
            EACH_VECTOR(v, POOL_VECTORS) {
                const tap_lanes taps = *(const tap_lanes *)(index + pixel * c + v * ROW_LANES);
                const row_choice passed = (row_choice)lanes_at(dy + pixel * y_stride, v, ROW_LANES);
                sum[v] += (row_lanes)(passed & (__builtin_convertvector(taps, row_choice) == tap));
            }
            pixel += m->columns.place_step;
            tap += (real_int)m->columns.number_step;
        }
    }
    EACH_VECTOR(v, POOL_VECTORS)
    *(row_lanes *)(dx + v * ROW_LANES) = sum[v];
}

/* Many windows, and not so many channels that the pixels of one leave the first cache. */
enum { GATHER_MOST = 768 };

static bool is_gathered(const pool_context *m) {
    const qn_conv2d_shape *d = m->shape;
    return POOL_VECTORS > 1 && m->index_in && d->stride_h == 1 && d->stride_w == 1 &&
           d->c >= POOL_BLOCK && d->c <= GATHER_MOST;
}

static void max_pool_gather_row(const pool_context *m, const pool_taps *rows, int64_t row) {
    const qn_conv2d_shape *d = m->shape;
    const int64_t first = row / d->h * d->p * d->q;
    pool_pixels met = {.width = d->q, .rows = *rows};
    for (int64_t w = 0; w < d->w; w++) {
        met.columns = taps_of_input(w, d->s, d->stride_w, d->pad_left, d->dilation_w, d->q);
        for (int64_t next = 0; next < d->c; next += POOL_BLOCK) {
            const int64_t c = min_int(next, d->c - POOL_BLOCK);
            max_pool_gather(d, &met, m->x + first * y_stride_of(d) + c,
                            m->index_in + first * d->c + c, m->y + (row * d->w + w) * d->c + c);
        }
    }
}

/* Rows of means that the same windows hold are all alike. */
static void pool_backward_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pool_context *m = context;
    const qn_conv2d_shape *d = m->shape;
    const int64_t size = d->w * d->c;
    pool_taps rows = {0};
    for (int64_t row = begin; row < end; row++) {
        const pool_taps last = rows;
        rows = taps_of_input(row % d->h, d->r, d->stride_h, d->pad_top, d->dilation_h, d->p);
        const bool is_same =
            row > begin && row % d->h > 0 && rows.count == last.count && rows.place == last.place;
        if (is_gathered(m))
            max_pool_gather_row(m, &rows, row);
        else if (is_same && !m->index_in)
            memcpy(m->y + row * size, m->y + (row - 1) * size, (size_t)size * sizeof(real));
        else
            pool_backward_row(m, row / d->h, row % d->h);
    }
}

static void max_pool_backward(qn_team *team, const qn_conv2d_shape *shape, const void *dy,
                              const uint16_t *index, void *dx) {
    pool_context m = {.shape = shape, .x = dy, .index_in = index, .y = dx};
    qn_team_run(team, shape->n * shape->h, pool_backward_task, &m);
}

static void average_pool_backward(qn_team *team, const qn_conv2d_shape *shape, const void *dy,
                                  void *dx) {
    pool_context m = {.shape = shape, .x = dy, .y = dx};
    qn_team_run(team, shape->n * shape->h, pool_backward_task, &m);
}

static void average_pool_output(const qn_conv2d_shape *d, const real *image, int64_t p, int64_t q,
                                real *restrict y) {
    memset(y, 0, (size_t)d->c * sizeof *y);
    for (int64_t r = 0; r < d->r; r++) {
        int64_t h = p * d->stride_h - d->pad_top + r * d->dilation_h;
        if (h < 0 || h >= d->h)
            continue;
        for (int64_t s = 0; s < d->s; s++) {
            int64_t w = q * d->stride_w - d->pad_left + s * d->dilation_w;
            if (w < 0 || w >= d->w)
                continue;
            const real *restrict x = image + (h * d->w + w) * d->c;
            for (int64_t c = 0; c < d->c; c++)
                y[c] += x[c];
        }
    }
    const real factor = mean_factor(d, p, q);
    for (int64_t c = 0; c < d->c; c++)
        y[c] *= factor;
}

/* Sums of `count` neighbouring windows of S pixels, without padding, over one row of the image: the
 * rows were added into `row` before. */
static void average_windows(const qn_conv2d_shape *d, real factor, const real *row, real *y) {
    for (int64_t q = 0; q < d->q; q++, row += d->stride_w * d->c, y += y_stride_of(d)) {
        for (int64_t c = 0; c < d->c; c++) {
            real total = row[c];
            for (int64_t s = 1; s < d->s; s++)
                total += row[s * d->c + c];
            y[c] = total * factor;
        }
    }
}

/* Few channels make short loops: the rows of the windows are added first, as one long row. */
enum { NARROW_CHANNELS = 24, NARROW_ROW = 2048 };

static bool is_narrow_pool(const qn_conv2d_shape *d) {
    return d->c <= NARROW_CHANNELS && d->w * d->c <= NARROW_ROW && d->pad_left == 0 &&
           d->dilation_w == 1 && (d->q - 1) * d->stride_w + d->s <= d->w;
}

static void average_pool_row(const qn_conv2d_shape *d, const real *image, int64_t p, real *y) {
    real row[NARROW_ROW];
    const int64_t width = d->w * d->c;
    bool is_first = true;
    for (int64_t r = 0; r < d->r; r++) {
        const int64_t h = p * d->stride_h - d->pad_top + r * d->dilation_h;
        if (h < 0 || h >= d->h)
            continue;
        const real *restrict x = image + h * width;
        for (int64_t i = 0; i < width; i++)
            row[i] = is_first ? x[i] : row[i] + x[i];
        is_first = false;
    }
    if (!is_first) {
        average_windows(d, mean_factor(d, p, 0), row, y); /* every column is inside */
        return;
    }
    for (int64_t q = 0; q < d->q; q++)
        memset(y + q * y_stride_of(d), 0, (size_t)d->c * sizeof *y);
}

static void average_pool_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pool_context *m = context;
    const qn_conv2d_shape *d = m->shape;
    for (int64_t row = begin; row < end; row++) {
        const real *image = m->x + row / d->p * d->h * d->w * d->c;
        if (is_narrow_pool(d)) {
            average_pool_row(d, image, row % d->p, m->y + row * d->q * y_stride_of(d));
            continue;
        }
        for (int64_t q = 0; q < d->q; q++)
            average_pool_output(d, image, row % d->p, q, m->y + (row * d->q + q) * y_stride_of(d));
    }
}

static void average_pool(qn_team *team, const qn_conv2d_shape *shape, const void *x, void *y) {
    pool_context m = {.shape = shape, .x = x, .y = y};
    qn_team_run(team, shape->n * shape->p, average_pool_task, &m);
}

#endif
