/* Elements and rows picked by lists of indices: whatever an operator calls it, a picked row is one
 * of an embedding. */
#include "base/status.h"
#include "onnx/axes.h"
#include "onnx/fold.h"
#include "onnx/operators/rows.h"

/* Of a constant. */
static qn_status fold_rows(qn_onnx_call *call, const qn_onnx_rows *r, qn_shape shape) {
    const qn_onnx_constant *x = qn_onnx_constant_of(call, 0);
    int64_t *whole = qn_onnx_scratch(call, ((size_t)(r->n * r->width) + 1) * sizeof *whole);
    double *reals = (double *)(void *)whole;
    if (!x || !whole)
        return qn_onnx_give_constant(call, NULL);
    for (int64_t i = 0; i < r->n * r->width; i++) {
        const int64_t from = r->known[i / r->width] * r->width + i % r->width;
        if (x->reals)
            reals[i] = x->reals[from];
        else
            whole[i] = x->whole[from];
    }
    return x->reals ? qn_onnx_give_reals(call, 0, shape, reals)
                    : qn_onnx_give_whole(call, 0, x->type, shape, whole);
}

/* The rows of input 0 in a shape. */
static qn_status give_rows(qn_onnx_call *call, const qn_onnx_rows *r, qn_shape shape) {
    qn_graph *g = call->graph;
    const qn_onnx_type type = qn_onnx_type_at(call, 0);
    if (r->known && qn_onnx_is_known(call, 0))
        return fold_rows(call, r, shape);
    const qn_value x = qn_onnx_as_reals(call, qn_onnx_plain(call, 0));
    const qn_value table =
        qn_reshape(g, qn_onnx_side_name(call, "table"), x, QN_SHAPE(r->rows, r->width));
    qn_value y =
        qn_embedding(g, qn_onnx_side_name(call, "picked"), table, qn_onnx_rows_value(call, r));
    y = qn_reshape(g, call->name, y, shape);
    qn_onnx_give_as(call, y, false, type);
    return g->status;
}

static qn_status build_gather_elements(qn_onnx_call *call) {
    qn_onnx_rows r;
    int axis;
    QN_TRY(qn_onnx_axis(qn_onnx_int(call, "axis", 0), qn_onnx_shape(call, 0).rank, &axis));
    QN_TRY(qn_onnx_element_rows(call, axis, &r));
    return give_rows(call, &r, qn_onnx_shape(call, 1));
}

static qn_status build_gather_nd(qn_onnx_call *call) {
    qn_onnx_rows r;
    qn_shape picked;
    QN_TRY(qn_onnx_tuple_rows(call, qn_onnx_int(call, "batch_dims", 0), &r, &picked));
    return give_rows(call, &r, picked);
}

const qn_onnx_translator qn_onnx_select_translators[] = {
    {"GatherElements", 2, 2, build_gather_elements},
    {"GatherND", 2, 2, build_gather_nd},
    {NULL, 0, 0, NULL},
};
