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
    bool folds; /* its translator gives integers that are known exactly as integers */
} moves[] = {
    {"CenterCropPad", 1, false},   {"Compress", 1, false},
    {"Concat", UINT32_MAX, true},  {"DepthToSpace", 1, false},
    {"Expand", 1, true},           {"Flatten", 1, true},
    {"Gather", 1, true},           {"GatherElements", 1, true},
    {"GatherND", 1, true},         {"Pad", 5, false},
    {"Reshape", 1, true},          {"Resize", 1, false},
    {"ReverseSequence", 1, false}, {"ScatterElements", 5, false},
    {"ScatterND", 5, false},       {"Slice", 1, true},
    {"SpaceToDepth", 1, false},    {"Split", 1, true},
    {"Squeeze", 1, true},          {"Tile", 1, false},
    {"Transpose", 1, true},        {"Trilu", 1, false},
    {"Unsqueeze", 1, true},        {"Upsample", 1, false},
};

static uint32_t data_of(const char *type, bool *folds) {
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        *folds = moves[i].folds;
        if (strcmp(moves[i].type, type) == 0)
            return moves[i].data;
    }
    return 0;
}

static bool is_data(uint32_t mask, int input) {
    return mask >> (input < 31 ? input : 31) & 1;
}

/* Whether integers are moved here: what is not all known at import, or not folded as integers. */
static bool is_move(const qn_onnx_call *call, uint32_t mask, bool folds) {
    bool has_integers = false;
    for (int i = 0; i < call->n_inputs; i++) {
        const qn_onnx_item *item = call->inputs[i];
        if (!item || !is_data(mask, i))
            continue;
        if (item->parts || !qn_onnx_type_is_integer(item->type))
            return false;
        has_integers = true;
    }
    return has_integers && !(folds && qn_onnx_folds(call));
}

/* Whether the node only moves: not where it works numbers out of several, or out of none. */
static qn_status check_moves(const qn_onnx_call *call) {
    const qn_onnx_attribute *mode = qn_onnx_find_attribute(call->node, "mode");
    const qn_onnx_attribute *places =
        qn_onnx_find_attribute(call->node, "coordinate_transformation_mode");
    const bool is_resize =
        strcmp(call->node->type, "Resize") == 0 || strcmp(call->node->type, "Upsample") == 0;
    if (!is_resize ||
        ((!mode || !mode->text || strcmp(mode->text, "nearest") == 0) &&
         (!places || !places->text || strcmp(places->text, "tf_crop_and_resize") != 0)))
        return QN_OK;
    return qn_fail(QN_ERROR_UNSUPPORTED, "it works integers out between others: cast them to float "
                                         "before it");
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
    qn_value all;
    int64_t n;
    int64_t *known; /* (n), where all are known at import; else null */
} elements;

static qn_status add_part(qn_onnx_call *call, qn_value x, qn_onnx_type type, elements *e) {
    qn_graph *g = call->graph;
    const int64_t n = qn_shape_count(qn_graph_shape(g, x));
    if (qn_graph_tensor(g, x).dtype != QN_I64)
        x = qn_onnx_real_as_integer(call, qn_onnx_side_name(call, "wide"), x, type);
    e->parts[e->n_parts++] = qn_reshape(g, qn_onnx_side_name(call, "elements"), x, QN_SHAPE(n));
    return g->status;
}

static qn_status add_zero(qn_onnx_call *call, elements *e) {
    const qn_value zero = qn_op_scalar(call->graph, qn_onnx_side_name(call, "zero"), 0);
    return add_part(call, zero, QN_ONNX_INT64, e);
}

/* The node over places in place of what it moves; e->n counts them. */
static qn_status replace(qn_onnx_call *call, uint32_t mask, qn_onnx_item **inputs, elements *e) {
    e->n = 1;
    for (int i = 0; i < call->n_inputs; i++) {
        inputs[i] = call->inputs[i];
        if (!inputs[i] || !is_data(mask, i))
            continue;
        inputs[i] = places_of(call, i, e->n);
        if (!inputs[i])
            return QN_ERROR_MEMORY;
        e->n += qn_shape_count(qn_onnx_shape(call, i));
    }
    return QN_OK;
}

/* All that is moved as one value. What is known stays so unless a value of it is needed. */
static qn_status join(qn_onnx_call *call, uint32_t mask, elements *e) {
    if (e->all.id >= 0)
        return QN_OK;
    e->parts = qn_onnx_scratch(call, ((size_t)call->n_inputs + 2) * sizeof *e->parts);
    if (!e->parts)
        return QN_ERROR_MEMORY;
    QN_TRY(add_zero(call, e));
    for (int i = 0; i < call->n_inputs; i++) {
        if (call->inputs[i] && is_data(mask, i) && qn_shape_count(qn_onnx_shape(call, i)) > 0)
            QN_TRY(add_part(call, qn_onnx_plain(call, i), call->inputs[i]->type, e));
    }
    e->all = qn_concat(call->graph, qn_onnx_side_name(call, "all"), e->parts, e->n_parts, 0);
    return call->graph->status;
}

/* The same at import, where all that is moved is known. */
static qn_status find_known(qn_onnx_call *call, uint32_t mask, elements *e) {
    int64_t n = 1;
    for (int i = 0; i < call->n_inputs; i++) {
        if (!call->inputs[i] || !is_data(mask, i))
            continue;
        if (!qn_onnx_is_known(call, i))
            return QN_OK;
        n += qn_shape_count(qn_onnx_shape(call, i));
    }
    int64_t *known = qn_onnx_scratch(call, (size_t)n * sizeof *known);
    if (!known)
        return QN_ERROR_MEMORY;
    known[0] = 0;
    n = 1;
    for (int i = 0; i < call->n_inputs; i++) {
        if (!call->inputs[i] || !is_data(mask, i))
            continue;
        const qn_onnx_constant *c = qn_onnx_constant_of(call, i);
        if (!c)
            return call->graph->status;
        memcpy(&known[n], c->whole, (size_t)c->n * sizeof *known);
        n += c->n;
    }
    e->known = known;
    return QN_OK;
}

static qn_status give_known(qn_onnx_call *call, int output, const qn_onnx_constant *places,
                            const elements *e) {
    int64_t *whole = qn_onnx_scratch(call, ((size_t)places->n + 1) * sizeof *whole);
    for (int64_t i = 0; whole && i < places->n; i++)
        whole[i] = e->known[places->whole[i]];
    return whole ? qn_onnx_give_whole(call, output, qn_onnx_type_at(call, 0), places->shape, whole)
                 : QN_ERROR_MEMORY;
}

/* An output that came out as places becomes the elements there. */
static qn_status give_elements(qn_onnx_call *call, int output, uint32_t mask, elements *e) {
    qn_onnx_item *item = qn_onnx_find_item(call->builder, call->node->outputs[output]);
    const int64_t most = call->graph->real == QN_F32 ? 1 << 24 : INT64_C(1) << 53;
    if (!item)
        return QN_OK;
    if (item->constant && item->constant->whole && e->known)
        return give_known(call, output, item->constant, e);
    if (!item->constant && e->n > most)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "it moves more than %lld integers by indices that are "
                       "known only when it runs",
                       (long long)most);
    if (item->constant && item->constant->n == 0)
        return qn_onnx_give_empty(call, output, call->inputs[0]->type, item->constant->shape);
    QN_TRY(join(call, mask, e));
    const qn_value places = qn_onnx_item_value(call->builder, item);
    item->value = qn_op_pick(call->graph, qn_onnx_side_name(call, "picked"), e->all, places);
    item->constant = NULL;
    item->type = call->inputs[0]->type;
    item->is_image = false;
    item->other = QN_NO_VALUE;
    return call->graph->status;
}

qn_status qn_onnx_move_integers(qn_onnx_call *call, const qn_onnx_translator *translator,
                                bool *is_done) {
    bool folds;
    const uint32_t mask = data_of(call->node->type, &folds);
    qn_onnx_call moved = *call;
    elements e = {.all = QN_NO_VALUE};
    const qn_onnx_attribute *reduction = qn_onnx_find_attribute(call->node, "reduction");
    const bool combines = reduction && reduction->text && strcmp(reduction->text, "none") != 0;
    *is_done = mask && !combines && is_move(call, mask, folds);
    if (!*is_done)
        return QN_OK;
    qn_onnx_item **inputs = qn_onnx_scratch(call, ((size_t)call->n_inputs + 1) * sizeof *inputs);
    if (!inputs)
        return QN_ERROR_MEMORY;
    QN_TRY(check_moves(call));
    QN_TRY(find_known(call, mask, &e));
    QN_TRY(replace(call, mask, inputs, &e));
    moved.inputs = inputs;
    call->builder->is_moving = true;
    const qn_status status = translator->build(&moved);
    call->builder->is_moving = false;
    QN_TRY(status);
    for (int i = 0; i < call->node->n_outputs; i++)
        QN_TRY(give_elements(call, i, mask, &e));
    return QN_OK;
}
