/* Root mean square norm of the rows of x (rows, C): squares are summed in lanes of doubles. The
 * gradient makes a row's root again, which costs less than keeping it. */
#ifndef QN_KERNELS_LANGUAGE_RMS_NORM_H
#define QN_KERNELS_LANGUAGE_RMS_NORM_H

#include "kernels/language/tasks.h"
#include "kernels/ref/lanes.h"

typedef struct rms_norm_context {
    int64_t rows, c;
    double epsilon;
    real offset;
    const real *x, *dy, *scale;
    real *y;
} rms_norm_context;

/* 1 / sqrt(mean of the squares + epsilon). */
static double inverse_root(int64_t c, const real *x, double epsilon) {
    return 1 / sqrt(dot_of_rows(c, x, x) / (double)c + epsilon);
}

static void rms_norm_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const rms_norm_context *r = context;
    const int64_t bundle = task_rows(r->c), c = r->c;
    const real *scale = r->scale, offset = r->offset;
    for (int64_t row = begin * bundle; row < min_int(r->rows, end * bundle); row++) {
        const real *x = r->x + row * c;
        const real factor = (real)inverse_root(c, x, r->epsilon);
        real *y = r->y + row * c;
        if (!scale) {
            for (int64_t j = 0; j < c; j++)
                y[j] = x[j] * factor;
            continue;
        }
        for (int64_t j = 0; j < c; j++)
            y[j] = x[j] * factor * (scale[j] + offset);
    }
}

static void rms_norm_forward(qn_team *team, int64_t rows, int64_t c, const void *x,
                             const void *scale_, double offset, double epsilon, void *y) {
    rms_norm_context r = {.rows = rows,
                          .c = c,
                          .epsilon = epsilon,
                          .offset = (real)offset,
                          .x = x,
                          .scale = scale_,
                          .y = y};
    qn_team_run(team, ceil_div(rows, task_rows(c)), rms_norm_task, &r);
}

/* The sum over a row of dy * (scale + offset) * x. */
static double rms_norm_dot(const rms_norm_context *r, const real *x, const real *dy) {
    double_lanes dots[DOUBLE_CHAINS] = {{0}};
    const int64_t c = r->c;
    double rest = 0;
    int64_t j = 0;
    if (!r->scale)
        return dot_of_rows(c, x, dy);
    for (; j + DOUBLE_STEP <= c; j += DOUBLE_STEP) {
#pragma GCC unroll 4
        for (int i = 0; i < DOUBLE_CHAINS; i++) {
            const int64_t at = j + i * DOUBLE_LANES;
            const double_lanes scale = DOUBLES_AT(r->scale + at) + (double)r->offset;
            dots[i] += DOUBLES_AT(dy + at) * scale * DOUBLES_AT(x + at);
        }
    }
    for (; j < c; j++)
        rest += (double)dy[j] * ((double)r->scale[j] + (double)r->offset) * (double)x[j];
    return fold_sums(dots) + rest;
}

/* dx = factor * (g - x * factor^2 * mean of g * x), where g = dy * (scale + offset); may be in
 * place of dy. */
static void rms_norm_backward_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const rms_norm_context *r = context;
    const int64_t bundle = task_rows(r->c), c = r->c;
    const real *scale = r->scale, offset = r->offset;
    for (int64_t row = begin * bundle; row < min_int(r->rows, end * bundle); row++) {
        const real *x = r->x + row * c, *dy = r->dy + row * c;
        const double inverse = inverse_root(c, x, r->epsilon);
        const real factor = (real)inverse;
        const real tilt = (real)(rms_norm_dot(r, x, dy) / (double)c * inverse * inverse);
        real *dx = r->y + row * c;
        for (int64_t j = 0; j < c; j++)
            dx[j] = factor * ((scale ? dy[j] * (scale[j] + offset) : dy[j]) - x[j] * tilt);
    }
}

static void rms_norm_backward(qn_team *team, int64_t rows, int64_t c, const void *x, const void *dy,
                              const void *scale_, double offset, double epsilon, void *dx) {
    rms_norm_context r = {.rows = rows,
                          .c = c,
                          .epsilon = epsilon,
                          .offset = (real)offset,
                          .x = x,
                          .dy = dy,
                          .scale = scale_,
                          .y = dx};
    qn_team_run(team, ceil_div(rows, task_rows(c)), rms_norm_backward_task, &r);
}

#endif
