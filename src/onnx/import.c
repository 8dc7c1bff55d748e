/* Networks from ONNX files: opening, building, and a classifier as a model. A network keeps its
 * file open (weights are read where they lie) until it is closed, which is after all engines of it
 * were made. */
#include "onnx/import.h"

#include "base/options.h"
#include "base/status.h"
#include "onnx/inputs.h"
#include "onnx/properties/inside.h"
#include "os/heap.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { GUESSED_IMAGE = 224, GUESSED_LENGTH = 8 };

/* ---- places ---- */

/* What passes images through as they lie. */
static bool keeps_layout(const char *type) {
    static const char *const types[] = {"Abs",
                                        "Add",
                                        "BatchNormalization",
                                        "Cast",
                                        "Clip",
                                        "Concat",
                                        "Div",
                                        "Dropout",
                                        "Elu",
                                        "Erf",
                                        "Exp",
                                        "HardSigmoid",
                                        "HardSwish",
                                        "Identity",
                                        "LeakyRelu",
                                        "Log",
                                        "Mul",
                                        "Neg",
                                        "PRelu",
                                        "Pad",
                                        "Pow",
                                        "Relu",
                                        "Sigmoid",
                                        "Softplus",
                                        "Sqrt",
                                        "Slice",
                                        "Sub",
                                        "Tanh",
                                        "Tile",
                                        "QuantizeLinear",
                                        "DequantizeLinear",
                                        NULL};
    for (int i = 0; types[i]; i++) {
        if (strcmp(types[i], type) == 0)
            return true;
    }
    return false;
}

static bool makes_images(const char *type) {
    static const char *const types[] = {
        "Conv",          "ConvTranspose", "MaxPool",  "AveragePool",        "GlobalAveragePool",
        "GlobalMaxPool", "Resize",        "Upsample", "BatchNormalization", NULL};
    for (int i = 0; types[i]; i++) {
        if (strcmp(types[i], type) == 0)
            return true;
    }
    return false;
}

static bool is_in(const char *name, const char *const *names, int n) {
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], name) == 0)
            return true;
    }
    return false;
}

/* Whether a convolution, pool or the like reads it, perhaps after work element by element. names:
 * room for as many as there are nodes, and one. */
static bool is_read_as_image(const qn_onnx_model *m, const char *name, const char **names) {
    int n_names = 1;
    names[0] = name;
    for (int n = 0; n < m->n_nodes; n++) {
        const qn_onnx_node *node = &m->nodes[n];
        bool is_read = false;
        for (int i = 0; i < node->n_inputs; i++)
            is_read = is_read || is_in(node->inputs[i], names, n_names);
        if (is_read && makes_images(node->type))
            return true;
        if (is_read && keeps_layout(node->type) && node->n_outputs > 0)
            names[n_names++] = node->outputs[0];
    }
    return false;
}

static qn_dtype place_type(qn_onnx_type type) {
    return qn_onnx_type_is_real(type) ? QN_F32 : QN_I32;
}

qn_status qn_onnx_find_image(qn_onnx_network *n, int input) {
    const qn_onnx_model *m = n->source;
    qn_onnx_place *place = &n->inputs[input];
    const bool may_be = place->n_dims >= 3 && place->n_dims <= 5 && place->dtype == QN_F32 &&
                        place->batch_axis <= 0;
    const char **names = qn_arena_allocate(&n->arena, (size_t)m->n_nodes + 1, sizeof *names);
    if (!names)
        return QN_ERROR_MEMORY;
    place->is_image = may_be && !qn_onnx_is_moved(place) && is_read_as_image(m, place->name, names);
    for (int i = 0; may_be && qn_onnx_is_moved(place) && i < m->n_nodes; i++) {
        const qn_onnx_node *node = &m->nodes[i]; /* which gives a sample its batch */
        if (strcmp(node->type, "Unsqueeze") == 0 && node->n_inputs > 0 && node->n_outputs > 0 &&
            strcmp(node->inputs[0], place->name) == 0)
            place->is_image = is_read_as_image(m, node->outputs[0], names);
    }
    return QN_OK;
}

static qn_status read_place(qn_onnx_network *n, int input) {
    const qn_onnx_value *value = &n->source->inputs[input];
    qn_onnx_place *place = &n->inputs[input];
    if (value->n_dims > QN_MAX_RANK)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s has %d axes, where %d are the most here",
                       value->name, value->n_dims, QN_MAX_RANK);
    *place = (qn_onnx_place){
        .name = value->name, .dtype = place_type(value->type), .n_dims = value->n_dims};
    for (int i = 0; i < value->n_dims; i++)
        place->dims[i] = value->dims[i];
    return qn_onnx_find_image(n, input);
}

static qn_status read_places(qn_onnx_network *n) {
    const qn_onnx_model *m = n->source;
    n->inputs = qn_arena_allocate(&n->arena, (size_t)m->n_inputs + 1, sizeof *n->inputs);
    n->outputs = qn_arena_allocate(&n->arena, (size_t)m->n_outputs + 1, sizeof *n->outputs);
    n->tried = qn_arena_allocate(&n->arena, (size_t)m->n_outputs + 1, sizeof *n->tried);
    n->is_said = qn_arena_allocate(&n->arena, (size_t)m->n_outputs + 1, sizeof *n->is_said);
    if (!n->inputs || !n->outputs || !n->tried || !n->is_said)
        return QN_ERROR_MEMORY;
    for (; n->n_inputs < m->n_inputs; n->n_inputs++)
        QN_TRY(read_place(n, n->n_inputs));
    for (; n->n_outputs < m->n_outputs; n->n_outputs++)
        n->outputs[n->n_outputs] =
            (qn_onnx_place){.name = m->outputs[n->n_outputs].name,
                            .dtype = place_type(m->outputs[n->n_outputs].type),
                            .n_dims = -1};
    return QN_OK;
}

int qn_onnx_softmax_at_end(const qn_onnx_model *model, bool has_batch) {
    for (int n = 0; n < model->n_nodes && model->n_outputs == 1; n++) {
        const qn_onnx_node *node = &model->nodes[n];
        const bool is_softmax =
            strcmp(node->type, "Softmax") == 0 || strcmp(node->type, "LogSoftmax") == 0;
        const qn_onnx_attribute *axis = qn_onnx_find_attribute(node, "axis");
        const bool is_of_samples = has_batch && axis && (axis->count == 0 || axis->count == -2);
        if (is_softmax && !is_of_samples && !*node->domain && node->n_inputs == 1 &&
            node->n_outputs == 1 && strcmp(node->outputs[0], model->outputs[0].name) == 0)
            return n;
    }
    return -1;
}

/* ---- building ---- */

static qn_status check_input(const qn_onnx_network *n, int i, const qn_graph *graph,
                             qn_value value) {
    const qn_onnx_place *place = &n->inputs[i];
    const qn_tensor tensor = qn_graph_tensor(graph, value);
    char text[QN_SHAPE_TEXT];
    bool fits = place->n_dims < 0 || place->n_dims == tensor.shape.rank;
    for (int axis = 1; fits && axis < place->n_dims; axis++) {
        const int from = !place->is_image ? axis : axis == 1 ? place->n_dims - 1 : axis - 1;
        fits = place->dims[axis] < 0 || place->dims[axis] == tensor.shape.dims[from];
    }
    if (!fits)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%s: input %s cannot be %s; quern import FILE --check shows its shape%s",
                       n->model.name, place->name, qn_shape_print(tensor.shape, text),
                       place->is_image ? " (channels come last here)" : "");
    if ((place->dtype == QN_I32) != (tensor.dtype == QN_I32))
        return qn_fail(QN_ERROR_ARGUMENT, "%s: input %s is of %s", n->model.name, place->name,
                       place->dtype == QN_I32 ? "whole numbers" : "reals");
    return QN_OK;
}

static qn_status give_inputs(const qn_onnx_network *n, qn_onnx_builder *b, const qn_value *inputs) {
    for (int i = 0; i < n->n_inputs; i++) {
        qn_onnx_item *item = qn_onnx_find_item(b, n->inputs[i].name);
        if (b->wanted && inputs[i].id < 0)
            continue;
        QN_TRY(check_input(n, i, b->graph, inputs[i]));
        const bool is_moved = qn_onnx_is_moved(&n->inputs[i]);
        item->value = is_moved ? qn_onnx_to_file(n, &n->inputs[i], b->graph, inputs[i]) : inputs[i];
        item->is_image = n->inputs[i].is_image && !is_moved;
    }
    if (n->n_inputs > 0 && n->inputs[0].n_dims > 0 && inputs[0].id >= 0) {
        b->file_batch = qn_onnx_is_moved(&n->inputs[0]) ? -1 : n->inputs[0].dims[0];
        b->batch = qn_graph_shape(b->graph, inputs[0]).dims[0];
    }
    return b->graph->status == QN_OK ? QN_OK : qn_fail(b->graph->status, "%s", b->graph->message);
}

/* All of them, or, from 0 on, one. */
static qn_status take_outputs(qn_onnx_network *n, qn_onnx_builder *b, qn_value *outputs, int only) {
    for (int i = 0; i < n->n_outputs; i++) {
        if (only >= 0 && i != only)
            continue;
        qn_onnx_item *item = qn_onnx_find_item(b, n->outputs[i].name);
        outputs[i] = item ? qn_onnx_item_value(b, item) : QN_NO_VALUE;
        if (qn_graph_tensor(b->graph, outputs[i]).dtype == QN_I64)
            return qn_fail(QN_ERROR_UNSUPPORTED,
                           "output %s has integers of 64 bits, where outputs have 32: cast it to "
                           "int32 or float",
                           n->outputs[i].name);
        if (outputs[i].id < 0)
            return qn_fail(QN_ERROR_UNSUPPORTED, "output %s is not made here: %s",
                           n->outputs[i].name, b->graph->message);
        const bool is_moved = qn_onnx_is_moved(&n->outputs[i]);
        if (is_moved)
            outputs[i] = qn_onnx_from_file(&n->outputs[i], b->graph, outputs[i], item->is_image);
        n->outputs[i].is_image = item->is_image && !is_moved;
        n->outputs[i].dtype =
            qn_graph_tensor(b->graph, outputs[i]).dtype == QN_I32 ? QN_I32 : QN_F32;
    }
    return QN_OK;
}

static qn_status build(qn_onnx_network *n, qn_onnx_builder *b, const qn_value *inputs,
                       qn_value *outputs, int only) {
    b->left_out = n->left_out;
    if (only >= 0)
        b->wanted = qn_onnx_mark_part(n, only);
    if (only >= 0 && !b->wanted)
        return QN_ERROR_MEMORY;
    QN_TRY(give_inputs(n, b, inputs));
    const qn_status status = qn_onnx_builder_run(b);
    QN_TRY(qn_onnx_file_check(n->file));
    QN_TRY(status);
    return take_outputs(n, b, outputs, only);
}

static qn_status build_outputs(qn_onnx_network *network, qn_graph *graph, const qn_value *inputs,
                               qn_value *outputs, int only) {
    qn_onnx_builder b;
    for (int i = 0; i < network->n_outputs; i++)
        outputs[i] = QN_NO_VALUE;
    if (graph->status != QN_OK)
        return graph->status;
    qn_status status =
        qn_onnx_builder_init(&b, network->source, &network->decisions, graph, &network->arena);
    if (status == QN_OK) {
        status = build(network, &b, inputs, outputs, only);
        network->records = b.records;
        qn_onnx_builder_deinit(&b);
    }
    if (status != QN_OK)
        qn_graph_fail(graph, status, "%s", qn_error_message());
    return status;
}

qn_status qn_onnx_build(qn_onnx_network *network, qn_graph *graph, const qn_value *inputs,
                        qn_value *outputs) {
    QN_NEED(network, "network");
    QN_NEED(graph, "graph");
    QN_NEED(inputs, "inputs");
    QN_NEED(outputs, "outputs");
    return build_outputs(network, graph, inputs, outputs, -1);
}

qn_value qn_onnx_build_part(qn_onnx_network *network, qn_graph *graph, const qn_value *inputs,
                            int output) {
    const size_t n = (size_t)network->n_outputs + 1;
    qn_value *outputs = qn_arena_allocate(&graph->arena, n, sizeof *outputs);
    if (!outputs) {
        qn_graph_fail(graph, QN_ERROR_MEMORY, "%s", qn_error_message());
        return QN_NO_VALUE;
    }
    build_outputs(network, graph, inputs, outputs, output);
    return outputs[output];
}

/* Whether a node is read for an output: by one that is, or as the output itself. */
static bool is_read_for(const qn_onnx_model *m, const bool *wanted, int number,
                        const char *output) {
    const qn_onnx_node *made = &m->nodes[number];
    for (int i = 0; i < made->n_outputs; i++) {
        if (strcmp(made->outputs[i], output) == 0)
            return true;
        for (int n = number + 1; n < m->n_nodes && *made->outputs[i]; n++) {
            if (wanted[n] && qn_onnx_node_reads(&m->nodes[n], made->outputs[i]))
                return true;
        }
    }
    return false;
}

const bool *qn_onnx_mark_part(qn_onnx_network *n, int output) {
    const qn_onnx_model *m = n->source;
    bool *wanted = qn_arena_allocate(&n->arena, (size_t)m->n_nodes + 1, sizeof *wanted);
    for (int i = m->n_nodes - 1; wanted && i >= 0; i--)
        wanted[i] = is_read_for(m, wanted, i, n->outputs[output].name);
    return wanted;
}

/* A guess for an extent that the file leaves open. */
static int64_t guess(const qn_onnx_place *place, int axis, int64_t batch) {
    if (axis == 0)
        return place->batch_axis == QN_ONNX_NO_BATCH ? 1 : batch;
    return place->is_image && place->n_dims >= 4 ? (axis == 1 ? 3 : GUESSED_IMAGE) : GUESSED_LENGTH;
}

static qn_shape guess_shape(const qn_onnx_place *place, int64_t batch) {
    qn_shape shape = {.rank = place->n_dims};
    for (int i = 0; i < place->n_dims; i++) {
        const int to = !place->is_image || i == 0 ? i : i == 1 ? place->n_dims - 1 : i - 1;
        shape.dims[to] = place->dims[i] >= 0 ? place->dims[i] : guess(place, i, batch);
    }
    return shape;
}

qn_shape qn_onnx_guess_shape(const qn_onnx_place *place) {
    return guess_shape(place, 1);
}

qn_shape qn_onnx_shape_in_file(const qn_onnx_place *place, qn_shape shape) {
    qn_shape file = shape;
    for (int axis = 1; place->is_image && axis < shape.rank; axis++)
        file.dims[axis] = shape.dims[axis == 1 ? shape.rank - 1 : axis - 1];
    return file;
}

/* An input's shape; what is open under the name of the batch, wherever it is, is as long. */
qn_shape qn_onnx_guess_input(const qn_onnx_network *n, int i) {
    const qn_onnx_value *value = &n->source->inputs[i], *first = &n->source->inputs[0];
    const qn_onnx_place *place = &n->inputs[i], *front = &n->inputs[0];
    const int own = qn_onnx_file_axis(front, 0);
    const int64_t batch = place->batch_axis != QN_ONNX_NO_BATCH ? n->trial_batch : 1;
    qn_shape shape = guess_shape(place, batch);
    if (n->trial_batch > 1 && batch > 1 && place->n_dims > 0)
        shape.dims[0] = batch;
    const char *symbol =
        first->n_dims > 0 && own >= 0 && first->dims[own] < 0 ? first->symbols[own] : "";
    for (int axis = 1; *symbol && axis < place->n_dims && !place->is_image; axis++) {
        const int from = qn_onnx_file_axis(place, axis);
        if (value->dims[from] < 0 && strcmp(value->symbols[from], symbol) == 0)
            shape.dims[axis] = n->trial_batch;
    }
    return shape;
}

qn_status qn_onnx_try(qn_onnx_network *n, bool training, qn_graph **graph, qn_value *outputs) {
    qn_value *inputs = qn_arena_allocate(&n->arena, (size_t)n->n_inputs + 1, sizeof *inputs);
    *graph = NULL;
    if (!inputs)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_graph_create(&(qn_graph_options){QN_OPTIONS_INIT(qn_graph_options),
                                               .allocator = n->allocator, .training = training},
                           graph));
    for (int i = 0; i < n->n_inputs; i++) {
        const qn_onnx_place *place = &n->inputs[i];
        const char *name = qn_arena_format(&n->arena, "input.%d", i);
        if (place->n_dims < 0)
            return qn_fail(QN_ERROR_UNSUPPORTED,
                           "the rank of input %s is not said; export with example inputs",
                           place->name);
        if (!name)
            return QN_ERROR_MEMORY;
        const qn_shape shape = qn_onnx_guess_input(n, i);
        inputs[i] = place->dtype == QN_I32 ? qn_index_input(*graph, name, shape)
                                           : qn_input(*graph, name, shape);
    }
    return qn_onnx_build(n, *graph, inputs, outputs);
}

/* A number or a list of whole numbers or truths that the network takes may be what decides. */
static bool blame_value(const qn_onnx_network *n, qn_status status) {
    if (!strstr(qn_error_message(), "known only when it runs"))
        return false;
    for (int i = 0; i < n->n_inputs; i++) {
        const qn_onnx_place *place = &n->inputs[i];
        if (place->dtype != QN_I32 || place->n_dims > 1)
            continue;
        qn_fail(status, "%s; if the value of input %s decides it, say it by --set %s=VALUE",
                qn_error_message(), place->name, place->name);
        return true;
    }
    return false;
}

/* Where extents were guessed, that may be why a network could not be built. */
void qn_onnx_blame_guess(const qn_onnx_network *n, qn_status status) {
    if (status == QN_ERROR_UNSUPPORTED && blame_value(n, status))
        return;
    for (int i = 0; i < n->n_inputs; i++) {
        const qn_onnx_place *place = &n->inputs[i];
        for (int axis = 1; axis < place->n_dims; axis++) {
            if (place->dims[axis] >= 0)
                continue;
            qn_fail(status,
                    "%s; extent %d of input %s is open in the file, and was guessed: say it by "
                    "--shape %s=1x...",
                    qn_error_message(), qn_onnx_file_axis(place, axis), place->name, place->name);
            return;
        }
    }
}

/* ---- opening ---- */

/* What an export put at the end brings scaled targets back to their units; a network of quern's has
 * them scaled. */
static void leave_out_scales(qn_onnx_network *n) {
    const qn_onnx_model *m = n->source;
    const char *output = m->n_outputs == 1 ? m->outputs[0].name : "";
    if (n->keep_softmax || !qn_onnx_property_of(n, QN_ONNX_TARGETS_INSIDE))
        return;
    for (int i = 0; i < m->n_nodes; i++) {
        const qn_onnx_node *node = &m->nodes[i];
        const bool is_last = node->n_outputs == 1 && strcmp(node->outputs[0], output) == 0 &&
                             qn_onnx_node_reads(node, QN_ONNX_TARGETS_SCALED);
        const bool is_scaling = node->n_outputs == 1 &&
                                strcmp(node->outputs[0], QN_ONNX_TARGETS_SCALED) == 0 &&
                                qn_onnx_node_reads(node, QN_ONNX_TARGET_SCALE);
        if (is_last || is_scaling)
            n->left_out[i] = true;
    }
}

static qn_status read_left_out(qn_onnx_network *n) {
    n->left_out = qn_arena_allocate(&n->arena, (size_t)n->source->n_nodes + 1, sizeof *n->left_out);
    if (!n->left_out)
        return QN_ERROR_MEMORY;
    if (n->softmax >= 0)
        n->left_out[n->softmax] = true;
    leave_out_scales(n);
    return QN_OK;
}

/* Who gave the links is not always who allowed them. */
static void log_links(const qn_onnx_network *n) {
    const char *path;
    char text[1024];
    for (int i = 0; n->log && (path = qn_onnx_file_followed(n->file, i)); i++) {
        snprintf(text, sizeof text, "%s: data are read from %s, where a link leads", n->model.name,
                 path);
        n->log->write(n->log->user, 0, text);
    }
}

static qn_status read_network(qn_onnx_network *n, const qn_onnx_options *options) {
    log_links(n);
    QN_TRY(qn_onnx_set_values(qn_onnx_file_model(n->file), options->values, &n->arena, &n->base,
                              &n->n_set));
    QN_TRY(qn_onnx_recognise(n->base, &n->arena, &n->source));
    QN_TRY(qn_onnx_decide(n->base, options->train_only, options->requires_grad, &n->arena,
                          &n->decisions));
    qn_onnx_fix_values(n->base, n->n_set, &n->decisions);
    QN_TRY(read_places(n));
    QN_TRY(qn_onnx_set_shapes(n, options->shapes));
    n->softmax = n->keep_softmax ? -1 : qn_onnx_softmax_at_end(n->source, qn_onnx_has_batch(n));
    QN_TRY(read_left_out(n));
    return qn_onnx_find_batches(n);
}

qn_status qn_onnx_read(const qn_onnx_options *options, const char *path,
                       qn_onnx_network **network) {
    qn_onnx_options taken;
    qn_onnx_network *n;
    QN_TRY(QN_OPTIONS_TAKE(qn_onnx_options, options, &taken));
    options = &taken;
    const qn_allocator *allocator = qn_allocator_or_default(options->allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *n, &n));
    *n = (qn_onnx_network){.allocator = allocator,
                           .log = options->log,
                           .keep_softmax = options->keep_softmax,
                           .trial_batch = 1,
                           .softmax = -1};
    qn_arena_init(&n->arena, allocator);
    n->model.name = qn_arena_text(&n->arena, path);
    qn_status status = n->model.name
                           ? qn_onnx_file_open(allocator, path, options->follow_links, &n->file)
                           : QN_ERROR_MEMORY;
    if (status == QN_OK) {
        status = read_network(n, options);
        if (status != QN_OK)
            qn_fail_within(status, "%s", path);
    }
    if (status != QN_OK)
        qn_onnx_close(n);
    else
        *network = n;
    return status;
}

/* Whether an input leaves more than its batch open. */
static bool has_open_axes(const qn_onnx_network *n) {
    bool has = false;
    for (int i = 0; i < n->n_inputs; i++) {
        for (int axis = 1; axis < n->inputs[i].n_dims; axis++)
            has = has || n->inputs[i].dims[axis] < 0;
    }
    return has;
}

/* Where inputs leave nothing open but the batch, only the first extent of an output can be open,
 * whatever the file calls the others. */
void qn_onnx_note_outputs(qn_onnx_network *n, const qn_graph *graph, const qn_value *outputs) {
    const bool has_open = has_open_axes(n);
    for (int i = 0; i < n->n_outputs; i++) {
        qn_onnx_place *place = &n->outputs[i];
        const qn_shape shape = qn_graph_shape(graph, outputs[i]);
        n->tried[i] = qn_onnx_shape_in_file(place, shape);
        place->n_dims = shape.rank;
        memcpy(place->dims, n->tried[i].dims, sizeof place->dims);
        const qn_onnx_value *said = &n->source->outputs[i];
        for (int axis = 0; axis < shape.rank; axis++) {
            const int from = qn_onnx_file_axis(place, axis);
            const bool may_be_open = axis == 0 || has_open;
            if (from >= 0 && from < said->n_dims && said->dims[from] < 0 && may_be_open)
                place->dims[axis] = -1;
        }
    }
}

qn_status qn_onnx_open(const qn_onnx_options *options, const char *path,
                       qn_onnx_network **network) {
    QN_NEED(options, "options");
    QN_NEED(path, "path");
    QN_NEED(network, "network");
    qn_onnx_network *n;
    qn_graph *graph;
    QN_TRY(qn_onnx_read(options, path, &n));
    qn_value *outputs = qn_arena_allocate(&n->arena, (size_t)n->n_outputs + 1, sizeof *outputs);
    qn_status status = outputs ? qn_onnx_try(n, false, &graph, outputs) : QN_ERROR_MEMORY;
    if (status == QN_OK)
        qn_onnx_note_outputs(n, graph, outputs);
    if (status != QN_OK && status != QN_ERROR_MEMORY)
        qn_onnx_blame_guess(n, status);
    if (status != QN_OK) /* what a builder takes for its caller's mistake is the file's */
        status = qn_fail_within(status == QN_ERROR_ARGUMENT ? QN_ERROR_FORMAT : status, "%s", path);
    if (outputs)
        qn_graph_destroy(graph);
    if (status != QN_OK)
        qn_onnx_close(n);
    else
        *network = n;
    return status;
}

void qn_onnx_close(qn_onnx_network *network) {
    if (!network)
        return;
    const qn_allocator *allocator = network->allocator;
    qn_onnx_file_close(network->file);
    qn_arena_deinit(&network->arena);
    qn_release(allocator, network, 1, sizeof *network);
}

int qn_onnx_input_count(const qn_onnx_network *network) {
    QN_NEED_OR(network, "network", 0);
    return network->n_inputs;
}

int qn_onnx_output_count(const qn_onnx_network *network) {
    QN_NEED_OR(network, "network", 0);
    return network->n_outputs;
}

const qn_onnx_place *qn_onnx_input(const qn_onnx_network *network, int index) {
    QN_NEED_OR(network, "network", NULL);
    return index >= 0 && index < network->n_inputs ? &network->inputs[index] : NULL;
}

const qn_onnx_place *qn_onnx_output(const qn_onnx_network *network, int index) {
    QN_NEED_OR(network, "network", NULL);
    return index >= 0 && index < network->n_outputs ? &network->outputs[index] : NULL;
}

const char *qn_onnx_missing_parameter(const qn_onnx_network *network, int *n) {
    *n = network->decisions.n_missing;
    return *n > 0 ? network->decisions.missing[0] : NULL;
}

int qn_onnx_initializer_count(const qn_onnx_network *network) {
    QN_NEED_OR(network, "network", 0);
    return network->decisions.n;
}

const qn_onnx_initializer *qn_onnx_initializer_at(const qn_onnx_network *network, int index) {
    QN_NEED_OR(network, "network", NULL);
    return index >= 0 && index < network->decisions.n ? &network->decisions.list[index] : NULL;
}

void qn_onnx_options_read(const qn_metadata *settings, qn_onnx_options *options) {
    const struct {
        const char *key, **field;
    } fields[] = {
        {"shape", &options->shapes},
        {"set", &options->values},
        {"train-only", &options->train_only},
        {"requires-grad", &options->requires_grad},
    };
    if (!settings || !options)
        return;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (!*fields[i].field)
            *fields[i].field = qn_metadata_get(settings, fields[i].key);
    }
    const char *links = qn_metadata_get(settings, "follow-links");
    options->follow_links = options->follow_links || (links && strcmp(links, "yes") == 0);
}

/* ---- what the file says of itself ---- */

const char *qn_onnx_property_of(const qn_onnx_network *network, const char *key) {
    static const char prefix[] = "quern.";
    const size_t length = strlen(prefix);
    for (int i = 0; i < network->source->n_properties; i++) {
        const qn_onnx_property *p = &network->source->properties[i];
        if (strncmp(p->key, prefix, length) == 0 && strcmp(p->key + length, key) == 0)
            return p->value;
    }
    return NULL;
}

qn_status qn_onnx_properties(const qn_onnx_network *network, qn_metadata *metadata) {
    QN_NEED(network, "network");
    QN_NEED(metadata, "metadata");
    static const char prefix[] = "quern.";
    for (int i = 0; i < network->source->n_properties; i++) {
        const qn_onnx_property *p = &network->source->properties[i];
        const char *key = p->key + strlen(prefix);
        if (strncmp(p->key, prefix, strlen(prefix)) != 0 || strcmp(key, "model") == 0 ||
            strcmp(key, "task") == 0 || qn_metadata_get(metadata, key))
            continue;
        QN_TRY(qn_metadata_set(metadata, key, p->value));
    }
    return QN_OK;
}
