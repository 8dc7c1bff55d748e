/* Sequences of tensors whose parts are known at import, as PyTorch's exporter writes a chunk: a
 * tensor that is split, or parts one after the other, of which some are taken by number, or all are
 * put together. A sequence is a list of items; no node of the graph is one. */
#include "base/status.h"
#include "onnx/axes.h"
#include "onnx/builder.h"
#include "onnx/fold.h"

#include <string.h>

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

/* A part without the axis along which it was one. */
static qn_status drop_axis(qn_onnx_call *call, int axis, qn_onnx_item *part) {
    qn_onnx_item *const inputs[] = {part};
    qn_onnx_call one = *call;
    one.inputs = inputs;
    one.n_inputs = 1;
    const qn_value x = qn_onnx_plain(&one, 0);
    const qn_shape from = qn_graph_shape(call->graph, x);
    qn_shape to = {.rank = 0};
    for (int i = 0; i < from.rank; i++) {
        if (i != axis)
            to.dims[to.rank++] = from.dims[i];
    }
    part->value = qn_reshape(call->graph, qn_onnx_side_name(call, "dropped"), x, to);
    part->is_image = false;
    part->other = QN_NO_VALUE;
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
        if (!split && !qn_onnx_int(call, "keepdims", 1))
            QN_TRY(drop_axis(call, axis, &parts[count]));
        begin += extent;
    }
    if (begin != n || (split && split->shape.rank > 0 && count != split->n))
        return qn_fail(QN_ERROR_FORMAT, "its parts are fewer than there is");
    to->parts = parts;
    to->n_parts = count;
    return QN_OK;
}

static qn_status give_parts(qn_onnx_call *call, const qn_onnx_item *parts, int n) {
    qn_onnx_item *to = qn_onnx_find_item(call->builder, call->node->outputs[0]);
    if (!to)
        return QN_OK;
    to->parts = parts;
    to->n_parts = n;
    return QN_OK;
}

/* An input as a part: a weight is a parameter before it has a second name. */
static qn_onnx_item part_of(qn_onnx_call *call, int input) {
    if (!qn_onnx_is_known(call, input))
        qn_onnx_value_of(call, input);
    return *call->inputs[input];
}

static qn_status build_construct(qn_onnx_call *call) {
    qn_onnx_item *parts = qn_onnx_scratch(call, ((size_t)call->n_inputs + 1) * sizeof *parts);
    if (!parts)
        return QN_ERROR_MEMORY;
    for (int i = 0; i < call->n_inputs; i++) {
        if (!qn_onnx_has(call, i))
            return qn_fail(QN_ERROR_FORMAT, "its input %d is left out", i);
        parts[i] = part_of(call, i);
    }
    return give_parts(call, parts, call->n_inputs);
}

static qn_status build_empty(qn_onnx_call *call) {
    qn_onnx_item *parts = qn_onnx_scratch(call, sizeof *parts);
    (void)qn_onnx_int(call, "dtype", QN_ONNX_FLOAT);
    return parts ? give_parts(call, parts, 0) : QN_ERROR_MEMORY;
}

/* A place in a sequence, negative: from its end, up to `last`; fallback: where the input is left
 * out. */
static qn_status read_place(qn_onnx_call *call, int input, int last, int64_t fallback, int *place) {
    const qn_onnx_item *sequence = call->inputs[0];
    const qn_onnx_constant *c =
        qn_onnx_is_known(call, input) ? qn_onnx_constant_of(call, input) : NULL;
    if (!sequence->parts || (qn_onnx_has(call, input) && (!c || !c->whole || c->n != 1)))
        return qn_fail(QN_ERROR_UNSUPPORTED, "which part it takes is known only when it runs");
    const int64_t given = c ? c->whole[0] : fallback;
    const int64_t at = given + (given < 0 ? sequence->n_parts : 0);
    if (at < 0 || at > last)
        return qn_fail(QN_ERROR_FORMAT, "there is no part %lld of %d", (long long)given,
                       sequence->n_parts);
    *place = (int)at;
    return QN_OK;
}

static qn_status build_sequence_at(qn_onnx_call *call) {
    const qn_onnx_item *sequence = call->inputs[0];
    int place;
    QN_TRY(read_place(call, 1, sequence->n_parts - 1, 0, &place));
    return qn_onnx_bind(call->builder, call->node->outputs[0], &sequence->parts[place]);
}

static qn_status build_insert(qn_onnx_call *call) {
    enum { MOST_PARTS = 1 << 14 };
    const qn_onnx_item *from = call->inputs[0];
    const int n = from->n_parts;
    int place;
    QN_TRY(read_place(call, 2, n, n, &place));
    if (n >= MOST_PARTS)
        return qn_fail(QN_ERROR_UNSUPPORTED, "it has more than %d parts", MOST_PARTS);
    qn_onnx_item *parts = qn_onnx_scratch(call, ((size_t)n + 2) * sizeof *parts);
    if (!parts)
        return QN_ERROR_MEMORY;
    memcpy(parts, from->parts, (size_t)place * sizeof *parts);
    parts[place] = part_of(call, 1);
    memcpy(parts + place + 1, from->parts + place, (size_t)(n - place) * sizeof *parts);
    return give_parts(call, parts, n + 1);
}

static qn_status build_erase(qn_onnx_call *call) {
    const qn_onnx_item *from = call->inputs[0];
    const int n = from->n_parts;
    int place;
    QN_TRY(read_place(call, 1, n - 1, -1, &place));
    qn_onnx_item *parts = qn_onnx_scratch(call, ((size_t)n + 1) * sizeof *parts);
    if (!parts)
        return QN_ERROR_MEMORY;
    memcpy(parts, from->parts, (size_t)place * sizeof *parts);
    memcpy(parts + place, from->parts + place + 1, (size_t)(n - 1 - place) * sizeof *parts);
    return give_parts(call, parts, n - 1);
}

static qn_status build_length(qn_onnx_call *call) {
    const int64_t n = call->inputs[0]->n_parts;
    return call->inputs[0]->parts
               ? qn_onnx_give_whole(call, 0, QN_ONNX_INT64, (qn_shape){.rank = 0}, &n)
               : qn_fail(QN_ERROR_UNSUPPORTED, "its input is no sequence that is known at import");
}

/* All parts together, along an axis that they have, or a new one. */
static qn_status build_concat_from(qn_onnx_call *call) {
    const qn_onnx_item *from = call->inputs[0];
    const int n = from->n_parts;
    qn_onnx_call all = *call;
    qn_onnx_item *copies = qn_onnx_scratch(call, ((size_t)n + 1) * sizeof *copies);
    qn_onnx_item **inputs = qn_onnx_scratch(call, ((size_t)n + 1) * sizeof *inputs);
    qn_value *parts = qn_onnx_scratch(call, ((size_t)n + 1) * sizeof *parts);
    qn_shape shape;
    int axis;
    if (!from->parts || n < 1)
        return qn_fail(QN_ERROR_UNSUPPORTED, "its input is no sequence that is known at import");
    if (!copies || !inputs || !parts)
        return QN_ERROR_MEMORY;
    all.inputs = inputs;
    all.n_inputs = n;
    for (int i = 0; i < n; i++) {
        copies[i] = from->parts[i];
        inputs[i] = &copies[i];
    }
    if (!qn_onnx_int(call, "new_axis", 0))
        return qn_onnx_find_translator("Concat")->build(&all);
    shape = qn_onnx_shape(&all, 0);
    QN_TRY(qn_onnx_axis(qn_onnx_int(call, "axis", 0), shape.rank + 1, &axis));
    if (shape.rank == QN_MAX_RANK)
        return qn_fail(QN_ERROR_UNSUPPORTED, "it makes more than %d axes", QN_MAX_RANK);
    memmove(shape.dims + axis + 1, shape.dims + axis,
            (size_t)(shape.rank++ - axis) * sizeof *shape.dims);
    shape.dims[axis] = 1;
    for (int i = 0; i < n; i++)
        parts[i] = qn_reshape(call->graph, qn_onnx_side_name(call, "part"),
                              qn_onnx_as_reals(call, qn_onnx_plain(&all, i)), shape);
    qn_onnx_give_as(call, qn_concat(call->graph, call->name, parts, n, axis), false,
                    copies[0].type);
    return call->graph->status;
}

const qn_onnx_translator qn_onnx_sequence_translators[] = {
    {"SplitToSequence", 1, 2, build_split_to_sequence},
    {"SequenceAt", 2, 2, build_sequence_at},
    {"SequenceConstruct", 1, -1, build_construct},
    {"SequenceEmpty", 0, 0, build_empty},
    {"SequenceInsert", 2, 3, build_insert},
    {"SequenceErase", 1, 2, build_erase},
    {"SequenceLength", 1, 1, build_length},
    {"ConcatFromSequence", 1, 1, build_concat_from},
    {NULL, 0, 0, NULL},
};
