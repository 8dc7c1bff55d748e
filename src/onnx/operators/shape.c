/* Shapes, and what puts elements into another shape, order or tensor. Of constants all of it is
 * done at import. */
#include "base/status.h"
#include "onnx/axes.h"
#include "onnx/builder.h"
#include "onnx/fold.h"

#include <math.h>

/* ---- shapes as numbers ---- */

static qn_status build_shape(qn_onnx_call *call) {
    const qn_shape shape = qn_onnx_shape(call, 0);
    int64_t begin = qn_onnx_int(call, "start", 0), end = qn_onnx_int(call, "end", shape.rank);
    begin += begin < 0 ? shape.rank : 0;
    end += end < 0 ? shape.rank : 0;
    begin = begin < 0 ? 0 : begin > shape.rank ? shape.rank : begin;
    end = end < begin ? begin : end > shape.rank ? shape.rank : end;
    return qn_onnx_give_whole(call, 0, QN_ONNX_INT64, QN_SHAPE(end - begin), shape.dims + begin);
}

static qn_status build_size(qn_onnx_call *call) {
    const int64_t count = qn_shape_count(qn_onnx_shape(call, 0));
    return qn_onnx_give_whole(call, 0, QN_ONNX_INT64, (qn_shape){0}, &count);
}

/* A number in every place: a constant with strides of 0. */
static qn_status build_constant_of_shape(qn_onnx_call *call) {
    const qn_onnx_attribute *a = qn_onnx_attribute_of(call, "value");
    static const int64_t none[QN_MAX_RANK] = {0};
    const int64_t *list;
    double zero = 0;
    int n;
    qn_shape shape;
    QN_TRY(qn_onnx_list(call, NULL, 0, &list, &n));
    QN_TRY(qn_onnx_shape_of_list(list, n, &shape));
    qn_onnx_constant fill = {.type = QN_ONNX_FLOAT, .n = 1, .reals = &zero};
    if (a && a->kind == QN_ONNX_ATTRIBUTE_TENSOR) {
        const qn_onnx_constant *given = qn_onnx_read_constant(&call->builder->arena, &a->tensor);
        if (!given)
            return QN_ERROR_UNSUPPORTED;
        if (given->n != 1)
            return qn_fail(QN_ERROR_FORMAT, "its value is not one number");
        fill = *given;
    }
    qn_onnx_item item = {.value = QN_NO_VALUE, .row = QN_NO_VALUE, .constant = &fill};
    qn_onnx_call filled = *call;
    filled.inputs = (qn_onnx_item *[]){&item};
    return qn_onnx_give_selection(&filled, 0, shape, 0, none);
}

/* A scalar, as a double; whole numbers of a range are far from where doubles have gaps. */
static bool read_scalar(const qn_onnx_call *call, int input, double *number) {
    const qn_onnx_constant *c = qn_onnx_constant_of(call, input);
    if (!c || c->n != 1)
        return false;
    *number = c->reals ? c->reals[0] : (double)c->whole[0];
    return true;
}

static qn_status build_range(qn_onnx_call *call) {
    double begin, end, step;
    if (!read_scalar(call, 0, &begin) || !read_scalar(call, 1, &end) ||
        !read_scalar(call, 2, &step))
        return qn_fail(QN_ERROR_UNSUPPORTED, "its bounds are known only when it runs");
    const double n = fmax(ceil((end - begin) / step), 0);
    if (!(n < 1 << 22) || fabs(begin) > 0x1p62 || fabs(end) > 0x1p62)
        return qn_fail(QN_ERROR_FORMAT, "it has %g numbers from %g on", n, begin);
    const bool is_real = qn_onnx_type_is_real(qn_onnx_type_at(call, 0));
    double *reals = qn_onnx_scratch(call, (size_t)n * sizeof *reals);
    int64_t *whole = (int64_t *)(void *)reals;
    for (int64_t i = 0; reals && i < (int64_t)n; i++) {
        const double number = begin + (double)i * step;
        if (is_real)
            reals[i] = number;
        else
            whole[i] = (int64_t)number;
    }
    if (!reals)
        return QN_ERROR_MEMORY;
    const qn_shape shape = QN_SHAPE((int64_t)n);
    return is_real ? qn_onnx_give_reals(call, 0, shape, reals)
                   : qn_onnx_give_whole(call, 0, qn_onnx_type_at(call, 0), shape, whole);
}

/* ---- the same elements in another shape ---- */

/* Input 0 in a shape of as many elements. */
static qn_status give_reshaped(qn_onnx_call *call, qn_shape shape) {
    int64_t strides[QN_MAX_RANK];
    if (qn_shape_count(shape) != qn_shape_count(qn_onnx_shape(call, 0)))
        return qn_fail(QN_ERROR_FORMAT, "its input has another number of elements");
    qn_onnx_strides(shape, strides);
    if (qn_onnx_is_known(call, 0))
        return qn_onnx_give_selection(call, 0, shape, 0, strides);
    const qn_value x = qn_onnx_as_reals(call, qn_onnx_plain(call, 0));
    qn_onnx_give_as(call, qn_reshape(call->graph, call->name, x, shape), false,
                    qn_onnx_type_at(call, 0));
    return QN_OK;
}

/* Replaces the extent of -1 by what the others leave of the count. */
static bool complete(qn_shape *shape, int64_t count) {
    int64_t others = 1;
    int open = -1;
    for (int i = 0; i < shape->rank; i++) {
        if (shape->dims[i] == -1 && open < 0)
            open = i;
        else if (shape->dims[i] < 0 || __builtin_mul_overflow(others, shape->dims[i], &others))
            return false;
    }
    if (open >= 0 && others > 0 && count % others == 0) {
        shape->dims[open] = count / others;
        return true;
    }
    return open < 0 && others == count;
}

/* A file that was made for one batch may have it at the front of a shape. */
static qn_status build_reshape(qn_onnx_call *call) {
    const qn_shape from = qn_onnx_shape(call, 0);
    const bool copies = qn_onnx_int(call, "allowzero", 0) == 0;
    const int64_t count = qn_shape_count(from);
    const int64_t *list;
    int64_t file, now;
    char text[QN_SHAPE_TEXT], wanted[QN_SHAPE_TEXT];
    int n;
    QN_TRY(qn_onnx_list(call, "shape", 1, &list, &n));
    if (n > QN_MAX_RANK)
        return qn_fail(QN_ERROR_UNSUPPORTED, "it makes %d axes, where %d are the most here", n,
                       QN_MAX_RANK);
    qn_shape shape = {.rank = n};
    for (int i = 0; i < n; i++)
        shape.dims[i] = list[i] == 0 && copies && i < from.rank ? from.dims[i] : list[i];
    const qn_shape given = shape;
    qn_shape batched = shape;
    qn_onnx_batch(call, &file, &now);
    const bool may_be_batch = n > 0 && file > 0 && file != now && shape.dims[0] == file;
    batched.dims[0] = n > 0 ? now : 0;
    const bool fits = complete(&shape, count);
    if (may_be_batch && (!fits || from.dims[0] == now) && complete(&batched, count))
        return give_reshaped(call, batched);
    if (fits)
        return give_reshaped(call, shape);
    return qn_fail(QN_ERROR_FORMAT, "%s cannot become %s", qn_shape_print(from, text),
                   qn_shape_print(given, wanted));
}

static qn_status build_flatten(qn_onnx_call *call) {
    const qn_shape x = qn_onnx_shape(call, 0);
    int64_t axis = qn_onnx_int(call, "axis", 1);
    axis += axis < 0 ? x.rank : 0;
    if (axis < 0 || axis > x.rank)
        return qn_fail(QN_ERROR_FORMAT, "it has an axis %lld", (long long)axis);
    return give_reshaped(call, QN_SHAPE(qn_shape_count_range(x, 0, (int)axis),
                                        qn_shape_count_range(x, (int)axis, x.rank)));
}

/* The axes that are listed, as a mask over a rank. */
static qn_status read_axes(qn_onnx_call *call, int rank, unsigned *mask, int *n) {
    const int64_t *list;
    int axis;
    *mask = 0;
    QN_TRY(qn_onnx_list(call, "axes", 1, &list, n));
    for (int i = 0; i < *n; i++) {
        QN_TRY(qn_onnx_axis(list[i], rank, &axis));
        if (*mask >> axis & 1)
            return qn_fail(QN_ERROR_FORMAT, "axis %d is there twice", axis);
        *mask |= 1u << axis;
    }
    return QN_OK;
}

static qn_status build_squeeze(qn_onnx_call *call) {
    const qn_shape x = qn_onnx_shape(call, 0);
    qn_shape y = {0};
    unsigned mask;
    int n;
    QN_TRY(read_axes(call, x.rank, &mask, &n));
    for (int i = 0; i < x.rank; i++) {
        const bool goes = n > 0 ? mask >> i & 1 : x.dims[i] == 1;
        if (!goes)
            y.dims[y.rank++] = x.dims[i];
    }
    return give_reshaped(call, y);
}

static qn_status build_unsqueeze(qn_onnx_call *call) {
    const qn_shape x = qn_onnx_shape(call, 0);
    const int64_t *list;
    unsigned mask;
    int n, from = 0;
    QN_TRY(qn_onnx_list(call, "axes", 1, &list, &n));
    if (n + x.rank > QN_MAX_RANK)
        return qn_fail(QN_ERROR_UNSUPPORTED, "it makes %d axes, where %d are the most here",
                       n + x.rank, QN_MAX_RANK);
    qn_shape y = {.rank = x.rank + n};
    QN_TRY(read_axes(call, y.rank, &mask, &n));
    for (int i = 0; i < y.rank; i++)
        y.dims[i] = mask >> i & 1 ? 1 : x.dims[from++];
    return give_reshaped(call, y);
}

/* ---- axes in another order ---- */

static bool is_identity(const int *order, int rank) {
    bool is_same = true;
    for (int i = 0; i < rank; i++)
        is_same = is_same && order[i] == i;
    return is_same;
}

static qn_status read_permutation(const qn_onnx_call *call, int rank, int order[QN_MAX_RANK]) {
    unsigned seen = 0;
    int n;
    const int64_t *list = qn_onnx_ints(call, "perm", &n);
    for (int i = 0; i < rank; i++) {
        const int64_t axis = n == rank ? list[i] : rank - 1 - i;
        if (axis < 0 || axis >= rank)
            return qn_fail(QN_ERROR_FORMAT, "it has an axis %lld", (long long)axis);
        order[i] = (int)axis;
        seen |= 1u << axis;
    }
    if ((n > 0 && n != rank) || seen != (1u << rank) - 1)
        return qn_fail(QN_ERROR_FORMAT, "its order is none of %d axes", rank);
    return QN_OK;
}

/* Between the file's order and channels last nothing is moved: the value is seen the other way. */
static qn_status build_transpose(qn_onnx_call *call) {
    const qn_shape shape = qn_onnx_shape(call, 0);
    int order[QN_MAX_RANK], here[QN_MAX_RANK], last[QN_MAX_RANK];
    int64_t strides[QN_MAX_RANK], moved[QN_MAX_RANK];
    qn_shape y = {.rank = shape.rank};
    QN_TRY(read_permutation(call, shape.rank, order));
    qn_onnx_strides(shape, strides);
    for (int i = 0; i < y.rank; i++) {
        y.dims[i] = shape.dims[order[i]];
        moved[i] = strides[order[i]];
    }
    if (qn_onnx_is_known(call, 0))
        return qn_onnx_give_selection(call, 0, y, 0, moved);
    if (qn_onnx_give_turned(call, order))
        return QN_OK;
    if (call->inputs[0]->initializer || shape.rank < 2) {
        qn_onnx_give_like(call, 0, qn_onnx_parameter(call, 0, order, true), false);
        return QN_OK;
    }
    const qn_onnx_operand x = qn_onnx_operand_of(call, 0);
    const qn_onnx_operand image = {QN_NO_VALUE, true, y};
    for (int i = 0; i < y.rank; i++) {
        here[i] = qn_onnx_place_axis(&x, order[i]);
        last[qn_onnx_place_axis(&image, i)] = here[i];
    }
    const bool is_image = y.rank == 4 && is_identity(last, y.rank);
    qn_onnx_give_like(call, 0,
                      is_image || is_identity(here, y.rank)
                          ? x.x
                          : qn_transpose(call->graph, call->name, x.x, here),
                      is_image);
    return QN_OK;
}

/* ---- between blocks of an image and its channels ---- */

/* axes: of six, of which `from` are the image's. */
static qn_status give_blocks(qn_onnx_call *call, qn_shape from, const int *order, qn_shape to) {
    const qn_value x = qn_onnx_image(call, 0);
    const qn_value split = qn_reshape(call->graph, qn_onnx_step_name(call, false), x, from);
    const qn_value moved = qn_transpose(call->graph, qn_onnx_step_name(call, false), split, order);
    qn_onnx_give_like(call, 0, qn_reshape(call->graph, call->name, moved, to), true);
    return QN_OK;
}

/* Whether channels, or height and width, are whole numbers of blocks. */
static qn_status check_block(const qn_onnx_call *call, qn_shape x, int64_t block, bool is_depth) {
    const bool fits = x.rank == 4 && block > 0 && block < 1 << 15 &&
                      (is_depth ? x.dims[1] % (block * block) == 0
                                : x.dims[2] % block == 0 && x.dims[3] % block == 0);
    if (fits)
        return QN_OK;
    return qn_fail(QN_ERROR_FORMAT, "%s does not fit an input of rank %d in blocks of %lld",
                   call->node->type, x.rank, (long long)block);
}

static qn_status build_depth_to_space(qn_onnx_call *call) {
    const qn_shape x = qn_onnx_shape(call, 0);
    const int64_t b = qn_onnx_int(call, "blocksize", 0);
    const bool is_column = qn_onnx_text(call, "mode", "DCR")[0] == 'C';
    QN_TRY(check_block(call, x, b, true));
    const int64_t n = x.dims[0], h = x.dims[2], w = x.dims[3], c = x.dims[1] / (b * b);
    const qn_shape to = QN_SHAPE(n, h * b, w * b, c);
    return is_column ? give_blocks(call, QN_SHAPE(n, h, w, c, b, b), (int[]){0, 1, 4, 2, 5, 3}, to)
                     : give_blocks(call, QN_SHAPE(n, h, w, b, b, c), (int[]){0, 1, 3, 2, 4, 5}, to);
}

static qn_status build_space_to_depth(qn_onnx_call *call) {
    const qn_shape x = qn_onnx_shape(call, 0);
    const int64_t b = qn_onnx_int(call, "blocksize", 0);
    QN_TRY(check_block(call, x, b, false));
    const int64_t n = x.dims[0], h = x.dims[2] / b, w = x.dims[3] / b, c = x.dims[1];
    const qn_shape from = QN_SHAPE(n, h, b, w, b, c), to = QN_SHAPE(n, h, w, b * b * c);
    const bool is_column = qn_onnx_text(call, "mode", "DCR")[0] == 'C';
    return is_column ? give_blocks(call, from, (int[]){0, 1, 3, 5, 2, 4}, to)
                     : give_blocks(call, from, (int[]){0, 1, 3, 2, 4, 5}, to);
}

/* ---- several side by side ---- */

/* Parts that are the same for every sample, beside others that have the batch, are given it. */
static qn_shape part_shape(const qn_onnx_call *call, int i, bool is_batch) {
    qn_shape shape = qn_onnx_shape(call, i);
    int64_t file;
    if (is_batch && qn_onnx_is_even(call, i))
        qn_onnx_batch(call, &file, &shape.dims[0]);
    return shape;
}

/* Whether parts are put side by side sample by sample: some have the batch. */
static bool is_by_sample(const qn_onnx_call *call, int axis) {
    int64_t file, now;
    bool is = false;
    qn_onnx_batch(call, &file, &now);
    for (int i = 0; i < call->n_inputs && axis > 0 && file != now; i++)
        is = is || (!qn_onnx_is_even(call, i) && qn_onnx_shape(call, i).dims[0] == now);
    return is;
}

/* Shape of the parts together along the axis; parts of nothing are passed over. */
static qn_status join_shapes(const qn_onnx_call *call, int axis, bool is_batch, qn_shape *whole) {
    *whole = part_shape(call, 0, is_batch);
    for (int i = 1; i < call->n_inputs; i++) {
        const qn_shape part = part_shape(call, i, is_batch);
        bool fits = part.rank == whole->rank;
        for (int k = 0; k < part.rank && fits; k++)
            fits = k == axis || part.dims[k] == whole->dims[k];
        if (!fits || __builtin_add_overflow(whole->dims[axis], part.dims[axis], &whole->dims[axis]))
            return qn_fail(QN_ERROR_FORMAT, "part %d has another shape", i);
    }
    return QN_OK;
}

/* Blocks of each part in turn: the axes from the axis on of each row of those before. */
static qn_status fold_concat(qn_onnx_call *call, int axis, qn_shape whole) {
    const int64_t rows = qn_shape_count_range(whole, 0, axis);
    int64_t *numbers = qn_onnx_scratch(call, (size_t)qn_shape_count(whole) * sizeof *numbers);
    double *reals = (double *)(void *)numbers;
    bool is_real = false;
    int64_t to = 0;
    for (int64_t row = 0; row < rows && numbers; row++) {
        for (int i = 0; i < call->n_inputs; i++) {
            const qn_onnx_constant *part = qn_onnx_constant_of(call, i);
            const int64_t block = part ? part->n / rows : 0;
            for (int64_t j = row * block; j < (row + 1) * block; j++, to++) {
                if (part->reals)
                    reals[to] = part->reals[j];
                else
                    numbers[to] = part->whole[j];
            }
            is_real = is_real || (part && part->reals);
        }
    }
    if (!numbers)
        return QN_ERROR_MEMORY;
    return is_real ? qn_onnx_give_reals(call, 0, whole, reals)
                   : qn_onnx_give_whole(call, 0, qn_onnx_type_at(call, 0), whole, numbers);
}

static qn_status build_concat(qn_onnx_call *call) {
    qn_onnx_operand whole = {.x = QN_NO_VALUE};
    int axis, n = 0;
    QN_TRY(qn_onnx_axis(qn_onnx_int(call, "axis", 0), qn_onnx_shape(call, 0).rank, &axis));
    const bool is_batch = is_by_sample(call, axis);
    QN_TRY(join_shapes(call, axis, is_batch, &whole.shape));
    if (qn_onnx_folds(call))
        return fold_concat(call, axis, whole.shape);
    for (int i = 0; i < call->n_inputs; i++)
        whole.is_image |= qn_onnx_is_image(call, i);
    qn_value *parts = qn_onnx_scratch(call, (size_t)call->n_inputs * sizeof *parts);
    for (int i = 0; parts && i < call->n_inputs; i++) {
        if (qn_onnx_shape(call, i).dims[axis] > 0)
            parts[n++] = is_batch && qn_onnx_is_even(call, i)
                             ? qn_onnx_for_batch(call, i, whole.is_image)
                         : whole.is_image ? qn_onnx_channels_last(call, i, whole.shape.rank)
                                          : qn_onnx_plain(call, i);
        if (qn_onnx_type_at(call, 0) == QN_ONNX_BOOL && n > 0) /* constants are whole numbers */
            parts[n - 1] = qn_onnx_as_reals(call, parts[n - 1]);
    }
    if (!parts)
        return QN_ERROR_MEMORY;
    qn_onnx_give_like(
        call, 0, qn_concat(call->graph, call->name, parts, n, qn_onnx_place_axis(&whole, axis)),
        whole.is_image);
    return QN_OK;
}

/* Elements [begin, begin + extent) of an axis as output i. */
static qn_status give_part(qn_onnx_call *call, int output, int axis, int64_t begin,
                           int64_t extent) {
    qn_shape shape = qn_onnx_shape(call, 0);
    int64_t strides[QN_MAX_RANK];
    qn_onnx_strides(shape, strides);
    shape.dims[axis] = extent;
    if (qn_onnx_is_known(call, 0))
        return qn_onnx_give_selection(call, output, shape, begin * strides[axis], strides);
    if (qn_shape_count(shape) == 0)
        return qn_onnx_give_empty(call, output, qn_onnx_type_at(call, 0), shape);
    const qn_onnx_operand x = qn_onnx_operand_of(call, 0);
    const char *name = qn_onnx_side_name(call, "part");
    qn_onnx_give_like(
        call, output,
        qn_slice(call->graph, name, x.x, qn_onnx_place_axis(&x, axis), begin, begin + extent),
        x.is_image);
    return QN_OK;
}

static qn_status build_split(qn_onnx_call *call) {
    const qn_shape x = qn_onnx_shape(call, 0);
    const int n_parts = call->node->n_outputs;
    const int64_t *sizes;
    int64_t begin = 0;
    int axis, n;
    QN_TRY(qn_onnx_axis(qn_onnx_int(call, "axis", 0), x.rank, &axis));
    QN_TRY(qn_onnx_list(call, "split", 1, &sizes, &n));
    const bool is_uneven = qn_onnx_int(call, "num_outputs", 0) > 0;
    const int64_t even = (x.dims[axis] + n_parts - 1) / n_parts;
    if (n > 0 ? n != n_parts : !is_uneven && x.dims[axis] % n_parts != 0)
        return qn_fail(QN_ERROR_FORMAT, "%lld elements cannot be split into its outputs",
                       (long long)x.dims[axis]);
    for (int i = 0; i < n_parts; i++) {
        const int64_t left = x.dims[axis] - begin;
        const int64_t extent = n > 0 ? sizes[i] : left < even ? left : even;
        if (extent < 0 || extent > x.dims[axis] - begin)
            return qn_fail(QN_ERROR_FORMAT, "its parts are more than there is");
        if (*call->node->outputs[i])
            QN_TRY(give_part(call, i, axis, begin, extent));
        begin += extent;
    }
    return QN_OK;
}

const qn_onnx_translator qn_onnx_shape_translators[] = {
    {"Shape", 1, 1, build_shape},
    {"Size", 1, 1, build_size},
    {"ConstantOfShape", 1, 1, build_constant_of_shape},
    {"Range", 3, 3, build_range},
    {"Reshape", 1, 2, build_reshape},
    {"Flatten", 1, 1, build_flatten},
    {"Squeeze", 1, 2, build_squeeze},
    {"Unsqueeze", 1, 2, build_unsqueeze},
    {"Transpose", 1, 1, build_transpose},
    {"DepthToSpace", 1, 1, build_depth_to_space},
    {"SpaceToDepth", 1, 1, build_space_to_depth},
    {"Concat", 1, -1, build_concat},
    {"Split", 1, 2, build_split},
    {NULL, 0, 0, NULL},
};
