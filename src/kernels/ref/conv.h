/* Convolution, through the tile of sums:
 *   forward          a block of output pixels, gathered into rows of R * S * C, times the filter
 *   backward data    a block of input pixels, gathered into rows of R * S * K, times the filter
 *   backward filter  for a tap and some of K: dy times x, over blocks of pixels; a chunk of the
 *                    batch is one sample
 * Depthwise filters (one channel a group) are done directly, along the channels. */
#ifndef QN_KERNELS_REF_CONV_H
#define QN_KERNELS_REF_CONV_H

#include "kernels/ref/elementwise.h"
#include "kernels/ref/pool.h"
#include "kernels/ref/tile.h"

enum {
    PIXELS = 16,        /* of a task, forward and backward data */
    FILTER_PIXELS = 64, /* of a block, backward filter */
    FILTER_ROWS = 32,   /* of K in a task, backward filter */
};

typedef struct conv_context {
    const qn_conv2d_shape *shape;
    int64_t c, k, taps; /* C and K of a group; R * S */
    bool is_backward;   /* data */
    const real *from, *w, *bias, *dy;
    qn_activation activation;
    real *to, *panels, *scratch;
    int64_t depth, width; /* of the product: channels gathered at a tap, channels made */
} conv_context;

static conv_context conv_init(const qn_conv2d_shape *d) {
    return (conv_context){
        .shape = d, .c = d->c / d->groups, .k = d->k / d->groups, .taps = d->r * d->s};
}

static bool is_depthwise(const qn_conv2d_shape *d) {
    return d->groups > 1 && d->c == d->groups;
}

static int64_t panels_of(const conv_context *v) {
    return ceil_div(v->width, NR);
}

/* panels (groups, panels, taps, depth, NR) from w (K, R, S, C / groups). A task is a panel. */
static void conv_pack_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const conv_context *v = context;
    const int64_t size = v->taps * v->depth * NR;
    for (int64_t task = begin; task < end; task++) {
        const int64_t group = task / panels_of(v), first = task % panels_of(v) * NR;
        const real *w = v->w + group * v->k * v->taps * v->c;
        const int64_t row = v->is_backward ? v->taps * v->c : 1;
        const int64_t column = v->is_backward ? 1 : v->taps * v->c;
        real *to = v->panels + task * size;
        memset(to, 0, (size_t)size * sizeof *to);
        for (int64_t tap = 0; tap < v->taps; tap++) {
            for (int64_t p = 0; p < v->depth; p++, to += NR) {
                const real *from = w + tap * v->c + p * row + first * column;
                for (int64_t j = 0; j < min_int(NR, v->width - first); j++)
                    to[j] = from[j * column];
            }
        }
    }
}

/* patch (taps, depth): what meets the filter at an output (forward) or input pixel (backward). */
static void conv_gather(const conv_context *v, int64_t pixel, int64_t group, real *patch) {
    const qn_conv2d_shape *d = v->shape;
    const int64_t rows = v->is_backward ? d->h : d->p, columns = v->is_backward ? d->w : d->q;
    const int64_t n = pixel / (rows * columns), i = pixel / columns % rows, j = pixel % columns;
    const int64_t from_rows = v->is_backward ? d->p : d->h;
    const int64_t from_columns = v->is_backward ? d->q : d->w;
    const int64_t step = v->is_backward ? y_stride_of(d) : d->c;
    for (int64_t r = 0; r < d->r; r++) {
        for (int64_t s = 0; s < d->s; s++, patch += v->depth) {
            int64_t y = i * d->stride_h - d->pad_top + r * d->dilation_h;
            int64_t x = j * d->stride_w - d->pad_left + s * d->dilation_w;
            bool inside = y >= 0 && y < from_rows && x >= 0 && x < from_columns;
            if (v->is_backward)
                inside = window_of(i, r, d->stride_h, d->pad_top, d->dilation_h, d->p, &y) &&
                         window_of(j, s, d->stride_w, d->pad_left, d->dilation_w, d->q, &x);
            if (!inside)
                memset(patch, 0, (size_t)v->depth * sizeof *patch);
            else
                memcpy(patch,
                       v->from + ((n * from_rows + y) * from_columns + x) * step + group * v->depth,
                       (size_t)v->depth * sizeof *patch);
        }
    }
}

/* Up to PIXELS pixels of one group. */
static void conv_block(const conv_context *v, int64_t first, int64_t pixels, int64_t group,
                       real *patches) {
    const int64_t depth = v->taps * v->depth;
    const int64_t step = v->is_backward ? v->shape->c : y_stride_of(v->shape);
    real sums[MR * NR];
    for (int64_t i = 0; i < pixels; i++)
        conv_gather(v, first + i, group, patches + i * depth);
    for (int64_t panel = 0; panel < panels_of(v); panel++) {
        const real *b = v->panels + (group * panels_of(v) + panel) * depth * NR;
        const int64_t j = panel * NR, columns = min_int(NR, v->width - j);
        for (int64_t i = 0; i < pixels; i += MR) {
            const real *a[MR];
            for (int64_t y = 0; y < MR; y++)
                a[y] = patches + min_int(i + y, pixels - 1) * depth;
            sum_tile(depth, a, 1, b, NR, false, sums);
            for (int64_t y = 0; y < min_int(MR, pixels - i); y++) {
                real *row = sums + y * NR;
                for (int64_t x = 0; v->bias && x < columns; x++)
                    row[x] += v->bias[group * v->width + j + x];
                activate_row(v->activation, columns, row,
                             v->to + (first + i + y) * step + group * v->width + j);
            }
        }
    }
}

static void conv_task(void *context, int64_t begin, int64_t end, int thread) {
    const conv_context *v = context;
    const qn_conv2d_shape *d = v->shape;
    const int64_t n_pixels = v->is_backward ? d->n * d->h * d->w : d->n * d->p * d->q;
    real *patches = v->scratch + thread * PIXELS * v->taps * v->depth;
    for (int64_t task = begin; task < end; task++) {
        const int64_t first = task * PIXELS;
        for (int64_t group = 0; group < d->groups; group++)
            conv_block(v, first, min_int(PIXELS, n_pixels - first), group, patches);
    }
}

static void run_conv(qn_team *team, conv_context *v, int64_t n_pixels, real *workspace) {
    v->panels = workspace;
    v->scratch = workspace + v->shape->groups * panels_of(v) * v->taps * v->depth * NR;
    qn_team_run(team, v->shape->groups * panels_of(v), conv_pack_task, v);
    qn_team_run(team, ceil_div(n_pixels, PIXELS), conv_task, v);
}

/* ---- depthwise ---- */

/* One row of outputs; channels are the inner loop. */
static void depthwise_forward_row(const conv_context *v, int64_t n, int64_t p) {
    const qn_conv2d_shape *d = v->shape;
    for (int64_t q = 0; q < d->q; q++) {
        real *restrict y = v->to + ((n * d->p + p) * d->q + q) * y_stride_of(d);
        for (int64_t k = 0; k < d->k; k++)
            y[k] = v->bias ? v->bias[k] : 0;
        for (int64_t tap = 0; tap < v->taps; tap++) {
            const int64_t h = p * d->stride_h - d->pad_top + tap / d->s * d->dilation_h;
            const int64_t w = q * d->stride_w - d->pad_left + tap % d->s * d->dilation_w;
            if (h < 0 || h >= d->h || w < 0 || w >= d->w)
                continue;
            const real *restrict x = v->from + ((n * d->h + h) * d->w + w) * d->c;
            const real *restrict filter = v->panels + tap * d->k;
            if (v->k == 1) {
                for (int64_t k = 0; k < d->k; k++)
                    y[k] += x[k] * filter[k];
            } else {
                for (int64_t k = 0; k < d->k; k++)
                    y[k] += x[k / v->k] * filter[k];
            }
        }
        activate_row(v->activation, d->k, y, y);
    }
}

static void depthwise_backward_row(const conv_context *v, int64_t n, int64_t h) {
    const qn_conv2d_shape *d = v->shape;
    for (int64_t w = 0; w < d->w; w++) {
        real *restrict dx = v->to + ((n * d->h + h) * d->w + w) * d->c;
        memset(dx, 0, (size_t)d->c * sizeof *dx);
        for (int64_t tap = 0; tap < v->taps; tap++) {
            int64_t p, q;
            if (!window_of(h, tap / d->s, d->stride_h, d->pad_top, d->dilation_h, d->p, &p) ||
                !window_of(w, tap % d->s, d->stride_w, d->pad_left, d->dilation_w, d->q, &q))
                continue;
            const real *restrict dy = v->from + ((n * d->p + p) * d->q + q) * y_stride_of(d);
            const real *restrict filter = v->panels + tap * d->k;
            if (v->k == 1) {
                for (int64_t c = 0; c < d->c; c++)
                    dx[c] += dy[c] * filter[c];
            } else {
                for (int64_t k = 0; k < d->k; k++)
                    dx[k / v->k] += dy[k] * filter[k];
            }
        }
    }
}

static void depthwise_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const conv_context *v = context;
    for (int64_t row = begin; row < end; row++) {
        if (v->is_backward)
            depthwise_backward_row(v, row / v->shape->h, row % v->shape->h);
        else
            depthwise_forward_row(v, row / v->shape->p, row % v->shape->p);
    }
}

/* The filter (K, R, S) is turned to (R, S, K) first. */
static void run_depthwise(qn_team *team, conv_context *v, int64_t rows, real *workspace) {
    v->panels = workspace;
    for (int64_t tap = 0; tap < v->taps; tap++) {
        for (int64_t k = 0; k < v->shape->k; k++)
            v->panels[tap * v->shape->k + k] = v->w[k * v->taps + tap];
    }
    qn_team_run(team, rows, depthwise_task, v);
}

/* sums (K) of one sample's x * dy at one tap. */
static void depthwise_filter_sample(const conv_context *v, int64_t n, int64_t tap,
                                    real *restrict sums) {
    const qn_conv2d_shape *d = v->shape;
    memset(sums, 0, (size_t)d->k * sizeof *sums);
    for (int64_t p = 0; p < d->p; p++) {
        const int64_t h = p * d->stride_h - d->pad_top + tap / d->s * d->dilation_h;
        for (int64_t q = 0; h >= 0 && h < d->h && q < d->q; q++) {
            const int64_t w = q * d->stride_w - d->pad_left + tap % d->s * d->dilation_w;
            if (w < 0 || w >= d->w)
                continue;
            const real *restrict x = v->from + ((n * d->h + h) * d->w + w) * d->c;
            const real *restrict dy = v->dy + ((n * d->p + p) * d->q + q) * y_stride_of(d);
            if (v->k == 1) {
                for (int64_t k = 0; k < d->k; k++)
                    sums[k] += x[k] * dy[k];
            } else {
                for (int64_t k = 0; k < d->k; k++)
                    sums[k] += x[k / v->k] * dy[k];
            }
        }
    }
}

/* A task is a tap. */
static void depthwise_filter_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const conv_context *v = context;
    const int64_t channels = v->shape->k;
    for (int64_t tap = begin; tap < end; tap++) {
        real *total = v->scratch + tap * 2 * channels, *sums = total + channels;
        memset(total, 0, (size_t)channels * sizeof *total);
        for (int64_t n = 0; n < v->shape->n; n++) {
            depthwise_filter_sample(v, n, tap, sums);
            for (int64_t k = 0; k < channels; k++)
                total[k] += sums[k];
        }
        for (int64_t k = 0; k < channels; k++)
            v->to[k * v->taps + tap] = total[k];
    }
}

/* ---- backward filter ---- */

static int64_t filter_blocks(const conv_context *v) {
    return ceil_div(v->k, FILTER_ROWS);
}

/* Thread scratch: sums and total (FILTER_ROWS, columns), x (FILTER_PIXELS, columns),
 * dy (FILTER_PIXELS, FILTER_ROWS); columns = C of a group, rounded up to NR. */
static int64_t filter_scratch(const conv_context *v) {
    return (2 * FILTER_ROWS + FILTER_PIXELS) * round_up(v->c, NR) + FILTER_PIXELS * FILTER_ROWS;
}

/* Copies what meets at a tap over pixels [first, first + pixels) of sample n; x is zero outside. */
static void filter_gather(const conv_context *v, int64_t n, int64_t first, int64_t pixels,
                          int64_t tap, int64_t k, int64_t rows, int64_t group, real *x, real *dy) {
    const qn_conv2d_shape *d = v->shape;
    const int64_t columns = round_up(v->c, NR);
    for (int64_t i = 0; i < pixels; i++, x += columns, dy += FILTER_ROWS) {
        const int64_t p = (first + i) / d->q, q = (first + i) % d->q;
        const int64_t h = p * d->stride_h - d->pad_top + tap / d->s * d->dilation_h;
        const int64_t w = q * d->stride_w - d->pad_left + tap % d->s * d->dilation_w;
        memset(x, 0, (size_t)columns * sizeof *x);
        if (h >= 0 && h < d->h && w >= 0 && w < d->w)
            memcpy(x, v->from + ((n * d->h + h) * d->w + w) * d->c + group * v->c,
                   (size_t)v->c * sizeof *x);
        memset(dy, 0, FILTER_ROWS * sizeof *dy);
        memcpy(dy, v->dy + ((n * d->p + p) * d->q + q) * y_stride_of(d) + group * v->k + k,
               (size_t)rows * sizeof *dy);
    }
}

static void filter_sample(const conv_context *v, int64_t n, int64_t tap, int64_t k, int64_t group,
                          real *scratch) {
    const int64_t columns = round_up(v->c, NR), rows = min_int(FILTER_ROWS, v->k - k);
    const int64_t pixels = v->shape->p * v->shape->q;
    real *sums = scratch, *x = scratch + 2 * FILTER_ROWS * columns;
    real *dy = x + FILTER_PIXELS * columns, part[MR * NR];
    memset(sums, 0, (size_t)(FILTER_ROWS * columns) * sizeof *sums);
    for (int64_t first = 0; first < pixels; first += FILTER_PIXELS) {
        const int64_t count = min_int(FILTER_PIXELS, pixels - first);
        filter_gather(v, n, first, count, tap, k, rows, group, x, dy);
        for (int64_t i = 0; i < rows; i += MR) {
            const real *a[MR] = {dy + i, dy + i + 1, dy + i + 2, dy + i + 3};
            for (int64_t j = 0; j < columns; j += NR) {
                sum_tile(count, a, FILTER_ROWS, x + j, columns, false, part);
                for (int64_t e = 0; e < MR * NR; e++)
                    sums[(i + e / NR) * columns + j + e % NR] += part[e];
            }
        }
    }
}

/* The gradient (C of a group) of output channel k at a tap. */
static real *filter_row_of(const conv_context *v, int64_t k, int64_t tap) {
    return v->to + (k * v->taps + tap) * v->c;
}

/* A task is a tap and FILTER_ROWS of a group's K. */
static void filter_task(void *context, int64_t begin, int64_t end, int thread) {
    const conv_context *v = context;
    const int64_t columns = round_up(v->c, NR), blocks = filter_blocks(v);
    real *sums = v->scratch + thread * filter_scratch(v), *total = sums + FILTER_ROWS * columns;
    for (int64_t task = begin; task < end; task++) {
        const int64_t tap = task % v->taps, k = task / v->taps % blocks * FILTER_ROWS;
        const int64_t group = task / v->taps / blocks;
        const int64_t rows = min_int(FILTER_ROWS, v->k - k);
        memset(total, 0, (size_t)(FILTER_ROWS * columns) * sizeof *total);
        for (int64_t i = 0; v->shape->add && i < rows; i++)
            memcpy(total + i * columns, filter_row_of(v, group * v->k + k + i, tap),
                   (size_t)v->c * sizeof *total);
        for (int64_t n = 0; n < v->shape->n; n++) {
            filter_sample(v, n, tap, k, group, sums);
            for (int64_t e = 0; e < FILTER_ROWS * columns; e++)
                total[e] += sums[e];
        }
        for (int64_t i = 0; i < rows; i++)
            memcpy(filter_row_of(v, group * v->k + k + i, tap), total + i * columns,
                   (size_t)v->c * sizeof *total);
    }
}

/* ---- entries ---- */

static void conv2d_forward(qn_team *team, const qn_conv2d_shape *shape, const void *x,
                           const void *w, const void *bias_, qn_activation activation, void *y,
                           void *workspace) {
    conv_context v = conv_init(shape);
    v.from = x;
    v.w = w;
    v.bias = bias_;
    v.activation = activation;
    v.to = y;
    v.depth = v.c;
    v.width = v.k;
    if (is_depthwise(shape))
        run_depthwise(team, &v, shape->n * shape->p, workspace);
    else
        run_conv(team, &v, shape->n * shape->p * shape->q, workspace);
}

static void conv2d_backward_data(qn_team *team, const qn_conv2d_shape *shape, const void *dy,
                                 const void *w, void *dx, void *workspace) {
    conv_context v = conv_init(shape);
    v.is_backward = true;
    v.from = dy;
    v.w = w;
    v.to = dx;
    v.depth = v.k;
    v.width = v.c;
    if (is_depthwise(shape))
        run_depthwise(team, &v, shape->n * shape->h, workspace);
    else
        run_conv(team, &v, shape->n * shape->h * shape->w, workspace);
}

static void conv2d_backward_filter(qn_team *team, const qn_conv2d_shape *shape, const void *x,
                                   const void *dy, void *dw, void *workspace) {
    conv_context v = conv_init(shape);
    v.from = x;
    v.dy = dy;
    v.to = dw;
    v.scratch = workspace;
    if (is_depthwise(shape))
        qn_team_run(team, v.taps, depthwise_filter_task, &v);
    else
        qn_team_run(team, v.taps * filter_blocks(&v) * shape->groups, filter_task, &v);
}

/* Chunks are samples; depthwise sums are made in one call. */
static __attribute__((unused)) int64_t conv2d_filter_chunk(const qn_conv2d_shape *shape) {
    return is_depthwise(shape) ? 0 : 1;
}

static size_t conv2d_workspace(const qn_conv2d_shape *shape, qn_conv2d_pass pass, int n_threads) {
    conv_context v = conv_init(shape);
    v.depth = pass == QN_CONV2D_FORWARD ? v.c : v.k;
    v.width = pass == QN_CONV2D_FORWARD ? v.k : v.c;
    int64_t count;
    if (is_depthwise(shape))
        count = 2 * shape->k * v.taps;
    else if (pass == QN_CONV2D_BACKWARD_FILTER)
        count = n_threads * filter_scratch(&v);
    else
        count = (shape->groups * panels_of(&v) * NR + n_threads * PIXELS) * v.taps * v.depth;
    return (size_t)count * sizeof(real);
}

#endif
