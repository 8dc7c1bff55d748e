/* Sequences of tensors whose parts are known at import, as PyTorch's exporter writes a chunk: a
 * tensor that is split, of which parts are taken by number. A sequence is a list of items; no node
 * of the graph is one. */
#include "base/status.h"
#include "onnx/axes.h"
#include "onnx/builder.h"

/* A part of input 0 along an axis as an item of its own. */
static qn_status add_part(qn_onnx_call *call, int axis, int64_t begin, int64_t extent,
                          qn_onnx_item *part) {
    const qn_onnx_operand x = qn_onnx_operand_of(call, 0);
    const char *name = qn_onnx_side_name(call, "part");
    *part = (qn_onnx_item){.name = name,
                           .type = qn_onnx_type_at(call, 0),
                           .is_image = x.is_image,
                           .other = QN_NO_VALUE,
                           .row = QN_NO_VALUE};
    part->value =
        qn_slice(call->graph, name, x.x, qn_onnx_place_axis(&x, axis), begin, begin + extent);
    return call->graph->status;
}

/* How many elements part i has: a list, or so many each and a rest. */
static int64_t extent_of(const qn_onnx_constant *split, int64_t i, int64_t left) {
    const int64_t extent = split ? split->whole[split->shape.rank > 0 ? i : 0] : 1;
    return extent < left ? extent : left;
}

static qn_status build_split_to_sequence(qn_onnx_call *call) {
    const qn_onnx_constant *split = qn_onnx_has(call, 1) ? qn_onnx_constant_of(call, 1) : NULL;
    const qn_shape x = qn_onnx_shape(call, 0);
    qn_onnx_item *to = qn_onnx_find_item(call->builder, call->node->outputs[0]);
    int64_t begin = 0;
    int axis;
    QN_TRY(qn_onnx_axis(qn_onnx_int(call, "axis", 0), x.rank, &axis));
    const int64_t n = x.dims[axis];
    if ((qn_onnx_has(call, 1) && (!split || !split->whole)) || !to)
        return qn_fail(QN_ERROR_UNSUPPORTED, "its parts are known only when it runs");
    if (!split && !qn_onnx_int(call, "keepdims", 1))
        return qn_fail(QN_ERROR_UNSUPPORTED, "it drops the axis that it splits");
    qn_onnx_item *parts = qn_onnx_scratch(call, ((size_t)n + 1) * sizeof *parts);
    if (!parts)
        return QN_ERROR_MEMORY;
    int count = 0;
    for (; begin < n; count++) {
        if (split && split->shape.rank > 0 && count >= split->n)
            break;
        const int64_t extent = extent_of(split, count, n - begin);
        if (extent < 1)
            return qn_fail(QN_ERROR_FORMAT, "part %d has %lld elements", count, (long long)extent);
        QN_TRY(add_part(call, axis, begin, extent, &parts[count]));
        begin += extent;
    }
    if (begin != n)
        return qn_fail(QN_ERROR_FORMAT, "its parts are fewer than there is");
    to->parts = parts;
    to->n_parts = count;
    return QN_OK;
}

static qn_status build_sequence_at(qn_onnx_call *call) {
    const qn_onnx_item *sequence = call->inputs[0];
    const qn_onnx_constant *c = qn_onnx_is_known(call, 1) ? qn_onnx_constant_of(call, 1) : NULL;
    if (!sequence->parts || !c || !c->whole || c->n != 1)
        return qn_fail(QN_ERROR_UNSUPPORTED, "which part it takes is known only when it runs");
    const int64_t place = c->whole[0] + (c->whole[0] < 0 ? sequence->n_parts : 0);
    if (place < 0 || place >= sequence->n_parts)
        return qn_fail(QN_ERROR_FORMAT, "there is no part %lld of %d", (long long)c->whole[0],
                       sequence->n_parts);
    return qn_onnx_bind(call->builder, call->node->outputs[0], &sequence->parts[place]);
}

const qn_onnx_translator qn_onnx_sequence_translators[] = {
    {"SplitToSequence", 1, 2, build_split_to_sequence},
    {"SequenceAt", 2, 2, build_sequence_at},
    {NULL, 0, 0, NULL},
};
