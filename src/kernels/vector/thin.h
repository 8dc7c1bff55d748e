/* Forward convolution of stride 1 from few channels to few: a digit's first layer. Neither side
 * fills a vector, so the pixels of a row of outputs do. Each sample's channels are copied apart,
 * with their padding; a tile's rows are then the filters, its columns neighbouring pixels, and row
 * s of B is the image s floats further on. Each output is a sum over rows of taps and channels,
 * each a chain over a row's taps. */
#ifndef QN_KERNELS_VECTOR_THIN_H
#define QN_KERNELS_VECTOR_THIN_H

#include "kernels/vector/sliding.h"

static bool can_be_thin(const qn_conv2d_shape *d) {
    return d->groups == 1 && d->stride_h == 1 && d->stride_w == 1 && d->dilation_h == 1 &&
           d->dilation_w == 1 && d->k <= TILE_ROWS;
}

/* Floats of a row of one channel: what the last tile reads beyond the padding counts. */
static int64_t thin_width(const qn_conv2d_shape *d) {
    return padded(d->q) + d->s;
}

/* Floats of a thread: a sample's channels, and a row of outputs for each filter. */
static int64_t thin_scratch(const qn_conv2d_shape *d) {
    const int64_t rows = d->p + d->r - 1;
    return round_up(d->c * rows * thin_width(d), 16) + d->k * padded(d->q);
}

typedef struct thin_context {
    const qn_conv2d_shape *shape;
    const float *x, *bias;
    const float *w; /* (K, R, C, S) */
    qn_activation activation;
    float *y, *scratch;
} thin_context;

/* Row y of an image (H, W, C) into planes (C, rows, width) with the padding around it. */
static void thin_copy_row(const qn_conv2d_shape *d, const float *image, int64_t y, float *to,
                          int64_t plane) {
    const int64_t width = thin_width(d), inside = min_int(d->w, width - d->pad_left);
    const float *from = image + y * d->w * d->c;
    for (int64_t c = 0; c < d->c; c++, to += plane) {
        zero_floats(to, width);
        for (int64_t i = 0; y >= 0 && y < d->h && i < inside; i++)
            to[d->pad_left + i] = from[i * d->c + c];
    }
}

/* sums (K, padded Q) of a row of outputs whose taps begin at `planes`. */
static void thin_row(const thin_context *t, const float *planes, int64_t plane, float *sums) {
    const qn_conv2d_shape *d = t->shape;
    const int64_t columns = padded(d->q), filter = d->r * d->c * d->s;
    for (int64_t q = 0; q < columns; q += TILE_COLUMNS) {
        const int64_t vectors = min_int(TILE_COLUMNS, columns - q) / VL;
        qn_tile *tile = TILES[0][vectors - 1][d->k - 1];
        for (int64_t i = 0; i < d->r * d->c; i++)
            tile(d->s, t->w + i * d->s, filter,
                 planes + i / d->c * thin_width(d) + i % d->c * plane + q, 1, sums + q, columns,
                 i > 0);
    }
}

/* y (Q, K) = activation(sums (K, padded Q) + bias), transposed; the last filters, fewer than four,
 * go with those before them, which are written twice. */
static void thin_finish(const thin_context *t, float *sums, float *y) {
    const qn_conv2d_shape *d = t->shape;
    const int64_t columns = padded(d->q), quads = d->k / 4 * 4, step = y_stride_of(d);
    for (int64_t k = 0; k < d->k; k++) {
        for (int64_t q = 0; t->bias && q < columns; q++)
            sums[k * columns + q] += t->bias[k];
    }
    if (t->activation.kind != QN_ACTIVATION_NONE)
        finish_tile(t->activation, NULL, d->k, columns, sums, columns);
    transpose_block(sums, columns, quads, d->q, y, step, quads);
    if (quads < d->k) {
        const int64_t first = max_int(0, d->k - 4), rows = d->k - first;
        transpose_block(sums + first * columns, columns, rows, d->q, y + first, step, rows);
    }
}

/* A task is a sample. */
static void thin_task(void *context, int64_t begin, int64_t end, int thread) {
    const thin_context *t = context;
    const qn_conv2d_shape *d = t->shape;
    const int64_t rows = d->p + d->r - 1, plane = rows * thin_width(d);
    float *planes = t->scratch + thread * thin_scratch(d);
    float *sums = planes + round_up(d->c * plane, 16);
    for (int64_t n = begin; n < end; n++) {
        for (int64_t i = 0; i < rows; i++)
            thin_copy_row(d, t->x + n * d->h * d->w * d->c, i - d->pad_top,
                          planes + i * thin_width(d), plane);
        for (int64_t p = 0; p < d->p; p++) {
            thin_row(t, planes + p * thin_width(d), plane, sums);
            thin_finish(t, sums, t->y + (n * d->p + p) * d->q * y_stride_of(d));
        }
    }
}

/* Floats of workspace. */
static int64_t thin_workspace(const qn_conv2d_shape *d, int n_threads) {
    return round_up(d->k * d->r * d->c * d->s, 16) + n_threads * thin_scratch(d);
}

static void forward_thin(qn_team *team, const qn_conv2d_shape *d, const float *x, const float *w,
                         const float *bias, qn_activation activation, float *y, float *workspace) {
    const int64_t rows = d->k * d->r;
    for (int64_t i = 0; i < rows * d->c * d->s; i++) {
        const int64_t s = i % d->s, c = i / d->s % d->c, row = i / (d->s * d->c);
        workspace[i] = w[(row * d->s + s) * d->c + c];
    }
    thin_context t = {.shape = d,
                      .x = x,
                      .w = workspace,
                      .bias = bias,
                      .activation = activation,
                      .y = y,
                      .scratch = workspace + round_up(rows * d->c * d->s, 16)};
    qn_team_run(team, d->n, thin_task, &t);
}

#endif
