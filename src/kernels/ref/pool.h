/* Pooling. Forward, a task is a row of outputs; backward, a row of inputs, which gathers from the
 * windows that hold it, so that no two tasks write one place. Inner loops run over channels. */
#ifndef QN_KERNELS_REF_POOL_H
#define QN_KERNELS_REF_POOL_H

#include "kernels/ref/real.h"

enum { POOL_BLOCK = 128 };

typedef struct pool_context {
    const qn_conv2d_shape *shape;
    const real *x;
    real *y;
    uint16_t *index;
    const uint16_t *index_in;
} pool_context;

/* Up to POOL_BLOCK channels of one output of max pooling. */
static void max_pool_block(const qn_conv2d_shape *d, const real *image, int64_t p, int64_t q,
                           int64_t c, int64_t width, real *y, uint16_t *index) {
    real best[POOL_BLOCK];
    real_int position[POOL_BLOCK];
    bool is_first = true;
    for (int64_t r = 0; r < d->r; r++) {
        int64_t h = p * d->stride_h - d->pad_top + r * d->dilation_h;
        if (h < 0 || h >= d->h)
            continue;
        for (int64_t s = 0; s < d->s; s++) {
            int64_t w = q * d->stride_w - d->pad_left + s * d->dilation_w;
            if (w < 0 || w >= d->w)
                continue;
            const real *x = image + (h * d->w + w) * d->c + c;
            const real_int tap = (real_int)(r * d->s + s);
            if (is_first) {
                for (int64_t j = 0; j < width; j++) {
                    best[j] = x[j];
                    position[j] = tap;
                }
                is_first = false;
                continue;
            }
            for (int64_t j = 0; j < width; j++) {
                bool better = (x[j] > best[j]) | (x[j] != x[j]);
                best[j] = better ? x[j] : best[j];
                position[j] = better ? tap : position[j];
            }
        }
    }
    for (int64_t j = 0; j < width; j++) {
        y[j] = is_first ? 0 : best[j];
        index[j] = is_first ? 0 : (uint16_t)position[j];
    }
}

static void max_pool_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pool_context *m = context;
    const qn_conv2d_shape *d = m->shape;
    for (int64_t row = begin; row < end; row++) {
        const real *image = m->x + row / d->p * d->h * d->w * d->c;
        for (int64_t q = 0; q < d->q; q++) {
            const int64_t pixel = row * d->q + q;
            for (int64_t c = 0; c < d->c; c += POOL_BLOCK)
                max_pool_block(d, image, row % d->p, q, c, min_int(POOL_BLOCK, d->c - c),
                               m->y + pixel * y_step_of(d) + c, m->index + pixel * d->c + c);
        }
    }
}

static void max_pool(qn_team *team, const qn_conv2d_shape *shape, const void *x, void *y,
                     uint16_t *index) {
    pool_context m = {.shape = shape, .x = x, .y = y, .index = index};
    qn_team_run(team, shape->n * shape->p, max_pool_task, &m);
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

/* Elements of window number p of an axis that lie inside of the image. */
static int64_t inside_taps(int64_t p, int64_t taps, int64_t stride, int64_t pad, int64_t dilation,
                           int64_t extent) {
    int64_t n = 0;
    for (int64_t tap = 0; tap < taps; tap++) {
        const int64_t at = p * stride - pad + tap * dilation;
        n += at >= 0 && at < extent;
    }
    return n;
}

/* What a sum over a window is multiplied with to be its mean. */
static real mean_factor(const qn_conv2d_shape *d, int64_t p, int64_t q) {
    int64_t taps = d->r * d->s;
    if (d->inside)
        taps = inside_taps(p, d->r, d->stride_h, d->pad_top, d->dilation_h, d->h) *
               inside_taps(q, d->s, d->stride_w, d->pad_left, d->dilation_w, d->w);
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
                    pool_pass_back(d->c, m->x + pixel * y_step_of(d),
                                   m->index_in ? m->index_in + pixel * d->c : NULL,
                                   (uint16_t)(r * d->s + s), m->index_in ? 1 : mean_factor(d, p, q),
                                   row + w * d->c);
            }
        }
    }
}

static void pool_backward_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pool_context *m = context;
    for (int64_t row = begin; row < end; row++)
        pool_backward_row(m, row / m->shape->h, row % m->shape->h);
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
    for (int64_t q = 0; q < d->q; q++, row += d->stride_w * d->c, y += y_step_of(d)) {
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
        memset(y + q * y_step_of(d), 0, (size_t)d->c * sizeof *y);
}

static void average_pool_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pool_context *m = context;
    const qn_conv2d_shape *d = m->shape;
    for (int64_t row = begin; row < end; row++) {
        const real *image = m->x + row / d->p * d->h * d->w * d->c;
        if (is_narrow_pool(d)) {
            average_pool_row(d, image, row % d->p, m->y + row * d->q * y_step_of(d));
            continue;
        }
        for (int64_t q = 0; q < d->q; q++)
            average_pool_output(d, image, row % d->p, q, m->y + (row * d->q + q) * y_step_of(d));
    }
}

static void average_pool(qn_team *team, const qn_conv2d_shape *shape, const void *x, void *y) {
    pool_context m = {.shape = shape, .x = x, .y = y};
    qn_team_run(team, shape->n * shape->p, average_pool_task, &m);
}

#endif
