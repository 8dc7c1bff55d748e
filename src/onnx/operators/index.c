/* Picking elements along an axis by index. Rows of a table are an embedding; one index, or indices
 * that follow each other, are a slice; anything else is an embedding of the axis put first. Indices
 * that are known at import may count from the end. */
#include "base/status.h"
#include "onnx/axes.h"
#include "onnx/builder.h"
#include "onnx/fold.h"
#include "onnx/integers.h"

#include <stddef.h>

/* What is gathered: x as (outer, n, inner), and the result's shape. */
typedef struct gathering {
    int64_t outer, n, inner, picked;
    qn_shape shape;
} gathering;

static qn_status find_extents(qn_onnx_call *call, gathering *g) {
    const qn_shape x = qn_onnx_shape(call, 0), indices = qn_onnx_shape(call, 1);
    int axis;
    QN_TRY(qn_onnx_axis(qn_onnx_int(call, "axis", 0), x.rank, &axis));
    if (x.rank - 1 + indices.rank > QN_MAX_RANK)
        return qn_fail(QN_ERROR_UNSUPPORTED, "its result has %d axes, where %d are the most here",
                       x.rank - 1 + indices.rank, QN_MAX_RANK);
    *g = (gathering){.outer = qn_shape_count_range(x, 0, axis),
                     .n = x.dims[axis],
                     .inner = qn_shape_count_range(x, axis + 1, x.rank),
                     .picked = qn_shape_count(indices)};
    for (int i = 0; i < axis; i++)
        g->shape.dims[g->shape.rank++] = x.dims[i];
    for (int i = 0; i < indices.rank; i++)
        g->shape.dims[g->shape.rank++] = indices.dims[i];
    for (int i = axis + 1; i < x.rank; i++)
        g->shape.dims[g->shape.rank++] = x.dims[i];
    return QN_OK;
}

/* Indices known at import, counted from the front; *indices null: they are not known. */
static qn_status known_indices(qn_onnx_call *call, const gathering *g,
                               const qn_onnx_constant **indices) {
    const qn_onnx_constant *given = qn_onnx_is_known(call, 1) ? qn_onnx_constant_of(call, 1) : NULL;
    *indices = NULL;
    if (!given)
        return QN_OK;
    if (!given->whole)
        return qn_fail(QN_ERROR_FORMAT, "its indices are no whole numbers");
    qn_onnx_constant *counted = qn_onnx_scratch(call, sizeof *counted);
    int64_t *whole = qn_onnx_scratch(call, ((size_t)given->n + 1) * sizeof *whole);
    if (!counted || !whole)
        return QN_ERROR_MEMORY;
    for (int64_t i = 0; i < given->n; i++) {
        whole[i] = given->whole[i] + (given->whole[i] < 0 ? g->n : 0);
        if (whole[i] < 0 || whole[i] >= g->n)
            return qn_fail(QN_ERROR_FORMAT, "index %lld is none of an axis of %lld",
                           (long long)given->whole[i], (long long)g->n);
    }
    *counted = *given;
    counted->whole = whole;
    *indices = counted;
    return QN_OK;
}

static qn_status fold_gather(qn_onnx_call *call, const gathering *g,
                             const qn_onnx_constant *indices) {
    const qn_onnx_constant *x = qn_onnx_constant_of(call, 0);
    const size_t count = (size_t)(g->outer * g->picked * g->inner);
    int64_t *whole = qn_onnx_scratch(call, (count + 1) * sizeof *whole);
    double *reals = (double *)(void *)whole;
    if (!x || !whole)
        return qn_onnx_give_constant(call, NULL);
    for (int64_t i = 0, at = 0; i < g->outer; i++) {
        for (int64_t j = 0; j < g->picked; j++) {
            for (int64_t k = 0; k < g->inner; k++, at++) {
                const int64_t from = (i * g->n + indices->whole[j]) * g->inner + k;
                if (x->reals)
                    reals[at] = x->reals[from];
                else
                    whole[at] = x->whole[from];
            }
        }
    }
    return x->reals ? qn_onnx_give_reals(call, 0, g->shape, reals)
                    : qn_onnx_give_whole(call, 0, x->type, g->shape, whole);
}

static bool follow_each_other(const qn_onnx_constant *indices) {
    bool is = indices && indices->n > 0;
    for (int64_t i = 1; is && i < indices->n; i++)
        is = indices->whole[i] == indices->whole[i - 1] + 1;
    return is;
}

/* The indices as a value of whole numbers from the front on. */
static qn_value indices_value(qn_onnx_call *call, const gathering *g,
                              const qn_onnx_constant *indices) {
    const char *name = qn_onnx_side_name(call, "indices");
    qn_value value = QN_NO_VALUE;
    if (!name)
        return value;
    if (indices) {
        qn_onnx_item item = {.name = name,
                             .type = indices->type,
                             .value = QN_NO_VALUE,
                             .other = QN_NO_VALUE,
                             .row = QN_NO_VALUE,
                             .constant = indices};
        value = qn_onnx_item_value(call->builder, &item);
    } else {
        value = qn_onnx_plain(call, 1);
        if (value.id >= 0 && qn_dtype_is_real(qn_graph_tensor(call->graph, value).dtype))
            value = qn_onnx_real_as_integer(call, name, value, QN_ONNX_INT64);
        value = qn_op_wrap_index(call->graph, qn_onnx_side_name(call, "front"), value, g->n);
    }
    return value;
}

/* Rows of the axis that is put first. */
static qn_value pick_rows(qn_onnx_call *call, const gathering *g, qn_value x, qn_value indices) {
    static const int order[] = {1, 0, 2};
    qn_graph *graph = call->graph;
    const char *first = qn_onnx_side_name(call, "first"), *back = qn_onnx_side_name(call, "back");
    if (!first || !back)
        return QN_NO_VALUE;
    if (g->outer > 1)
        x = qn_transpose(graph, first,
                         qn_reshape(graph, NULL, x, QN_SHAPE(g->outer, g->n, g->inner)), order);
    x = qn_reshape(graph, NULL, x, QN_SHAPE(g->n, g->outer * g->inner));
    x = qn_embedding(graph, call->name, x, indices);
    if (g->outer > 1)
        x = qn_transpose(graph, back,
                         qn_reshape(graph, NULL, x, QN_SHAPE(g->picked, g->outer, g->inner)),
                         order);
    return x;
}

static qn_status build_gather(qn_onnx_call *call) {
    const qn_onnx_type type = qn_onnx_type_at(call, 0);
    const qn_onnx_constant *indices;
    qn_graph *graph = call->graph;
    gathering g = {0};
    QN_TRY(find_extents(call, &g));
    QN_TRY(known_indices(call, &g, &indices));
    if (indices && qn_onnx_is_known(call, 0))
        return fold_gather(call, &g, indices);
    if (qn_shape_count(g.shape) == 0)
        return qn_onnx_give_empty(call, 0, type, g.shape);
    qn_value x = qn_onnx_as_reals(call, qn_onnx_plain(call, 0));
    if (follow_each_other(indices)) {
        x = qn_reshape(graph, NULL, x, QN_SHAPE(g.outer, g.n, g.inner));
        x = qn_slice(graph, call->name, x, 1, indices->whole[0], indices->whole[0] + indices->n);
    } else {
        x = pick_rows(call, &g, x, indices_value(call, &g, indices));
    }
    qn_onnx_give_as(call, qn_reshape(graph, NULL, x, g.shape), false, type);
    return graph->status;
}

/* The numbers of what a condition that is known at import keeps. */
static qn_status kept_indices(qn_onnx_call *call, int64_t most, qn_onnx_constant *indices) {
    const qn_onnx_constant *condition;
    const double *numbers;
    QN_TRY(qn_onnx_numbers_of(call, 1, &condition, &numbers));
    int64_t *whole = qn_onnx_scratch(call, ((size_t)condition->n + 1) * sizeof *whole);
    if (!whole)
        return QN_ERROR_MEMORY;
    *indices = (qn_onnx_constant){.type = QN_ONNX_INT64, .whole = whole};
    for (int64_t i = 0; i < condition->n; i++) {
        if (numbers[i] != 0 && i >= most)
            return qn_fail(QN_ERROR_FORMAT, "its condition is longer than its input");
        if (numbers[i] != 0)
            whole[indices->n++] = i;
    }
    indices->shape = QN_SHAPE(indices->n);
    return QN_OK;
}

static qn_status build_compress(qn_onnx_call *call) {
    const qn_shape x = qn_onnx_shape(call, 0);
    const qn_onnx_type type = qn_onnx_type_at(call, 0);
    qn_graph *graph = call->graph;
    qn_onnx_constant indices;
    gathering g = {.outer = 1, .n = qn_shape_count(x), .inner = 1};
    if (qn_onnx_attribute_of(call, "axis")) {
        int axis;
        QN_TRY(qn_onnx_axis(qn_onnx_int(call, "axis", 0), x.rank, &axis));
        g = (gathering){.outer = qn_shape_count_range(x, 0, axis),
                        .n = x.dims[axis],
                        .inner = qn_shape_count_range(x, axis + 1, x.rank),
                        .shape = x};
        QN_TRY(kept_indices(call, g.n, &indices));
        g.shape.dims[axis] = indices.n;
    } else {
        QN_TRY(kept_indices(call, g.n, &indices));
        g.shape = QN_SHAPE(indices.n);
    }
    g.picked = indices.n;
    if (qn_onnx_is_known(call, 0))
        return fold_gather(call, &g, &indices);
    if (g.picked == 0)
        return qn_onnx_give_empty(call, 0, type, g.shape);
    const qn_value y = pick_rows(call, &g, qn_onnx_as_reals(call, qn_onnx_plain(call, 0)),
                                 indices_value(call, &g, &indices));
    qn_onnx_give_as(call, qn_reshape(graph, NULL, y, g.shape), false, type);
    return graph->status;
}

const qn_onnx_translator qn_onnx_index_translators[] = {
    {"Gather", 2, 2, build_gather},
    {"Compress", 2, 2, build_compress},
    {NULL, 0, 0, NULL},
};
