/* What takes, repeats or works out elements along axes, one axis after the other: slices, pads,
 * tiles and changes of an image's size. */
#include "base/status.h"
#include "onnx/axes.h"
#include "onnx/fold.h"

#include <math.h>
#include <string.h>

/* ---- slices ---- */

typedef struct slice {
    int64_t begin, step, extent;
} slice;

static int64_t clamp(int64_t i, int64_t least, int64_t most) {
    return i < least ? least : i > most ? most : i;
}

/* Elements from start to before end; both may be negative (from the end) and far outside. */
static qn_status make_slice(int64_t start, int64_t end, int64_t step, int64_t n, slice *s) {
    if (step == 0 || step == INT64_MIN)
        return qn_fail(QN_ERROR_FORMAT, "its step is %lld", (long long)step);
    start += start < 0 ? n : 0;
    end += end < 0 ? n : 0;
    const int64_t back = step < 0;
    s->begin = clamp(start, 0, n - back);
    const int64_t stop = clamp(end, -back, n - back),
                  reach = back ? s->begin - stop : stop - s->begin;
    s->step = step;
    s->extent = reach > 0 ? (reach - 1) / (back ? -step : step) + 1 : 0;
    return QN_OK;
}

/* Slices of all axes; those that are not named are whole. */
static qn_status read_slices(qn_onnx_call *call, qn_shape shape, slice slices[QN_MAX_RANK]) {
    const int64_t *starts, *ends, *axes, *steps;
    int n, n_ends, n_axes, n_steps, axis;
    QN_TRY(qn_onnx_list(call, "starts", 1, &starts, &n));
    QN_TRY(qn_onnx_list(call, "ends", 2, &ends, &n_ends));
    QN_TRY(qn_onnx_list(call, "axes", 3, &axes, &n_axes));
    QN_TRY(qn_onnx_list(call, NULL, 4, &steps, &n_steps));
    if (n != n_ends || (n_axes > 0 && n_axes != n) || (n_steps > 0 && n_steps != n))
        return qn_fail(QN_ERROR_FORMAT, "its starts, ends, axes and steps are not as many");
    for (int i = 0; i < shape.rank; i++)
        slices[i] = (slice){0, 1, shape.dims[i]};
    for (int i = 0; i < n; i++) {
        QN_TRY(qn_onnx_axis(n_axes > 0 ? axes[i] : i, shape.rank, &axis));
        QN_TRY(make_slice(starts[i], ends[i], n_steps > 0 ? steps[i] : 1, shape.dims[axis],
                          &slices[axis]));
    }
    return QN_OK;
}

static qn_status fold_slice(qn_onnx_call *call, qn_shape shape, const slice *slices) {
    int64_t strides[QN_MAX_RANK], begin = 0;
    qn_onnx_strides(shape, strides);
    for (int i = 0; i < shape.rank; i++) {
        begin += slices[i].begin * strides[i];
        strides[i] *= slices[i].step;
        shape.dims[i] = slices[i].extent;
    }
    return qn_onnx_give_selection(call, 0, shape, begin, strides);
}

static bool is_whole(const slice *s, int64_t n) {
    return s->begin == 0 && s->step == 1 && s->extent == n;
}

static qn_status build_slice(qn_onnx_call *call) {
    const qn_shape shape = qn_onnx_shape(call, 0);
    slice slices[QN_MAX_RANK];
    qn_shape sliced = shape;
    int left = 0;
    QN_TRY(read_slices(call, shape, slices));
    if (qn_onnx_is_known(call, 0))
        return fold_slice(call, shape, slices);
    for (int i = 0; i < shape.rank; i++) {
        left += !is_whole(&slices[i], shape.dims[i]);
        sliced.dims[i] = slices[i].extent;
    }
    if (qn_shape_count(sliced) == 0)
        return qn_onnx_give_empty(call, 0, qn_onnx_type_at(call, 0), sliced);
    if (left == 0) {
        qn_onnx_give_input(call, 0, 0);
        return QN_OK;
    }
    qn_onnx_operand x = qn_onnx_operand_of(call, 0);
    for (int i = 0; i < shape.rank; i++) {
        const slice *s = &slices[i];
        if (!is_whole(s, shape.dims[i]))
            x.x = qn_slice_steps(call->graph, qn_onnx_step_name(call, --left == 0), x.x,
                                 qn_onnx_place_axis(&x, i), s->begin, s->step, s->extent);
    }
    qn_onnx_give_like(call, 0, x.x, x.is_image);
    return QN_OK;
}

/* ---- repetition ---- */

/* The shape both can be broadcast to. A file made for one batch may have it at the front. */
static qn_status join_broadcast(const qn_onnx_call *call, qn_shape x, qn_shape *y) {
    const int rank = x.rank > y->rank ? x.rank : y->rank;
    int64_t file, now;
    qn_shape both = {.rank = rank};
    qn_onnx_batch(call, &file, &now);
    for (int i = 0; i < rank; i++) {
        const int at_x = i - (rank - x.rank), at_y = i - (rank - y->rank);
        const int64_t a = at_x < 0 ? 1 : x.dims[at_x];
        int64_t b = at_y < 0 ? 1 : y->dims[at_y];
        if (i == 0 && b == file && a == now)
            b = now;
        if (a != b && a != 1 && b != 1)
            return qn_fail(QN_ERROR_FORMAT, "an extent of %lld cannot become %lld", (long long)a,
                           (long long)b);
        both.dims[i] = a == 1 ? b : a;
    }
    *y = both;
    return QN_OK;
}

/* Whether one row is repeated as often as the batch that the file was made for has samples. */
static bool is_for_batch(const qn_onnx_call *call, qn_shape x, qn_shape y) {
    int64_t file, now;
    qn_onnx_batch(call, &file, &now);
    return file > 1 && file != now && y.rank > 0 && y.dims[0] == file &&
           (x.rank < y.rank || x.dims[0] == 1);
}

/* The shape of input 0, with 1s where a constant of one number alone has the batch that the file
 * was made for, and y that which is now. */
static qn_shape shape_for_batch(const qn_onnx_call *call, qn_shape y) {
    const qn_onnx_constant *c = qn_onnx_is_known(call, 0) ? qn_onnx_constant_of(call, 0) : NULL;
    qn_shape shape = qn_onnx_shape(call, 0);
    int64_t file, now;
    bool is_one = c && c->reals;
    qn_onnx_batch(call, &file, &now);
    for (int64_t i = 1; is_one && i < c->n; i++)
        is_one = c->reals[i] == c->reals[0];
    for (int i = shape.rank - 1, j = y.rank - 1; i >= 0 && j >= 0 && is_one; i--, j--) {
        if (shape.dims[i] == file && y.dims[j] == now)
            shape.dims[i] = 1;
    }
    return shape;
}

static qn_status build_expand(qn_onnx_call *call) {
    const int64_t *list;
    int64_t own[QN_MAX_RANK], strides[QN_MAX_RANK];
    int n;
    qn_shape y;
    QN_TRY(qn_onnx_list(call, NULL, 1, &list, &n));
    QN_TRY(qn_onnx_shape_of_list(list, n, &y));
    const qn_shape x = shape_for_batch(call, y);
    QN_TRY(join_broadcast(call, x, &y));
    if (qn_shape_count(y) == 0)
        return qn_onnx_give_empty(call, 0, qn_onnx_type_at(call, 0), y);
    if (qn_shape_equal(x, y)) {
        qn_onnx_give_input(call, 0, 0);
        return QN_OK;
    }
    if (!qn_onnx_is_known(call, 0) && is_for_batch(call, x, y)) {
        qn_shape row = y;
        row.dims[0] = 1;
        qn_onnx_give_rows(
            call, 0,
            qn_expand(call->graph, qn_onnx_side_name(call, "row"), qn_onnx_plain(call, 0), row),
            y.dims[0]);
        return QN_OK;
    }
    if (!qn_onnx_is_known(call, 0)) {
        const qn_onnx_type type = qn_onnx_type_at(call, 0);
        const qn_value value = qn_onnx_as_reals(call, qn_onnx_plain(call, 0));
        qn_onnx_give_as(call, qn_expand(call->graph, call->name, value, y), false, type);
        return QN_OK;
    }
    qn_onnx_strides(x, own);
    for (int i = 0, ahead = y.rank - x.rank; i < y.rank; i++)
        strides[i] = i < ahead || x.dims[i - ahead] == 1 ? 0 : own[i - ahead];
    return qn_onnx_give_selection(call, 0, y, 0, strides);
}

static qn_status build_tile(qn_onnx_call *call) {
    const int64_t *repeats;
    int64_t extent;
    int n, left = 0;
    QN_TRY(qn_onnx_list(call, NULL, 1, &repeats, &n));
    qn_onnx_operand x = qn_onnx_operand_of(call, 0);
    qn_shape tiled = x.shape;
    if (n != x.shape.rank)
        return qn_fail(QN_ERROR_FORMAT, "it repeats %d axes of %d", n, x.shape.rank);
    for (int i = 0; i < n; i++) {
        left += repeats[i] != 1;
        if (repeats[i] < 0 || __builtin_mul_overflow(repeats[i], x.shape.dims[i], &extent))
            return qn_fail(QN_ERROR_UNSUPPORTED, "it repeats an axis %lld times",
                           (long long)repeats[i]);
        tiled.dims[i] = extent;
    }
    if (qn_shape_count(tiled) == 0)
        return qn_onnx_give_empty(call, 0, qn_onnx_type_at(call, 0), tiled);
    for (int i = 0; i < n; i++) {
        if (repeats[i] != 1)
            x.x = qn_pad(call->graph, qn_onnx_step_name(call, --left == 0), x.x,
                         qn_onnx_place_axis(&x, i), 0, (repeats[i] - 1) * x.shape.dims[i],
                         QN_BORDER_WRAP, 0);
    }
    qn_onnx_give_like(call, 0, x.x, x.is_image);
    return QN_OK;
}

/* ---- pads ---- */

static qn_status read_border(const qn_onnx_call *call, qn_border *border) {
    static const char *const names[] = {"constant", "edge", "reflect", "wrap"};
    const char *mode = qn_onnx_text(call, "mode", "constant");
    for (int i = 0; i < 4; i++) {
        *border = (qn_border)i;
        if (strcmp(mode, names[i]) == 0)
            return QN_OK;
    }
    return qn_fail(QN_ERROR_UNSUPPORTED, "pads of the kind %s", mode);
}

/* Pads of the axes that opset 18 may name, as those of all. */
static qn_status spread_pads(qn_onnx_call *call, int rank, const int64_t **pads, int n) {
    const int64_t *axes;
    int n_axes, axis;
    QN_TRY(qn_onnx_list(call, NULL, 3, &axes, &n_axes));
    const bool has_axes = qn_onnx_has(call, 3);
    if (n != 2 * (has_axes ? n_axes : rank))
        return qn_fail(QN_ERROR_FORMAT, "it has %d pads for %d axes", n, has_axes ? n_axes : rank);
    if (!has_axes)
        return QN_OK;
    int64_t *all = qn_onnx_scratch(call, 2 * (size_t)(rank + 1) * sizeof *all);
    if (!all)
        return QN_ERROR_MEMORY;
    memset(all, 0, 2 * (size_t)(rank + 1) * sizeof *all);
    for (int i = 0; i < n_axes; i++) {
        QN_TRY(qn_onnx_axis(axes[i], rank, &axis));
        all[axis] = (*pads)[i];
        all[rank + axis] = (*pads)[n_axes + i];
    }
    *pads = all;
    return QN_OK;
}

static qn_status build_pad(qn_onnx_call *call) {
    const qn_onnx_constant *fill = qn_onnx_has(call, 2) ? qn_onnx_constant_of(call, 2) : NULL;
    const int64_t *pads;
    qn_border border;
    int n, left = 0;
    QN_TRY(qn_onnx_list(call, "pads", 1, &pads, &n));
    QN_TRY(read_border(call, &border));
    if (qn_onnx_has(call, 2) && (!fill || fill->n != 1))
        return qn_fail(QN_ERROR_UNSUPPORTED, "its value is known only when it runs");
    const double value = !fill         ? qn_onnx_float(call, "value", 0)
                         : fill->reals ? fill->reals[0]
                                       : (double)fill->whole[0];
    qn_onnx_operand x = qn_onnx_operand_of(call, 0);
    const int rank = x.shape.rank;
    QN_TRY(spread_pads(call, rank, &pads, n));
    for (int i = 0; i < rank; i++)
        left += pads[i] != 0 || pads[rank + i] != 0;
    if (left == 0) {
        qn_onnx_give_input(call, 0, 0);
        return QN_OK;
    }
    for (int i = 0; i < rank; i++) {
        if (pads[i] != 0 || pads[rank + i] != 0)
            x.x = qn_pad(call->graph, qn_onnx_step_name(call, --left == 0), x.x,
                         qn_onnx_place_axis(&x, i), pads[i], pads[rank + i], border, value);
    }
    qn_onnx_give_like(call, 0, x.x, x.is_image);
    return QN_OK;
}

/* ---- other sizes ---- */

/* What is asked for, of each axis: the extent, and the scale that places are worked out by. */
typedef struct resize {
    const char *mode, *places, *nearest;
    int64_t extents[QN_MAX_RANK];
    double scales[QN_MAX_RANK];
    double region[QN_MAX_RANK][2]; /* of tf_crop_and_resize (is_part): begin and end */
    double cubic, outside;
    bool leaves_outs, is_part, is_smooth; /* antialias */
} resize;

/* Scales of all axes; false where they are not known. */
static bool read_scales(const qn_onnx_call *call, int input, int rank, double *scales) {
    const qn_onnx_attribute *a = qn_onnx_attribute_of(call, "scales");
    const qn_onnx_constant *c = qn_onnx_has(call, input) ? qn_onnx_constant_of(call, input) : NULL;
    const bool is_attribute = a && a->kind == QN_ONNX_ATTRIBUTE_FLOATS && a->n == rank;
    if (!is_attribute && (!c || !c->reals || c->n != rank))
        return false;
    for (int i = 0; i < rank; i++)
        scales[i] = is_attribute ? (double)a->numbers[i] : c->reals[i];
    return true;
}

/* Of the axes of a mask, sizes that keep their ratio: none larger, or none smaller, than wanted. */
static qn_status keep_aspect(const qn_onnx_call *call, qn_shape x, unsigned mask, int64_t *wanted,
                             double *kept) {
    const char *policy = qn_onnx_text(call, "keep_aspect_ratio_policy", "stretch");
    const bool is_least = strcmp(policy, "not_larger") == 0;
    double scale = is_least ? INFINITY : 0;
    if (strcmp(policy, "stretch") == 0)
        return QN_OK;
    if (!is_least && strcmp(policy, "not_smaller") != 0)
        return qn_fail(QN_ERROR_FORMAT, "there is no keep_aspect_ratio_policy %.40s", policy);
    for (int i = 0; i < x.rank; i++) {
        const double own = (double)wanted[i] / (double)x.dims[i];
        if (mask >> i & 1)
            scale = is_least ? fmin(scale, own) : fmax(scale, own);
    }
    for (int i = 0; i < x.rank; i++) {
        if (mask >> i & 1)
            wanted[i] = (int64_t)floor(scale * (double)x.dims[i] + 0.5);
    }
    *kept = scale;
    return QN_OK;
}

/* Scales or sizes of the axes that opset 18 may name, as those of all. */
static qn_status read_extents(const qn_onnx_call *call, bool is_old, qn_shape x, resize *r) {
    const int64_t *sizes, *axes;
    double scales[QN_MAX_RANK], kept = 0; /* one for all axes; 0: each has its own */
    int n, n_axes, axis;
    axes = qn_onnx_ints(call, "axes", &n_axes);
    const int given = n_axes > 0 && n_axes <= QN_MAX_RANK ? n_axes : x.rank;
    const bool has_scales = read_scales(call, is_old ? 1 : 2, given, scales);
    QN_TRY(qn_onnx_list(call, NULL, is_old ? -1 : 3, &sizes, &n));
    if (n > 0 ? n != given : !has_scales)
        return qn_fail(QN_ERROR_UNSUPPORTED, "its scales or sizes are not known at import");
    int64_t wanted[QN_MAX_RANK];
    unsigned resized = 0;
    for (int i = 0; i < x.rank; i++) {
        r->scales[i] = 1;
        wanted[i] = x.dims[i];
    }
    for (int i = 0; i < given; i++) {
        QN_TRY(qn_onnx_axis(n_axes > 0 ? axes[i] : i, x.rank, &axis));
        r->scales[axis] = n > 0 ? 1 : scales[i];
        wanted[axis] = n > 0 ? sizes[i] : wanted[axis];
        resized |= 1u << axis;
    }
    if (n > 0)
        QN_TRY(keep_aspect(call, x, resized, wanted, &kept));
    for (int i = 0; i < x.rank; i++) {
        const double extent = n > 0 ? (double)wanted[i] : floor((double)x.dims[i] * r->scales[i]);
        if (!(extent >= 1 && extent < INT32_MAX))
            return qn_fail(QN_ERROR_FORMAT, "it makes an extent of %g", extent);
        r->extents[i] = (int64_t)extent;
        if (n > 0)
            r->scales[i] = kept > 0 && (resized >> i & 1) ? kept : extent / (double)x.dims[i];
    }
    return QN_OK;
}

/* Begins and ends of the axes that opset 18 may name, as those of all. */
static qn_status read_region(const qn_onnx_call *call, int rank, resize *r) {
    const qn_onnx_constant *c = qn_onnx_constant_of(call, 1);
    int n_axes, axis;
    const int64_t *axes = qn_onnx_ints(call, "axes", &n_axes);
    const int given = n_axes > 0 && n_axes <= QN_MAX_RANK ? n_axes : rank;
    if (!c || !c->reals || c->n != 2 * given)
        return qn_fail(QN_ERROR_FORMAT, "its region has no begin and end for each axis");
    for (int i = 0; i < rank; i++)
        r->region[i][1] = 1;
    for (int i = 0; i < given; i++) {
        QN_TRY(qn_onnx_axis(n_axes > 0 ? axes[i] : i, rank, &axis));
        r->region[axis][0] = c->reals[i];
        r->region[axis][1] = c->reals[given + i];
    }
    r->is_part = true;
    return QN_OK;
}

static qn_status read_resize(const qn_onnx_call *call, qn_shape x, resize *r) {
    const bool is_old = call->opset < 11 || strcmp(call->node->type, "Upsample") == 0;
    *r = (resize){.mode = qn_onnx_text(call, "mode", "nearest"),
                  .places = qn_onnx_text(call, "coordinate_transformation_mode",
                                         is_old ? "asymmetric" : "half_pixel"),
                  .nearest =
                      qn_onnx_text(call, "nearest_mode", is_old ? "floor" : "round_prefer_floor"),
                  .cubic = qn_onnx_float(call, "cubic_coeff_a", -0.75),
                  .outside = qn_onnx_float(call, "extrapolation_value", 0),
                  .leaves_outs = qn_onnx_int(call, "exclude_outside", 0) != 0,
                  .is_smooth = qn_onnx_int(call, "antialias", 0) != 0};
    QN_TRY(read_extents(call, is_old, x, r));
    return strcmp(r->places, "tf_crop_and_resize") == 0 ? read_region(call, x.rank, r) : QN_OK;
}

static qn_status choose_interpolation(const resize *r, qn_interpolation *result) {
    static const char *const nearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                          "ceil"};
    if (strcmp(r->mode, "linear") == 0 || strcmp(r->mode, "cubic") == 0) {
        *result = r->mode[0] == 'l' ? QN_LINEAR : QN_CUBIC;
        return QN_OK;
    }
    for (int i = 0; i < 4 && strcmp(r->mode, "nearest") == 0; i++) {
        *result = (qn_interpolation)i;
        if (strcmp(r->nearest, nearest[i]) == 0)
            return QN_OK;
    }
    return qn_fail(QN_ERROR_UNSUPPORTED, "there is no resizing by %s, %s", r->mode, r->nearest);
}

/* Where the elements of an axis come from (the operator's description,
 * "coordinate_transformation_mode"). */
static qn_status choose_places(const resize *r, int axis, int64_t n, qn_resampling *how) {
    const int64_t m = r->extents[axis];
    const double last = (double)(n - 1), extent = (double)n * r->scales[axis];
    const double between =
        m > 1 && extent > 1 ? extent - 1 : 1; /* of a scale: not a whole number */
    const bool is_half = strcmp(r->places, "half_pixel") == 0 ||
                         (strcmp(r->places, "pytorch_half_pixel") == 0 && m > 1);
    how->step = 1;
    how->scale = r->scales[axis];
    if (is_half || strcmp(r->places, "tf_half_pixel_for_nn") == 0) {
        how->shift = 0.5;
        how->offset = is_half ? -0.5 : 0;
    } else if (strcmp(r->places, "pytorch_half_pixel") == 0) {
        how->step = 0;
    } else if (strcmp(r->places, "align_corners") == 0) {
        how->step = last;
        how->scale = between;
    } else if (strcmp(r->places, "half_pixel_symmetric") == 0) {
        how->shift = 0.5; /* around the middle, with an extent that was cut to a whole number */
        how->offset = (double)n / 2 * (1 - (double)m / extent) - 0.5;
    } else if (r->is_part) {
        const double begin = r->region[axis][0], end = r->region[axis][1];
        how->step = m > 1 ? (end - begin) * last : 0;
        how->scale = between;
        how->offset = m > 1 ? begin * last : (begin + end) / 2 * last;
        how->border = QN_BORDER_VALUE;
        how->value = r->outside;
    } else if (strcmp(r->places, "asymmetric") != 0) {
        return qn_fail(QN_ERROR_UNSUPPORTED, "there is no resizing with places by %s", r->places);
    }
    return QN_OK;
}

/* Whether an axis does not stay as it is: another extent, or a part of it. */
static bool is_sampled(const resize *r, qn_shape x, int axis) {
    return r->extents[axis] != x.dims[axis] ||
           (r->is_part && (r->region[axis][0] != 0 || r->region[axis][1] != 1));
}

/* ---- with antialias ---- */

/* The filter at a distance: a triangle, or Keys' cubic. */
static double filter_at(const resize *r, double x) {
    const double c = r->cubic;
    x = fabs(x);
    if (r->mode[0] == 'l')
        return x < 1 ? 1 - x : 0;
    if (x < 1)
        return ((c + 2) * x - (c + 3)) * x * x + 1;
    return x < 2 ? ((c * x - 5 * c) * x + 8 * c) * x - 4 * c : 0;
}

/* The weights (n) of an axis's elements in one that is made around a place: the filter is as wide
 * as the elements that become one. What is outside is left out, or stands at the edge. */
static void put_filter(const resize *r, double place, double scale, int64_t n, double *weights) {
    const double narrow = fmin(scale, 1), reach = (r->mode[0] == 'l' ? 1 : 2) / narrow;
    double sum = 0;
    for (int64_t i = (int64_t)floor(place - reach); i <= (int64_t)ceil(place + reach); i++) {
        const bool is_out = i < 0 || i >= n;
        const double weight =
            is_out && r->leaves_outs ? 0 : filter_at(r, ((double)i - place) * narrow);
        weights[clamp(i, 0, n - 1)] += weight;
        sum += weight;
    }
    for (int64_t i = 0; i < n; i++)
        weights[i] /= sum;
}

/* The place in the input that an element is made around. */
static double place_of(const qn_resampling *how, int64_t i) {
    return ((double)i + how->shift) * how->step / how->scale + how->offset;
}

/* An axis by a product with a matrix of the filter's weights. */
static qn_value smooth_axis(qn_onnx_call *call, const resize *r, qn_value x, int axis, int at,
                            const qn_resampling *how) {
    qn_graph *g = call->graph;
    qn_shape shape = qn_graph_shape(g, x);
    const int64_t n = shape.dims[at], m = r->extents[axis];
    const int last = shape.rank - 1;
    int order[QN_MAX_RANK];
    if (x.id < 0 || qn_onnx_check_made(n * m) != QN_OK)
        return QN_NO_VALUE;
    double *weights = qn_onnx_scratch(call, (size_t)(n * m + 1) * sizeof *weights);
    for (int64_t i = 0; weights && i < m; i++) {
        memset(weights + i * n, 0, (size_t)n * sizeof *weights);
        put_filter(r, place_of(how, i), r->scales[axis], n, weights + i * n);
    }
    if (!weights)
        return QN_NO_VALUE;
    for (int i = 0; i <= last; i++)
        order[i] = i == at ? last : i == last ? at : i;
    x = qn_transpose(g, qn_onnx_side_name(call, "turned"), x, order);
    shape = qn_graph_shape(g, x);
    x = qn_reshape(g, qn_onnx_side_name(call, "lines"), x, QN_SHAPE(-1, n));
    x = qn_matmul(g, qn_onnx_side_name(call, "smooth"), x,
                  qn_onnx_made_value(call, "filter", QN_SHAPE(m, n), weights), false, true);
    shape.dims[last] = m;
    x = qn_reshape(g, qn_onnx_side_name(call, "axes"), x, shape);
    return qn_transpose(g, qn_onnx_side_name(call, "back"), x, order);
}

/* A filter of antialias makes sense of images that become smaller between their elements. */
static qn_status build_smooth(qn_onnx_call *call, const resize *r, qn_onnx_operand x) {
    x.x = qn_onnx_as_reals(call, x.x);
    for (int i = 0; i < x.shape.rank; i++) {
        qn_resampling how = {.border = QN_BORDER_EDGE};
        if (!is_sampled(r, x.shape, i))
            continue;
        QN_TRY(choose_places(r, i, x.shape.dims[i], &how));
        if (how.border == QN_BORDER_VALUE)
            return qn_fail(QN_ERROR_UNSUPPORTED, "it cuts out a region with antialias");
        x.x = smooth_axis(call, r, x.x, i, qn_onnx_place_axis(&x, i), &how);
        if (x.x.id < 0)
            return call->graph->status != QN_OK ? call->graph->status : QN_ERROR_UNSUPPORTED;
    }
    qn_onnx_give_like(call, 0, x.x, x.is_image);
    return call->graph->status;
}

static qn_status build_resize(qn_onnx_call *call) {
    qn_onnx_operand x = qn_onnx_operand_of(call, 0);
    resize r;
    qn_resampling how;
    qn_interpolation interpolation;
    int left = 0;
    QN_TRY(read_resize(call, x.shape, &r));
    QN_TRY(choose_interpolation(&r, &interpolation));
    for (int i = 0; i < x.shape.rank; i++)
        left += is_sampled(&r, x.shape, i);
    if (left == 0) {
        qn_onnx_give_input(call, 0, 0);
        return QN_OK;
    }
    if (r.is_smooth && interpolation >= QN_LINEAR)
        return build_smooth(call, &r, x);
    for (int i = 0; i < x.shape.rank; i++) {
        if (!is_sampled(&r, x.shape, i))
            continue;
        how = (qn_resampling){.interpolation = interpolation,
                              .border = QN_BORDER_EDGE,
                              .cubic = r.cubic,
                              .leaves_outs = r.leaves_outs};
        QN_TRY(choose_places(&r, i, x.shape.dims[i], &how));
        x.x = qn_resample(call->graph, qn_onnx_step_name(call, --left == 0), x.x,
                          qn_onnx_place_axis(&x, i), r.extents[i], &how);
    }
    qn_onnx_give_like(call, 0, x.x, x.is_image);
    return QN_OK;
}

const qn_onnx_translator qn_onnx_resample_translators[] = {
    {"Slice", 1, 5, build_slice}, {"Expand", 2, 2, build_expand}, {"Tile", 2, 2, build_tile},
    {"Pad", 1, 4, build_pad},     {"Resize", 1, 4, build_resize}, {"Upsample", 1, 2, build_resize},
    {NULL, 0, 0, NULL},
};
