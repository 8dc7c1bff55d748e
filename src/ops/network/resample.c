/* Resampling along an axis: each result is an element of the axis or a weighted sum of a few.
 * Strided slices, padding, tiling, repetition and interpolation are all of this form; several axes
 * are processed one after the other. The map of an axis is a short table computed in the workspace;
 * the gradient uses its transpose. The batch axis is never split into pieces. */
#include "base/status.h"
#include "ops/reduce.h"
#include "ops/shared.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const qn_attribute resample_fields[] = {
    QN_FIELD(qn_resample_attributes, QN_ATTRIBUTE_INT, axis),
    QN_FIELD(qn_resample_attributes, QN_ATTRIBUTE_INT64, from),
    QN_FIELD(qn_resample_attributes, QN_ATTRIBUTE_INT64, to),
    QN_FIELD(qn_resample_attributes, QN_ATTRIBUTE_INT, interpolation),
    QN_FIELD(qn_resample_attributes, QN_ATTRIBUTE_INT, border),
    QN_FIELD(qn_resample_attributes, QN_ATTRIBUTE_DOUBLE, value),
    QN_FIELD(qn_resample_attributes, QN_ATTRIBUTE_DOUBLE, shift),
    QN_FIELD(qn_resample_attributes, QN_ATTRIBUTE_DOUBLE, step),
    QN_FIELD(qn_resample_attributes, QN_ATTRIBUTE_DOUBLE, scale),
    QN_FIELD(qn_resample_attributes, QN_ATTRIBUTE_DOUBLE, offset),
    QN_FIELD(qn_resample_attributes, QN_ATTRIBUTE_DOUBLE, cubic),
    QN_FIELD(qn_resample_attributes, QN_ATTRIBUTE_BOOL, leaves_outs),
    {0},
};

/* ---- where elements come from ---- */

/* Of what is outside, the element that stands for it. */
static int64_t bring_inside(int64_t i, int64_t n, int border) {
    const int64_t period = border == QN_BORDER_REFLECT ? 2 * (n - 1) : n;
    if (border == QN_BORDER_REFLECT || border == QN_BORDER_WRAP) {
        i = period > 0 ? (i % period + period) % period : 0;
        return i < n ? i : period - i;
    }
    return i < 0 ? 0 : i < n ? i : n - 1;
}

/* Weights of the elements around a place r (0 <= r < 1) behind one; the number of the first. */
static int weigh(const qn_resample_attributes *a, double r, double *weights) {
    const double c = a->cubic, near = 1 - r;
    if (a->interpolation == QN_LINEAR) {
        weights[0] = near;
        weights[1] = r;
        return 0;
    }
    weights[0] = ((c * (r + 1) - 5 * c) * (r + 1) + 8 * c) * (r + 1) - 4 * c;
    weights[1] = ((c + 2) * r - (c + 3)) * r * r + 1;
    weights[2] = ((c + 2) * near - (c + 3)) * near * near + 1;
    weights[3] = ((c * (near + 1) - 5 * c) * (near + 1) + 8 * c) * (near + 1) - 4 * c;
    return -1;
}

static int64_t nearest(int interpolation, double x) {
    switch (interpolation) {
    case QN_NEAREST:
        return (int64_t)ceil(x - 0.5);
    case QN_NEAREST_UP:
        return (int64_t)floor(x + 0.5);
    case QN_NEAREST_FLOOR:
        return (int64_t)floor(x);
    default:
        return (int64_t)ceil(x);
    }
}

int qn_resample_taps(const qn_resample_attributes *a, int64_t i, int32_t *at, double *weights) {
    double x = ((double)i + a->shift) * a->step / a->scale + a->offset;
    const double halves = round(2 * x) / 2; /* which rounding errors must not move */
    x = fabs(x - halves) < 1e-9 ? halves : x;
    if (a->border == QN_BORDER_VALUE && (x < 0 || x > (double)(a->from - 1)))
        return 0;
    if (a->interpolation < QN_LINEAR) {
        at[0] = (int32_t)bring_inside(nearest(a->interpolation, x), a->from, a->border);
        weights[0] = 1;
        return 1;
    }
    double all[QN_RESAMPLE_MOST_TAPS] = {0}, sum = 0;
    const int64_t first = (int64_t)floor(x) + weigh(a, x - floor(x), all);
    int n = 0;
    for (int t = 0; t < QN_RESAMPLE_MOST_TAPS; t++) {
        const bool is_out = first + t < 0 || first + t >= a->from;
        if (all[t] == 0 || (is_out && a->leaves_outs))
            continue;
        at[n] = (int32_t)bring_inside(first + t, a->from, a->border);
        weights[n++] = all[t];
        sum += all[t];
    }
    for (int t = 0; t < n && a->leaves_outs; t++)
        weights[t] /= sum;
    return n;
}

/* ---- the table: weights, then places, then where the rows begin ---- */

int qn_resample_most_taps(const qn_resample_attributes *a) {
    return a->interpolation < QN_LINEAR    ? 1
           : a->interpolation == QN_LINEAR ? 2
                                           : QN_RESAMPLE_MOST_TAPS;
}

/* ---- the operator ---- */

/* Of an axis of one extent that becomes one of the other. */
static qn_status infer_axis(qn_infer *infer, int64_t from, int64_t to) {
    const qn_resample_attributes *a = infer->attributes;
    char text[QN_SHAPE_TEXT];
    qn_shape shape = infer->inputs[0].shape;
    if (a->axis < 0 || a->axis >= shape.rank || shape.dims[a->axis] != from || to < 1 ||
        from > INT_MAX / QN_RESAMPLE_MOST_TAPS || to > INT_MAX / QN_RESAMPLE_MOST_TAPS)
        return qn_fail(QN_ERROR_ARGUMENT, "axis %d of %s cannot become one of %lld", a->axis,
                       qn_shape_print(shape, text), (long long)to);
    shape.dims[a->axis] = to;
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, shape};
    return QN_OK;
}

static qn_status resample_infer(qn_infer *infer) {
    const qn_resample_attributes *a = infer->attributes;
    const double reach = fabs(((double)a->to + fabs(a->shift)) * a->step / a->scale);
    if (!(reach + fabs(a->offset) < 1e15) || a->interpolation < QN_NEAREST ||
        a->interpolation > QN_CUBIC || a->border < QN_BORDER_VALUE || a->border > QN_BORDER_WRAP)
        return qn_fail(QN_ERROR_ARGUMENT, "there is no such interpolation, border, scale or place");
    if (infer->inputs[0].dtype == QN_I32 && a->interpolation >= QN_LINEAR)
        return qn_fail(QN_ERROR_ARGUMENT, "whole numbers have nothing between them");
    return infer_axis(infer, a->from, a->to);
}

/* The products and additions of a table without shortcuts. */
static qn_cost resample_cost(const void *attributes, const qn_tensor *inputs,
                             const qn_tensor *outputs) {
    const qn_resample_attributes *a = attributes;
    const qn_tensor *y = outputs[0].shape.dims[a->axis] == a->to ? outputs : inputs;
    return qn_cost_elements(2 * qn_resample_most_taps(a) - 1, y);
}

static void resample_gradient(qn_graph *graph, const qn_gradient *gradient) {
    gradient->inputs[0] =
        qn_gradient_add(graph, gradient->node, "backward", &qn_op_resample_backward,
                        gradient->outputs, 1, gradient->node->attributes);
}

/* Every interpolation, border and axis; smaller and larger. */
static qn_value resample_sample(qn_graph *graph, int variant) {
    static const struct {
        int axis, extent;
        qn_resampling how;
    } all[] = {
        {1, 14, {QN_NEAREST, QN_BORDER_EDGE, .shift = 0.5, .step = 1, .scale = 2, .offset = -0.5}},
        {1,
         3,
         {QN_NEAREST_UP, QN_BORDER_EDGE, .shift = 0.5, .step = 7, .scale = 3, .offset = -0.5}},
        {2, 8, {QN_NEAREST_FLOOR, QN_BORDER_EDGE, .step = 3, .scale = 8}},
        {2, 5, {QN_NEAREST_CEIL, QN_BORDER_EDGE, .step = 2, .scale = 4}},
        {1, 17, {QN_LINEAR, QN_BORDER_EDGE, .shift = 0.5, .step = 7, .scale = 17, .offset = -0.5}},
        {0, 9, {QN_LINEAR, QN_BORDER_EDGE, .step = 4, .scale = 8}},
        {1, 4, {QN_LINEAR, QN_BORDER_VALUE, .value = 2, .step = 3, .scale = 1, .offset = -1}},
        {1, 12, {QN_CUBIC, QN_BORDER_EDGE, 0, 0.5, 7, 12, -0.5, -0.75, false}},
        {1, 12, {QN_CUBIC, QN_BORDER_EDGE, 0, 0.5, 7, 12, -0.5, -0.5, true}},
        {1, 3, {QN_NEAREST, QN_BORDER_VALUE, .step = -3, .scale = 1, .offset = 6}},
        {0, 8, {QN_NEAREST, QN_BORDER_VALUE, .value = 0.5, .step = 1, .scale = 1, .offset = -2}},
        {2, 6, {QN_NEAREST, QN_BORDER_REFLECT, .step = 1, .scale = 1, .offset = -2}},
        {1, 19, {QN_NEAREST, QN_BORDER_WRAP, .step = 1, .scale = 1}},
        {2, 6, {QN_NEAREST, QN_BORDER_EDGE, .step = 0, .scale = 1}},
    };
    _Static_assert(sizeof all / sizeof *all == 14, "n_samples");
    qn_value x = qn_sample_parameter(graph, "x", QN_SHAPE(5, 7, 3), 1);
    return qn_resample(graph, "y", x, all[variant].axis, all[variant].extent, &all[variant].how);
}

const qn_op qn_op_resample = {
    .name = "resample",
    .attributes_bytes = sizeof(qn_resample_attributes),
    .attributes = resample_fields,
    .min_inputs = 1,
    .max_inputs = 1,
    .any_type_inputs = 1 << 0,
    .infer = resample_infer,
    .gradient = resample_gradient,
    .cost = resample_cost,
    .n_samples = 14,
    .sample = resample_sample,
};

/* ---- gradient: dx from dy ---- */

static qn_status backward_infer(qn_infer *infer) {
    const qn_resample_attributes *a = infer->attributes;
    return infer_axis(infer, a->to, a->from);
}

const qn_op qn_op_resample_backward = {
    .name = "resample_backward",
    .attributes_bytes = sizeof(qn_resample_attributes),
    .attributes = resample_fields,
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = backward_infer,
    .cost = resample_cost,
};

/* ---- what is made of it ---- */

qn_value qn_resample(qn_graph *graph, const char *name, qn_value x, int axis, int64_t extent,
                     const qn_resampling *how) {
    QN_NEED_OR(graph, "graph", QN_NO_VALUE);
    QN_NEED_OR(how, "how", QN_NO_VALUE);
    const qn_shape shape = qn_graph_shape(graph, x);
    qn_resample_attributes a = {.axis = axis < 0 ? axis + shape.rank : axis,
                                .to = extent,
                                .interpolation = (int)how->interpolation,
                                .border = (int)how->border,
                                .value = how->value,
                                .shift = how->shift,
                                .step = how->step,
                                .scale = how->scale,
                                .offset = how->offset,
                                .cubic = how->cubic,
                                .leaves_outs = how->leaves_outs};
    if (a.axis >= 0 && a.axis < shape.rank)
        a.from = shape.dims[a.axis];
    return qn_graph_add1(graph, &qn_op_resample, name, &x, 1, &a);
}

qn_value qn_slice_steps(qn_graph *graph, const char *name, qn_value x, int axis, int64_t begin,
                        int64_t step, int64_t extent) {
    QN_NEED_OR(graph, "graph", QN_NO_VALUE);
    if (step == 1)
        return qn_slice(graph, name, x, axis, begin, begin + extent);
    return qn_resample(graph, name, x, axis, extent,
                       &(qn_resampling){.step = (double)step, .scale = 1, .offset = (double)begin});
}

qn_value qn_pad(qn_graph *graph, const char *name, qn_value x, int axis, int64_t before,
                int64_t after, qn_border border, double value) {
    QN_NEED_OR(graph, "graph", QN_NO_VALUE);
    const qn_shape shape = qn_graph_shape(graph, x);
    const int at = axis < 0 ? axis + shape.rank : axis;
    int64_t extent = at >= 0 && at < shape.rank ? shape.dims[at] : 0;
    if (__builtin_add_overflow(extent, before, &extent) ||
        __builtin_add_overflow(extent, after, &extent))
        extent = 0;
    return qn_resample(
        graph, name, x, axis, extent,
        &(qn_resampling){
            .border = border, .value = value, .step = 1, .scale = 1, .offset = -(double)before});
}

/* Axes [begin, end), each of 1 now, of the shape's extents; those behind have them already. */
static qn_value expand_axes(qn_graph *graph, const char *name, qn_value x, qn_shape is,
                            qn_shape shape, int begin, int end) {
    char part[512];
    const int64_t inner = qn_shape_count_range(shape, end, shape.rank);
    snprintf(part, sizeof part, "%s.rows", name);
    x = qn_reshape(graph, qn_graph_unique(graph, part, false), x,
                   QN_SHAPE(qn_shape_count_range(is, 0, begin), 1, inner));
    snprintf(part, sizeof part, "%s.axis%d", name, begin);
    return qn_resample(graph, qn_graph_unique(graph, part, false), x, 1,
                       qn_shape_count_range(shape, begin, end),
                       &(qn_resampling){.border = QN_BORDER_EDGE, .scale = 1});
}

qn_value qn_expand(qn_graph *graph, const char *name, qn_value x, qn_shape shape) {
    QN_NEED_OR(graph, "graph", QN_NO_VALUE);
    char from[QN_SHAPE_TEXT], to[QN_SHAPE_TEXT];
    const qn_shape given = qn_graph_shape(graph, x);
    qn_shape is = {.rank = shape.rank};
    bool fits = given.rank <= shape.rank && qn_shape_is_valid(shape);
    if (!name)
        name = qn_graph_unique(graph, "expand", true);
    for (int i = 0, ahead = shape.rank - given.rank; fits && i < shape.rank; i++) {
        is.dims[i] = i < ahead ? 1 : given.dims[i - ahead];
        fits = is.dims[i] == 1 || is.dims[i] == shape.dims[i];
    }
    if (!fits && graph->status == QN_OK)
        qn_graph_fail(graph, QN_ERROR_ARGUMENT, "%s%s (expand): %s cannot become %s", graph->scope,
                      name, qn_shape_print(given, from), qn_shape_print(shape, to));
    if (!fits || graph->status != QN_OK)
        return QN_NO_VALUE;
    for (int end = shape.rank; end > 0; end--) {
        int begin = end;
        while (begin > 0 && is.dims[begin - 1] == 1 && shape.dims[begin - 1] > 1)
            begin--;
        if (begin < end)
            x = expand_axes(graph, name, x, is, shape, begin, end);
        end = begin < end ? begin + 1 : end;
    }
    return qn_reshape(graph, name, x, shape);
}
