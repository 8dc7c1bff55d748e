/* Max pooling of int8 and its gradient: plain loops over blocks of channels, which are the
 * specification and, compiled with the flags of a set, that set's kernels. */
#ifndef QN_KERNELS_INTEGER_POOL_H
#define QN_KERNELS_INTEGER_POOL_H

#include "kernels/integer.h"

#include <string.h>

enum { POOL_CHANNELS = 64 };

typedef struct int8_pool {
    const qn_conv2d_shape *d;
    const int8_t *from;
    const uint16_t *index_in;
    int8_t *to;
    uint16_t *index;
} int8_pool;

static inline int64_t pool_step(const qn_conv2d_shape *d) {
    return d->y_stride ? d->y_stride : d->c;
}

/* n channels of a window's largest so far against those of a tap. */
static inline __attribute__((always_inline)) void pool_tap(int64_t n, const int8_t *x, uint16_t tap,
                                                           int8_t *restrict best,
                                                           uint16_t *restrict number) {
    for (int64_t j = 0; j < n; j++) {
        const uint16_t is_more = (uint16_t) - (x[j] > best[j]);
        number[j] = (uint16_t)((tap & is_more) | (number[j] & ~is_more));
        best[j] = x[j] > best[j] ? x[j] : best[j];
    }
}

/* Channels [c, c + n) of output (i, p, q). A window beyond the image gives 0. */
static void pool_window(const int8_pool *m, int64_t i, int64_t p, int64_t q, int64_t c, int64_t n,
                        int8_t *best, uint16_t *number) {
    const qn_conv2d_shape *d = m->d;
    bool is_first = true;
    memset(best, 0, POOL_CHANNELS);
    memset(number, 0, POOL_CHANNELS * sizeof *number);
    for (int64_t r = 0; r < d->r; r++) {
        const int64_t y = p * d->stride_h + r * d->dilation_h - d->pad_top;
        for (int64_t s = 0; s < d->s && y >= 0 && y < d->h; s++) {
            const int64_t x = q * d->stride_w + s * d->dilation_w - d->pad_left;
            const int8_t *at = m->from + ((i * d->h + y) * d->w + x) * d->c + c;
            const uint16_t tap = (uint16_t)(r * d->s + s);
            if (x < 0 || x >= d->w)
                continue;
            if (is_first) {
                memcpy(best, at, (size_t)n);
                for (int64_t j = 0; j < n; j++)
                    number[j] = tap;
                is_first = false;
            } else if (n == POOL_CHANNELS) {
                pool_tap(POOL_CHANNELS, at, tap, best, number);
            } else {
                pool_tap(n, at, tap, best, number);
            }
        }
    }
}

static void pool_task(void *context, int64_t begin, int64_t end, int thread) {
    const int8_pool *m = context;
    const qn_conv2d_shape *d = m->d;
    int8_t best[POOL_CHANNELS];
    uint16_t number[POOL_CHANNELS];
    (void)thread;
    for (int64_t pixel = begin * d->q; pixel < end * d->q; pixel++) {
        for (int64_t c = 0; c < d->c; c += POOL_CHANNELS) {
            const int64_t n = d->c - c < POOL_CHANNELS ? d->c - c : POOL_CHANNELS;
            pool_window(m, pixel / d->q / d->p, pixel / d->q % d->p, pixel % d->q, c, n, best,
                        number);
            memcpy(m->to + pixel * pool_step(d) + c, best, (size_t)n);
            memcpy(m->index + pixel * d->c + c, number, (size_t)n * sizeof *number);
        }
    }
}

static void int8_max_pool(qn_team *team, const qn_conv2d_shape *shape, const int8_t *x, int8_t *y,
                          uint16_t *index) {
    int8_pool m = {.d = shape, .from = x, .to = y, .index = index};
    qn_team_run(team, shape->n * shape->p, pool_task, &m);
}

static inline __attribute__((always_inline)) void pool_pass(int64_t n, const int8_t *dy,
                                                            const uint16_t *index, uint16_t tap,
                                                            int16_t *restrict sums) {
    for (int64_t j = 0; j < n; j++) {
        const int16_t is_passed = (int16_t) - (index[j] == tap);
        sums[j] = (int16_t)(sums[j] + (dy[j] & is_passed));
    }
}

/* Adds what output pixel `out` passes to its tap; 256 windows at most reach an int16's end. */
static void pool_add(const int8_pool *m, int64_t out, uint16_t tap, int64_t c, int64_t n,
                     int16_t *sums) {
    const int8_t *dy = m->from + out * pool_step(m->d) + c;
    const uint16_t *index = m->index_in + out * m->d->c + c;
    if (n == POOL_CHANNELS)
        pool_pass(POOL_CHANNELS, dy, index, tap, sums);
    else
        pool_pass(n, dy, index, tap, sums);
    for (int64_t j = 0; m->d->r * m->d->s > 256 && j < n; j++)
        sums[j] = sums[j] > 16000 ? 16000 : sums[j] < -16000 ? -16000 : sums[j];
}

/* Channels [c, c + n) of input (i, y, x): the output that a tap is of, if there is one. */
static void pool_input(const int8_pool *m, int64_t i, int64_t y, int64_t x, int64_t c, int64_t n,
                       int16_t *sums) {
    const qn_conv2d_shape *d = m->d;
    memset(sums, 0, POOL_CHANNELS * sizeof *sums);
    for (int64_t r = 0; r < d->r; r++) {
        const int64_t p = y + d->pad_top - r * d->dilation_h;
        if (p < 0 || p % d->stride_h != 0 || p / d->stride_h >= d->p)
            continue;
        for (int64_t s = 0; s < d->s; s++) {
            const int64_t q = x + d->pad_left - s * d->dilation_w;
            if (q >= 0 && q % d->stride_w == 0 && q / d->stride_w < d->q)
                pool_add(m, (i * d->p + p / d->stride_h) * d->q + q / d->stride_w,
                         (uint16_t)(r * d->s + s), c, n, sums);
        }
    }
}

static void pool_backward_task(void *context, int64_t begin, int64_t end, int thread) {
    const int8_pool *m = context;
    const qn_conv2d_shape *d = m->d;
    int16_t sums[POOL_CHANNELS];
    (void)thread;
    for (int64_t pixel = begin * d->w; pixel < end * d->w; pixel++) {
        for (int64_t c = 0; c < d->c; c += POOL_CHANNELS) {
            const int64_t n = d->c - c < POOL_CHANNELS ? d->c - c : POOL_CHANNELS;
            int8_t *dx = m->to + pixel * d->c + c;
            pool_input(m, pixel / d->w / d->h, pixel / d->w % d->h, pixel % d->w, c, n, sums);
            for (int64_t j = 0; j < n; j++)
                dx[j] = (int8_t)(sums[j] < -127 ? -127 : sums[j] > 127 ? 127 : sums[j]);
        }
    }
}

static void int8_max_pool_backward(qn_team *team, const qn_conv2d_shape *shape, const int8_t *dy,
                                   const uint16_t *index, int8_t *dx) {
    int8_pool m = {.d = shape, .from = dy, .index_in = index, .to = dx};
    qn_team_run(team, shape->n * shape->h, pool_backward_task, &m);
}

#endif
