/* Integers that are moved (integers.h): a node that puts elements elsewhere does the same with
 * their places, numbers from 1 on, which its translator takes for a constant. What comes out says
 * for each element where it is from; 0, as zeros that are put between, stands for a 0. */
#include "base/status.h"
#include "onnx/builder.h"
#include "onnx/integers.h"
#include "ops/integers.h"
#include "ops/ops.h"

#include <string.h>

/* Operators that move, and which of their inputs are moved, as a bit mask. */
static const struct {
    const char *type;
    uint32_t data;
} moves[] = {
    {"Compress", 1},       {"Concat", UINT32_MAX}, {"DepthToSpace", 1},
    {"Expand", 1},         {"Flatten", 1},         {"Gather", 1},
    {"GatherElements", 1}, {"GatherND", 1},        {"Pad", 5},
    {"Reshape", 1},        {"ReverseSequence", 1}, {"ScatterElements", 5},
    {"ScatterND", 5},      {"Slice", 1},           {"SpaceToDepth", 1},
    {"Split", 1},          {"Squeeze", 1},         {"Tile", 1},
    {"Transpose", 1},      {"Trilu", 1},           {"Unsqueeze", 1},
};

static uint32_t data_of(const char *type) {
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        if (strcmp(moves[i].type, type) == 0)
            return moves[i].data;
    }
    return 0;
}

static bool is_data(uint32_t mask, int input) {
    return mask >> (input < 31 ? input : 31) & 1;
}

/* Whether integers are moved by what is not all known at import. */
static bool is_move(const qn_onnx_call *call, uint32_t mask) {
    bool has_integers = false;
    for (int i = 0; i < call->n_inputs; i++) {
        const qn_onnx_item *item = call->inputs[i];
        if (!item || !is_data(mask, i))
            continue;
        if (item->parts || !qn_onnx_type_is_integer(item->type))
            return false;
        has_integers = true;
    }
    return has_integers && !qn_onnx_folds(call);
}

/* The places from a first one on, in the shape of an input. */
static qn_onnx_item *places_of(qn_onnx_call *call, int input, int64_t first) {
    qn_onnx_item *item = qn_onnx_scratch(call, sizeof *item);
    qn_onnx_constant *c = qn_onnx_scratch(call, sizeof *c);
    const qn_shape shape = qn_onnx_shape(call, input);
    const int64_t n = qn_shape_count(shape);
    int64_t *whole = qn_onnx_scratch(call, ((size_t)n + 1) * sizeof *whole);
    if (!item || !c || !whole)
        return NULL;
    for (int64_t i = 0; i < n; i++)
        whole[i] = first + i;
    *c = (qn_onnx_constant){.type = QN_ONNX_INT64, .shape = shape, .n = n, .whole = whole};
    *item = (qn_onnx_item){.name = call->inputs[input]->name,
                           .type = QN_ONNX_INT64,
                           .value = QN_NO_VALUE,
                           .other = QN_NO_VALUE,
                           .row = QN_NO_VALUE,
                           .constant = c};
    return item;
}

/* A 0, and all elements of what is moved, one after the other. */
typedef struct elements {
    qn_value *parts; /* (n_parts) */
    int n_parts;
    int64_t n;
} elements;

static qn_status add_part(qn_onnx_call *call, qn_value x, qn_onnx_type type, elements *e) {
    qn_graph *g = call->graph;
    const int64_t n = qn_shape_count(qn_graph_shape(g, x));
    if (qn_graph_tensor(g, x).dtype != QN_I64)
        x = qn_onnx_real_as_integer(call, qn_onnx_side_name(call, "wide"), x, type);
    e->parts[e->n_parts++] = qn_reshape(g, qn_onnx_side_name(call, "elements"), x, QN_SHAPE(n));
    e->n += n;
    return g->status;
}

static qn_status add_zero(qn_onnx_call *call, elements *e) {
    const qn_value zero = qn_op_scalar(call->graph, qn_onnx_side_name(call, "zero"), 0);
    return add_part(call, zero, QN_ONNX_INT64, e);
}

/* The node over places in place of what it moves. */
static qn_status replace(qn_onnx_call *call, uint32_t mask, qn_onnx_item **inputs, elements *e) {
    QN_TRY(add_zero(call, e));
    for (int i = 0; i < call->n_inputs; i++) {
        inputs[i] = call->inputs[i];
        if (!inputs[i] || !is_data(mask, i))
            continue;
        inputs[i] = places_of(call, i, e->n);
        if (!inputs[i])
            return QN_ERROR_MEMORY;
        if (qn_shape_count(qn_onnx_shape(call, i)) > 0)
            QN_TRY(add_part(call, qn_onnx_plain(call, i), call->inputs[i]->type, e));
    }
    return QN_OK;
}

/* An output that came out as places becomes the elements there. */
static qn_status give_elements(qn_onnx_call *call, int output, qn_value all, int64_t n) {
    qn_onnx_item *item = qn_onnx_find_item(call->builder, call->node->outputs[output]);
    const int64_t most = call->graph->real == QN_F32 ? 1 << 24 : INT64_C(1) << 53;
    if (!item)
        return QN_OK;
    if (!item->constant && n > most)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "it moves more than %lld integers by indices that are "
                       "known only when it runs",
                       (long long)most);
    if (item->constant && item->constant->n == 0)
        return qn_fail(QN_ERROR_UNSUPPORTED, "it makes an empty tensor");
    const qn_value places = qn_onnx_item_value(call->builder, item);
    item->value = qn_op_pick(call->graph, qn_onnx_side_name(call, "picked"), all, places);
    item->constant = NULL;
    item->type = call->inputs[0]->type;
    item->is_image = false;
    item->other = QN_NO_VALUE;
    return call->graph->status;
}

qn_status qn_onnx_move_integers(qn_onnx_call *call, const qn_onnx_translator *translator,
                                bool *is_done) {
    const uint32_t mask = data_of(call->node->type);
    qn_onnx_call moved = *call;
    elements e = {0};
    *is_done = mask && is_move(call, mask);
    if (!*is_done)
        return QN_OK;
    const qn_onnx_attribute *reduction = qn_onnx_find_attribute(call->node, "reduction");
    if (reduction && reduction->text && strcmp(reduction->text, "none") != 0)
        return qn_fail(QN_ERROR_UNSUPPORTED, "it adds integers up; export it without");
    qn_onnx_item **inputs = qn_onnx_scratch(call, ((size_t)call->n_inputs + 1) * sizeof *inputs);
    e.parts = qn_onnx_scratch(call, ((size_t)call->n_inputs + 2) * sizeof *e.parts);
    if (!inputs || !e.parts)
        return QN_ERROR_MEMORY;
    QN_TRY(replace(call, mask, inputs, &e));
    const qn_value all =
        qn_concat(call->graph, qn_onnx_side_name(call, "all"), e.parts, e.n_parts, 0);
    moved.inputs = inputs;
    call->builder->is_moving = true;
    const qn_status status = translator->build(&moved);
    call->builder->is_moving = false;
    QN_TRY(status);
    for (int i = 0; i < call->node->n_outputs; i++)
        QN_TRY(give_elements(call, i, all, e.n));
    return QN_OK;
}
