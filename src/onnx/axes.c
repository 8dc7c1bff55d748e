/* See axes.h. */
#include "onnx/axes.h"

#include "base/status.h"

/* Elements of a constant that is made of others. */
static const int64_t MOST_FOLDED = 1 << 22;

qn_onnx_operand qn_onnx_operand_of(qn_onnx_call *call, int input) {
    const qn_value x = qn_onnx_value_of(call, input);
    return (qn_onnx_operand){x, qn_onnx_is_image(call, input), qn_onnx_shape(call, input)};
}

int qn_onnx_place_axis(const qn_onnx_operand *operand, int axis) {
    if (!operand->is_image || axis == 0)
        return axis;
    return axis == 1 ? operand->shape.rank - 1 : axis - 1;
}

qn_status qn_onnx_axis(int64_t axis, int rank, int *result) {
    if (axis < -rank || axis >= rank)
        return qn_fail(QN_ERROR_FORMAT, "it has an axis %lld of something of rank %d",
                       (long long)axis, rank);
    *result = (int)(axis < 0 ? axis + rank : axis);
    return QN_OK;
}

qn_status qn_onnx_list(const qn_onnx_call *call, const char *attribute, int input,
                       const int64_t **list, int *n) {
    *list = attribute ? qn_onnx_ints(call, attribute, n) : NULL;
    if (!*list)
        *n = 0;
    if (*list || input < 0 || !qn_onnx_has(call, input))
        return QN_OK;
    const qn_onnx_constant *c = qn_onnx_constant_of(call, input);
    if (!c || !c->whole)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "its input %d is known only when it runs: export with constant shapes",
                       input);
    if (c->n > QN_ONNX_MOST_DIMS * QN_ONNX_MOST_DIMS)
        return qn_fail(QN_ERROR_UNSUPPORTED, "its input %d has %lld numbers", input,
                       (long long)c->n);
    *list = c->whole;
    *n = (int)c->n;
    return QN_OK;
}

qn_status qn_onnx_shape_of_list(const int64_t *list, int n, qn_shape *shape) {
    int64_t count = 1;
    if (n > QN_MAX_RANK)
        return qn_fail(QN_ERROR_UNSUPPORTED, "it makes %d axes, where %d are the most here", n,
                       QN_MAX_RANK);
    *shape = (qn_shape){.rank = n};
    for (int i = 0; i < n; i++) {
        shape->dims[i] = list[i];
        if (list[i] < 0 || __builtin_mul_overflow(count, list[i], &count) || count > INT64_MAX / 64)
            return qn_fail(QN_ERROR_FORMAT, "it makes an extent of %lld", (long long)list[i]);
    }
    return QN_OK;
}

void qn_onnx_strides(qn_shape shape, int64_t strides[QN_MAX_RANK]) {
    for (int i = 0; i < shape.rank; i++)
        strides[i] = qn_shape_count_range(shape, i + 1, shape.rank);
}

/* Elements of a shape, or more than may be folded: extents of the file may be absurd. */
static int64_t count_of(qn_shape shape) {
    int64_t count = 1;
    for (int i = 0; i < shape.rank; i++) {
        if (shape.dims[i] < 0 || __builtin_mul_overflow(count, shape.dims[i], &count))
            return INT64_MAX;
    }
    return count;
}

/* Element number i of a shape, where it comes from. */
static int64_t source_of(qn_shape shape, const int64_t *strides, int64_t i) {
    int64_t at = 0;
    for (int axis = shape.rank - 1; axis >= 0; i /= shape.dims[axis--])
        at += i % shape.dims[axis] * strides[axis];
    return at;
}

qn_status qn_onnx_give_selection(qn_onnx_call *call, int output, qn_shape shape, int64_t begin,
                                 const int64_t *strides) {
    const qn_onnx_constant *c = qn_onnx_constant_of(call, 0);
    const int64_t n = count_of(shape);
    if (!c || n > MOST_FOLDED)
        return qn_fail(QN_ERROR_UNSUPPORTED, "it makes more than %lld numbers at import",
                       (long long)MOST_FOLDED);
    int64_t *numbers = qn_onnx_scratch(call, (size_t)n * sizeof *numbers);
    double *reals = (double *)(void *)numbers;
    if (!numbers)
        return QN_ERROR_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = begin + source_of(shape, strides, i);
        if (c->reals)
            reals[i] = c->reals[at];
        else
            numbers[i] = c->whole[at];
    }
    return c->reals ? qn_onnx_give_reals(call, output, shape, reals)
                    : qn_onnx_give_whole(call, output, c->type, shape, numbers);
}

void qn_onnx_give_like(qn_onnx_call *call, int output, qn_value value, bool is_image) {
    qn_onnx_give_typed(call, output, value, is_image, qn_onnx_type_at(call, 0));
}

const char *qn_onnx_step_name(qn_onnx_call *call, bool is_last) {
    return is_last ? call->name : qn_onnx_side_name(call, "step");
}
