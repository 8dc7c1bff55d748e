/* Parts of parameters (qn_weight_part): some of a weight's channels are trained, and all else
 * stays. choose decides which, once: the numbers of channels, from 1 on, are state that later steps
 * keep. take copies channels, of a layer's input for the gradient and of the weight for its update;
 * put writes what the update made of them into the weight. No gradient flows through them. */
#include "ops/layout.h"
#include "ops/rescaled.h"
#include "ops/shared.h"

#include <stdio.h>

enum { NAME_BYTES = 512 };

static const qn_attribute choose_fields[] = {
    QN_FIELD(qn_choose_attributes, QN_ATTRIBUTE_INT, axis),
    QN_FIELD(qn_choose_attributes, QN_ATTRIBUTE_INT, by),
    {0},
};

static const qn_attribute take_fields[] = {
    QN_FIELD(qn_take_attributes, QN_ATTRIBUTE_INT, axis),
    {0},
};

/* Input i is a list of at most so many channels as the axis of input whole has. */
static qn_status check_channels(const qn_infer *infer, int i, int whole, int axis) {
    const qn_shape x = infer->inputs[whole].shape, channels = infer->inputs[i].shape;
    char text[QN_SHAPE_TEXT];
    QN_TRY(qn_infer_dtype(infer, i, QN_I32));
    QN_TRY(qn_infer_rank(infer, i, 1, "(channels)"));
    if (axis < 0 || axis >= x.rank || channels.dims[0] > x.dims[axis])
        return qn_fail(QN_ERROR_ARGUMENT, "%s has not %lld channels along axis %d",
                       qn_shape_print(x, text), (long long)channels.dims[0], axis);
    return QN_OK;
}

static qn_value sample_channels(qn_graph *graph, int64_t n) {
    return qn_graph_add_source(graph, QN_KIND_STATE, "channels", (qn_tensor){QN_I32, QN_SHAPE(n)},
                               (qn_initial){QN_INITIAL_ZERO, 0}, false);
}

/* ---- choose ---- */

static qn_status choose_infer(qn_infer *infer) {
    QN_TRY(check_channels(infer, 1, 0, ((const qn_choose_attributes *)infer->attributes)->axis));
    infer->outputs[0] = infer->inputs[1];
    return QN_OK;
}

static qn_value choose_sample(qn_graph *graph, int variant) {
    qn_value w = qn_sample_parameter(graph, "w", QN_SHAPE(5, 3, 7), 1);
    return qn_op_choose(graph, "y", w, sample_channels(graph, 3), variant == 0 ? 2 : 0,
                        (qn_part_choice)variant);
}

const qn_op qn_op_choose_channels = {
    .name = "choose",
    .attributes_bytes = sizeof(qn_choose_attributes),
    .attributes = choose_fields,
    .min_inputs = 2,
    .max_inputs = 2,
    .any_type_inputs = 1 << 1,
    .stops_gradient = true,
    .infer = choose_infer,
    .overwrites = {2},
    .n_samples = 3,
    .sample = choose_sample,
};

qn_value qn_op_choose(qn_graph *graph, const char *name, qn_value w, qn_value channels, int axis,
                      qn_part_choice by) {
    const qn_choose_attributes attributes = {.axis = axis, .by = (int)by};
    return qn_graph_add1(graph, &qn_op_choose_channels, name, (qn_value[]){w, channels}, 2,
                         &attributes);
}

/* ---- take ---- */

static qn_status take_infer(qn_infer *infer) {
    const int axis = ((const qn_take_attributes *)infer->attributes)->axis;
    QN_TRY(check_channels(infer, 1, 0, axis));
    infer->outputs[0] = infer->inputs[0];
    infer->outputs[0].shape.dims[axis] = infer->inputs[1].shape.dims[0];
    return QN_OK;
}

/* Channels that were chosen, so that they are in range. */
static qn_value sample_chosen(qn_graph *graph, qn_value w, int axis) {
    return qn_op_choose(graph, "chosen", w, sample_channels(graph, 2), axis, QN_PART_LARGEST);
}

static qn_value take_sample(qn_graph *graph, int variant) {
    qn_value x = qn_sample_parameter(graph, "x", QN_SHAPE(5, 3, 7), 1);
    return qn_op_take(graph, "y", x, variant, sample_chosen(graph, x, variant));
}

const qn_op qn_op_take_channels = {
    .name = "take",
    .attributes_bytes = sizeof(qn_take_attributes),
    .attributes = take_fields,
    .min_inputs = 2,
    .max_inputs = 2,
    .any_type_inputs = 3,
    .stops_gradient = true,
    .infer = take_infer,
    .scaled_by = qn_scaled_by_first,
    .n_samples = 3,
    .sample = take_sample,
};

qn_value qn_op_take(qn_graph *graph, const char *name, qn_value x, int axis, qn_value channels) {
    const qn_take_attributes attributes = {.axis = axis};
    return qn_graph_add1(graph, &qn_op_take_channels, name, (qn_value[]){x, channels}, 2,
                         &attributes);
}

/* ---- put ---- */

static qn_status put_infer(qn_infer *infer) {
    const int axis = ((const qn_take_attributes *)infer->attributes)->axis;
    QN_TRY(check_channels(infer, 1, 2, axis));
    qn_shape part = infer->inputs[2].shape;
    part.dims[axis] = infer->inputs[1].shape.dims[0];
    QN_TRY(qn_infer_expect(infer, 0, "part", part));
    if (infer->inputs[0].dtype != infer->inputs[2].dtype)
        return qn_fail(QN_ERROR_ARGUMENT, "a part is %s where the whole is %s",
                       qn_dtype_name(infer->inputs[0].dtype),
                       qn_dtype_name(infer->inputs[2].dtype));
    infer->outputs[0] = infer->inputs[2];
    return QN_OK;
}

static qn_value put_sample(qn_graph *graph, int variant) {
    qn_value w = qn_sample_parameter(graph, "w", QN_SHAPE(5, 3, 7), 1);
    qn_value part =
        qn_sample_parameter(graph, "part", variant ? QN_SHAPE(5, 3, 2) : QN_SHAPE(2, 3, 7), 1);
    const int axis = variant ? 2 : 0;
    return qn_op_put(graph, "y", part, axis, sample_chosen(graph, w, axis), w);
}

const qn_op qn_op_put_channels = {
    .name = "put",
    .attributes_bytes = sizeof(qn_take_attributes),
    .attributes = take_fields,
    .min_inputs = 3,
    .max_inputs = 3,
    .any_type_inputs = 7,
    .infer = put_infer,
    .overwrites = {3},
    .n_samples = 2,
    .sample = put_sample,
};

qn_value qn_op_put(qn_graph *graph, const char *name, qn_value part, int axis, qn_value channels,
                   qn_value whole) {
    const qn_take_attributes attributes = {.axis = axis};
    return qn_graph_add1(graph, &qn_op_put_channels, name, (qn_value[]){part, channels, whole}, 3,
                         &attributes);
}

/* ---- what layers and updates make of them ---- */

/* The value of a name with words before and behind; none: there is none. */
static qn_value find(const qn_graph *graph, const char *before, const char *name,
                     const char *behind) {
    char text[NAME_BYTES];
    snprintf(text, sizeof text, "%s%s%s", before, name, behind);
    return qn_graph_find(graph, text);
}

static qn_value channels_of(const qn_graph *graph, const char *parameter) {
    const qn_value source = find(graph, "optimizer.channels.", parameter, "");
    return source.id < 0 ? source : qn_graph_latest(graph, source);
}

void qn_part_keep(qn_graph *graph, const qn_node *layer) {
    const qn_value_info *w = qn_graph_value(graph, layer->inputs[1]);
    char name[NAME_BYTES];
    if (!w || w->part.n == 0 || !w->trainable)
        return;
    qn_value channels = channels_of(graph, w->name);
    if (channels.id < 0) {
        snprintf(name, sizeof name, "optimizer.channels.%s", w->name);
        channels = qn_graph_add_source(graph, QN_KIND_STATE, name,
                                       (qn_tensor){QN_I32, QN_SHAPE(w->part.n)},
                                       (qn_initial){QN_INITIAL_ZERO, 0}, false);
        snprintf(name, sizeof name, "%s.choose", w->name);
        channels = qn_op_choose(graph, name, layer->inputs[1], channels, w->part.axis, w->part.by);
    }
    snprintf(name, sizeof name, "%s.part", layer->name);
    const int axis = qn_graph_shape(graph, layer->inputs[0]).rank - 1;
    qn_op_take(graph, name, layer->inputs[0], axis, channels);
}

bool qn_part_find(const qn_graph *graph, const qn_node *layer, qn_value *x, qn_value *channels) {
    const qn_value_info *w = qn_graph_value(graph, layer->inputs[1]);
    if (!w || w->part.n == 0)
        return false;
    const qn_value kept = find(graph, "", layer->name, ".part");
    if (kept.id < 0)
        return false;
    *x = kept;
    *channels = channels_of(graph, w->name);
    return true;
}

qn_value qn_part_begin(qn_graph *graph, qn_value w) {
    const qn_value_info *info = qn_graph_value(graph, w);
    char name[NAME_BYTES];
    if (!info || info->part.n == 0)
        return w;
    snprintf(name, sizeof name, "%s.part", info->name);
    const qn_value part =
        qn_op_take(graph, name, w, info->part.axis, channels_of(graph, info->name));
    snprintf(name, sizeof name, "optimizer.part.%s", info->name);
    const qn_value state =
        qn_graph_add_source(graph, QN_KIND_STATE, name, qn_graph_tensor(graph, part),
                            (qn_initial){QN_INITIAL_ZERO, 0}, false);
    if (state.id >= 0)
        graph->values[state.id]->is_part = true;
    snprintf(name, sizeof name, "%s.part.keep", info->name);
    return qn_op_keep(graph, name, part, state);
}

void qn_part_end(qn_graph *graph, qn_value w, qn_value updated) {
    const qn_value_info *info = qn_graph_value(graph, w);
    char name[NAME_BYTES];
    if (!info || info->part.n == 0)
        return;
    snprintf(name, sizeof name, "%s.put", info->name);
    qn_op_put(graph, name, updated, info->part.axis, channels_of(graph, info->name), w);
}
