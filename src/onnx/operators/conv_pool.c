/* Convolutions and pools over images, sequences and volumes. A sequence (N, C, T) is an image
 * one row high. A volume (N, C, D, H, W) is one image for each depth of the output, whose
 * channels are those of all depths that the window covers; a pool of it is one over its images,
 * and then one over depths. Pads, strides and dilations may differ by side and axis; where a
 * pool's last window is only partly inside (ceil_mode), its pads are larger. */
#include "base/status.h"
#include "onnx/operators/window.h"
#include "ops/ops.h"

#include <string.h>

enum { DEPTHS, ROWS, COLUMNS }; /* of a window */

static qn_value read_bias(qn_onnx_call *call) {
    return qn_onnx_has(call, 2) ? qn_onnx_parameter(call, 2, NULL, true) : QN_NO_VALUE;
}

/* ---- volumes ---- */

/* Of (N, D, H, W, C) the images that the window meets, (N * depths, H, W, C * kernel): with one
 * group all channels of a depth side by side, else all depths of a channel, so that a group
 * stays whole. n_depths: how many the output has. */
static qn_value stack_depths(qn_onnx_call *call, const qn_onnx_window *w, int groups,
                             int64_t n_depths) {
    qn_graph *g = call->graph;
    const int64_t kernel = w->kernel[DEPTHS];
    qn_value x = qn_onnx_channels_last(call, 0, 5);
    const qn_shape s = qn_graph_shape(g, x);
    const qn_shape one = groups == 1
                             ? QN_SHAPE(s.dims[0] * n_depths, s.dims[2], s.dims[3], 1, s.dims[4])
                             : QN_SHAPE(s.dims[0] * n_depths, s.dims[2], s.dims[3], s.dims[4], 1);
    qn_value *parts = qn_onnx_scratch(call, (size_t)kernel * sizeof *parts);
    if (x.id < 0 || !parts)
        return QN_NO_VALUE;
    if (w->before[DEPTHS] || w->after[DEPTHS])
        x = qn_pad(g, qn_onnx_side_name(call, "depths"), x, 1, w->before[DEPTHS], w->after[DEPTHS],
                   QN_BORDER_VALUE, 0);
    for (int64_t i = 0; i < kernel; i++) {
        parts[i] = qn_slice_steps(g, qn_onnx_side_name(call, "depth"), x, 1,
                                  i * w->dilations[DEPTHS], w->strides[DEPTHS], n_depths);
        parts[i] = qn_reshape(g, qn_onnx_side_name(call, "images"), parts[i], one);
    }
    x = kernel == 1 ? parts[0]
                    : qn_concat(g, qn_onnx_side_name(call, "stack"), parts, (int)kernel,
                                groups == 1 ? 3 : 4);
    return qn_reshape(g, qn_onnx_side_name(call, "channels"), x,
                      QN_SHAPE(s.dims[0] * n_depths, s.dims[2], s.dims[3], s.dims[4] * kernel));
}

/* (K, C, D, R, S) as (K, R, S, C * D), in the order of stack_depths. */
static qn_value stack_filter(qn_onnx_call *call, int groups) {
    static const int of_one[] = {0, 3, 4, 2, 1}, of_groups[] = {0, 3, 4, 1, 2};
    const qn_value filter = qn_onnx_parameter(call, 1, groups == 1 ? of_one : of_groups, true);
    const qn_shape s = qn_graph_shape(call->graph, filter);
    return filter.id < 0 ? filter
                         : qn_reshape(call->graph, qn_onnx_side_name(call, "filter"), filter,
                                      QN_SHAPE(s.dims[0], s.dims[1], s.dims[2], -1));
}

/* Zeros around images (N, H, W, C) where windows would lie in the padding alone; the window's own
 * pads are 0 there then. */
static qn_value pad_beyond(qn_onnx_call *call, qn_onnx_window *w, qn_value x) {
    for (int i = ROWS; i <= COLUMNS; i++) {
        const int64_t reach = (w->kernel[i] - 1) * w->dilations[i] + 1;
        if (w->before[i] < reach && w->after[i] < reach)
            continue;
        x = qn_pad(call->graph, qn_onnx_side_name(call, "border"), x, 1 + i - ROWS, w->before[i],
                   w->after[i], QN_BORDER_VALUE, 0);
        w->before[i] = w->after[i] = 0;
    }
    return x;
}

static qn_status build_volume_conv(qn_onnx_call *call, qn_onnx_window *w, int groups) {
    const int64_t reach = (w->kernel[DEPTHS] - 1) * w->dilations[DEPTHS] + 1;
    const int64_t room = w->extents[DEPTHS] + w->before[DEPTHS] + w->after[DEPTHS] - reach;
    const int64_t n_depths = room / w->strides[DEPTHS] + 1;
    if (room < 0 || w->kernel[DEPTHS] > 4096)
        return qn_fail(QN_ERROR_FORMAT, "its filter is %lld deep, its padded input %lld",
                       (long long)reach, (long long)(room + reach));
    qn_window window;
    const qn_value x = pad_beyond(call, w, stack_depths(call, w, groups, n_depths));
    const qn_value filter = stack_filter(call, groups);
    QN_TRY(qn_onnx_window_of(w, ROWS, COLUMNS, &window));
    window.kernel_h = window.kernel_w = 0;
    qn_value y = qn_conv2d(call->graph, call->name, x, filter, read_bias(call), window, groups);
    const qn_shape s = qn_graph_shape(call->graph, y);
    if (y.id >= 0)
        y = qn_reshape(call->graph, qn_onnx_side_name(call, "volume"), y,
                       QN_SHAPE(s.dims[0] / n_depths, n_depths, s.dims[1], s.dims[2], s.dims[3]));
    qn_onnx_give(call, 0, y, true);
    return call->graph->status;
}

typedef qn_value build_pool(qn_graph *graph, const char *name, qn_value x, qn_window window);

/* A pool of the volumes x, (N, D, H, W, C): over the images of each, then over depths. */
static qn_value pool_volume(qn_onnx_call *call, const qn_onnx_window *w, build_pool *build,
                            qn_value x) {
    qn_graph *g = call->graph;
    qn_window over_images, over_depths;
    qn_shape s = qn_graph_shape(g, x);
    if (x.id < 0 || qn_onnx_window_of(w, ROWS, COLUMNS, &over_images) != QN_OK ||
        qn_onnx_window_of(w, DEPTHS, -1, &over_depths) != QN_OK)
        return QN_NO_VALUE;
    const int64_t n = s.dims[0], depths = s.dims[1], channels = s.dims[4];
    x = qn_reshape(g, qn_onnx_side_name(call, "images"), x,
                   QN_SHAPE(n * depths, s.dims[2], s.dims[3], channels));
    x = build(g, qn_onnx_side_name(call, "plane"), x, over_images);
    s = qn_graph_shape(g, x);
    x = qn_reshape(g, qn_onnx_side_name(call, "depths"), x,
                   QN_SHAPE(n, depths, s.dims[1] * s.dims[2], channels));
    x = build(g, call->name, x, over_depths);
    return qn_reshape(g, qn_onnx_side_name(call, "volume"), x,
                      QN_SHAPE(n, -1, s.dims[1], s.dims[2], channels));
}

/* ---- images and sequences ---- */

/* The first input as (N, H, W, C); a sequence one row high. */
static qn_value rows_of_input(qn_onnx_call *call, const qn_onnx_window *w) {
    const qn_value x = qn_onnx_channels_last(call, 0, w->n_axes + 2);
    const qn_shape s = qn_graph_shape(call->graph, x);
    if (w->n_axes == 2 || x.id < 0)
        return x;
    return qn_reshape(call->graph, qn_onnx_side_name(call, "image"), x,
                      QN_SHAPE(s.dims[0], 1, s.dims[1], s.dims[2]));
}

/* Gives (N, H, W, C), of a sequence (N, T, C). */
static void give_rows(qn_onnx_call *call, const qn_onnx_window *w, qn_value y) {
    const qn_shape s = qn_graph_shape(call->graph, y);
    if (w->n_axes == 1 && y.id >= 0)
        y = qn_reshape(call->graph, qn_onnx_side_name(call, "sequence"), y,
                       QN_SHAPE(s.dims[0], s.dims[2], s.dims[3]));
    qn_onnx_give(call, 0, y, true);
}

/* The second input (K, C, R, S) or (K, C, R) as (K, R, S, C). */
static qn_value read_filter(qn_onnx_call *call, const qn_onnx_window *w) {
    static const int of_images[] = {0, 2, 3, 1}, of_sequences[] = {0, 2, 1};
    const qn_value filter =
        qn_onnx_parameter(call, 1, w->n_axes == 2 ? of_images : of_sequences, true);
    const qn_shape s = qn_graph_shape(call->graph, filter);
    if (w->n_axes == 2 || filter.id < 0)
        return filter;
    return qn_reshape(call->graph, qn_onnx_side_name(call, "filter"), filter,
                      QN_SHAPE(s.dims[0], 1, s.dims[1], s.dims[2]));
}

static qn_status read_filter_shape(const qn_onnx_call *call, qn_shape *filter) {
    *filter = qn_onnx_shape(call, 1);
    if (filter->rank != qn_onnx_shape(call, 0).rank)
        return qn_fail(QN_ERROR_FORMAT, "its filter has rank %d, its input rank %d", filter->rank,
                       qn_onnx_shape(call, 0).rank);
    return QN_OK;
}

static qn_status read_groups(const qn_onnx_call *call, int *groups) {
    const int64_t n = qn_onnx_int(call, "group", 1);
    if (n < 1 || n > QN_ONNX_MOST_EXTENT)
        return qn_fail(QN_ERROR_FORMAT, "it has %lld groups", (long long)n);
    *groups = (int)n;
    return QN_OK;
}

/* What a convolution and its transpose have: their filter's shape, groups and window. */
static qn_status read_convolution(const qn_onnx_call *call, bool is_transposed, qn_shape *filter,
                                  int *groups, qn_onnx_window *w) {
    QN_TRY(read_filter_shape(call, filter));
    QN_TRY(read_groups(call, groups));
    return qn_onnx_window_read(call, filter->dims + 2, is_transposed, w);
}

static qn_status build_conv(qn_onnx_call *call) {
    qn_shape shape;
    qn_window window;
    int groups = 1;
    qn_onnx_window w;
    QN_TRY(read_convolution(call, false, &shape, &groups, &w));
    if (w.n_axes == 3)
        return build_volume_conv(call, &w, groups);
    const qn_value x = pad_beyond(call, &w, rows_of_input(call, &w));
    const qn_value filter = read_filter(call, &w);
    QN_TRY(qn_onnx_window_of(&w, ROWS, COLUMNS, &window));
    window.kernel_h = window.kernel_w = 0;
    give_rows(call, &w,
              qn_conv2d(call->graph, call->name, x, filter, read_bias(call), window, groups));
    return QN_OK;
}

/* ---- transposed ---- */

/* What of a total goes before: half of it, rounded down, or, with SAME_LOWER, up; a total below 0,
 * which adds zeros, goes behind unless one of the two modes splits it. */
static int64_t before_of(int64_t total, bool is_upper, bool is_lower) {
    const int64_t half = (total - (total < 0 && total % 2 != 0)) / 2;
    if (is_lower)
        return total - half;
    return is_upper || total > 0 ? half : 0;
}

/* Pads from output_shape, auto_pad or output_padding. beyond: what the output has beyond what the
 * filter covers, before and after on each axis. */
static qn_status read_output(const qn_onnx_call *call, qn_onnx_window *w,
                             int64_t beyond[QN_ONNX_SPACE][2]) {
    const char *how = qn_onnx_text(call, "auto_pad", "");
    const bool is_upper = strcmp(how, "SAME_UPPER") == 0, is_lower = strcmp(how, "SAME_LOWER") == 0;
    int64_t more[QN_ONNX_SPACE], wanted[QN_ONNX_SPACE];
    QN_TRY(qn_onnx_window_numbers(call, "output_padding", w, 0, more));
    QN_TRY(qn_onnx_window_numbers(call, "output_shape", w, 0, wanted));
    for (int i = QN_ONNX_SPACE - w->n_axes; i < QN_ONNX_SPACE; i++) {
        const int64_t full =
            (w->extents[i] - 1) * w->strides[i] + (w->kernel[i] - 1) * w->dilations[i] + 1;
        if (wanted[i] == 0 && (is_upper || is_lower))
            wanted[i] = w->extents[i] * w->strides[i];
        if (wanted[i] > 0) {
            const int64_t total = full + more[i] - wanted[i];
            w->before[i] = before_of(total, is_upper, is_lower);
            w->after[i] = total - w->before[i];
        }
        w->after[i] -= more[i];
        beyond[i][0] = w->before[i] < 0 ? -w->before[i] : 0;
        beyond[i][1] = w->after[i] < 0 ? -w->after[i] : 0;
        w->before[i] += beyond[i][0];
        w->after[i] += beyond[i][1];
        if (beyond[i][0] > QN_ONNX_MOST_EXTENT || beyond[i][1] > QN_ONNX_MOST_EXTENT)
            return qn_fail(QN_ERROR_UNSUPPORTED, "its output is beyond all measure");
    }
    return QN_OK;
}

/* With rows and columns of zeros where the filter does not reach. */
static qn_value reach_beyond(qn_onnx_call *call, qn_value y, int64_t beyond[QN_ONNX_SPACE][2]) {
    for (int i = ROWS; i <= COLUMNS; i++) {
        if (beyond[i][0] > 0 || beyond[i][1] > 0)
            y = qn_pad(call->graph, qn_onnx_side_name(call, i == ROWS ? "rows" : "columns"), y,
                       1 + i - ROWS, beyond[i][0], beyond[i][1], QN_BORDER_VALUE, 0);
    }
    return y;
}

/* Group by group: channels of the input, rows of the filter. */
static qn_value transposed_groups(qn_onnx_call *call, qn_value x, qn_value filter, qn_window window,
                                  int groups) {
    qn_graph *g = call->graph;
    const int64_t width = qn_graph_shape(g, filter).dims[0] / groups;
    qn_value *parts = qn_onnx_scratch(call, (size_t)groups * sizeof *parts);
    for (int i = 0; parts && i < groups; i++) {
        const qn_value xi =
            qn_slice(g, qn_onnx_side_name(call, "channels"), x, 3, i * width, (i + 1) * width);
        const qn_value fi =
            qn_slice(g, qn_onnx_side_name(call, "rows"), filter, 0, i * width, (i + 1) * width);
        parts[i] =
            qn_conv2d_transpose(g, qn_onnx_side_name(call, "group"), xi, fi, QN_NO_VALUE, window);
    }
    return parts ? qn_concat(g, qn_onnx_side_name(call, "groups"), parts, groups, 3) : QN_NO_VALUE;
}

/* (Cin, C, D, R, S) as (Cin, R, S, D * C). */
static qn_value spread_filter(qn_onnx_call *call) {
    static const int order[] = {0, 3, 4, 2, 1};
    const qn_value filter = qn_onnx_parameter(call, 1, order, true);
    const qn_shape s = qn_graph_shape(call->graph, filter);
    return filter.id < 0 ? filter
                         : qn_reshape(call->graph, qn_onnx_side_name(call, "filter"), filter,
                                      QN_SHAPE(s.dims[0], s.dims[1], s.dims[2], -1));
}

/* What one depth of the filter adds to the output before its pads: y (N, D, P, Q, C), its depths a
 * stride apart and moved by `before`, in so many depths. */
static qn_value spread_depths(qn_onnx_call *call, qn_value y, int64_t stride, int64_t before,
                              int64_t n_depths) {
    qn_graph *g = call->graph;
    const qn_shape s = qn_graph_shape(g, y);
    const int64_t depths = s.dims[1], reach = (depths - 1) * stride + 1;
    if (stride > 1) {
        y = qn_reshape(g, qn_onnx_side_name(call, "one"), y, QN_SHAPE(s.dims[0], depths, 1, -1));
        y = qn_pad(g, qn_onnx_side_name(call, "apart"), y, 2, 0, stride - 1, QN_BORDER_VALUE, 0);
        y = qn_reshape(g, qn_onnx_side_name(call, "depths"), y,
                       QN_SHAPE(s.dims[0], depths * stride, s.dims[2], s.dims[3], s.dims[4]));
        y = qn_slice(g, qn_onnx_side_name(call, "reach"), y, 1, 0, reach);
    }
    return n_depths == reach ? y
                             : qn_pad(g, qn_onnx_side_name(call, "moved"), y, 1, before,
                                      n_depths - reach - before, QN_BORDER_VALUE, 0);
}

/* The sum of what all depths of the filter add: y (N * D, P, Q, groups * depths * C), of images,
 * becomes (N, depths of the output, P, Q, groups * C). */
static qn_value add_depths(qn_onnx_call *call, const qn_onnx_window *w, qn_value y, int groups,
                           int64_t beyond[2]) {
    qn_graph *g = call->graph;
    const int64_t depths = w->extents[DEPTHS], kernel = w->kernel[DEPTHS];
    const int64_t whole =
        (depths - 1) * w->strides[DEPTHS] + (kernel - 1) * w->dilations[DEPTHS] + 1;
    const qn_shape s = qn_graph_shape(g, y);
    qn_value sum = QN_NO_VALUE;
    if (y.id < 0)
        return y;
    const int64_t channels = s.dims[3] / kernel;
    y = qn_reshape(g, qn_onnx_side_name(call, "groups"), y,
                   QN_SHAPE(s.dims[0] * s.dims[1] * s.dims[2], groups, kernel, channels / groups));
    for (int64_t i = 0; i < kernel; i++) {
        qn_value part = qn_slice(g, qn_onnx_side_name(call, "depth"), y, 2, i, i + 1);
        part = qn_reshape(g, qn_onnx_side_name(call, "volume"), part,
                          QN_SHAPE(s.dims[0] / depths, depths, s.dims[1], s.dims[2], channels));
        part = spread_depths(call, part, w->strides[DEPTHS], i * w->dilations[DEPTHS], whole);
        sum = i == 0 ? part : qn_add(g, qn_onnx_side_name(call, "sum"), sum, part);
    }
    if (beyond[0] || beyond[1])
        sum = qn_pad(g, qn_onnx_side_name(call, "beyond"), sum, 1, beyond[0], beyond[1],
                     QN_BORDER_VALUE, 0);
    if (w->before[DEPTHS] || w->after[DEPTHS])
        sum = qn_slice(g, qn_onnx_side_name(call, "inside"), sum, 1, w->before[DEPTHS],
                       whole + beyond[0] + beyond[1] - w->after[DEPTHS]);
    return sum;
}

/* (N, D, H, W, C) as its images. */
static qn_value images_of(qn_onnx_call *call) {
    const qn_value x = qn_onnx_channels_last(call, 0, 5);
    const qn_shape s = qn_graph_shape(call->graph, x);
    return x.id < 0 ? x
                    : qn_reshape(call->graph, qn_onnx_side_name(call, "images"), x,
                                 QN_SHAPE(s.dims[0] * s.dims[1], s.dims[2], s.dims[3], s.dims[4]));
}

static qn_status build_conv_transpose(qn_onnx_call *call) {
    int64_t beyond[QN_ONNX_SPACE][2] = {{0}};
    qn_shape shape;
    qn_window window;
    int groups = 1;
    qn_onnx_window w;
    QN_TRY(read_convolution(call, true, &shape, &groups, &w));
    const bool is_volume = w.n_axes == 3;
    if (w.kernel[DEPTHS] > 4096)
        return qn_fail(QN_ERROR_UNSUPPORTED, "its filter is %lld deep",
                       (long long)w.kernel[DEPTHS]);
    QN_TRY(read_output(call, &w, beyond));
    QN_TRY(qn_onnx_window_of(&w, ROWS, COLUMNS, &window));
    if (shape.dims[0] % groups != 0 || groups > 4096)
        return qn_fail(QN_ERROR_FORMAT, "%d groups do not divide its %lld channels", groups,
                       (long long)shape.dims[0]);
    const qn_value x = is_volume ? images_of(call) : rows_of_input(call, &w);
    const qn_value filter = is_volume ? spread_filter(call) : read_filter(call, &w);
    window.kernel_h = window.kernel_w = 0;
    const bool has_bias = qn_onnx_has(call, 2);
    const char *name = has_bias || is_volume ? qn_onnx_side_name(call, "product") : call->name;
    qn_value y = groups > 1
                     ? transposed_groups(call, x, filter, window, groups)
                     : qn_conv2d_transpose(call->graph, name, x, filter, QN_NO_VALUE, window);
    y = reach_beyond(call, y, beyond);
    if (is_volume)
        y = add_depths(call, &w, y, groups, beyond[DEPTHS]);
    if (has_bias)
        y = qn_bias(call->graph, call->name, y, read_bias(call));
    give_rows(call, &w, y);
    return call->graph->status;
}

/* ---- pools ---- */

static qn_status read_pool(const qn_onnx_call *call, qn_onnx_window *w, bool *is_shortened) {
    QN_TRY(qn_onnx_window_read(call, NULL, false, w));
    *is_shortened = qn_onnx_int(call, "ceil_mode", 0) && qn_onnx_window_round_up(w);
    return QN_OK;
}

/* The first input as a pool takes it. */
static qn_value pool_input(qn_onnx_call *call, const qn_onnx_window *w) {
    return w->n_axes == 3 ? qn_onnx_channels_last(call, 0, 5) : rows_of_input(call, w);
}

static qn_value pool_of(qn_onnx_call *call, const qn_onnx_window *w, build_pool *build,
                        qn_value x) {
    qn_window window;
    if (w->n_axes == 3)
        return pool_volume(call, w, build, x);
    if (qn_onnx_window_of(w, ROWS, COLUMNS, &window) != QN_OK)
        return QN_NO_VALUE;
    return build(call->graph, call->name, x, window);
}

/* Gives what pool_of came to. */
static qn_status give_pool(qn_onnx_call *call, const qn_onnx_window *w, qn_value y) {
    if (y.id < 0 && call->graph->status == QN_OK)
        return QN_ERROR_UNSUPPORTED; /* the window said why */
    if (w->n_axes == 3)
        qn_onnx_give(call, 0, y, true);
    else
        give_rows(call, w, y);
    return call->graph->status;
}

static qn_status build_max_pool(qn_onnx_call *call) {
    bool is_shortened;
    qn_onnx_window w;
    QN_TRY(read_pool(call, &w, &is_shortened));
    if (qn_onnx_is_used(call, 1))
        return qn_fail(QN_ERROR_UNSUPPORTED, "its output of indices is used; export without it");
    return give_pool(call, &w, pool_of(call, &w, qn_max_pool, pool_input(call, &w)));
}

/* Zeros around (N, H, W, C) or (N, D, H, W, C), so that the window's own pads are left for what is
 * beyond them. */
static qn_value pad_with_zeros(qn_onnx_call *call, const int64_t before[QN_ONNX_SPACE],
                               const int64_t after[QN_ONNX_SPACE], qn_onnx_window *w, qn_value x) {
    const int rank = qn_graph_shape(call->graph, x).rank;
    for (int i = 0; i < QN_ONNX_SPACE; i++) {
        const int axis = rank - 1 - QN_ONNX_SPACE + i;
        if (before[i] + after[i] > 0)
            x = qn_pad(call->graph, qn_onnx_side_name(call, "zeros"), x, axis, before[i], after[i],
                       QN_BORDER_VALUE, 0);
        w->extents[i] += before[i] + after[i];
        w->before[i] -= before[i];
        w->after[i] -= after[i];
    }
    return x;
}

static qn_status build_average_pool(qn_onnx_call *call) {
    bool is_shortened, is_padded = false;
    qn_onnx_window w, plain;
    QN_TRY(qn_onnx_window_read(call, NULL, false, &plain));
    QN_TRY(read_pool(call, &w, &is_shortened));
    for (int i = 0; i < QN_ONNX_SPACE; i++)
        is_padded = is_padded || w.before[i] > 0 || w.after[i] > 0;
    const bool counts_pad = qn_onnx_int(call, "count_include_pad", 0) != 0;
    qn_value x = pool_input(call, &w);
    if (counts_pad && is_shortened) /* what is beyond the padding is not counted */
        x = pad_with_zeros(call, plain.before, plain.after, &w, x);
    build_pool *build =
        is_padded && (!counts_pad || is_shortened) ? qn_average_pool_inside : qn_average_pool;
    return give_pool(call, &w, pool_of(call, &w, build, x));
}

/* The norm of power p >= 1 of each window: x ^ p averaged with the padding's zeros, times the
 * elements of a window, and the root of that. */
static qn_value power_of(qn_onnx_call *call, qn_value x, int64_t p) {
    qn_graph *g = call->graph;
    if (p == 2)
        return qn_multiply(g, qn_onnx_side_name(call, "square"), x, x);
    x = qn_op_function(g, qn_onnx_side_name(call, "size"), x,
                       (qn_function){.kind = QN_FUNCTION_ABS});
    return p == 1 ? x
                  : qn_op_function(g, qn_onnx_side_name(call, "power"), x,
                                   (qn_function){.kind = QN_FUNCTION_POWER, .a = (double)p});
}

static qn_value root_of(qn_onnx_call *call, qn_value x, int64_t p, int64_t elements) {
    qn_graph *g = call->graph;
    x = qn_scale(g, qn_onnx_side_name(call, "sum"), x, (double)elements);
    if (p == 1)
        return x;
    return qn_op_function(g, qn_onnx_side_name(call, "root"), x,
                          p == 2 ? (qn_function){.kind = QN_FUNCTION_SQRT}
                                 : (qn_function){.kind = QN_FUNCTION_POWER, .a = 1.0 / (double)p});
}

static qn_status read_power(const qn_onnx_call *call, int64_t *p) {
    *p = qn_onnx_int(call, "p", 2);
    return *p >= 1 && *p <= 64
               ? QN_OK
               : qn_fail(QN_ERROR_UNSUPPORTED, "a norm of power %lld", (long long)*p);
}

static qn_status build_lp_pool(qn_onnx_call *call) {
    bool is_shortened;
    int64_t p;
    qn_onnx_window w;
    QN_TRY(read_power(call, &p));
    QN_TRY(read_pool(call, &w, &is_shortened));
    const qn_value y = pool_of(call, &w, qn_average_pool, power_of(call, pool_input(call, &w), p));
    return give_pool(call, &w,
                     root_of(call, y, p, w.kernel[DEPTHS] * w.kernel[ROWS] * w.kernel[COLUMNS]));
}

/* (N, C) as (N, 1, 1, C), or with as many axes of space as there are. */
static void give_global(qn_onnx_call *call, int rank, qn_value y) {
    const qn_shape s = qn_graph_shape(call->graph, y);
    qn_shape shape = {.rank = rank, .dims = {s.dims[0], 1, 1, 1}};
    if (y.id >= 0) { /* else the graph holds the failure */
        shape.dims[rank - 1] = s.dims[s.rank - 1];
        y = qn_reshape(call->graph, qn_onnx_side_name(call, "image"), y, shape);
    }
    qn_onnx_give(call, 0, y, true);
}

/* The first input as images: the depths of a volume are more rows. */
static qn_status read_global(qn_onnx_call *call, qn_onnx_window *w, qn_value *x) {
    QN_TRY(qn_onnx_window_read(call, NULL, false, w));
    *x = pool_input(call, w);
    if (w->n_axes == 3 && x->id >= 0)
        *x = qn_reshape(call->graph, qn_onnx_side_name(call, "rows"), *x,
                        QN_SHAPE(qn_graph_shape(call->graph, *x).dims[0],
                                 w->extents[DEPTHS] * w->extents[ROWS], w->extents[COLUMNS], -1));
    return call->graph->status;
}

static qn_status build_global_average_pool(qn_onnx_call *call) {
    qn_onnx_window w;
    qn_value x;
    QN_TRY(read_global(call, &w, &x));
    give_global(call, w.n_axes + 2, qn_global_average_pool(call->graph, call->name, x));
    return QN_OK;
}

static qn_status build_global_max_pool(qn_onnx_call *call) {
    qn_onnx_window w;
    qn_window window;
    qn_value x;
    QN_TRY(read_global(call, &w, &x));
    w.kernel[ROWS] = w.extents[DEPTHS] * w.extents[ROWS];
    w.kernel[COLUMNS] = w.extents[COLUMNS];
    QN_TRY(qn_onnx_window_of(&w, ROWS, COLUMNS, &window));
    give_global(call, w.n_axes + 2, qn_max_pool(call->graph, call->name, x, window));
    return QN_OK;
}

static qn_status build_global_lp_pool(qn_onnx_call *call) {
    int64_t p;
    qn_onnx_window w;
    qn_value x;
    QN_TRY(read_power(call, &p));
    QN_TRY(read_global(call, &w, &x));
    x = qn_global_average_pool(call->graph, call->name, power_of(call, x, p));
    x = root_of(call, x, p, w.extents[DEPTHS] * w.extents[ROWS] * w.extents[COLUMNS]);
    give_global(call, w.n_axes + 2, x);
    return call->graph->status;
}

const qn_onnx_translator qn_onnx_conv_pool_translators[] = {
    {"Conv", 2, 3, build_conv},
    {"ConvTranspose", 2, 3, build_conv_transpose},
    {"MaxPool", 1, 1, build_max_pool},
    {"AveragePool", 1, 1, build_average_pool},
    {"GlobalAveragePool", 1, 1, build_global_average_pool},
    {"GlobalMaxPool", 1, 1, build_global_max_pool},
    {"LpPool", 1, 1, build_lp_pool},
    {"GlobalLpPool", 1, 1, build_global_lp_pool},
    {NULL, 0, 0, NULL},
};
