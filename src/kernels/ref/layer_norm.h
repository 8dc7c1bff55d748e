/* Layer norm of the rows of x (rows, C). A row's sums are made in lanes of doubles; squares are of
 * distances from the mean. Sums over rows, of the gradients of scale and shift, are made chunk by
 * chunk, and the chunks added in order, so that rows may be split between two. */
#ifndef QN_KERNELS_REF_LAYER_NORM_H
#define QN_KERNELS_REF_LAYER_NORM_H

#include "kernels/ref/lanes.h"
#include "kernels/ref/reductions.h"

typedef struct layer_norm_context {
    int64_t rows, c, chunk_rows;
    double epsilon;
    const real *x, *dy, *scale, *shift;
    real *mean, *inv_std; /* (rows) */
    real *y, *dx;
    real *partial; /* (chunks, 2, C): sums of dy times x normalised, and of dy */
} layer_norm_context;

/* The sum of the squares of x - mean. */
static double distances_of_row(int64_t n, const real *x, double mean) {
    double_lanes chains[DOUBLE_CHAINS] = {{0}};
    int64_t j = 0;
    for (; j + DOUBLE_STEP <= n; j += DOUBLE_STEP) {
#pragma GCC unroll 4
        for (int i = 0; i < DOUBLE_CHAINS; i++) {
            const double_lanes distance = DOUBLES_AT(x + j + i * DOUBLE_LANES) - mean;
            chains[i] += distance * distance;
        }
    }
    double rest = 0;
    for (; j < n; j++)
        rest += ((double)x[j] - mean) * ((double)x[j] - mean);
    return fold_sums(chains) + rest;
}

static void layer_norm_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const layer_norm_context *l = context;
    const int64_t bundle = rows_per_task(l->c), c = l->c;
    const real *scale = l->scale, *shift = l->shift;
    for (int64_t row = begin * bundle; row < min_int(l->rows, end * bundle); row++) {
        const real *x = l->x + row * c;
        real *y = l->y + row * c;
        const double middle = sum_of_row(c, x) / (double)c;
        const double variance = distances_of_row(c, x, middle) / (double)c;
        const real mean = (real)middle, inv_std = (real)(1 / sqrt(variance + l->epsilon));
        for (int64_t j = 0; j < c; j++)
            y[j] = (x[j] - mean) * inv_std * scale[j] + shift[j];
        l->mean[row] = mean;
        l->inv_std[row] = inv_std;
    }
}

static void layer_norm_forward(qn_team *team, int64_t rows, int64_t c, const void *x,
                               const void *scale_, const void *shift, double epsilon, void *y,
                               void *mean, void *inv_std) {
    layer_norm_context l = {.rows = rows,
                            .c = c,
                            .epsilon = epsilon,
                            .x = x,
                            .scale = scale_,
                            .shift = shift,
                            .mean = mean,
                            .inv_std = inv_std,
                            .y = y};
    qn_team_run(team, ceil_div(rows, rows_per_task(c)), layer_norm_task, &l);
}

/* Sums over a row of g = dy * scale and of g * (x - mean). */
static void layer_norm_sums(int64_t c, const real *x, const real *dy, const real *scale,
                            double mean, double *sum, double *dot) {
    double_lanes sums[DOUBLE_CHAINS] = {{0}}, dots[DOUBLE_CHAINS] = {{0}};
    int64_t j = 0;
    for (; j + DOUBLE_STEP <= c; j += DOUBLE_STEP) {
#pragma GCC unroll 4
        for (int i = 0; i < DOUBLE_CHAINS; i++) {
            const int64_t at = j + i * DOUBLE_LANES;
            const double_lanes g = DOUBLES_AT(dy + at) * DOUBLES_AT(scale + at);
            sums[i] += g;
            dots[i] += g * (DOUBLES_AT(x + at) - mean);
        }
    }
    *sum = *dot = 0;
    for (; j < c; j++) {
        *sum += (double)dy[j] * (double)scale[j];
        *dot += (double)dy[j] * (double)scale[j] * ((double)x[j] - mean);
    }
    *sum += fold_sums(sums);
    *dot += fold_sums(dots);
}

/* dx = inv_std * (g - mean of g - x normalised * mean of g * x normalised); may be in place of dy.
 */
static void layer_norm_row(const layer_norm_context *l, int64_t row) {
    const int64_t c = l->c;
    const real *x = l->x + row * c, *dy = l->dy + row * c, *scale = l->scale;
    const real mean = l->mean[row], inv_std = l->inv_std[row];
    real *dx = l->dx + row * c;
    double sum, dot;
    layer_norm_sums(c, x, dy, scale, (double)mean, &sum, &dot);
    const real term = (real)(sum / (double)c);
    const real tilt = (real)(dot / (double)c * (double)inv_std * (double)inv_std);
    for (int64_t j = 0; j < c; j++)
        dx[j] = inv_std * (dy[j] * scale[j] - term - (x[j] - mean) * tilt);
}

/* The two sums of rows [first, last) for a strip of columns. */
static void layer_norm_columns(const layer_norm_context *l, int64_t first, int64_t last,
                               int64_t column, int64_t width, real *partial) {
    double totals[2][FOLD_WIDTH] = {0};
    for (int64_t run = first; run < last; run += STRIP_RUN) {
        real parts[2][FOLD_WIDTH] = {0};
        for (int64_t row = run; row < min_int(last, run + STRIP_RUN); row++) {
            const real *restrict x = l->x + row * l->c + column;
            const real *restrict dy = l->dy + row * l->c + column;
            const real mean = l->mean[row], inv_std = l->inv_std[row];
            for (int64_t j = 0; j < width; j++) {
                parts[0][j] += dy[j] * ((x[j] - mean) * inv_std);
                parts[1][j] += dy[j];
            }
        }
        for (int64_t j = 0; j < width; j++) {
            totals[0][j] += (double)parts[0][j];
            totals[1][j] += (double)parts[1][j];
        }
    }
    for (int64_t j = 0; j < width; j++) {
        partial[column + j] = (real)totals[0][j];
        partial[l->c + column + j] = (real)totals[1][j];
    }
}

/* A task is a chunk of rows; its columns first, since dx may take the place of dy. */
static void layer_norm_backward_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const layer_norm_context *l = context;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        const int64_t first = chunk * l->chunk_rows;
        const int64_t last = min_int(l->rows, first + l->chunk_rows);
        for (int64_t column = 0; column < l->c; column += FOLD_WIDTH)
            layer_norm_columns(l, first, last, column, min_int(FOLD_WIDTH, l->c - column),
                               l->partial + chunk * 2 * l->c);
        for (int64_t row = first; row < last; row++)
            layer_norm_row(l, row);
    }
}

static int64_t layer_norm_chunk(int64_t c) {
    return power_below(fixed_chunk_rows(c));
}

static void layer_norm_backward(qn_team *team, int64_t rows, int64_t c, const void *x,
                                const void *dy, const void *scale_, const void *mean,
                                const void *inv_std, bool add, void *dx, void *dscale, void *dshift,
                                void *workspace) {
    layer_norm_context l = {.rows = rows,
                            .c = c,
                            .chunk_rows = layer_norm_chunk(c),
                            .x = x,
                            .dy = dy,
                            .scale = scale_,
                            .mean = (real *)mean,
                            .inv_std = (real *)inv_std,
                            .dx = dx,
                            .partial = workspace};
    const int64_t chunks = ceil_div(rows, l.chunk_rows);
    real *sums[2] = {dscale, dshift};
    qn_team_run(team, chunks, layer_norm_backward_task, &l);
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
        for (int i = 0; i < 2; i++) {
            const real *partial = l.partial + (chunk * 2 + i) * c;
            for (int64_t j = 0; j < c; j++)
                sums[i][j] = chunk > 0 || add ? sums[i][j] + partial[j] : partial[j];
        }
    }
}

static size_t layer_norm_workspace(int64_t rows, int64_t c, int n_threads) {
    (void)n_threads;
    return (size_t)(ceil_div(rows, layer_norm_chunk(c)) * 2 * c) * sizeof(real);
}

#endif
