/* Depthwise convolution with one output channel for each input channel. Forward, a task is a row of
 * outputs; backward to the data too, over dy with the filter turned round, by phases of the stride;
 * backward to the filter, a task is a chunk of samples (and a part of the channels where chunks are
 * few), and the chunks are added in order. */
#ifndef QN_KERNELS_VECTOR_DEPTHWISE_H
#define QN_KERNELS_VECTOR_DEPTHWISE_H

#include "kernels/ref/conv.h"
#include "kernels/vector/phase.h"
#include "kernels/vector/product.h"

static bool is_fast_depthwise(const qn_conv2d_shape *d) {
    return d->groups > 1 && d->c == d->groups && d->k == d->c && d->c >= VL &&
           !is_strided_and_dilated(d);
}

typedef struct depthwise_context {
    const qn_conv2d_shape *shape;
    const float *from, *filter, *bias, *dy;
    qn_activation activation;
    float *to;
    int64_t chunk, parts; /* backward filter: samples of a chunk, tasks of a chunk */
} depthwise_context;

static qn_depthwise depthwise_window(const qn_conv2d_shape *d) {
    return (qn_depthwise){.h = d->h,
                          .w = d->w,
                          .c = d->c,
                          .taps_h = d->r,
                          .taps_w = d->s,
                          .columns = d->q,
                          .step_h = d->stride_h,
                          .step_w = d->stride_w,
                          .offset_h = -d->pad_top,
                          .offset_w = -d->pad_left,
                          .dilation_h = d->dilation_h,
                          .dilation_w = d->dilation_w,
                          .image_stride = d->c,
                          .dy_stride = y_stride_of(d)};
}

static void fast_forward_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const depthwise_context *v = context;
    const qn_conv2d_shape *d = v->shape;
    const qn_depthwise view = depthwise_window(d);
    const int64_t step = y_stride_of(d), runs = step == d->c ? 1 : d->q;
    for (int64_t row = begin; row < end; row++) {
        float *y = v->to + row * d->q * step;
        DEPTHWISE.forward(&view, v->from + row / d->p * d->h * d->w * d->c, v->filter, v->bias,
                          row % d->p, y, step);
        for (int64_t i = 0; v->activation.kind != QN_ACTIVATION_NONE && i < runs; i++)
            activate_row(v->activation, d->q / runs * d->c, y + i * step, y + i * step);
    }
}

/* The filter (C, R, S) as (R, S, C). */
static void turn_filter(const qn_conv2d_shape *d, const float *w, float *to) {
    transpose_block(w, d->r * d->s, d->c, d->r * d->s, to, d->c, d->c);
}

static void fast_depthwise_forward(qn_team *team, const qn_conv2d_shape *d, const float *x,
                                   const float *w, const float *bias_row, qn_activation activation,
                                   float *y, float *workspace) {
    turn_filter(d, w, workspace);
    depthwise_context v = {.shape = d,
                           .from = x,
                           .filter = workspace,
                           .bias = bias_row,
                           .activation = activation,
                           .to = y};
    qn_team_run(team, d->n * d->p, fast_forward_task, &v);
}

/* ---- backward data ---- */

/* The taps of one phase, last first, copied from a filter (R, S, C). */
static void phase_filter(const qn_conv2d_shape *d, phase_axis h, phase_axis v, const float *filter,
                         float *to) {
    for (int64_t r = h.taps - 1; r >= 0; r--) {
        for (int64_t s = v.taps - 1; s >= 0; s--, to += d->c) {
            const int64_t tap = (h.first + r * d->stride_h) * d->s + v.first + s * d->stride_w;
            copy_floats(to, filter + tap * d->c, d->c);
        }
    }
}

static void fast_backward_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const depthwise_context *v = context;
    const qn_conv2d_shape *d = v->shape;
    const int64_t size = d->r * d->s * d->c;
    for (int64_t row = begin; row < end; row++) {
        const int64_t n = row / d->h, y = row % d->h;
        const phase_axis h = phase_h_of(d, y % d->stride_h);
        for (int64_t phase = 0; phase < min_int(d->stride_w, d->w); phase++) {
            const phase_axis w = phase_w_of(d, phase);
            const qn_depthwise view = {.h = d->p,
                                       .w = d->q,
                                       .c = d->c,
                                       .taps_h = h.taps,
                                       .taps_w = w.taps,
                                       .columns = w.count,
                                       .step_h = 1,
                                       .step_w = 1,
                                       .offset_h = h.offset,
                                       .offset_w = w.offset,
                                       .dilation_h = d->dilation_h,
                                       .dilation_w = d->dilation_w,
                                       .image_stride = y_stride_of(d)};
            DEPTHWISE.forward(&view, v->from + n * d->p * d->q * y_stride_of(d),
                              v->filter + (y % d->stride_h * d->stride_w + phase) * size, NULL,
                              y / d->stride_h, v->to + (row * d->w + phase) * d->c,
                              d->stride_w * d->c);
        }
    }
}

static void fast_depthwise_backward_data(qn_team *team, const qn_conv2d_shape *d, const float *dy,
                                         const float *w, float *dx, float *workspace) {
    const int64_t size = d->r * d->s * d->c;
    float *phases = workspace + size;
    turn_filter(d, w, workspace);
    for (int64_t phase = 0; phase < d->stride_h * d->stride_w; phase++)
        phase_filter(d, phase_h_of(d, phase / d->stride_w), phase_w_of(d, phase % d->stride_w),
                     workspace, phases + phase * size);
    depthwise_context v = {.shape = d, .from = dy, .filter = phases, .to = dx};
    qn_team_run(team, d->n * d->h, fast_backward_task, &v);
}

/* ---- backward filter ---- */

/* DEPTHWISE_TURN: pixels that a vector of channels takes at a time: so many that its sums are
 * seldom loaded and stored, so few that what the next vector needs is still in the first cache. */
enum {
    DEPTHWISE_CHUNK_PIXELS = 1024,
    DEPTHWISE_TURN = 64,
    ENOUGH_CHUNKS = 4,
};

static int64_t depthwise_chunk(const qn_conv2d_shape *d) {
    return ceil_div(DEPTHWISE_CHUNK_PIXELS, d->p * d->q);
}

static void fast_filter_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const depthwise_context *v = context;
    const qn_conv2d_shape *d = v->shape;
    const qn_depthwise view = depthwise_window(d);
    const int64_t blocks = ceil_div(d->c, VL), taps = d->r * d->s;
    const int64_t rows = ceil_div(DEPTHWISE_TURN, d->q);
    for (int64_t task = begin; task < end; task++) {
        const int64_t chunk = task / v->parts, part = task % v->parts;
        const int64_t first = blocks * part / v->parts, last = blocks * (part + 1) / v->parts;
        float *sums = v->to + chunk * taps * blocks * VL;
        for (int64_t tap = 0; tap < taps; tap++)
            zero_floats(sums + (tap * blocks + first) * VL, (last - first) * VL);
        for (int64_t n = chunk * v->chunk; n < min_int(d->n, (chunk + 1) * v->chunk); n++) {
            for (int64_t p = 0; p < d->p; p += rows)
                DEPTHWISE.filter(&view, v->from + n * d->h * d->w * d->c,
                                 v->dy + n * d->p * d->q * y_stride_of(d), p,
                                 min_int(d->p, p + rows), first, last, sums);
        }
    }
}

static void fast_depthwise_backward_filter(qn_team *team, const qn_conv2d_shape *d, const float *x,
                                           const float *dy, float *dw, float *workspace) {
    const int64_t chunk = depthwise_chunk(d), chunks = ceil_div(d->n, chunk);
    const int64_t blocks = ceil_div(d->c, VL), taps = d->r * d->s, size = taps * blocks * VL;
    const int64_t threads = qn_team_size(team);
    depthwise_context v = {.shape = d,
                           .from = x,
                           .dy = dy,
                           .to = workspace,
                           .chunk = chunk,
                           .parts = chunks % threads == 0 || chunks >= ENOUGH_CHUNKS * threads
                                        ? 1
                                        : min_int(blocks, threads)};
    qn_team_run(team, chunks * v.parts, fast_filter_task, &v);
    float *sums = workspace + chunks * size;
    run_chain(team, size, chunks, workspace, false, sums);
    /* The last block first: it may overlap the one before. */
    const int64_t row = blocks * VL;
    transpose_block(sums + row - VL, row, taps, VL, dw + (d->c - VL) * taps, taps, taps);
    transpose_block(sums, row, taps, d->c / VL * VL, dw, taps, taps);
}

static int64_t fast_depthwise_workspace(const qn_conv2d_shape *d, qn_conv2d_pass pass) {
    const int64_t taps = d->r * d->s;
    if (pass == QN_CONV2D_FORWARD)
        return taps * d->c;
    if (pass == QN_CONV2D_BACKWARD_DATA)
        return (1 + d->stride_h * d->stride_w) * taps * d->c;
    return (ceil_div(d->n, depthwise_chunk(d)) + 1) * taps * padded(d->c);
}

#endif
