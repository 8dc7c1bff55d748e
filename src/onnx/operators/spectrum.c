/* Spectra and what goes before and after them. A discrete Fourier transform is a product with a
 * constant matrix of cosines and sines, one over short times a convolution with them times the
 * window, so gradients flow through both; windows and mel weights are constants. */
#include "base/status.h"
#include "onnx/axes.h"
#include "onnx/builder.h"
#include "onnx/fold.h"
#include "onnx/operators/window.h"

#include <math.h>

static const double PI = 3.14159265358979323846;

/* ---- windows ---- */

/* a - b cos(2 pi i / n) + c cos(4 pi i / n) for i below a size; n the size, or one less where it is
 * symmetric. */
static qn_status give_window(qn_onnx_call *call, double a, double b, double c) {
    int64_t size;
    QN_TRY(qn_onnx_number_of(call, 0, &size));
    QN_TRY(qn_onnx_check_made(size));
    const double n = (double)(qn_onnx_int(call, "periodic", 1) ? size : size - 1);
    double *y = qn_onnx_scratch(call, ((size_t)size + 1) * sizeof *y);
    for (int64_t i = 0; y && i < size; i++)
        y[i] =
            size == 1 ? 1 : a - b * cos(2 * PI * (double)i / n) + c * cos(4 * PI * (double)i / n);
    return qn_onnx_give_constant(
        call, y ? qn_onnx_make_constant(call, QN_ONNX_FLOAT, QN_SHAPE(size), y) : NULL);
}

static qn_status build_hann_window(qn_onnx_call *call) {
    return give_window(call, 0.5, 0.5, 0);
}

static qn_status build_hamming_window(qn_onnx_call *call) {
    return give_window(call, 25.0 / 46, 21.0 / 46, 0);
}

static qn_status build_blackman_window(qn_onnx_call *call) {
    return give_window(call, 0.42, 0.5, 0.08);
}

/* ---- mel weights ---- */

typedef struct mel {
    int64_t bands, length;
    double rate, lower, upper; /* Hz */
} mel;

static double mel_of(double frequency) {
    return 2595 * log10(1 + frequency / 700);
}

/* The bin of the spectrum at which band i begins; bands 0 to bands + 1. */
static int64_t bin_of(const mel *m, int64_t i) {
    const double step = (mel_of(m->upper) - mel_of(m->lower)) / (double)(m->bands + 2);
    const double frequency = 700 * (pow(10, (mel_of(m->lower) + step * (double)i) / 2595) - 1);
    return (int64_t)floor((double)(m->length + 1) * frequency / m->rate);
}

/* Triangles over the bins between their neighbours' tops: y (length / 2 + 1, bands). */
static void fill_mel(const mel *m, double *y) {
    const int64_t bins = m->length / 2 + 1;
    for (int64_t i = 0; i < m->bands; i++) {
        const int64_t low = bin_of(m, i), top = bin_of(m, i + 1), high = bin_of(m, i + 2);
        for (int64_t j = low < 0 ? 0 : low; j < high && j < bins; j++) {
            if (j < top)
                y[j * m->bands + i] = (double)(j - low) / (double)(top - low);
            else
                y[j * m->bands + i] = (double)(high - j) / (double)(high - top);
        }
        if (top >= 0 && top < bins)
            y[top * m->bands + i] = 1;
    }
}

static qn_status build_mel_weights(qn_onnx_call *call) {
    mel m;
    const qn_onnx_constant *c;
    const double *numbers[3];
    QN_TRY(qn_onnx_number_of(call, 0, &m.bands));
    QN_TRY(qn_onnx_number_of(call, 1, &m.length));
    for (int i = 0; i < 3; i++) {
        QN_TRY(qn_onnx_numbers_of(call, 2 + i, &c, &numbers[i]));
        if (c->n != 1)
            return qn_fail(QN_ERROR_FORMAT, "its input %d is not one number", 2 + i);
    }
    m.rate = numbers[0][0];
    m.lower = numbers[1][0];
    m.upper = numbers[2][0];
    if (m.bands < 1 || m.length < 1 || !(m.rate > 0) || !(m.lower >= 0 && m.lower <= m.upper))
        return qn_fail(QN_ERROR_FORMAT, "%lld bands of %lld samples at %g Hz from %g to %g Hz",
                       (long long)m.bands, (long long)m.length, m.rate, m.lower, m.upper);
    QN_TRY(qn_onnx_check_made(m.bands));
    QN_TRY(qn_onnx_check_made(m.length));
    const qn_shape shape = QN_SHAPE(m.length / 2 + 1, m.bands);
    QN_TRY(qn_onnx_check_made(qn_shape_count(shape)));
    double *y = qn_onnx_scratch(call, (size_t)qn_shape_count(shape) * sizeof *y);
    for (int64_t i = 0; y && i < qn_shape_count(shape); i++)
        y[i] = 0;
    if (y)
        fill_mel(&m, y);
    return qn_onnx_give_constant(call,
                                 y ? qn_onnx_make_constant(call, QN_ONNX_FLOAT, shape, y) : NULL);
}

/* ---- transforms ---- */

/* A transform of so many points; bins: how many of them are given. */
typedef struct transform {
    int64_t points, bins;
    bool is_inverse;
} transform;

/* What a sample at i adds to bin k, real and imaginary part, if it is 1 and if it is the imaginary
 * unit. */
static void put_factor(const transform *t, int64_t i, int64_t k, bool is_imaginary,
                       double factor[2]) {
    const double angle = 2 * PI * (double)(i * k % t->points) / (double)t->points;
    const double real = cos(angle), imaginary = t->is_inverse ? sin(angle) : -sin(angle);
    const double size = t->is_inverse ? 1 / (double)t->points : 1;
    factor[0] = size * (is_imaginary ? -imaginary : real);
    factor[1] = size * (is_imaginary ? real : imaginary);
}

static qn_status read_bins(qn_onnx_call *call, int64_t parts, bool fallback, transform *t) {
    const bool is_half = qn_onnx_int(call, "onesided", fallback) != 0;
    if (t->points < 1 || (parts != 1 && parts != 2))
        return qn_fail(QN_ERROR_FORMAT, "%lld points of %lld parts", (long long)t->points,
                       (long long)parts);
    if (is_half && (t->is_inverse || parts == 2))
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "onesided with %s; export with all bins, or real numbers",
                       t->is_inverse ? "an inverse transform" : "complex numbers");
    t->bins = is_half ? t->points / 2 + 1 : t->points;
    return qn_onnx_check_made(t->points);
}

/* x (rows, n * parts) times factors (n * parts, bins * 2); samples from t->points on do not count.
 */
static qn_value transform_rows(qn_onnx_call *call, const transform *t, qn_value x, int64_t n,
                               int64_t parts) {
    const qn_shape shape = QN_SHAPE(n * parts, t->bins * 2);
    if (qn_onnx_check_made(qn_shape_count(shape)) != QN_OK)
        return QN_NO_VALUE;
    double *factors = qn_onnx_scratch(call, (size_t)qn_shape_count(shape) * sizeof *factors);
    if (!factors)
        return QN_NO_VALUE;
    for (int64_t i = 0; i < n * parts; i++) {
        for (int64_t k = 0; k < t->bins; k++) {
            double *factor = factors + (i * t->bins + k) * 2;
            factor[0] = factor[1] = 0;
            if (i / parts < t->points)
                put_factor(t, i / parts, k, i % parts == 1, factor);
        }
    }
    return qn_matmul(call->graph, qn_onnx_side_name(call, "product"), x,
                     qn_onnx_made_value(call, "factors", shape, factors), false, false);
}

static qn_status read_axis(qn_onnx_call *call, int rank, int *axis) {
    int64_t number = qn_onnx_int(call, "axis", call->opset < 20 ? 1 : -2);
    if (qn_onnx_has(call, 2))
        QN_TRY(qn_onnx_number_of(call, 2, &number));
    QN_TRY(qn_onnx_axis(number, rank, axis));
    return *axis < rank - 1 ? QN_OK
                            : qn_fail(QN_ERROR_FORMAT, "its last axis is that of complex numbers");
}

static qn_status build_dft(qn_onnx_call *call) {
    qn_graph *g = call->graph;
    qn_shape shape = qn_onnx_shape(call, 0);
    transform t = {.is_inverse = qn_onnx_int(call, "inverse", 0) != 0};
    int axis, order[QN_MAX_RANK];
    if (shape.rank < 2)
        return qn_fail(QN_ERROR_FORMAT, "its input has rank %d", shape.rank);
    QN_TRY(read_axis(call, shape.rank, &axis));
    const int last = shape.rank - 1;
    const int64_t n = shape.dims[axis], parts = shape.dims[last];
    t.points = n;
    if (qn_onnx_has(call, 1))
        QN_TRY(qn_onnx_number_of(call, 1, &t.points));
    QN_TRY(read_bins(call, parts, false, &t));
    for (int i = 0; i <= last; i++)
        order[i] = i == axis ? last - 1 : i == last - 1 ? axis : i;
    qn_value x = qn_onnx_plain(call, 0);
    if (axis != last - 1)
        x = qn_transpose(g, qn_onnx_side_name(call, "turned"), x, order);
    qn_shape turned = qn_graph_shape(g, x);
    x = qn_reshape(g, qn_onnx_side_name(call, "rows"), x, QN_SHAPE(-1, n * parts));
    x = transform_rows(call, &t, x, n, parts);
    if (x.id < 0)
        return g->status != QN_OK ? g->status : QN_ERROR_UNSUPPORTED; /* check_made said why */
    turned.dims[last - 1] = t.bins;
    turned.dims[last] = 2;
    const bool is_turned = axis != last - 1;
    x = qn_reshape(g, is_turned ? qn_onnx_side_name(call, "axes") : call->name, x, turned);
    if (is_turned)
        x = qn_transpose(g, call->name, x, order);
    qn_onnx_give(call, 0, x, false);
    return g->status;
}

/* The length of frames, which is the window's where there is one. */
static qn_status read_frame(qn_onnx_call *call, int64_t *length) {
    *length = qn_onnx_has(call, 2) ? qn_shape_count(qn_onnx_shape(call, 2)) : 0;
    if (qn_onnx_has(call, 3)) {
        int64_t given;
        QN_TRY(qn_onnx_number_of(call, 3, &given));
        if (*length > 0 && given != *length)
            return qn_fail(QN_ERROR_FORMAT, "a window of %lld samples for frames of %lld",
                           (long long)*length, (long long)given);
        *length = given;
    }
    return *length > 0 ? QN_OK : qn_fail(QN_ERROR_FORMAT, "its frames have no length");
}

/* Marks what a node reads if one of its outputs is marked. */
static void mark_inputs(const qn_node *node, bool *is_part) {
    for (int i = 0; i < node->n_outputs; i++) {
        if (node->outputs[i].id < 0 || !is_part[node->outputs[i].id])
            continue;
        for (int j = 0; j < node->n_inputs; j++) {
            if (node->inputs[j].id >= 0)
                is_part[node->inputs[j].id] = true;
        }
    }
}

/* The window, and what it is made of, does not train: it is no weight, though it is written as one.
 */
static void stop_training(qn_onnx_call *call, qn_value window) {
    const qn_graph *g = call->graph;
    const qn_value_info *info = qn_graph_value(g, window);
    const int n = g->n_values;
    bool *is_part = info ? qn_onnx_scratch(call, (size_t)n * sizeof *is_part) : NULL;
    if (!is_part)
        return;
    for (int i = 0; i < n; i++)
        is_part[i] = i == window.id;
    for (int i = info->producer; i >= 0; i--)
        mark_inputs(g->nodes[i], is_part);
    for (int i = 0; i < n; i++)
        g->values[i]->trainable = g->values[i]->trainable && !is_part[i];
}

/* Factors times the window as filters (bins * 2, 1, length, parts). */
static qn_value spectrum_filter(qn_onnx_call *call, const transform *t, int64_t parts) {
    qn_graph *g = call->graph;
    const qn_shape shape = QN_SHAPE(t->bins * 2, 1, t->points, parts);
    if (qn_onnx_check_made(qn_shape_count(shape)) != QN_OK)
        return QN_NO_VALUE;
    double *filter = qn_onnx_scratch(call, (size_t)qn_shape_count(shape) * sizeof *filter);
    for (int64_t k = 0; filter && k < t->bins; k++) {
        for (int64_t i = 0; i < t->points * parts; i++) {
            double factor[2];
            put_factor(t, i / parts, k, i % parts == 1, factor);
            filter[(2 * k) * t->points * parts + i] = factor[0];
            filter[(2 * k + 1) * t->points * parts + i] = factor[1];
        }
    }
    if (!filter)
        return QN_NO_VALUE;
    const qn_value factors = qn_onnx_made_value(call, "factors", shape, filter);
    if (!qn_onnx_has(call, 2))
        return factors;
    qn_value window = qn_onnx_plain(call, 2);
    stop_training(call, window);
    window = qn_reshape(g, qn_onnx_side_name(call, "window"), window, QN_SHAPE(t->points, 1));
    return qn_op_combine(g, qn_onnx_side_name(call, "filter"), QN_COMBINE_MULTIPLY, factors,
                         window);
}

/* Frames of a signal (N, T) or (N, T, parts), a step apart: (N, frames, bins, 2). */
static qn_status build_stft(qn_onnx_call *call) {
    qn_graph *g = call->graph;
    const qn_shape shape = qn_onnx_shape(call, 0);
    const int64_t parts = shape.rank == 3 ? shape.dims[2] : 1;
    int64_t step;
    transform t = {0};
    if (shape.rank != 2 && shape.rank != 3)
        return qn_fail(QN_ERROR_FORMAT, "its signal has rank %d", shape.rank);
    QN_TRY(qn_onnx_number_of(call, 1, &step));
    QN_TRY(read_frame(call, &t.points));
    QN_TRY(read_bins(call, parts, true, &t));
    if (step < 1 || step > QN_ONNX_MOST_EXTENT || t.points > shape.dims[1])
        return qn_fail(QN_ERROR_FORMAT, "frames of %lld samples, %lld apart, of %lld",
                       (long long)t.points, (long long)step, (long long)shape.dims[1]);
    const qn_value filter = spectrum_filter(call, &t, parts);
    if (filter.id < 0)
        return g->status != QN_OK ? g->status : QN_ERROR_UNSUPPORTED; /* check_made said why */
    const qn_window frames = {.stride_h = 1, .stride_w = (int)step};
    qn_value x = qn_reshape(g, qn_onnx_side_name(call, "signal"), qn_onnx_plain(call, 0),
                            QN_SHAPE(shape.dims[0], 1, shape.dims[1], parts));
    x = qn_conv2d(g, qn_onnx_side_name(call, "frames"), x, filter, QN_NO_VALUE, frames, 1);
    x = qn_reshape(g, call->name, x,
                   QN_SHAPE(shape.dims[0], (shape.dims[1] - t.points) / step + 1, t.bins, 2));
    qn_onnx_give(call, 0, x, false);
    return g->status;
}

const qn_onnx_translator qn_onnx_spectrum_translators[] = {
    {"HannWindow", 1, 1, build_hann_window},
    {"HammingWindow", 1, 1, build_hamming_window},
    {"BlackmanWindow", 1, 1, build_blackman_window},
    {"MelWeightMatrix", 5, 5, build_mel_weights},
    {"DFT", 1, 3, build_dft},
    {"STFT", 2, 4, build_stft},
    {NULL, 0, 0, NULL},
};
