/* Convolution of stride 1 to few output channels: the rows of a gathered window would cost about as
 * much to write as the product. Here a band of the image is copied once, with its padding. In it
 * the window of the next pixel is C floats further on, so that tiles read one row of taps at a time
 * straight from the copy. Backward to the data is the same of dy, with the filter turned round. The
 * bands and the chunks follow from the shape of one sample and the instruction set. */
#ifndef QN_KERNELS_VECTOR_SLIDING_H
#define QN_KERNELS_VECTOR_SLIDING_H

#include "kernels/vector/product.h"

enum {
    SLIDING_COLUMNS = 4 * TILE_COLUMNS, /* output channels, at most */
    SLIDING_MAX_RUN = 1 << 15,  /* floats of a row of taps; more would make a band too large */
    SLIDING_BAND = 1 << 16,     /* floats of a band, about */
    SLIDING_CHUNK_PIXELS = 1024 /* of a filter gradient of its own, at least */
};

/* Backward to the data, as the convolution of dy that it is. */
static qn_conv2d_shape turned_shape(const qn_conv2d_shape *d) {
    qn_conv2d_shape e = *d;
    e.h = d->p;
    e.w = d->q;
    e.c = d->k;
    e.p = d->h;
    e.q = d->w;
    e.k = d->c;
    e.pad_top = d->r - 1 - d->pad_top;
    e.pad_left = d->s - 1 - d->pad_left;
    e.y_stride = 0;
    return e;
}

static bool can_slide(const qn_conv2d_shape *d, qn_conv2d_pass pass) {
    const bool is_data = pass == QN_CONV2D_BACKWARD_DATA;
    const int64_t c = is_data ? d->k : d->c, k = is_data ? d->c : d->k;
    return d->groups == 1 && d->stride_h == 1 && d->stride_w == 1 && d->dilation_h == 1 &&
           d->dilation_w == 1 && d->pad_top < d->r && d->pad_left < d->s &&
           k <= (pass == QN_CONV2D_BACKWARD_FILTER ? TILE_COLUMNS : SLIDING_COLUMNS) &&
           d->s * c * (d->r + 1) <= SLIDING_MAX_RUN;
}

/* Pixels of a row of the image with its padding, as far as windows reach. */
static int64_t sliding_width(const qn_conv2d_shape *d) {
    return d->q + d->s - 1;
}

/* Rows of outputs that are made from one band. */
static int64_t sliding_rows(const qn_conv2d_shape *d) {
    const int64_t rows = SLIDING_BAND / (sliding_width(d) * d->c) - (d->r - 1);
    return max_int(1, min_int(d->p, rows));
}

/* Floats of the band; what follows its last pixel is read, too, and does not count. */
static int64_t sliding_band(const qn_conv2d_shape *d) {
    const int64_t pixels = (sliding_rows(d) + d->r - 1) * sliding_width(d);
    return round_up((pixels + d->s) * d->c + TILE_COLUMNS, 16);
}

static void copy_exactly(float *restrict to, const float *restrict from, int64_t n) {
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        *(vector *)(to + i) = *(const vector *)(from + i);
    for (; i + 4 <= n; i += 4)
        *(quad *)(to + i) = *(const quad *)(from + i);
    for (; i < n; i++)
        to[i] = from[i];
}

/* The band of sample n whose first row of outputs is `first`; pixels of x lie `step` apart. */
static void copy_band(const qn_conv2d_shape *d, const float *x, int64_t step, int64_t n,
                      int64_t first, int64_t rows, float *band) {
    const int64_t width = sliding_width(d), inside = min_int(d->w, width - d->pad_left);
    float *to = band;
    for (int64_t i = 0; i < rows + d->r - 1; i++, to += width * d->c) {
        const int64_t y = first + i - d->pad_top;
        if (y < 0 || y >= d->h) {
            zero_floats(to, width * d->c);
            continue;
        }
        const int64_t until = (d->pad_left + inside) * d->c;
        zero_floats(to, d->pad_left * d->c);
        const float *from = x + (n * d->h + y) * d->w * step;
        const int64_t run = step == d->c ? inside : 1;
        for (int64_t j = 0; j < inside; j += run)
            copy_exactly(to + (d->pad_left + j) * d->c, from + j * step, run * d->c);
        zero_floats(to + until, width * d->c - until);
    }
    zero_floats(to, band + sliding_band(d) - to);
}

typedef struct sliding_context {
    const qn_conv2d_shape *shape;
    const float *x, *dy;
    int64_t x_stride;
    const float *panels; /* (R, S, C, TILE_COLUMNS) each, the last one narrower */
    float bias[SLIDING_COLUMNS];
    bool has_bias;
    qn_activation activation;
    float *y;
    float *parts; /* (chunks, K, R, padded S * C): the filter's gradient of each chunk */
    int64_t chunk, tap_rows;
    float *scratch;
    int64_t scratch_size; /* floats of a thread */
} sliding_context;

/* ---- forward ---- */

/* A panel's columns of one row of outputs, from the first of its rows in the band. */
static void slide_panel(const qn_conv2d_shape *d, const float *band, const float *panel,
                        int64_t columns, float *sums, int64_t sums_row) {
    const int64_t run = d->s * d->c, step = ceil_div(d->q, ceil_div(d->q, TILE_ROWS));
    for (int64_t r = 0; r < d->r; r++) {
        const float *row = band + r * sliding_width(d) * d->c;
        for (int64_t p = 0; p < run; p += DEPTH_STEP) {
            for (int64_t q = 0; q < d->q; q += step)
                TILES[0][columns / VL - 1][min_int(step, d->q - q) - 1](
                    min_int(DEPTH_STEP, run - p), row + q * d->c + p, d->c,
                    panel + (r * run + p) * columns, columns, sums + q * sums_row, sums_row,
                    r + p > 0);
        }
    }
}

static void slide_row(const sliding_context *s, const float *band, float *sums, float *y) {
    const qn_conv2d_shape *d = s->shape;
    const int64_t columns = padded(d->k), depth = d->r * d->s * d->c;
    for (int64_t j = 0; j < columns; j += TILE_COLUMNS)
        slide_panel(d, band, s->panels + j * depth, min_int(TILE_COLUMNS, columns - j), sums + j,
                    columns);
    if (s->has_bias || s->activation.kind != QN_ACTIVATION_NONE)
        finish_tile(s->activation, s->has_bias ? s->bias : NULL, d->q, columns, sums, columns);
    for (int64_t q = 0; q < d->q; q++)
        copy_exactly(y + q * y_stride_of(d), sums + q * columns, d->k);
}

/* A task is a band. */
static void slide_task(void *context, int64_t begin, int64_t end, int thread) {
    const sliding_context *s = context;
    const qn_conv2d_shape *d = s->shape;
    const int64_t rows = sliding_rows(d), bands = ceil_div(d->p, rows);
    float *band = s->scratch + thread * s->scratch_size, *sums = band + sliding_band(d);
    for (int64_t task = begin; task < end; task++) {
        const int64_t n = task / bands, first = task % bands * rows;
        const int64_t count = min_int(rows, d->p - first);
        copy_band(d, s->x, s->x_stride, n, first, count, band);
        for (int64_t i = 0; i < count; i++)
            slide_row(s, band + i * sliding_width(d) * d->c, sums,
                      s->y + (n * d->p + first + i) * d->q * y_stride_of(d));
    }
}

static int64_t forward_sliding_scratch(const qn_conv2d_shape *d) {
    return sliding_band(d) + round_up(d->q * padded(d->k), 16);
}

static void run_sliding(qn_team *team, sliding_context *s, float *scratch) {
    const qn_conv2d_shape *d = s->shape;
    s->scratch = scratch;
    s->scratch_size = forward_sliding_scratch(d);
    qn_team_run(team, d->n * ceil_div(d->p, sliding_rows(d)), slide_task, s);
}

static void forward_sliding(qn_team *team, const qn_conv2d_shape *d, const float *x, const float *w,
                            const float *bias, qn_activation activation, float *y,
                            float *workspace) {
    const int64_t depth = d->r * d->s * d->c;
    sliding_context s = {.shape = d,
                         .x = x,
                         .x_stride = d->c,
                         .panels = workspace,
                         .has_bias = bias != NULL,
                         .activation = activation,
                         .y = y};
    if (bias)
        copy_floats(s.bias, bias, d->k);
    for (int64_t j = 0; j < d->k; j += TILE_COLUMNS) {
        const product t = {
            .n = min_int(TILE_COLUMNS, d->k - j), .k = depth, .panels = workspace + j * depth};
        pack_transposed(team, &t, w + j * depth, depth);
    }
    run_sliding(team, &s, workspace + round_up(panels_size(d->k, depth), 16));
}

static void backward_data_sliding(qn_team *team, const qn_conv2d_shape *d, const float *dy,
                                  const float *w, float *dx, float *workspace) {
    const qn_conv2d_shape e = turned_shape(d);
    const int64_t depth = e.r * e.s * e.c;
    sliding_context s = {
        .shape = &e, .x = dy, .x_stride = y_stride_of(d), .panels = workspace, .y = dx};
    for (int64_t j = 0; j < e.k; j += TILE_COLUMNS) {
        const product t = {
            .n = min_int(TILE_COLUMNS, e.k - j), .k = depth, .panels = workspace + j * depth};
        const filter_rows rows = {.w = w + j,
                                  .depth = d->k,
                                  .channel_stride = d->r * d->s * d->c,
                                  .taps_w = d->s,
                                  .tap_stride_h = -d->s * d->c,
                                  .tap_stride_w = -d->c,
                                  .offset = (d->r * d->s - 1) * d->c};
        pack_rows(team, &t, &rows);
    }
    run_sliding(team, &s, workspace + round_up(panels_size(e.k, depth), 16));
}

/* ---- backward filter ---- */

/* dy of a band's rows of outputs, each followed by zeros up to the width of the band. */
static void copy_gradient(const qn_conv2d_shape *d, const float *dy, int64_t n, int64_t first,
                          int64_t rows, float *to) {
    const int64_t width = sliding_width(d);
    for (int64_t i = 0; i < rows; i++, to += width * d->k) {
        const float *from = dy + (n * d->p + first + i) * d->q * y_stride_of(d);
        for (int64_t q = 0; q < d->q; q++)
            copy_exactly(to + q * d->k, from + q * y_stride_of(d), d->k);
        zero_floats(to + d->q * d->k, (width - d->q) * d->k);
    }
}

/* part (K, R, padded S * C) = or += what a band gives for the taps of rows [r, r_end): the sum over
 * all of its pixels of dy times the window, pixels without an output having a dy of 0. */
static void slide_filter(const qn_conv2d_shape *d, const float *band, const float *dy,
                         int64_t pixels, int64_t r, int64_t r_end, float *part, bool add) {
    const int64_t run = d->s * d->c, part_row = padded(run);
    for (int64_t p = 0; p < pixels; p += DEPTH_STEP) {
        const int64_t depth = min_int(DEPTH_STEP, pixels - p);
        for (int64_t tap = r; tap < r_end; tap++) {
            const float *b = band + (tap * sliding_width(d) + p) * d->c;
            for (int64_t j = 0; j < part_row; j += TILE_COLUMNS) {
                const int64_t vectors = min_int(TILE_COLUMNS, part_row - j) / VL;
                for (int64_t k = 0; k < d->k; k += TILE_ROWS)
                    TILES[1][vectors - 1][min_int(TILE_ROWS, d->k - k) - 1](
                        depth, dy + p * d->k + k, d->k, b + j, d->c,
                        part + (k * d->r + tap) * part_row + j, d->r * part_row, add || p > 0);
            }
        }
    }
}

/* A task is a chunk of samples, for some rows of taps. */
static void slide_filter_task(void *context, int64_t begin, int64_t end, int thread) {
    const sliding_context *s = context;
    const qn_conv2d_shape *d = s->shape;
    const int64_t rows = sliding_rows(d), shares = ceil_div(d->r, s->tap_rows);
    float *band = s->scratch + thread * s->scratch_size, *dy = band + sliding_band(d);
    for (int64_t task = begin; task < end; task++) {
        const int64_t chunk = task / shares, r = task % shares * s->tap_rows;
        const int64_t last = min_int(d->n, (chunk + 1) * s->chunk);
        float *part = s->parts + chunk * d->k * d->r * padded(d->s * d->c);
        bool add = false;
        for (int64_t n = chunk * s->chunk; n < last; n++) {
            for (int64_t first = 0; first < d->p; first += rows, add = true) {
                const int64_t count = min_int(rows, d->p - first);
                copy_band(d, s->x, d->c, n, first, count, band);
                copy_gradient(d, s->dy, n, first, count, dy);
                slide_filter(d, band, dy, count * sliding_width(d), r,
                             min_int(d->r, r + s->tap_rows), part, add);
            }
        }
    }
}

typedef struct sliding_sum {
    int64_t run, rows, chunks;
    const float *parts;
    bool add;
    float *dw;
} sliding_sum;

/* A task is one row of taps of one output channel: its chunks, added in order. */
static void slide_sum_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const sliding_sum *s = context;
    for (int64_t row = begin; row < end; row++) {
        float *restrict to = s->dw + row * s->run;
        for (int64_t chunk = 0; chunk < s->chunks; chunk++) {
            const float *restrict from = s->parts + (chunk * s->rows + row) * padded(s->run);
            for (int64_t j = 0; j < s->run; j++)
                to[j] = s->add || chunk ? to[j] + from[j] : from[j];
        }
    }
}

static int64_t sliding_chunk(const qn_conv2d_shape *d) {
    return power_above(ceil_div(SLIDING_CHUNK_PIXELS, d->p * d->q));
}

static int64_t sliding_parts(const qn_conv2d_shape *d) {
    return round_up(ceil_div(d->n, sliding_chunk(d)) * d->k * d->r * padded(d->s * d->c), 16);
}

static int64_t filter_sliding_scratch(const qn_conv2d_shape *d) {
    return sliding_band(d) + round_up(sliding_rows(d) * sliding_width(d) * d->k, 16);
}

static void filter_sliding(qn_team *team, const qn_conv2d_shape *d, const float *x, const float *dy,
                           float *dw, float *workspace) {
    const int64_t chunks = ceil_div(d->n, sliding_chunk(d));
    sliding_context s = {.shape = d,
                         .x = x,
                         .dy = dy,
                         .parts = workspace,
                         .chunk = sliding_chunk(d),
                         .tap_rows = chunks < 2 * qn_team_size(team) ? 1 : d->r,
                         .scratch = workspace + sliding_parts(d),
                         .scratch_size = filter_sliding_scratch(d)};
    qn_team_run(team, chunks * ceil_div(d->r, s.tap_rows), slide_filter_task, &s);
    sliding_sum sum = {d->s * d->c, d->k * d->r, chunks, workspace, d->add, dw};
    qn_team_run(team, d->k * d->r, slide_sum_task, &sum);
}

/* Floats of workspace. */
static int64_t sliding_workspace(const qn_conv2d_shape *d, qn_conv2d_pass pass, int n_threads) {
    const qn_conv2d_shape e = pass == QN_CONV2D_BACKWARD_DATA ? turned_shape(d) : *d;
    if (pass == QN_CONV2D_BACKWARD_FILTER)
        return sliding_parts(d) + n_threads * filter_sliding_scratch(d);
    return round_up(panels_size(e.k, e.r * e.s * e.c), 16) +
           n_threads * forward_sliding_scratch(&e);
}

#endif
