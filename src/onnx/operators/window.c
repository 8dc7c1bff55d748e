/* See window.h. */
#include "onnx/operators/window.h"

#include "base/status.h"

#include <limits.h>
#include <string.h>

enum { MOST_EXTENT = QN_ONNX_MOST_EXTENT };

static int first_axis(const qn_onnx_window *w) {
    return QN_ONNX_SPACE - w->n_axes;
}

/* A list of an attribute, one number for each axis of space, to the right. */
qn_status qn_onnx_window_numbers(const qn_onnx_call *call, const char *name,
                                 const qn_onnx_window *w, int64_t fallback,
                                 int64_t numbers[QN_ONNX_SPACE]) {
    int n;
    const int64_t *given = qn_onnx_ints(call, name, &n);
    for (int i = 0; i < QN_ONNX_SPACE; i++)
        numbers[i] = fallback;
    if (n > 0 && n != w->n_axes)
        return qn_fail(QN_ERROR_FORMAT, "%s has %d numbers for %d axes", name, n, w->n_axes);
    for (int i = 0; i < n; i++) {
        if (given[i] < 0 || given[i] > MOST_EXTENT)
            return qn_fail(QN_ERROR_UNSUPPORTED, "%s has %lld in it", name, (long long)given[i]);
        numbers[QN_ONNX_SPACE - n + i] = given[i];
    }
    return QN_OK;
}

/* Pads below 0 crop; of a transposed window they add zeros. */
static qn_status read_pads(const qn_onnx_call *call, bool is_transposed, qn_onnx_window *w) {
    int n;
    const int64_t *pads = qn_onnx_ints(call, "pads", &n);
    if (n > 0 && n != 2 * w->n_axes)
        return qn_fail(QN_ERROR_FORMAT, "pads has %d numbers for %d axes", n, w->n_axes);
    for (int i = 0; i < n; i++) {
        if (pads[i] < (is_transposed ? -MOST_EXTENT : 0) || pads[i] > MOST_EXTENT)
            return qn_fail(QN_ERROR_UNSUPPORTED, "a pad is %lld; crop with Slice instead",
                           (long long)pads[i]);
        (i < w->n_axes ? w->before : w->after)[first_axis(w) + i % w->n_axes] = pads[i];
    }
    return QN_OK;
}

/* Pads with which the output is the input over the stride, rounded up. */
static void pad_same(qn_onnx_window *w, bool more_before) {
    for (int i = first_axis(w); i < QN_ONNX_SPACE; i++) {
        const int64_t outputs = (w->extents[i] + w->strides[i] - 1) / w->strides[i];
        const int64_t reach = (w->kernel[i] - 1) * w->dilations[i] + 1;
        int64_t total = (outputs - 1) * w->strides[i] + reach - w->extents[i];
        total = total > 0 ? total : 0;
        w->before[i] = more_before ? total - total / 2 : total / 2;
        w->after[i] = total - w->before[i];
    }
}

static qn_status read_automatic(const qn_onnx_call *call, bool is_transposed, qn_onnx_window *w) {
    const char *how = qn_onnx_text(call, "auto_pad", "NOTSET");
    const bool more_before = strcmp(how, "SAME_LOWER") == 0;
    if (strcmp(how, "NOTSET") == 0)
        return read_pads(call, is_transposed, w);
    if (strcmp(how, "VALID") == 0)
        return QN_OK;
    if (!more_before && strcmp(how, "SAME_UPPER") != 0)
        return qn_fail(QN_ERROR_FORMAT, "auto_pad is %s", how);
    if (!is_transposed) /* else they follow from what the output is to be */
        pad_same(w, more_before);
    return QN_OK;
}

qn_status qn_onnx_window_read(const qn_onnx_call *call, const int64_t *kernel, bool is_transposed,
                              qn_onnx_window *w) {
    const qn_shape x = qn_onnx_shape(call, 0);
    *w = (qn_onnx_window){.n_axes = x.rank - 2};
    if (x.rank < 3 || x.rank > 2 + QN_ONNX_SPACE)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "its input has rank %d, where sequences (N, C, T), images (N, C, H, W) and "
                       "volumes (N, C, D, H, W) are known here",
                       x.rank);
    for (int i = 0; i < QN_ONNX_SPACE; i++)
        w->extents[i] = i < first_axis(w) ? 1 : x.dims[x.rank - QN_ONNX_SPACE + i];
    QN_TRY(qn_onnx_window_numbers(call, "kernel_shape", w, 1, w->kernel));
    QN_TRY(qn_onnx_window_numbers(call, "strides", w, 1, w->strides));
    QN_TRY(qn_onnx_window_numbers(call, "dilations", w, 1, w->dilations));
    const bool is_said = qn_onnx_attribute_of(call, "kernel_shape") != NULL;
    for (int i = 0; i < w->n_axes && kernel; i++) {
        int64_t *said = &w->kernel[first_axis(w) + i];
        if (is_said && *said != kernel[i])
            return qn_fail(QN_ERROR_FORMAT, "kernel_shape says %lld where its filter has %lld",
                           (long long)*said, (long long)kernel[i]);
        *said = kernel[i];
    }
    for (int i = 0; i < QN_ONNX_SPACE; i++) {
        if (w->kernel[i] < 1 || w->strides[i] < 1 || w->dilations[i] < 1 ||
            w->kernel[i] > MOST_EXTENT)
            return qn_fail(QN_ERROR_FORMAT, "a kernel, stride or dilation is 0, or too large");
    }
    return read_automatic(call, is_transposed, w);
}

bool qn_onnx_window_round_up(qn_onnx_window *w) {
    bool is_shortened = false;
    for (int i = first_axis(w); i < QN_ONNX_SPACE; i++) {
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

qn_status qn_onnx_window_of(const qn_onnx_window *w, int rows, int columns, qn_window *window) {
    *window = (qn_window){.kernel_h = 1,
                          .kernel_w = 1,
                          .stride_h = 1,
                          .stride_w = 1,
                          .dilation_h = 1,
                          .dilation_w = 1};
    for (int i = 0; i < QN_ONNX_SPACE; i++) {
        if (w->before[i] > INT_MAX / 4 || w->after[i] > INT_MAX / 4)
            return qn_fail(QN_ERROR_UNSUPPORTED, "its pads are beyond all measure");
    }
    window->kernel_h = (int)w->kernel[rows];
    window->stride_h = (int)w->strides[rows];
    window->dilation_h = (int)w->dilations[rows];
    window->pad_top = (int)w->before[rows];
    window->pad_bottom = (int)w->after[rows];
    if (columns < 0)
        return QN_OK;
    window->kernel_w = (int)w->kernel[columns];
    window->stride_w = (int)w->strides[columns];
    window->dilation_w = (int)w->dilations[columns];
    window->pad_left = (int)w->before[columns];
    window->pad_right = (int)w->after[columns];
    return QN_OK;
}
