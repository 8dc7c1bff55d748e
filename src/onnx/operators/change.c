/* Changes of a whole tensor that are put together of other operators: sequences that are reversed,
 * borders cut or added around the middle, patches added up to an image, normalised channels,
 * determinants. */
#include "base/status.h"
#include "onnx/axes.h"
#include "onnx/fold.h"
#include "onnx/operators/formula.h"
#include "onnx/operators/rows.h"

#include <math.h>

/* ---- ReverseSequence ---- */

/* Of each sequence the place that each place reads, (n, 1): the last for the first, up to its
 * length. */
static qn_value reversed_places(qn_onnx_call *call, int64_t n, int64_t length) {
    double *places = qn_onnx_scratch(call, ((size_t)length + 1) * sizeof *places);
    for (int64_t i = 0; places && i < length; i++)
        places[i] = (double)i;
    if (!places)
        return QN_NO_VALUE;
    const qn_value ends = qn_onnx_reshaped(
        call, "ends", qn_onnx_as_reals(call, qn_onnx_plain(call, 1)), QN_SHAPE(n, 1));
    qn_value at = qn_onnx_made_value(call, "places", QN_SHAPE(1, length), places);
    qn_value back = qn_onnx_combine(call, "back", QN_COMBINE_SUBTRACT,
                                    qn_onnx_line(call, "last", ends, 1, -1), at);
    const qn_value is_within = qn_onnx_combine(call, "within", QN_COMBINE_LESS, at, ends);
    at = qn_onnx_where(call, "at", is_within, back, at);
    return qn_onnx_reshaped(call, "tuples", qn_onnx_to_whole(call, "whole", at),
                            QN_SHAPE(n * length, 1));
}

static qn_status build_reverse(qn_onnx_call *call) {
    const qn_shape shape = qn_onnx_shape(call, 0);
    const int64_t batch = qn_onnx_int(call, "batch_axis", 1),
                  time = qn_onnx_int(call, "time_axis", 0);
    const qn_onnx_type type = qn_onnx_type_at(call, 0);
    qn_graph *g = call->graph;
    int order[QN_MAX_RANK];
    if (shape.rank < 2 || batch + time != 1 || batch < 0 || time < 0 ||
        qn_shape_count(qn_onnx_shape(call, 1)) != shape.dims[batch])
        return qn_fail(QN_ERROR_FORMAT, "its axes or lengths do not fit its input");
    for (int i = 0; i < shape.rank; i++)
        order[i] = i < 2 && time == 0 ? 1 - i : i;
    const int64_t n = shape.dims[batch], length = shape.dims[time];
    QN_TRY(qn_onnx_check_made(n * length));
    int64_t *bases = qn_onnx_scratch(call, ((size_t)(n * length) + 1) * sizeof *bases);
    for (int64_t i = 0; bases && i < n * length; i++)
        bases[i] = i / length * length;
    if (!bases)
        return QN_ERROR_MEMORY;
    qn_value x = qn_onnx_as_reals(call, qn_onnx_plain(call, 0));
    if (time == 0)
        x = qn_transpose(g, qn_onnx_side_name(call, "samples"), x, order);
    const qn_shape moved = qn_graph_shape(g, x);
    const qn_value rows =
        qn_op_row_numbers(g, qn_onnx_side_name(call, "rows"), reversed_places(call, n, length),
                          qn_onnx_listed(call, bases, n * length), QN_SHAPE(length), 1);
    x = qn_embedding(g, qn_onnx_side_name(call, "picked"),
                     qn_onnx_reshaped(call, "table", x, QN_SHAPE(n * length, -1)), rows);
    x = qn_onnx_reshaped(call, "sequences", x, moved);
    if (time == 0)
        x = qn_transpose(g, qn_onnx_side_name(call, "times"), x, order);
    qn_onnx_give_as(call, x, false, type);
    return g->status;
}

/* ---- CenterCropPad ---- */

static qn_status build_center(qn_onnx_call *call) {
    qn_onnx_operand x = qn_onnx_operand_of(call, 0);
    qn_graph *g = call->graph;
    const int64_t *list, *axes;
    int n, n_axes;
    QN_TRY(qn_onnx_list(call, NULL, 1, &list, &n));
    axes = qn_onnx_ints(call, "axes", &n_axes);
    if (n != (axes ? n_axes : x.shape.rank))
        return qn_fail(QN_ERROR_FORMAT, "%d extents for %d axes", n, axes ? n_axes : x.shape.rank);
    for (int i = 0; i < n; i++) {
        int axis;
        QN_TRY(qn_onnx_axis(axes ? axes[i] : i, x.shape.rank, &axis));
        const int64_t more = list[i] - x.shape.dims[axis], less = -more;
        const int at = qn_onnx_place_axis(&x, axis);
        if (list[i] < 1 || list[i] > INT32_MAX)
            return qn_fail(QN_ERROR_UNSUPPORTED, "an extent of %lld", (long long)list[i]);
        if (more > 0)
            x.x = qn_pad(g, qn_onnx_side_name(call, "pad"), x.x, at, more / 2, more - more / 2,
                         QN_BORDER_VALUE, 0);
        else if (more < 0)
            x.x =
                qn_slice(g, qn_onnx_side_name(call, "crop"), x.x, at, less / 2, less / 2 + list[i]);
    }
    qn_onnx_give_like(call, 0, x.x, x.is_image);
    return g->status;
}

/* ---- Col2Im ---- */

typedef struct patches {
    int n_axes;
    const int64_t *image, *block;
    int64_t strides[QN_MAX_RANK], dilations[QN_MAX_RANK], before[QN_MAX_RANK], counts[QN_MAX_RANK];
    int64_t n_blocks, n_places, n_elements;
} patches;

static void read_numbers(const qn_onnx_call *call, const char *name, int n, int64_t fallback,
                         int64_t *numbers) {
    int n_given;
    const int64_t *given = qn_onnx_ints(call, name, &n_given);
    for (int i = 0; i < n; i++)
        numbers[i] = given && i < n_given ? given[i] : fallback;
}

static qn_status read_patches(qn_onnx_call *call, patches *p) {
    int64_t pads[2 * QN_MAX_RANK];
    int n_block;
    QN_TRY(qn_onnx_list(call, NULL, 1, &p->image, &p->n_axes));
    QN_TRY(qn_onnx_list(call, NULL, 2, &p->block, &n_block));
    const int n = p->n_axes;
    if (n < 1 || n != n_block || n + 2 > QN_MAX_RANK)
        return qn_fail(QN_ERROR_UNSUPPORTED, "an image of %d axes and blocks of %d", n, n_block);
    read_numbers(call, "strides", n, 1, p->strides);
    read_numbers(call, "dilations", n, 1, p->dilations);
    read_numbers(call, "pads", 2 * n, 0, pads);
    p->n_blocks = p->n_places = p->n_elements = 1;
    for (int i = 0; i < n; i++) {
        const int64_t limit = 1 << 20, b = p->block[i], d = p->dilations[i], s = p->strides[i];
        if (p->image[i] < 1 || b < 1 || d < 1 || s < 1 || p->image[i] > limit || b > limit ||
            d > limit || s > limit || pads[i] < 0 || pads[n + i] < 0 || pads[i] > limit ||
            pads[n + i] > limit)
            return qn_fail(QN_ERROR_FORMAT, "an extent, stride, dilation or pad is out of range");
        const int64_t room = p->image[i] + pads[i] + pads[n + i] - d * (b - 1) - 1;
        if (room < 0)
            return qn_fail(QN_ERROR_FORMAT, "its blocks are larger than its image");
        p->before[i] = pads[i];
        p->counts[i] = room / s + 1;
        p->n_blocks *= b;
        p->n_places *= p->counts[i];
        p->n_elements *= p->image[i];
        QN_TRY(qn_onnx_check_made(p->n_blocks));
        QN_TRY(qn_onnx_check_made(p->n_places));
        QN_TRY(qn_onnx_check_made(p->n_elements));
    }
    return qn_onnx_check_made(p->n_blocks * p->n_places);
}

/* Where element `element` of the block at `place` is in the image; n_elements: in the padding. */
static int64_t target_of(const patches *p, int64_t element, int64_t place) {
    int64_t at = 0, stride = 1;
    for (int i = p->n_axes - 1; i >= 0; i--) {
        const int64_t x = place % p->counts[i] * p->strides[i] +
                          element % p->block[i] * p->dilations[i] - p->before[i];
        if (x < 0 || x >= p->image[i])
            return p->n_elements;
        at += x * stride;
        stride *= p->image[i];
        place /= p->counts[i];
        element /= p->block[i];
    }
    return at;
}

static qn_status build_patches(qn_onnx_call *call) {
    const qn_shape x = qn_onnx_shape(call, 0);
    qn_graph *g = call->graph;
    patches p;
    QN_TRY(read_patches(call, &p));
    if (x.rank != 3 || x.dims[1] % p.n_blocks != 0 || x.dims[2] != p.n_places)
        return qn_fail(QN_ERROR_FORMAT, "its input is not %lld blocks of %lld elements",
                       (long long)p.n_places, (long long)p.n_blocks);
    const int64_t n = p.n_blocks * p.n_places, images = x.dims[0] * (x.dims[1] / p.n_blocks);
    int64_t *targets = qn_onnx_scratch(call, ((size_t)n + 1) * sizeof *targets);
    if (!targets)
        return QN_ERROR_MEMORY;
    for (int64_t i = 0; i < n; i++)
        targets[i] = target_of(&p, i / p.n_places, i % p.n_places);
    qn_value y = qn_onnx_reshaped(call, "blocks", qn_onnx_plain(call, 0), QN_SHAPE(images, n));
    y = qn_transpose(g, qn_onnx_side_name(call, "elements"), y, (int[]){1, 0});
    y = qn_op_scatter_add(g, qn_onnx_side_name(call, "sums"), y, qn_onnx_listed(call, targets, n),
                          p.n_elements + 1);
    y = qn_slice(g, qn_onnx_side_name(call, "image"), y, 0, 0, p.n_elements);
    y = qn_transpose(g, qn_onnx_side_name(call, "images"), y, (int[]){1, 0});
    qn_shape shape = {.rank = p.n_axes + 2, .dims = {x.dims[0], x.dims[1] / p.n_blocks}};
    for (int i = 0; i < p.n_axes; i++)
        shape.dims[2 + i] = p.image[i];
    qn_onnx_give(call, 0, qn_onnx_reshaped(call, NULL, y, shape), false);
    return g->status;
}

/* ---- MeanVarianceNormalization ---- */

static qn_value mean_over(qn_onnx_call *call, qn_value x, unsigned axes) {
    qn_shape kept = qn_graph_shape(call->graph, x);
    for (int i = kept.rank - 1; i >= 0; i--) {
        if (!(axes >> i & 1))
            continue;
        x = qn_reduce(call->graph, qn_onnx_side_name(call, "mean"), x, i, QN_MEAN);
        kept.dims[i] = 1;
    }
    return qn_onnx_reshaped(call, "beside", x, kept);
}

/* (x - mean) / (deviation + 1e-9) over axes. */
static qn_status build_mean_variance(qn_onnx_call *call) {
    static const int64_t usual[] = {0, 2, 3};
    const qn_shape shape = qn_onnx_shape(call, 0);
    unsigned mask = 0;
    int n, axis;
    const int64_t *axes = qn_onnx_ints(call, "axes", &n);
    if (!axes) {
        axes = usual;
        n = 3;
    }
    for (int i = 0; i < n; i++) {
        QN_TRY(qn_onnx_axis(axes[i], shape.rank, &axis));
        mask |= 1u << axis;
    }
    const qn_value x = qn_onnx_plain(call, 0);
    const qn_value y =
        qn_onnx_combine(call, "centred", QN_COMBINE_SUBTRACT, x, mean_over(call, x, mask));
    qn_value size =
        mean_over(call, qn_multiply(call->graph, qn_onnx_side_name(call, "square"), y, y), mask);
    size = qn_onnx_line(call, "plus", qn_onnx_apply_kind(call, "root", size, QN_FUNCTION_SQRT), 1,
                        1e-9);
    qn_onnx_give(call, 0, qn_onnx_combine(call, NULL, QN_COMBINE_DIVIDE, y, size), false);
    return call->graph->status;
}

/* ---- Det ---- */

enum { MOST_ORDER = 4 };

typedef struct matrix {
    qn_onnx_call *call;
    int order;
    qn_value elements[MOST_ORDER][MOST_ORDER]; /* (n, 1) each */
} matrix;

/* Of the rows from one on and the columns of a mask, by the first row (Laplace). */
static qn_value minor_of(const matrix *m, int row, unsigned columns) {
    qn_value sum = QN_NO_VALUE;
    int sign = 1;
    for (int j = 0; j < m->order; j++) {
        if (!(columns >> j & 1))
            continue;
        if (row == m->order - 1)
            return m->elements[row][j];
        qn_value part = qn_onnx_combine(m->call, "part", QN_COMBINE_MULTIPLY, m->elements[row][j],
                                        minor_of(m, row + 1, columns & ~(1u << j)));
        sum = sum.id < 0
                  ? part
                  : qn_onnx_combine(m->call, "sum", sign > 0 ? QN_COMBINE_ADD : QN_COMBINE_SUBTRACT,
                                    sum, part);
        sign = -sign;
    }
    return sum;
}

static qn_status build_det(qn_onnx_call *call) {
    qn_shape shape = qn_onnx_shape(call, 0);
    const int64_t order = shape.rank >= 2 ? shape.dims[shape.rank - 1] : 0;
    matrix m = {.call = call, .order = (int)order};
    if (shape.rank < 2 || shape.dims[shape.rank - 2] != order || order < 1)
        return qn_fail(QN_ERROR_FORMAT, "its input is no square matrix");
    if (order > MOST_ORDER)
        return qn_fail(QN_ERROR_UNSUPPORTED, "determinants of %lld rows, where %d are the most",
                       (long long)order, MOST_ORDER);
    const qn_value x =
        qn_onnx_reshaped(call, "elements", qn_onnx_plain(call, 0), QN_SHAPE(-1, order * order));
    for (int i = 0; i < m.order * m.order; i++)
        m.elements[i / m.order][i % m.order] =
            qn_slice(call->graph, qn_onnx_side_name(call, "element"), x, 1, i, i + 1);
    shape.rank -= 2;
    qn_onnx_give(call, 0, qn_onnx_reshaped(call, NULL, minor_of(&m, 0, (1u << m.order) - 1), shape),
                 false);
    return call->graph->status;
}

const qn_onnx_translator qn_onnx_change_translators[] = {
    {"ReverseSequence", 2, 2, build_reverse},
    {"CenterCropPad", 2, 2, build_center},
    {"Col2Im", 3, 3, build_patches},
    {"MeanVarianceNormalization", 1, 1, build_mean_variance},
    {"Det", 1, 1, build_det},
    {NULL, 0, 0, NULL},
};
