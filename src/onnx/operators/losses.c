/* Losses of classes as operators of a file: NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss,
 * with weights of classes and a label that is passed over. Labels may change from step to step. */
#include "base/status.h"
#include "onnx/fold.h"
#include "onnx/operators/formula.h"
#include "ops/ops.h"

#include <string.h>

typedef struct loss {
    qn_onnx_call *call;
    qn_value rows;    /* (n, C): scores, or logarithms of probabilities */
    qn_value labels;  /* (n), QN_I32 */
    qn_value weights; /* (n): of each label, 0 where it is passed over; or QN_NO_VALUE: 1 */
    int64_t n, classes;
    qn_shape shape; /* of the losses: (N, ...) */
} loss;

/* Input 0, (N, C, ...), as rows, (n, C). */
static qn_status read_rows(loss *l) {
    qn_onnx_call *call = l->call;
    const qn_shape x = qn_onnx_shape(call, 0), labels = qn_onnx_shape(call, 1);
    bool fits = x.rank >= 1 && labels.rank == x.rank - 1;
    if (x.rank < 2)
        return qn_fail(QN_ERROR_UNSUPPORTED, "its input has %d axes", x.rank);
    l->shape = (qn_shape){.rank = x.rank - 1, .dims = {x.dims[0]}};
    for (int i = 2; i < x.rank; i++)
        l->shape.dims[i - 1] = x.dims[i];
    if (!fits || !qn_shape_equal(l->shape, labels))
        return qn_fail(QN_ERROR_FORMAT, "its labels are not one for each place of its input");
    l->classes = x.dims[1];
    l->n = qn_shape_count(l->shape);
    const qn_value last =
        x.rank == 2 ? qn_onnx_plain(call, 0) : qn_onnx_channels_last(call, 0, x.rank);
    l->rows = qn_onnx_reshaped(call, "rows", last, QN_SHAPE(l->n, l->classes));
    return call->graph->status;
}

/* Labels, and weights where there are some or a label is passed over. */
static qn_status read_labels(loss *l) {
    qn_onnx_call *call = l->call;
    qn_graph *g = call->graph;
    const bool ignores = qn_onnx_attribute_of(call, "ignore_index") != NULL;
    qn_value labels = qn_onnx_plain(call, 1);
    labels = qn_onnx_reshaped(call, "labels", labels, QN_SHAPE(l->n));
    if (labels.id >= 0 && qn_graph_tensor(g, labels).dtype != QN_I32)
        labels = qn_onnx_to_whole(call, "whole", labels);
    l->labels = labels;
    if (qn_onnx_has(call, 2)) {
        const qn_value table =
            qn_onnx_reshaped(call, "weights", qn_onnx_plain(call, 2), QN_SHAPE(l->classes, 1));
        l->weights = qn_onnx_reshaped(
            call, "weight", qn_embedding(g, qn_onnx_side_name(call, "each"), table, labels),
            QN_SHAPE(l->n));
    }
    if (!ignores)
        return g->status;
    const qn_value passed = qn_onnx_combine(
        call, "passed", QN_COMBINE_EQUAL, qn_onnx_as_reals(call, labels),
        qn_onnx_scalar(call, "ignored", (double)qn_onnx_int(call, "ignore_index", 0)));
    const qn_value kept = qn_onnx_line(call, "kept", passed, -1, 1);
    l->weights = l->weights.id < 0
                     ? kept
                     : qn_onnx_combine(call, "counted", QN_COMBINE_MULTIPLY, l->weights, kept);
    return g->status;
}

/* Losses as the node wants them: each, their sum, or their mean by weights. */
static qn_status give_losses(loss *l, qn_value losses) {
    qn_onnx_call *call = l->call;
    qn_graph *g = call->graph;
    const char *how = qn_onnx_text(call, "reduction", "mean");
    const bool is_mean = strcmp(how, "mean") == 0;
    qn_value y;
    if (l->weights.id >= 0) /* what is passed over may be infinite */
        losses =
            qn_onnx_where(call, "weighed", l->weights,
                          qn_onnx_combine(call, "product", QN_COMBINE_MULTIPLY, losses, l->weights),
                          qn_onnx_scalar(call, "zero", 0));
    if (strcmp(how, "none") == 0) {
        y = qn_onnx_reshaped(call, NULL, losses, l->shape);
    } else if (is_mean && l->weights.id < 0) {
        y = qn_mean(g, call->name, losses);
    } else if (is_mean || strcmp(how, "sum") == 0) {
        y = qn_reduce(g, qn_onnx_side_name(call, "sum"), losses, 0, QN_SUM);
        if (is_mean)
            y = qn_onnx_combine(
                call, "mean", QN_COMBINE_DIVIDE, y,
                qn_reduce(g, qn_onnx_side_name(call, "total"), l->weights, 0, QN_SUM));
        y = qn_onnx_reshaped(call, NULL, y, (qn_shape){.rank = 0});
    } else {
        return qn_fail(QN_ERROR_FORMAT, "there is no reduction %.40s", how);
    }
    qn_onnx_give(call, 0, y, false);
    return g->status;
}

static qn_status build_likelihood(qn_onnx_call *call) {
    loss l = {.call = call, .weights = QN_NO_VALUE};
    QN_TRY(read_rows(&l));
    QN_TRY(read_labels(&l));
    const qn_value picked =
        qn_gather(call->graph, qn_onnx_side_name(call, "picked"), l.rows, l.labels);
    return give_losses(&l, qn_onnx_line(call, "losses", picked, -1, 0));
}

/* Logarithms of probabilities as the file has them: x - log(sum(exp(x))), of numbers of which the
 * largest is 0. */
static qn_status give_logarithms(loss *l) {
    qn_onnx_call *call = l->call;
    qn_graph *g = call->graph;
    const qn_shape x = qn_onnx_shape(call, 0), row = QN_SHAPE(l->n, 1);
    qn_shape last = x;
    if (!qn_onnx_is_used(call, 1))
        return QN_OK;
    const qn_value most = qn_onnx_reshaped(
        call, "row", qn_reduce(g, qn_onnx_side_name(call, "most"), l->rows, 1, QN_MAX), row);
    const qn_value moved =
        qn_onnx_combine(call, "moved", QN_COMBINE_SUBTRACT, l->rows,
                        qn_stop_gradient(g, qn_onnx_side_name(call, "stop"), most));
    qn_value sum = qn_onnx_apply_kind(call, "exp", moved, QN_FUNCTION_EXP);
    sum = qn_reduce(g, qn_onnx_side_name(call, "sum"), sum, 1, QN_SUM);
    sum = qn_onnx_apply_kind(call, "log", qn_onnx_reshaped(call, "row", sum, row), QN_FUNCTION_LOG);
    qn_value y = qn_onnx_combine(call, "logarithms", QN_COMBINE_SUBTRACT, moved, sum);
    for (int i = 1; i < x.rank; i++)
        last.dims[i] = i + 1 < x.rank ? x.dims[i + 1] : x.dims[1];
    y = qn_onnx_reshaped(call, "log_prob", y, last);
    qn_onnx_give(call, 1, y, x.rank > 2);
    return g->status;
}

static qn_status build_cross_entropy(qn_onnx_call *call) {
    loss l = {.call = call, .weights = QN_NO_VALUE};
    QN_TRY(read_rows(&l));
    QN_TRY(read_labels(&l));
    QN_TRY(give_logarithms(&l));
    return give_losses(&l, qn_softmax_cross_entropy(call->graph, qn_onnx_side_name(call, "losses"),
                                                    l.rows, l.labels, 0));
}

const qn_onnx_translator qn_onnx_loss_translators[] = {
    {"NegativeLogLikelihoodLoss", 2, 3, build_likelihood},
    {"SoftmaxCrossEntropyLoss", 2, 3, build_cross_entropy},
    {NULL, 0, 0, NULL},
};
