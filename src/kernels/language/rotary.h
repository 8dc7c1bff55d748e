/* Rotary positions: pairs of numbers of each head of x (rows, H, D) are turned by an angle, whose
 * cosine and sine are in the row `position` of two tables (P, R / 2). */
#ifndef QN_KERNELS_LANGUAGE_ROTARY_H
#define QN_KERNELS_LANGUAGE_ROTARY_H

#include "kernels/language/tasks.h"

typedef struct rotary_context {
    const qn_rotary_shape *shape;
    const real *x, *cosines, *sines;
    const int32_t *positions;
    real *y;
} rotary_context;

static void rotate_head(const qn_rotary_shape *d, const real *x, const real *cosines,
                        const real *sines, real *y) {
    const int64_t half = d->r / 2, apart = d->neighbours ? 1 : half, step = d->neighbours ? 2 : 1;
    const real sign = d->backwards ? -1 : 1;
    for (int64_t j = 0; j < half; j++) {
        const real a = x[j * step], b = x[j * step + apart], s = sines[j] * sign;
        y[j * step] = a * cosines[j] - b * s;
        y[j * step + apart] = b * cosines[j] + a * s;
    }
    for (int64_t j = d->r; j < d->d && y != x; j++)
        y[j] = x[j];
}

static void rotary_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const rotary_context *r = context;
    const qn_rotary_shape *d = r->shape;
    const int64_t c = d->h * d->d, bundle = task_rows(c);
    for (int64_t row = begin * bundle; row < min_int(d->rows, end * bundle); row++) {
        const int64_t position = r->positions ? r->positions[row] : row % d->t;
        const int64_t at = max_int(0, min_int(position, d->table_rows - 1)) * (d->r / 2);
        for (int64_t head = 0; head < d->h; head++)
            rotate_head(d, r->x + row * c + head * d->d, r->cosines + at, r->sines + at,
                        r->y + row * c + head * d->d);
    }
}

static void rotary(qn_team *team, const qn_rotary_shape *shape, const void *x, const void *cosines,
                   const void *sines, const int32_t *positions, void *y) {
    rotary_context r = {shape, x, cosines, sines, positions, y};
    qn_team_run(team, ceil_div(shape->rows, task_rows(shape->h * shape->d)), rotary_task, &r);
}

#endif
