/* Matrix products, and convolutions as products of windows. Part of engine.h. */
#ifndef QN_KERNELS_INTEGER_CONVOLUTIONS_H
#define QN_KERNELS_INTEGER_CONVOLUTIONS_H

static int64_t step_of(const qn_conv2d_shape *d) {
    return d->y_stride ? d->y_stride : d->k;
}

static void run_gemm(qn_team *team, const qn_gemm_shape *d, const stored *a, const stored *b,
                     const outcome *y, void *workspace) {
    product g = {.m = d->m,
                 .n = d->n,
                 .k = d->k,
                 .a = a,
                 .b = b,
                 .y = *y,
                 .add = d->add,
                 .y_apart = d->n,
                 .a_columns = d->transpose_a,
                 .b_columns = d->transpose_b,
                 .a_apart = d->transpose_a ? d->m : d->k,
                 .b_apart = d->transpose_b ? d->k : d->n};
    begin_outcome(y);
    run_product(team, &g, true, workspace);
}

#ifdef HAS_PAIRS
#include "kernels/integer/winograd.h"
#else
static bool is_tiled(const qn_conv2d_shape *d, qn_conv2d_pass pass) {
    (void)d;
    (void)pass;
    return false;
}

static bool is_tiled_in_parts(const qn_conv2d_shape *d, qn_conv2d_pass pass) {
    return is_tiled(d, pass);
}

static size_t tiled_workspace(const qn_conv2d_shape *d, qn_conv2d_pass pass, int n_threads) {
    (void)d;
    (void)pass;
    (void)n_threads;
    return 0;
}

static void run_tiled(qn_team *team, const qn_conv2d_shape *d, qn_conv2d_pass pass, const stored *a,
                      const stored *b, const outcome *y, void *workspace) {
    (void)team;
    (void)d;
    (void)pass;
    (void)a;
    (void)b;
    (void)y;
    (void)workspace;
}
#endif
static view forward_view(const qn_conv2d_shape *d, const stored *x) {
    return (view){.x = x,
                  .end = x + ((d->n * d->h * d->w - 1) * d->c + d->c / d->groups),
                  .h = d->h,
                  .w = d->w,
                  .c = d->c / d->groups,
                  .pixel = d->c,
                  .p = d->p,
                  .q = d->q,
                  .stride_h = d->stride_h,
                  .stride_w = d->stride_w,
                  .n_r = d->r,
                  .n_s = d->s,
                  .r0 = -d->pad_top,
                  .s0 = -d->pad_left,
                  .r_step = d->dilation_h,
                  .s_step = d->dilation_w};
}

static void run_forward(qn_team *team, const qn_conv2d_shape *d, const stored *x, const stored *w,
                        const outcome *y, void *workspace) {
    const int64_t part = d->c / d->groups, outputs = d->k / d->groups, k = d->r * d->s * part;
    const bool is_plain = d->r * d->s * d->stride_h * d->stride_w == 1 && d->p == d->h &&
                          d->q == d->w && d->pad_top == 0 && d->pad_left == 0;
    if (is_tiled(d, QN_CONV2D_FORWARD)) {
        run_tiled(team, d, QN_CONV2D_FORWARD, x, w, y, workspace);
        return;
    }
    begin_outcome(y);
    for (int64_t i = 0; i < d->groups; i++) {
        const view v = forward_view(d, x + i * part);
        product g = {.m = d->n * d->p * d->q,
                     .n = outputs,
                     .k = k,
                     .a = v.x,
                     .a_apart = d->c,
                     .rows = is_plain ? NULL : &v,
                     .b = w + i * outputs * k,
                     .b_columns = true,
                     .b_apart = k,
                     .y = *y,
                     .y_apart = step_of(d)};
        move_outcome(&g.y, i * outputs, i * outputs);
        run_product(team, &g, true, workspace);
    }
}

/* Taps of one axis whose outputs' pixels are all those of one remainder by the stride. */
typedef struct phase {
    int64_t first, step, n;     /* taps of the filter */
    int64_t from, from_step, m; /* their outputs, for the first of m pixels */
} phase;

static phase phase_of(int64_t remainder, int64_t extent, int64_t taps, int64_t pad,
                      int64_t dilation, int64_t stride) {
    phase f = {.step = 1, .m = remainder < extent ? ceil_div(extent - remainder, stride) : 0};
    while (f.step * dilation % stride != 0)
        f.step++;
    while (f.first < f.step && (remainder + pad - f.first * dilation) % stride != 0)
        f.first++;
    if (f.first < f.step && f.first < taps)
        f.n = (taps - 1 - f.first) / f.step + 1;
    f.from = (remainder + pad - f.first * dilation) / stride;
    f.from_step = -(f.step * dilation / stride);
    return f;
}

/* The same taps in the order of their outputs. */
static phase turned(phase f) {
    const int64_t last = most(0, f.n - 1);
    f.first += last * f.step;
    f.from += last * f.from_step;
    f.step = -f.step;
    f.from_step = -f.from_step;
    return f;
}

static void data_phase(qn_team *team, const qn_conv2d_shape *d, const phase *row,
                       const phase *column, int64_t first_h, int64_t first_w, const stored *dy,
                       const stored *w, const outcome *dx, void *workspace) {
    const int64_t part = d->c / d->groups, outputs = d->k / d->groups;
    const view v = {.x = dy,
                    .end = dy + (d->n * d->p * d->q - 1) * step_of(d) + outputs,
                    .h = d->p,
                    .w = d->q,
                    .c = outputs,
                    .pixel = step_of(d),
                    .p = row->m,
                    .q = column->m,
                    .stride_h = 1,
                    .stride_w = 1,
                    .n_r = row->n,
                    .n_s = column->n,
                    .r0 = row->from,
                    .s0 = column->from,
                    .r_step = row->from_step,
                    .s_step = column->from_step};
    const view to = {.h = d->h,
                     .w = d->w,
                     .p = row->m,
                     .q = column->m,
                     .stride_h = d->stride_h,
                     .stride_w = d->stride_w};
    product g = {.m = d->n * row->m * column->m,
                 .n = part,
                 .k = row->n * column->n * outputs,
                 .rows = &v,
                 .b = w,
                 .b_apart = d->r * d->s * part,
                 .tap_apart = part,
                 .filter_s = d->s,
                 .r0 = row->first,
                 .s0 = column->first,
                 .r_step = row->step,
                 .s_step = column->step,
                 .y = *dx,
                 .y_apart = d->c,
                 .scattered = d->stride_h * d->stride_w > 1 ? &to : NULL,
                 .first_h = first_h,
                 .first_w = first_w};
    run_product(team, &g, true, workspace);
}

static void run_data(qn_team *team, const qn_conv2d_shape *d, const stored *dy, const stored *w,
                     const outcome *dx, void *workspace) {
    const int64_t part = d->c / d->groups, outputs = d->k / d->groups;
    if (is_tiled(d, QN_CONV2D_BACKWARD_DATA)) {
        run_tiled(team, d, QN_CONV2D_BACKWARD_DATA, dy, w, dx, workspace);
        return;
    }
    begin_outcome(dx);
    for (int64_t i = 0; i < d->groups * d->stride_h * d->stride_w; i++) {
        const int64_t group = i / d->stride_h / d->stride_w;
        const int64_t first_h = i / d->stride_w % d->stride_h, first_w = i % d->stride_w;
        const phase row = phase_of(first_h, d->h, d->r, d->pad_top, d->dilation_h, d->stride_h);
        const phase column =
            turned(phase_of(first_w, d->w, d->s, d->pad_left, d->dilation_w, d->stride_w));
        outcome to = *dx;
        move_outcome(&to, group * part, 0);
        if (row.m > 0 && column.m > 0)
            data_phase(team, d, &row, &column, first_h, first_w, dy + group * outputs,
                       w + group * outputs * d->r * d->s * part, &to, workspace);
    }
}

static void run_filter(qn_team *team, const qn_conv2d_shape *d, const stored *x, const stored *dy,
                       const outcome *dw, void *workspace) {
    const int64_t part = d->c / d->groups, outputs = d->k / d->groups, n = d->r * d->s * part;
    if (is_tiled(d, QN_CONV2D_BACKWARD_FILTER)) {
        run_tiled(team, d, QN_CONV2D_BACKWARD_FILTER, x, dy, dw, workspace);
        return;
    }
    begin_outcome(dw);
    for (int64_t i = 0; i < d->groups; i++) {
        const view v = forward_view(d, x + i * part);
        product g = {.m = outputs,
                     .n = n,
                     .k = d->n * d->p * d->q,
                     .a = dy + i * outputs,
                     .a_columns = true,
                     .a_apart = step_of(d),
                     .pixels = &v,
                     .y = *dw,
                     .y_apart = n,
                     .add = d->add,
                     .unit = IS_FLOAT ? d->p * d->q : 0};
        move_outcome(&g.y, i * outputs * n, 0);
        run_product(team, &g, false, workspace);
    }
}

/* Of a phase no more than of all taps. */
static size_t windows_workspace(const qn_conv2d_shape *d, qn_conv2d_pass pass, int n_threads) {
    const int64_t part = d->c / d->groups, outputs = d->k / d->groups, taps = d->r * d->s;
    const int64_t pixels = d->n * d->p * d->q;
    if (is_tiled(d, pass))
        return tiled_workspace(d, pass, n_threads);
    if (pass == QN_CONV2D_FORWARD)
        return product_bytes(pixels, outputs, taps * part, n_threads, true);
    if (pass == QN_CONV2D_BACKWARD_FILTER)
        return product_bytes(outputs, taps * part, pixels, n_threads, false);
    return panel_bytes(part, taps * outputs) + 64 +
           (size_t)n_threads * scratch_limit(taps * outputs);
}

/* To the data, rows of outputs; a phase has no more taps. */
static bool windows_keep(const qn_conv2d_shape *d, qn_conv2d_pass pass) {
    const int64_t part = d->c / d->groups, outputs = d->k / d->groups, taps = d->r * d->s;
    if (is_tiled(d, pass))
        return is_tiled_in_parts(d, pass);
    if (pass == QN_CONV2D_BACKWARD_FILTER)
        return d->n * d->p * d->q > PIXELS;
    return taps * (pass == QN_CONV2D_FORWARD ? part : outputs) > DEPTH;
}

#endif
