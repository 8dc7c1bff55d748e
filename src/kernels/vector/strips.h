/* Convolution of few input channels, at any stride: a window's rows are too short to be copied one
 * by one, and would be copied once for each output. Here the rows of the image that a row of
 * outputs sees are copied once, column by column: (X, R, C), with the padding. In that strip a
 * window is one contiguous piece, and that of the next output begins stride * R * C floats further
 * on, so that tiles read windows where they lie: as rows of A forward, as rows of B for the
 * filter's gradient. Taps are summed in the order (S, R, C). */
#ifndef QN_KERNELS_VECTOR_STRIPS_H
#define QN_KERNELS_VECTOR_STRIPS_H

#include "kernels/vector/sliding.h"

enum {
    STRIPS_CHANNELS = 8,
    STRIPS_ROWS = 16,      /* of taps */
    STRIPS_MOST = 1 << 15, /* floats of a strip */
};

/* Columns of the image that a row of outputs sees, padding included. */
static int64_t strip_width(const qn_conv2d_shape *d) {
    return (d->q - 1) * d->stride_w + d->s;
}

static bool can_strip(const qn_conv2d_shape *d) {
    return d->groups == 1 && d->dilation_h == 1 && d->dilation_w == 1 && d->c <= STRIPS_CHANNELS &&
           d->r <= STRIPS_ROWS && strip_width(d) * d->r * d->c <= STRIPS_MOST;
}

/* Floats of a strip; what follows its last column is read, too, and does not count. */
static int64_t strip_size(const qn_conv2d_shape *d) {
    return round_up(strip_width(d) * d->r * d->c + TILE_COLUMNS + 4, 16);
}

/* Floats of a thread: a strip, and a row of zeros for those outside of the image. */
static int64_t strip_scratch(const qn_conv2d_shape *d) {
    return strip_size(d) + round_up(d->w * d->c + 4, 16);
}

/* Columns [0, count) of `rows` rows into to (count, rows, C). Whole quads are stored: what of one
 * is beyond its pixel is written over by the next; where a quad would read beyond the row, floats
 * are copied one by one. */
static inline __attribute__((always_inline)) void
strip_columns_of(const float *const *from, int64_t rows, int64_t c, int64_t count, float *to) {
    const int64_t in_quads = max_int(0, count - ceil_div(4, c) + 1);
    int64_t x = 0;
    for (; x < in_quads; x++) {
#pragma GCC unroll 3
        for (int64_t r = 0; r < rows; r++, to += c) {
            *(quad *)to = *(const quad *)(from[r] + x * c);
            if (c > 4)
                *(quad *)(to + c - 4) = *(const quad *)(from[r] + x * c + c - 4);
        }
    }
    for (; x < count; x++) {
        for (int64_t r = 0; r < rows; r++, to += c) {
            for (int64_t i = 0; i < c; i++)
                to[i] = from[r][x * c + i];
        }
    }
}

/* The strip of row p of sample n's outputs. */
static void make_strip(const qn_conv2d_shape *d, const float *x, int64_t n, int64_t p,
                       float *strip) {
    const float *zeros = strip + strip_size(d);
    const float *from[STRIPS_ROWS];
    const int64_t width = strip_width(d), column = d->r * d->c;
    const int64_t left = min_int(d->pad_left, width);
    const int64_t inside = max_int(0, min_int(d->w, width - left));
    for (int64_t r = 0; r < d->r; r++) {
        const int64_t y = p * d->stride_h - d->pad_top + r;
        from[r] = y < 0 || y >= d->h ? zeros : x + (n * d->h + y) * d->w * d->c;
    }
    float *to = strip + left * column;
    if (d->c == 3 && d->r == 3)
        strip_columns_of((const float *const[]){from[0], from[1], from[2]}, 3, 3, inside, to);
    else
        strip_columns_of(from, d->r, d->c, inside, to);
    zero_floats(strip, left * column);
    zero_floats(to + inside * column, strip_size(d) - (left + inside) * column);
}

typedef struct strips_context {
    const qn_conv2d_shape *shape;
    const float *x, *dy;
    float *dw;
    const product *product; /* forward */
    float *parts;           /* (chunks, K, padded S * R * C): each chunk's gradient */
    int64_t chunk, share;   /* samples and filters of a task */
    float *scratch;
} strips_context;

static float *strip_of_thread(const strips_context *s, int thread) {
    const qn_conv2d_shape *d = s->shape;
    float *strip = s->scratch + thread * strip_scratch(d);
    zero_floats(strip + strip_size(d), round_up(d->w * d->c + 4, 16));
    return strip;
}

/* ---- forward ---- */

/* A task is a row of outputs. */
static void strips_task(void *context, int64_t begin, int64_t end, int thread) {
    const strips_context *s = context;
    const qn_conv2d_shape *d = s->shape;
    const product *t = s->product;
    const int64_t step = d->stride_w * d->r * d->c;
    const int64_t rows = ceil_div(d->q, ceil_div(d->q, TILE_ROWS));
    float *strip = strip_of_thread(s, thread);
    for (int64_t task = begin; task < end; task++) {
        float *y = t->c + task * d->q * t->c_row;
        make_strip(d, s->x, task / d->p, task % d->p, strip);
        for (int64_t q = 0; q < d->q; q += rows) {
            for (int64_t j = 0; j < t->n; j += TILE_COLUMNS) {
                const int64_t columns = min_int(TILE_COLUMNS, t->n - j);
                for (int64_t p = 0; p < t->k; p += DEPTH_STEP) {
                    const int64_t depth = min_int(DEPTH_STEP, t->k - p);
                    const operands o = {.depth = depth,
                                        .a = strip + q * step + p,
                                        .a_stride = step,
                                        .b = panel_at(t, p, depth, j),
                                        .b_row = padded(columns),
                                        .add = p > 0,
                                        .is_last = p + depth == t->k};
                    run_tile(t, &o, min_int(rows, d->q - q), columns, j, y + q * t->c_row + j,
                             t->c_row);
                }
            }
        }
    }
}

/* to (K, S, R, C) = w (K, R, S, C), or the other way round with rows and columns changed over; to
 * is added to or written; rows of w are w_row apart. */
static void turn_taps(const float *w, int64_t w_row, int64_t k, int64_t r, int64_t s, int64_t c,
                      bool add, float *to) {
    for (int64_t i = 0; i < k; i++, w += w_row) {
        for (int64_t j = 0; j < s * r; j++) {
            const float *from = w + (j % r * s + j / r) * c;
            for (int64_t x = 0; x < c; x++, to++)
                *to = add ? *to + from[x] : from[x];
        }
    }
}

static void forward_strips(qn_team *team, const qn_conv2d_shape *d, const float *x, const float *w,
                           const float *bias, qn_activation activation, float *y,
                           float *workspace) {
    const int64_t depth = d->r * d->s * d->c;
    float *turned = workspace, *panels = turned + round_up(d->k * depth, 16);
    const product t = {.n = d->k,
                       .k = depth,
                       .panels = panels,
                       .c = y,
                       .c_row = y_stride_of(d),
                       .bias = bias,
                       .activation = activation};
    strips_context s = {.shape = d,
                        .x = x,
                        .product = &t,
                        .scratch = panels + round_up(panels_size(d->k, depth), 16)};
    turn_taps(w, depth, d->k, d->r, d->s, d->c, false, turned);
    pack_transposed(team, &t, turned, depth);
    qn_team_run(team, d->n * d->p, strips_task, &s);
}

/* ---- backward filter ---- */

/* part (filters [first, last), padded S * R * C) = or += what a row of outputs gives. */
static void strip_gradient(const qn_conv2d_shape *d, const float *strip, const float *dy,
                           int64_t first, int64_t last, bool add, float *part) {
    const int64_t row = padded(d->r * d->s * d->c), step = d->stride_w * d->r * d->c;
    for (int64_t k = first; k < last; k += TILE_ROWS) {
        for (int64_t j = 0; j < row; j += TILE_COLUMNS)
            TILES[1][min_int(TILE_COLUMNS, row - j) / VL - 1][min_int(TILE_ROWS, last - k) - 1](
                d->q, dy + k, y_stride_of(d), strip + j, step, part + k * row + j, row, add);
    }
}

/* A task is a chunk of samples, for some of the filters. */
static void strips_filter_task(void *context, int64_t begin, int64_t end, int thread) {
    const strips_context *s = context;
    const qn_conv2d_shape *d = s->shape;
    const int64_t shares = ceil_div(d->k, s->share), rows = s->chunk * d->p;
    float *strip = strip_of_thread(s, thread);
    for (int64_t task = begin; task < end; task++) {
        const int64_t chunk = task / shares, first = task % shares * s->share;
        const int64_t last = min_int(d->k, first + s->share);
        for (int64_t i = chunk * rows; i < min_int(d->n * d->p, (chunk + 1) * rows); i++) {
            make_strip(d, s->x, i / d->p, i % d->p, strip);
            strip_gradient(d, strip, s->dy + i * d->q * y_stride_of(d), first, last,
                           i > chunk * rows, s->parts + chunk * d->k * padded(d->r * d->s * d->c));
        }
    }
}

/* A task is a filter: its chunks, added in order. */
static void strips_sum_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const strips_context *s = context;
    const qn_conv2d_shape *d = s->shape;
    const int64_t depth = d->r * d->s * d->c, row = padded(depth);
    const int64_t chunks = ceil_div(d->n, s->chunk);
    for (int64_t k = begin; k < end; k++) {
        for (int64_t chunk = 0; chunk < chunks; chunk++)
            turn_taps(s->parts + (chunk * d->k + k) * row, row, 1, d->s, d->r, d->c,
                      d->add || chunk > 0, s->dw + k * depth);
    }
}

static int64_t strips_parts(const qn_conv2d_shape *d) {
    return round_up(ceil_div(d->n, sliding_chunk(d)) * d->k * padded(d->r * d->s * d->c), 16);
}

static void filter_strips(qn_team *team, const qn_conv2d_shape *d, const float *x, const float *dy,
                          float *dw, float *workspace) {
    const int64_t chunk = sliding_chunk(d), chunks = ceil_div(d->n, chunk);
    const int64_t shares = ceil_div(qn_team_size(team), chunks);
    strips_context s = {.shape = d,
                        .x = x,
                        .dy = dy,
                        .dw = dw,
                        .parts = workspace,
                        .chunk = chunk,
                        .share = round_up(ceil_div(d->k, shares), 4),
                        .scratch = workspace + strips_parts(d)};
    qn_team_run(team, chunks * ceil_div(d->k, s.share), strips_filter_task, &s);
    qn_team_run(team, d->k, strips_sum_task, &s);
}

/* Floats of workspace. */
static int64_t strips_workspace(const qn_conv2d_shape *d, qn_conv2d_pass pass, int n_threads) {
    const int64_t depth = d->r * d->s * d->c, scratch = n_threads * strip_scratch(d);
    if (pass == QN_CONV2D_BACKWARD_FILTER)
        return strips_parts(d) + scratch;
    return round_up(d->k * depth, 16) + round_up(panels_size(d->k, depth), 16) + scratch;
}

#endif
