/* Convolution as implicit matrix products over gathered windows. Backward data: the window runs
 * over dy with the filter turned round; a stride splits dx into stride_h * stride_w phases, each a
 * dense product with the taps that meet it. Backward filter: along the pixels, in chunks of whole
 * samples. Groups are done one after another; a stride together with a dilation, backward to the
 * data, is left to the reference. */
#ifndef QN_KERNELS_VECTOR_CONV_H
#define QN_KERNELS_VECTOR_CONV_H

#include "kernels/ref/conv.h"
#include "kernels/rules.h"
#include "kernels/vector/depthwise.h"
#include "kernels/vector/gemm.h"
#include "kernels/vector/phase.h"
#include "kernels/vector/product.h"
#include "kernels/vector/sliding.h"
#include "kernels/vector/strips.h"
#include "kernels/vector/thin.h"
#include "kernels/vector/winograd.h"

/* What can compute it, as a bit mask of qn_algorithm. */
static unsigned possible(const qn_conv2d_shape *d, qn_conv2d_pass pass) {
    unsigned mask = 1u << QN_ALGORITHM_PRODUCT | 1u << QN_ALGORITHM_CHUNKS;
    if (can_winograd(d))
        mask |= 1u << QN_ALGORITHM_WINOGRAD;
    if (can_slide(d, pass))
        mask |= 1u << QN_ALGORITHM_SLIDING;
    if (can_be_thin(d))
        mask |= 1u << QN_ALGORITHM_THIN;
    if (can_strip(d))
        mask |= 1u << QN_ALGORITHM_STRIPS;
    if (d->groups == 1 && d->dilation_w == 1)
        mask |= 1u << QN_ALGORITHM_SCATTER;
    return mask;
}

static qn_algorithm choose(const qn_conv2d_shape *d, qn_conv2d_pass pass) {
    return qn_rules_choose(d->rules, SET, pass, d, possible(d, pass));
}

/* One output pixel that sees all of the image: dx (N, H * W * C) is dy (N, K) times the filter. */
static bool is_whole(const qn_conv2d_shape *d) {
    return d->groups == 1 && d->p * d->q == 1 && d->pad_top + d->pad_left == 0 && d->h == d->r &&
           d->w == d->s && d->dilation_h * d->dilation_w == 1;
}

/* What of a tiling an algorithm knows. */
static unsigned known_tilings(const qn_conv2d_shape *d, qn_conv2d_pass pass,
                              qn_algorithm algorithm) {
    const bool is_filter = pass == QN_CONV2D_BACKWARD_FILTER;
    if (is_depthwise(d) || (pass == QN_CONV2D_BACKWARD_DATA && is_strided_and_dilated(d)))
        return 0;
    if (algorithm == QN_ALGORITHM_WINOGRAD)
        return is_filter ? 0 : 1u << QN_TILING_TILES;
    if (algorithm != QN_ALGORITHM_PRODUCT && algorithm != QN_ALGORITHM_CHUNKS)
        return 0;
    if (is_filter)
        return ROWS_TILINGS;
    return PANELS_TILINGS | (d->groups == 1 ? 1u << QN_TILING_WAY : 0);
}

/* The tiling of a call; false: it was only asked for. A whole image's product takes its own. */
static bool take_tiling(const qn_conv2d_shape *d, qn_conv2d_pass pass, int n_threads,
                        qn_tiling *tiling) {
    *tiling = (qn_tiling){{0}};
    if (!d->tilings)
        return true;
    const qn_algorithm algorithm = choose(d, pass);
    if (pass == QN_CONV2D_BACKWARD_DATA && algorithm != QN_ALGORITHM_WINOGRAD && is_whole(d))
        return true;
    return qn_tilings_take(d->tilings, qn_tiling_key_conv2d(d, pass, (int)algorithm, n_threads),
                           known_tilings(d, pass, algorithm), tiling);
}

static window forward_window(const qn_conv2d_shape *d, const float *x, int64_t group) {
    const int64_t c = d->c / d->groups;
    return window_finish((window){.image = x + group * c,
                                  .end = x + d->n * d->h * d->w * d->c,
                                  .image_h = d->h,
                                  .image_w = d->w,
                                  .channels = d->c,
                                  .depth = c,
                                  .rows = d->p,
                                  .columns = d->q,
                                  .taps_h = d->r,
                                  .taps_w = d->s,
                                  .step_h = d->stride_h,
                                  .step_w = d->stride_w,
                                  .offset_h = -d->pad_top,
                                  .offset_w = -d->pad_left,
                                  .dilation_h = d->dilation_h,
                                  .dilation_w = d->dilation_w});
}

/* A product whose A or B is a window: straight from memory where it can be. */
static void set_a_window(product *t, const window *g) {
    if (window_is_direct(g)) {
        t->a = g->image;
        t->a_stride = g->channels;
    } else {
        t->a_window = g;
    }
}

static void set_b_window(product *t, const window *g) {
    if (window_is_direct(g)) {
        t->b = g->image;
        t->b_row = g->channels;
    } else {
        t->b_window = g;
    }
}

/* A few pixels against many weights: the weights are read in place, and the gathered rows become
 * the panels of the swapped product. */
static bool is_swapped(const qn_conv2d_shape *d) {
    return d->groups == 1 && is_better_exchanged(d->n * d->p * d->q, d->k, d->r * d->s * d->c);
}

typedef struct turn_context {
    const product *product; /* of y^T (K, pixels) */
    const window *window;
    float *scratch;
} turn_context;

enum { TURN_SIZE = TILE_COLUMNS * (DEPTH_STEP + ROW_PAD) };

/* A task is a panel in one K-block. */
static void pack_gathered_task(void *context, int64_t begin, int64_t end, int thread) {
    const turn_context *turn = context;
    const product *t = turn->product;
    float *space = turn->scratch + thread * TURN_SIZE;
    const int64_t n_panels = ceil_div(t->n, TILE_COLUMNS);
    for (int64_t task = begin; task < end; task++) {
        const int64_t j = task % n_panels * TILE_COLUMNS, p = task / n_panels * DEPTH_STEP;
        const int64_t depth = min_int(DEPTH_STEP, t->k - p);
        const int64_t width = min_int(TILE_COLUMNS, t->n - j);
        gather_rows(turn->window, j, width, p, p + depth, space, DEPTH_STEP + ROW_PAD, depth);
        transpose_block(space, DEPTH_STEP + ROW_PAD, width, depth, panel_at(t, p, depth, j),
                        padded(width), padded(width));
    }
}

static void forward_exchanged(qn_team *team, const qn_conv2d_shape *d, const float *x,
                              const float *w, const float *bias_row, qn_activation activation,
                              qn_tiling tiling, float *y, float *workspace) {
    const int64_t pixels = d->n * d->p * d->q, depth = d->r * d->s * d->c;
    float *turned = workspace + round_up(panels_size(pixels, depth), 16);
    const window g = forward_window(d, x, 0);
    product t = {.m = d->k,
                 .n = pixels,
                 .k = depth,
                 .a = w,
                 .a_stride = depth,
                 .panels = workspace,
                 .c = turned,
                 .c_row = padded(pixels),
                 .tiling = tiling};
    turn_context turn = {&t, &g, turned + round_up(d->k * padded(pixels), 16)};
    qn_team_run(team, pack_tasks(&t), pack_gathered_task, &turn);
    run_by_panels(team, &t, NULL);
    run_swap(team, &t, bias_row, activation, y, y_stride_of(d));
}

static size_t exchanged_workspace(const qn_conv2d_shape *d, int n_threads) {
    const int64_t pixels = d->n * d->p * d->q, depth = d->r * d->s * d->c;
    return (size_t)(round_up(panels_size(pixels, depth), 16) + round_up(d->k * padded(pixels), 16) +
                    (int64_t)n_threads * TURN_SIZE) *
           sizeof(float);
}

static size_t panels_workspace(const qn_conv2d_shape *d, int n_threads) {
    const int64_t k = d->k / d->groups, depth = d->r * d->s * (d->c / d->groups);
    return (size_t)(round_up(panels_size(k, depth), 16) +
                    n_threads * panels_scratch(k, depth, true, false)) *
           sizeof(float);
}

/* By a tiling only where that takes no more workspace. */
static bool goes_exchanged(const qn_conv2d_shape *d, qn_tiling tiling, int n_threads) {
    const uint8_t way = tiling.kinds[QN_TILING_WAY];
    const size_t swapped = exchanged_workspace(d, n_threads),
                 panels = panels_workspace(d, n_threads);
    if (way == QN_TILING_WAY_EXCHANGED && d->groups == 1 && swapped <= panels)
        return true;
    return is_swapped(d) && !(way == QN_TILING_WAY_PANELS && panels <= swapped);
}

static void vector_conv2d_forward(qn_team *team, const qn_conv2d_shape *d, const void *x,
                                  const void *w, const void *bias_row, qn_activation activation,
                                  void *y, void *workspace) {
    qn_tiling tiling;
    if (!take_tiling(d, QN_CONV2D_FORWARD, qn_team_size(team), &tiling))
        return;
    if (is_fast_depthwise(d)) {
        fast_depthwise_forward(team, d, x, w, bias_row, activation, y, workspace);
        return;
    }
    if (is_depthwise(d)) {
        conv2d_forward(team, d, x, w, bias_row, activation, y, workspace);
        return;
    }
    switch (choose(d, QN_CONV2D_FORWARD)) {
    case QN_ALGORITHM_WINOGRAD:
        forward_winograd(team, d, x, w, bias_row, activation, tiling, y, workspace);
        return;
    case QN_ALGORITHM_THIN:
        forward_thin(team, d, x, w, bias_row, activation, y, workspace);
        return;
    case QN_ALGORITHM_SLIDING:
        forward_sliding(team, d, x, w, bias_row, activation, y, workspace);
        return;
    case QN_ALGORITHM_STRIPS:
        forward_strips(team, d, x, w, bias_row, activation, y, workspace);
        return;
    default:
        break;
    }
    if (goes_exchanged(d, tiling, qn_team_size(team))) {
        forward_exchanged(team, d, x, w, bias_row, activation, tiling, y, workspace);
        return;
    }
    const int64_t k = d->k / d->groups, depth = d->r * d->s * (d->c / d->groups);
    float *scratch = (float *)workspace + round_up(panels_size(k, depth), 16);
    for (int64_t group = 0; group < d->groups; group++) {
        const window g = forward_window(d, x, group);
        product t = {.m = d->n * d->p * d->q,
                     .n = k,
                     .k = depth,
                     .panels = workspace,
                     .c = (float *)y + group * k,
                     .c_row = y_stride_of(d),
                     .bias = bias_row ? (const float *)bias_row + group * k : NULL,
                     .activation = activation,
                     .tiling = tiling};
        set_a_window(&t, &g);
        pack_transposed(team, &t, (const float *)w + group * k * depth, depth);
        run_by_panels(team, &t, scratch);
    }
}

/* ---- backward data ---- */

typedef struct phase_context {
    const qn_conv2d_shape *shape;
    const float *dy, *w;
    float *dx, *workspace;
    qn_tiling tiling;
    bool is_gathered; /* first, and the filter goes by rows */
} phase_context;

static void zero_phase(const qn_conv2d_shape *d, const grid *to, float *dx) {
    const int64_t c = d->c / d->groups;
    for (int64_t row = 0; row < d->n * to->rows; row++) {
        const int64_t y = row / to->rows * d->h + row % to->rows * to->step_h + to->offset_h;
        for (int64_t j = 0; j < to->columns; j++)
            zero_floats(dx + (y * d->w + j * to->step_w + to->offset_w) * d->c, c);
    }
}

/* Few pixels, again: the rows of A are gathered once, and the filter goes by rows, each copied to
 * the second cache by the one task that needs it. */
static bool is_gathered_first(const qn_conv2d_shape *d) {
    return d->groups == 1 && d->stride_h * d->stride_w == 1 &&
           has_few_rows(d->n * d->h * d->w, d->c, d->r * d->s * d->k);
}

static int64_t gathered_stride(int64_t depth) {
    return round_up(depth, VL) + ROW_PAD;
}

static void gather_first_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const turn_context *turn = context;
    const int64_t k = turn->product->k, step = gathered_stride(k);
    gather_rows(turn->window, begin, end - begin, 0, k, turn->scratch + begin * step, step, k);
}

static void gather_first(qn_team *team, product *t, float *workspace) {
    if (t->a_window) {
        turn_context turn = {t, t->a_window, workspace};
        qn_team_run(team, t->m, gather_first_task, &turn);
        t->a = workspace;
        t->a_stride = gathered_stride(t->k);
        t->a_window = NULL;
    }
    run_by_rows(team, t, workspace + round_up(t->m * gathered_stride(t->k), 16));
}

/* Floats of the products of a backward pass to the data. */
static int64_t backward_data_floats(const qn_conv2d_shape *d, bool is_gathered, int n_threads) {
    const int64_t k = d->k / d->groups, c = d->c / d->groups, taps = d->r * d->s;
    if (is_gathered)
        return round_up(d->n * d->h * d->w * gathered_stride(taps * k), 16) +
               (int64_t)n_threads * ROWS_SCRATCH;
    return round_up(panels_size(c, taps * k), 16) +
           n_threads * panels_scratch(c, taps * k, true, d->stride_h * d->stride_w > 1);
}

/* By a tiling only where that takes no more workspace. */
static bool goes_gathered(const qn_conv2d_shape *d, qn_tiling tiling, int n_threads) {
    const uint8_t way = tiling.kinds[QN_TILING_WAY];
    const int64_t gathered = backward_data_floats(d, true, n_threads);
    const int64_t panels = backward_data_floats(d, false, n_threads);
    if (way == QN_TILING_WAY_ROWS && d->groups == 1 && d->stride_h * d->stride_w == 1 &&
        gathered <= panels)
        return true;
    return is_gathered_first(d) && !(way == QN_TILING_WAY_PANELS && panels <= gathered);
}

static void backward_phase(qn_team *team, const phase_context *b, int64_t group, int64_t phase_h,
                           int64_t phase_w) {
    const qn_conv2d_shape *d = b->shape;
    const int64_t c = d->c / d->groups, k = d->k / d->groups;
    const phase_axis h = phase_h_of(d, phase_h), v = phase_w_of(d, phase_w);
    const grid to = {h.count, v.count, d->h, d->w, d->stride_h, d->stride_w, phase_h, phase_w};
    float *dx = b->dx + group * c;
    if (h.count == 0 || v.count == 0)
        return;
    if (h.taps == 0 || v.taps == 0) {
        zero_phase(d, &to, dx);
        return;
    }
    const window g =
        window_finish((window){.image = b->dy + group * k,
                               .end = b->dy + (d->n * d->p * d->q - 1) * y_stride_of(d) + d->k,
                               .image_h = d->p,
                               .image_w = d->q,
                               .channels = y_stride_of(d),
                               .depth = k,
                               .rows = h.count,
                               .columns = v.count,
                               .taps_h = h.taps,
                               .taps_w = v.taps,
                               .step_h = 1,
                               .step_w = 1,
                               .offset_h = h.offset,
                               .offset_w = v.offset,
                               .dilation_h = d->dilation_h,
                               .dilation_w = d->dilation_w});
    product t = {.m = d->n * h.count * v.count,
                 .n = c,
                 .k = h.taps * v.taps * k,
                 .panels = b->workspace,
                 .c = dx,
                 .c_row = d->c,
                 .to = d->stride_h * d->stride_w > 1 ? &to : NULL,
                 .tiling = b->tiling};
    set_a_window(&t, &g);
    const filter_rows rows = {.w = b->w + group * k * d->r * d->s * c,
                              .depth = k,
                              .channel_stride = d->r * d->s * c,
                              .taps_w = v.taps,
                              .tap_stride_h = -d->stride_h * d->s * c,
                              .tap_stride_w = -d->stride_w * c,
                              .offset = ((h.first + (h.taps - 1) * d->stride_h) * d->s + v.first +
                                         (v.taps - 1) * d->stride_w) *
                                        c};
    if (b->is_gathered) {
        t.chunk = t.k;
        t.b_filter = &rows;
        gather_first(team, &t, b->workspace);
        return;
    }
    pack_rows(team, &t, &rows);
    run_by_panels(team, &t, b->workspace + round_up(panels_size(c, d->r * d->s * k), 16));
}

/* Few input channels leave most of a vector empty when dx is the product. Then dy times the filter
 * (K, R * S * C) is, and its rows are added to dx where they belong. A task is a sample. */
static inline void add_floats(float *restrict to, const float *restrict from, int64_t n) {
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        *(vector *)(to + i) += *(const vector *)(from + i);
    for (; i + 4 <= n; i += 4)
        *(quad *)(to + i) += *(const quad *)(from + i);
    for (; i < n; i++)
        to[i] += from[i];
}

/* Adds the row (R, S, C) of output pixel (p, q) to a sample's dx. */
static void add_pixel(const qn_conv2d_shape *d, int64_t p, int64_t q, const float *row, float *dx) {
    const int64_t x = q * d->stride_w - d->pad_left, run = d->s * d->c;
    const int64_t low = x < 0 ? -x * d->c : 0, high = min_int(run, (d->w - x) * d->c);
    for (int64_t r = 0; r < d->r && low < high; r++, row += run) {
        const int64_t y = p * d->stride_h - d->pad_top + r * d->dilation_h;
        if (y >= 0 && y < d->h)
            add_floats(dx + (y * d->w + x) * d->c + low, row + low, high - low);
    }
}

static void scatter_task(void *context, int64_t begin, int64_t end, int thread) {
    const phase_context *b = context;
    const qn_conv2d_shape *d = b->shape;
    const int64_t columns = d->r * d->s * d->c, pixels = d->p * d->q, size = d->h * d->w * d->c;
    float *rows = b->workspace + round_up(panels_size(columns, d->k), 16) +
                  thread * ROWS_MAX * padded(columns);
    product t = {.n = columns,
                 .k = d->k,
                 .a_stride = y_stride_of(d),
                 .panels = b->workspace,
                 .c = rows,
                 .c_row = padded(columns)};
    for (int64_t n = begin; n < end; n++) {
        float *dx = b->dx + n * size;
        zero_floats(dx, size);
        for (int64_t first = 0; first < pixels; first += ROWS_MAX) {
            const int64_t count = min_int(ROWS_MAX, pixels - first);
            t.a = b->dy + (n * pixels + first) * y_stride_of(d);
            panel_block(&t, 0, count, 0, columns, NULL);
            for (int64_t i = first; i < first + count; i++)
                add_pixel(d, i / d->q, i % d->q, rows + (i - first) * padded(columns), dx);
        }
    }
}

static void backward_data_scattered(qn_team *team, const phase_context *b) {
    const qn_conv2d_shape *d = b->shape;
    const int64_t columns = d->r * d->s * d->c;
    const product t = {.n = columns, .k = d->k, .panels = b->workspace};
    const filter_rows rows = {.w = b->w, .depth = d->k, .channel_stride = columns, .taps_w = 1};
    pack_rows(team, &t, &rows);
    qn_team_run(team, d->n, scatter_task, (void *)b);
}

static qn_gemm_shape whole_product(const qn_conv2d_shape *d) {
    return (qn_gemm_shape){.m = d->n, .n = d->r * d->s * d->c, .k = d->k, .tilings = d->tilings};
}

static void vector_conv2d_backward_data(qn_team *team, const qn_conv2d_shape *d, const void *dy,
                                        const void *w, void *dx, void *workspace) {
    qn_tiling tiling;
    if (!take_tiling(d, QN_CONV2D_BACKWARD_DATA, qn_team_size(team), &tiling))
        return;
    if (is_fast_depthwise(d)) {
        fast_depthwise_backward_data(team, d, dy, w, dx, workspace);
        return;
    }
    if (is_depthwise(d) || is_strided_and_dilated(d)) {
        conv2d_backward_data(team, d, dy, w, dx, workspace);
        return;
    }
    const qn_algorithm algorithm = choose(d, QN_CONV2D_BACKWARD_DATA);
    if (algorithm == QN_ALGORITHM_WINOGRAD) {
        backward_data_winograd(team, d, dy, w, tiling, dx, workspace);
        return;
    }
    if (is_whole(d)) {
        const qn_gemm_shape whole = whole_product(d);
        const qn_activation none = {QN_ACTIVATION_NONE, 0};
        gemm_strided(team, &whole, dy, y_stride_of(d), w, NULL, none, dx, workspace);
        return;
    }
    if (algorithm == QN_ALGORITHM_SLIDING) {
        backward_data_sliding(team, d, dy, w, dx, workspace);
        return;
    }
    const phase_context b = {
        d, dy, w, dx, workspace, tiling, goes_gathered(d, tiling, qn_team_size(team))};
    if (algorithm == QN_ALGORITHM_SCATTER) {
        backward_data_scattered(team, &b);
        return;
    }
    for (int64_t group = 0; group < d->groups; group++) {
        for (int64_t phase = 0; phase < d->stride_h * d->stride_w; phase++)
            backward_phase(team, &b, group, phase / d->stride_w, phase % d->stride_w);
    }
}

/* ---- backward filter ---- */

enum { CHUNK_PIXELS = 1024 };

/* Samples of a chunk: by the shape of one sample alone, so that a batch may be split at chunk
 * borders without a change of bits; powers of two, so that many splits are. */
static int64_t filter_chunk(const qn_conv2d_shape *d, qn_algorithm algorithm) {
    const int64_t pixels = algorithm == QN_ALGORITHM_CHUNKS ? CHUNK_PIXELS : DEPTH_STEP;
    return power_above(ceil_div(pixels, d->p * d->q));
}

/* Chunks that are summed each by itself, and then added in order; 0: they are not. */
static int64_t filter_chunks(const qn_conv2d_shape *d, qn_algorithm algorithm) {
    const int64_t n = ceil_div(d->n, filter_chunk(d, algorithm));
    return algorithm == QN_ALGORITHM_CHUNKS && (d->add || n > 1) ? n : 0;
}

static int64_t vector_conv2d_filter_chunk(const qn_conv2d_shape *d) {
    if (is_depthwise(d))
        return 0;
    const qn_algorithm algorithm = choose(d, QN_CONV2D_BACKWARD_FILTER);
    if (algorithm == QN_ALGORITHM_WINOGRAD)
        return max_int(1, gradient_tiles(d) / (tiles_h(d) * tiles_w(d)));
    if (algorithm == QN_ALGORITHM_SLIDING || algorithm == QN_ALGORITHM_STRIPS)
        return sliding_chunk(d);
    return filter_chunk(d, algorithm);
}

/* A task is a chunk: its own gradient, into its place after t->c. */
static void filter_chunk_task(void *context, int64_t begin, int64_t end, int thread) {
    const product *t = context;
    float *space = t->scratch + thread * t->scratch_size;
    for (int64_t task = begin; task < end; task++) {
        float *c = t->c + task * t->m * t->n;
        const int64_t first = task * t->chunk, last = min_int(t->k, first + t->chunk);
        for (int64_t j = 0; j < t->n; j += gather_most(t->tiling))
            rows_block(t, 0, t->m, j, min_int(gather_most(t->tiling), t->n - j), first, last, c + j,
                       space);
    }
}

/* Along the pixels. */
static product filter_product(const qn_conv2d_shape *d, qn_algorithm algorithm, qn_tiling tiling,
                              int64_t m, int64_t n) {
    return (product){.m = m,
                     .n = n,
                     .k = d->n * d->p * d->q,
                     .a_columns = true,
                     .chunk = filter_chunk(d, algorithm) * d->p * d->q,
                     .add = d->add,
                     .c_row = n,
                     .tiling = tiling};
}

static void run_filter(qn_team *team, const qn_conv2d_shape *d, qn_algorithm algorithm, product *t,
                       float *workspace) {
    const int64_t chunks = filter_chunks(d, algorithm), size = t->m * t->n;
    float *to = t->c;
    if (chunks == 0) {
        run_by_rows(team, t, workspace);
        return;
    }
    t->add = false;
    t->c = workspace;
    t->scratch = t->c + round_up(chunks * size, 16);
    t->scratch_size = ROWS_SCRATCH;
    qn_team_run(team, chunks, filter_chunk_task, t);
    run_chain(team, size, chunks, t->c, d->add, to);
}

/* Of the two sides of a 1x1 convolution's filter the narrow one is better packed into tiles, and
 * the wide one read where it lies: where the inputs are fewer, (C, K) is made and turned, unless it
 * is so large that turning it costs more. */
enum { TURNED_MOST = 256 };

static bool is_filter_turned(const qn_conv2d_shape *d) {
    return d->groups == 1 && d->r * d->s * d->stride_h * d->stride_w == 1 &&
           d->pad_top + d->pad_left == 0 && d->p == d->h && d->q == d->w && d->c <= TURNED_MOST &&
           2 * d->c <= d->k;
}

static int64_t turned_size(const qn_conv2d_shape *d) {
    return is_filter_turned(d) ? round_up(d->k * d->c, 16) : 0;
}

static void filter_turned(qn_team *team, const qn_conv2d_shape *d, const float *x, const float *dy,
                          qn_algorithm algorithm, qn_tiling tiling, float *dw, float *workspace) {
    product t = filter_product(d, algorithm, tiling, d->c, d->k);
    t.a = x;
    t.a_stride = d->c;
    t.b = dy;
    t.b_row = y_stride_of(d);
    t.c = workspace;
    if (d->add)
        transpose_block(dw, d->c, d->k, d->c, t.c, d->k, d->k);
    run_filter(team, d, algorithm, &t, workspace + turned_size(d));
    t.c = workspace;
    run_swap(team, &t, NULL, (qn_activation){QN_ACTIVATION_NONE, 0}, dw, d->c);
}

static void vector_conv2d_backward_filter(qn_team *team, const qn_conv2d_shape *d, const void *x,
                                          const void *dy, void *dw, void *workspace) {
    qn_tiling tiling;
    if (!take_tiling(d, QN_CONV2D_BACKWARD_FILTER, qn_team_size(team), &tiling))
        return;
    if (is_fast_depthwise(d)) {
        fast_depthwise_backward_filter(team, d, x, dy, dw, workspace);
        return;
    }
    if (is_depthwise(d)) {
        conv2d_backward_filter(team, d, x, dy, dw, workspace);
        return;
    }
    const qn_algorithm algorithm = choose(d, QN_CONV2D_BACKWARD_FILTER);
    if (algorithm == QN_ALGORITHM_WINOGRAD) {
        backward_filter_winograd(team, d, x, dy, dw, workspace);
        return;
    }
    if (algorithm == QN_ALGORITHM_SLIDING) {
        filter_sliding(team, d, x, dy, dw, workspace);
        return;
    }
    if (algorithm == QN_ALGORITHM_STRIPS) {
        filter_strips(team, d, x, dy, dw, workspace);
        return;
    }
    if (is_filter_turned(d)) {
        filter_turned(team, d, x, dy, algorithm, tiling, dw, workspace);
        return;
    }
    const int64_t k = d->k / d->groups, columns = d->r * d->s * (d->c / d->groups);
    for (int64_t group = 0; group < d->groups; group++) {
        const window g = forward_window(d, x, group);
        product t = filter_product(d, algorithm, tiling, k, columns);
        t.a = (const float *)dy + group * k;
        t.a_stride = y_stride_of(d);
        set_b_window(&t, &g);
        t.c = (float *)dw + group * k * columns;
        run_filter(team, d, algorithm, &t, workspace);
    }
}

static size_t product_workspace(const qn_conv2d_shape *d, qn_conv2d_pass pass,
                                qn_algorithm algorithm, int n_threads) {
    const int64_t k = d->k / d->groups, c = d->c / d->groups, taps = d->r * d->s;
    int64_t count;
    if (pass == QN_CONV2D_FORWARD) {
        if (is_swapped(d))
            return exchanged_workspace(d, n_threads);
        return panels_workspace(d, n_threads);
    } else if (pass == QN_CONV2D_BACKWARD_DATA) {
        count = backward_data_floats(d, is_gathered_first(d), n_threads);
    } else {
        count = turned_size(d) + round_up(filter_chunks(d, algorithm) * k * taps * c, 16) +
                (int64_t)n_threads * ROWS_SCRATCH;
    }
    return (size_t)count * sizeof(float);
}

static int64_t scatter_workspace(const qn_conv2d_shape *d, int n_threads) {
    const int64_t columns = d->r * d->s * d->c;
    return round_up(panels_size(columns, d->k), 16) + n_threads * ROWS_MAX * padded(columns);
}

static size_t workspace_of(const qn_conv2d_shape *d, qn_conv2d_pass pass, int n_threads) {
    const bool is_data = pass == QN_CONV2D_BACKWARD_DATA;
    if (is_fast_depthwise(d))
        return (size_t)fast_depthwise_workspace(d, pass) * sizeof(float);
    if (is_depthwise(d) || (is_data && is_strided_and_dilated(d)))
        return conv2d_workspace(d, pass, n_threads);
    const qn_algorithm algorithm = choose(d, pass);
    if (algorithm == QN_ALGORITHM_WINOGRAD)
        return winograd_workspace(d, pass, n_threads);
    if (is_data && is_whole(d)) {
        const qn_gemm_shape whole = whole_product(d);
        return vector_gemm_workspace(&whole, n_threads);
    }
    switch (algorithm) {
    case QN_ALGORITHM_THIN:
        return (size_t)thin_workspace(d, n_threads) * sizeof(float);
    case QN_ALGORITHM_SLIDING:
        return (size_t)sliding_workspace(d, pass, n_threads) * sizeof(float);
    case QN_ALGORITHM_STRIPS:
        return (size_t)strips_workspace(d, pass, n_threads) * sizeof(float);
    case QN_ALGORITHM_SCATTER:
        return (size_t)scatter_workspace(d, n_threads) * sizeof(float);
    default:
        return product_workspace(d, pass, algorithm, n_threads);
    }
}

/* A team may have fewer threads than memory was planned for, some of which take more. */
static size_t vector_conv2d_workspace(const qn_conv2d_shape *d, qn_conv2d_pass pass,
                                      int n_threads) {
    size_t most = 0;
    for (int n = 1; n <= n_threads; n++) {
        const size_t bytes = workspace_of(d, pass, n);
        most = bytes > most ? bytes : most;
    }
    return most;
}

#endif
