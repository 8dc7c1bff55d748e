/* Convolutions and pools over images and sequences. A sequence (N, C, T) is an image one row high,
 * so that there is one way for both; three axes of space are not known here. Pads, strides and
 * dilations may differ by side and axis; where a pool's last window is only partly inside
 * (ceil_mode), its pads are larger. */
#include "base/status.h"
#include "onnx/translate.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { MOST_EXTENT = 1 << 24 };

/* A window over a call's first input. */
typedef struct place {
    int n_axes;         /* of space: 1 or 2 */
    int64_t extents[2]; /* of the input, rows then columns; a sequence has one row */
    int64_t kernel[2], strides[2], dilations[2], before[2], after[2];
} place;

/* A list of an attribute, one number for each axis of space, to the right. */
static qn_status read_axes(const qn_onnx_call *call, const char *name, const place *w,
                           int64_t fallback, int64_t numbers[2]) {
    int n;
    const int64_t *given = qn_onnx_ints(call, name, &n);
    numbers[0] = numbers[1] = fallback;
    if (n > 0 && n != w->n_axes)
        return qn_fail(QN_ERROR_FORMAT, "%s has %d numbers for %d axes", name, n, w->n_axes);
    for (int i = 0; i < n; i++) {
        if (given[i] < 0 || given[i] > MOST_EXTENT)
            return qn_fail(QN_ERROR_UNSUPPORTED, "%s has %lld in it", name, (long long)given[i]);
        numbers[2 - n + i] = given[i];
    }
    if (w->n_axes == 1)
        numbers[0] = fallback;
    return QN_OK;
}

static qn_status read_pads(const qn_onnx_call *call, place *w) {
    int n;
    const int64_t *pads = qn_onnx_ints(call, "pads", &n);
    if (n > 0 && n != 2 * w->n_axes)
        return qn_fail(QN_ERROR_FORMAT, "pads has %d numbers for %d axes", n, w->n_axes);
    for (int i = 0; i < n; i++) {
        if (pads[i] < 0 || pads[i] > MOST_EXTENT)
            return qn_fail(QN_ERROR_UNSUPPORTED, "a pad is %lld; crop with Slice instead",
                           (long long)pads[i]);
        (i < w->n_axes ? w->before : w->after)[2 - w->n_axes + i % w->n_axes] = pads[i];
    }
    return QN_OK;
}

/* Pads with which the output is the input over the stride, rounded up. */
static void pad_same(place *w, bool more_before) {
    for (int i = 2 - w->n_axes; i < 2; i++) {
        const int64_t outputs = (w->extents[i] + w->strides[i] - 1) / w->strides[i];
        const int64_t reach = (w->kernel[i] - 1) * w->dilations[i] + 1;
        int64_t total = (outputs - 1) * w->strides[i] + reach - w->extents[i];
        total = total > 0 ? total : 0;
        w->before[i] = more_before ? total - total / 2 : total / 2;
        w->after[i] = total - w->before[i];
    }
}

/* Where a transposed convolution's output is to be the input times the stride. */
static void pad_same_transposed(place *w, bool more_before) {
    for (int i = 2 - w->n_axes; i < 2; i++) {
        int64_t total = (w->kernel[i] - 1) * w->dilations[i] + 1 - w->strides[i];
        total = total > 0 ? total : 0;
        w->before[i] = more_before ? total - total / 2 : total / 2;
        w->after[i] = total - w->before[i];
    }
}

static qn_status read_automatic(const qn_onnx_call *call, bool is_transposed, place *w) {
    const char *how = qn_onnx_text(call, "auto_pad", "NOTSET");
    const bool more_before = strcmp(how, "SAME_LOWER") == 0;
    if (strcmp(how, "NOTSET") == 0)
        return read_pads(call, w);
    if (strcmp(how, "VALID") == 0)
        return QN_OK;
    if (!more_before && strcmp(how, "SAME_UPPER") != 0)
        return qn_fail(QN_ERROR_FORMAT, "auto_pad is %s", how);
    if (is_transposed)
        pad_same_transposed(w, more_before);
    else
        pad_same(w, more_before);
    return QN_OK;
}

/* kernel null: from the attribute kernel_shape. */
static qn_status read_place(const qn_onnx_call *call, const int64_t *kernel, bool is_transposed,
                            place *w) {
    const qn_shape x = qn_onnx_shape(call, 0);
    *w = (place){.n_axes = x.rank - 2};
    if (x.rank != 3 && x.rank != 4)
        return qn_fail(
            QN_ERROR_UNSUPPORTED,
            "its input has rank %d, where images (N, C, H, W) and sequences (N, C, T) are "
            "known here",
            x.rank);
    w->extents[0] = x.rank == 4 ? x.dims[2] : 1;
    w->extents[1] = x.dims[x.rank - 1];
    QN_TRY(read_axes(call, "kernel_shape", w, 1, w->kernel));
    QN_TRY(read_axes(call, "strides", w, 1, w->strides));
    QN_TRY(read_axes(call, "dilations", w, 1, w->dilations));
    for (int i = 0; i < w->n_axes && kernel; i++)
        w->kernel[2 - w->n_axes + i] = kernel[i];
    for (int i = 0; i < 2; i++) {
        if (w->kernel[i] < 1 || w->strides[i] < 1 || w->dilations[i] < 1 ||
            w->kernel[i] > MOST_EXTENT)
            return qn_fail(QN_ERROR_FORMAT, "a kernel, stride or dilation is 0, or too large");
    }
    return read_automatic(call, is_transposed, w);
}

static qn_status window_of(const place *w, qn_window *window) {
    *window = (qn_window){.kernel_h = (int)w->kernel[0],
                          .kernel_w = (int)w->kernel[1],
                          .stride_h = (int)w->strides[0],
                          .stride_w = (int)w->strides[1],
                          .pad_top = (int)w->before[0],
                          .pad_left = (int)w->before[1],
                          .pad_bottom = (int)w->after[0],
                          .pad_right = (int)w->after[1],
                          .dilation_h = (int)w->dilations[0],
                          .dilation_w = (int)w->dilations[1]};
    for (int i = 0; i < 2; i++) {
        if (w->before[i] > INT_MAX / 4 || w->after[i] > INT_MAX / 4)
            return qn_fail(QN_ERROR_UNSUPPORTED, "its pads are beyond all measure");
    }
    return QN_OK;
}

/* The first input as (N, H, W, C); a sequence one row high. */
static qn_value rows_of_input(qn_onnx_call *call, const place *w) {
    const qn_value x = qn_onnx_channels_last(call, 0, w->n_axes + 2);
    const qn_shape s = qn_graph_shape(call->graph, x);
    if (w->n_axes == 2 || x.id < 0)
        return x;
    return qn_reshape(call->graph, qn_onnx_side_name(call, "image"), x,
                      QN_SHAPE(s.dims[0], 1, s.dims[1], s.dims[2]));
}

/* Gives (N, H, W, C), of a sequence (N, T, C). */
static void give_rows(qn_onnx_call *call, const place *w, qn_value y) {
    const qn_shape s = qn_graph_shape(call->graph, y);
    if (w->n_axes == 1 && y.id >= 0)
        y = qn_reshape(call->graph, qn_onnx_side_name(call, "sequence"), y,
                       QN_SHAPE(s.dims[0], s.dims[2], s.dims[3]));
    qn_onnx_give(call, 0, y, true);
}

/* The second input (K, C, R, S) or (K, C, R) as (K, R, S, C). */
static qn_value read_filter(qn_onnx_call *call, const place *w) {
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
    if (n < 1 || n > MOST_EXTENT)
        return qn_fail(QN_ERROR_FORMAT, "it has %lld groups", (long long)n);
    *groups = (int)n;
    return QN_OK;
}

/* What a convolution and its transpose have: their filter's shape, groups and window. */
static qn_status read_convolution(const qn_onnx_call *call, bool is_transposed, qn_shape *filter,
                                  int *groups, place *w) {
    QN_TRY(read_filter_shape(call, filter));
    QN_TRY(read_groups(call, groups));
    return read_place(call, filter->dims + 2, is_transposed, w);
}

static qn_value read_bias(qn_onnx_call *call) {
    return qn_onnx_has(call, 2) ? qn_onnx_parameter(call, 2, NULL, true) : QN_NO_VALUE;
}

static qn_status build_conv(qn_onnx_call *call) {
    qn_shape shape;
    qn_window window;
    int groups = 1;
    place w;
    QN_TRY(read_convolution(call, false, &shape, &groups, &w));
    QN_TRY(window_of(&w, &window));
    const qn_value x = rows_of_input(call, &w), filter = read_filter(call, &w);
    window.kernel_h = window.kernel_w = 0;
    give_rows(call, &w,
              qn_conv2d(call->graph, call->name, x, filter, read_bias(call), window, groups));
    return QN_OK;
}

/* ---- transposed ---- */

/* Pads from output_shape or output_padding. beyond: what the output has beyond what the filter
 * covers, before and after on each axis. */
static qn_status read_output(const qn_onnx_call *call, place *w, int64_t beyond[2][2]) {
    int64_t more[2], wanted[2];
    QN_TRY(read_axes(call, "output_padding", w, 0, more));
    QN_TRY(read_axes(call, "output_shape", w, 0, wanted));
    for (int i = 2 - w->n_axes; i < 2; i++) {
        const int64_t full =
            (w->extents[i] - 1) * w->strides[i] + (w->kernel[i] - 1) * w->dilations[i] + 1;
        if (wanted[i] > 0) {
            const int64_t total = full + more[i] - wanted[i];
            const bool is_lower = strcmp(qn_onnx_text(call, "auto_pad", ""), "SAME_LOWER") == 0;
            w->before[i] = is_lower ? total - total / 2 : total / 2;
            w->after[i] = total - w->before[i];
        }
        w->after[i] -= more[i];
        beyond[i][0] = w->before[i] < 0 ? -w->before[i] : 0;
        beyond[i][1] = w->after[i] < 0 ? -w->after[i] : 0;
        w->before[i] += beyond[i][0];
        w->after[i] += beyond[i][1];
        if (beyond[i][0] > MOST_EXTENT || beyond[i][1] > MOST_EXTENT)
            return qn_fail(QN_ERROR_UNSUPPORTED, "its output is beyond all measure");
    }
    return QN_OK;
}

/* With rows and columns of zeros where the filter does not reach. */
static qn_value reach_beyond(qn_onnx_call *call, qn_value y, int64_t beyond[2][2]) {
    for (int i = 0; i < 2; i++) {
        if (beyond[i][0] > 0 || beyond[i][1] > 0)
            y = qn_pad(call->graph, qn_onnx_side_name(call, i ? "columns" : "rows"), y, 1 + i,
                       beyond[i][0], beyond[i][1], QN_BORDER_VALUE, 0);
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

static qn_status build_conv_transpose(qn_onnx_call *call) {
    int64_t beyond[2][2] = {{0}};
    qn_shape shape;
    qn_window window;
    int groups = 1;
    place w;
    QN_TRY(read_convolution(call, true, &shape, &groups, &w));
    QN_TRY(read_output(call, &w, beyond));
    QN_TRY(window_of(&w, &window));
    if (shape.dims[0] % groups != 0 || groups > 4096)
        return qn_fail(QN_ERROR_FORMAT, "%d groups do not divide its %lld channels", groups,
                       (long long)shape.dims[0]);
    const qn_value x = rows_of_input(call, &w), filter = read_filter(call, &w);
    window.kernel_h = window.kernel_w = 0;
    const bool has_bias = qn_onnx_has(call, 2);
    const char *name = has_bias ? qn_onnx_side_name(call, "product") : call->name;
    qn_value y = groups > 1
                     ? transposed_groups(call, x, filter, window, groups)
                     : qn_conv2d_transpose(call->graph, name, x, filter, QN_NO_VALUE, window);
    y = reach_beyond(call, y, beyond);
    if (has_bias)
        y = qn_bias(call->graph, call->name, y, read_bias(call));
    give_rows(call, &w, y);
    return QN_OK;
}

/* ---- pools ---- */

/* Makes the pads behind larger where the last window, which starts in the image or the pad before
 * it, is cut off; true if one is. */
static bool round_up(place *w) {
    bool is_shortened = false;
    for (int i = 2 - w->n_axes; i < 2; i++) {
        const int64_t reach = (w->kernel[i] - 1) * w->dilations[i] + 1;
        const int64_t room = w->extents[i] + w->before[i] + w->after[i] - reach;
        if (room < 0 || room % w->strides[i] == 0)
            continue;
        const int64_t last = (room / w->strides[i] + 1) * w->strides[i];
        if (last >= w->extents[i] + w->before[i])
            continue;
        w->after[i] = last + reach - w->extents[i] - w->before[i];
        is_shortened = true;
    }
    return is_shortened;
}

static qn_status read_pool(const qn_onnx_call *call, place *w, qn_window *window,
                           bool *is_shortened) {
    QN_TRY(read_place(call, NULL, false, w));
    *is_shortened = qn_onnx_int(call, "ceil_mode", 0) && round_up(w);
    return window_of(w, window);
}

static qn_status build_max_pool(qn_onnx_call *call) {
    qn_window window;
    bool is_shortened;
    place w;
    QN_TRY(read_pool(call, &w, &window, &is_shortened));
    if (qn_onnx_is_used(call, 1))
        return qn_fail(QN_ERROR_UNSUPPORTED, "its output of indices is used; export without it");
    give_rows(call, &w, qn_max_pool(call->graph, call->name, rows_of_input(call, &w), window));
    return QN_OK;
}

static qn_status build_average_pool(qn_onnx_call *call) {
    qn_window window;
    bool is_shortened;
    place w;
    QN_TRY(read_pool(call, &w, &window, &is_shortened));
    const bool is_padded =
        window.pad_top || window.pad_left || window.pad_bottom || window.pad_right;
    const bool counts_pad = qn_onnx_int(call, "count_include_pad", 0) != 0;
    if (counts_pad && is_shortened)
        return qn_fail(
            QN_ERROR_UNSUPPORTED,
            "count_include_pad together with ceil_mode, where a window reaches beyond the "
            "padding; export without one of them");
    const qn_value x = rows_of_input(call, &w);
    give_rows(call, &w,
              is_padded && !counts_pad ? qn_average_pool_inside(call->graph, call->name, x, window)
                                       : qn_average_pool(call->graph, call->name, x, window));
    return QN_OK;
}

/* (N, C) as (N, 1, 1, C), or (N, 1, C). */
static void give_global(qn_onnx_call *call, int rank, qn_value y) {
    const qn_shape s = qn_graph_shape(call->graph, y);
    qn_shape shape = {.rank = rank, .dims = {s.dims[0], 1, 1}};
    if (y.id >= 0) { /* else the graph holds the failure */
        shape.dims[rank - 1] = s.dims[s.rank - 1];
        y = qn_reshape(call->graph, qn_onnx_side_name(call, "image"), y, shape);
    }
    qn_onnx_give(call, 0, y, true);
}

static qn_status build_global_average_pool(qn_onnx_call *call) {
    place w;
    QN_TRY(read_place(call, NULL, false, &w));
    const qn_value x = rows_of_input(call, &w);
    give_global(call, w.n_axes + 2, qn_global_average_pool(call->graph, call->name, x));
    return QN_OK;
}

static qn_status build_global_max_pool(qn_onnx_call *call) {
    place w;
    qn_window window;
    QN_TRY(read_place(call, NULL, false, &w));
    memcpy(w.kernel, w.extents, sizeof w.kernel);
    QN_TRY(window_of(&w, &window));
    give_global(call, w.n_axes + 2,
                qn_max_pool(call->graph, call->name, rows_of_input(call, &w), window));
    return QN_OK;
}

const qn_onnx_translator qn_onnx_conv_pool_translators[] = {
    {"Conv", 2, 3, build_conv},
    {"ConvTranspose", 2, 3, build_conv_transpose},
    {"MaxPool", 1, 1, build_max_pool},
    {"AveragePool", 1, 1, build_average_pool},
    {"GlobalAveragePool", 1, 1, build_global_average_pool},
    {"GlobalMaxPool", 1, 1, build_global_max_pool},
    {NULL, 0, 0, NULL},
};
