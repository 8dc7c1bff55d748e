/* Builds graphs; see graph.h. Nodes, values and their texts are in the graph's arena; only the
 * growing lists are allocated separately. */
#include "graph/graph.h"

#include "base/options.h"
#include "base/print.h"
#include "base/rng.h"
#include "base/status.h"
#include "graph/names.h"
#include "os/heap.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *qn_kind_name(qn_kind kind) {
    static const char *const names[QN_KIND_COUNT] = {
        [QN_KIND_INPUT] = "input",         [QN_KIND_LABEL] = "label",
        [QN_KIND_PARAMETER] = "parameter", [QN_KIND_GRADIENT] = "gradient",
        [QN_KIND_STATE] = "state",         [QN_KIND_FEATURE] = "feature",
        [QN_KIND_WORKSPACE] = "workspace",
    };
    return (unsigned)kind < QN_KIND_COUNT ? names[kind] : "unknown";
}

qn_status qn_graph_create(const qn_graph_options *options, qn_graph **graph) {
    QN_NEED(options, "options");
    QN_NEED(graph, "graph");
    qn_graph_options taken;
    QN_TRY(QN_OPTIONS_TAKE(qn_graph_options, options, &taken));
    options = &taken;
    const qn_allocator *allocator = qn_allocator_or_default(options->allocator);
    const qn_dtype real = options->real == QN_NONE ? QN_F32 : options->real;
    qn_graph *g;
    if (!qn_dtype_is_real(real))
        return qn_fail(QN_ERROR_ARGUMENT, "graph: real type %s is neither f32 nor f64",
                       qn_dtype_name(real));
    QN_TRY(qn_allocate(allocator, 1, sizeof *g, &g));
    g->allocator = allocator;
    g->real = real;
    g->training = options->training;
    g->no_dropout = options->no_dropout;
    qn_arena_init(&g->arena, allocator);
    *graph = g;
    return QN_OK;
}

void qn_graph_destroy(qn_graph *graph) {
    if (!graph)
        return;
    const qn_allocator *allocator = graph->allocator;
    qn_release(allocator, graph->nodes, graph->node_capacity, sizeof *graph->nodes);
    qn_release(allocator, graph->values, graph->value_capacity, sizeof *graph->values);
    qn_release(allocator, graph->names, graph->name_capacity, sizeof *graph->names);
    qn_arena_deinit(&graph->arena);
    qn_release(allocator, graph, 1, sizeof *graph);
}

qn_status qn_graph_finish(qn_graph *graph) {
    QN_NEED(graph, "graph");
    if (graph->status == QN_OK && graph->depth > 0)
        qn_graph_fail(graph, QN_ERROR_ARGUMENT, "graph: scope \"%s\" was entered but not left",
                      graph->scope);
    if (graph->status != QN_OK)
        return qn_fail(graph->status, "%s", graph->message);
    return QN_OK;
}

bool qn_graph_is_training(const qn_graph *graph) {
    QN_NEED_OR(graph, "graph", false);
    return graph->training;
}

void qn_graph_fail(qn_graph *graph, qn_status status, const char *format, ...) {
    QN_NEED_OR(graph, "graph", );
    if (graph->status != QN_OK)
        return;
    va_list arguments;
    va_start(arguments, format);
    qn_print_list(graph->message, sizeof graph->message, format, arguments);
    va_end(arguments);
    graph->status = status;
    qn_fail(status, "%s", graph->message);
}

/* Keeps the thread's last message: that of a failed allocation. */
static void fail_memory(qn_graph *graph) {
    qn_graph_fail(graph, QN_ERROR_MEMORY, "graph: %s", qn_error_message());
}

/* ---- values ---- */

qn_value_info *qn_graph_value(const qn_graph *graph, qn_value value) {
    if (!graph || value.id < 0 || value.id >= graph->n_values)
        return NULL;
    return graph->values[value.id];
}

qn_tensor qn_graph_tensor(const qn_graph *graph, qn_value value) {
    const qn_value_info *info = qn_graph_value(graph, value);
    return info ? info->tensor : (qn_tensor){.dtype = QN_NONE};
}

qn_shape qn_graph_shape(const qn_graph *graph, qn_value value) {
    QN_NEED_OR(graph, "graph", (qn_shape){0});
    return qn_graph_tensor(graph, value).shape;
}

/* Adds a value whose name is in the graph's memory and complete. */
static qn_value add_value(qn_graph *graph, qn_value_info info) {
    if (qn_graph_find(graph, info.name).id >= 0) {
        qn_graph_fail(graph, QN_ERROR_ARGUMENT, "graph: the name %s is taken; names are unique",
                      info.name);
        return QN_NO_VALUE;
    }
    qn_value_info *copy = qn_arena_allocate(&graph->arena, 1, sizeof *copy);
    if (!copy || qn_grow(graph->allocator, &graph->values, &graph->value_capacity,
                         (size_t)graph->n_values + 1, sizeof *graph->values) != QN_OK) {
        fail_memory(graph);
        return QN_NO_VALUE;
    }
    *copy = info;
    const qn_value value = {graph->n_values};
    graph->values[graph->n_values++] = copy;
    if (qn_graph_add_name(graph, value) != QN_OK) {
        graph->n_values--;
        fail_memory(graph);
        return QN_NO_VALUE;
    }
    return value;
}

static const char *scoped(qn_graph *graph, const char *scope, const char *name) {
    const char *full = qn_arena_format(&graph->arena, "%s%s", scope, name);
    if (!full)
        fail_memory(graph);
    return full;
}

static qn_value add_source(qn_graph *graph, qn_kind kind, const char *scope, const char *name,
                           qn_tensor tensor, qn_initial initial, bool trainable) {
    char text[QN_SHAPE_TEXT];
    if (graph->status != QN_OK)
        return QN_NO_VALUE;
    if (!name || !*name || qn_dtype_bytes(tensor.dtype) == 0) {
        qn_graph_fail(graph, QN_ERROR_ARGUMENT, "graph: %s has no %s", qn_kind_name(kind),
                      name && *name ? "element type" : "name");
        return QN_NO_VALUE;
    }
    if (!qn_shape_is_valid(tensor.shape)) {
        qn_graph_fail(graph, QN_ERROR_ARGUMENT,
                      "%s: %s is not a shape of at most %d extents from 1", name,
                      qn_shape_print(tensor.shape, text), QN_MAX_RANK);
        return QN_NO_VALUE;
    }
    const char *full = scoped(graph, scope, name);
    if (!full)
        return QN_NO_VALUE;
    return add_value(graph, (qn_value_info){.name = full,
                                            .kind = kind,
                                            .tensor = tensor,
                                            .producer = -1,
                                            .overwrites = -1,
                                            .initial = initial,
                                            .trainable = trainable});
}

qn_value qn_graph_add_source(qn_graph *graph, qn_kind kind, const char *name, qn_tensor tensor,
                             qn_initial initial, bool trainable) {
    QN_NEED_OR(graph, "graph", QN_NO_VALUE);
    return add_source(graph, kind, graph->scope, name, tensor, initial, trainable);
}

qn_value qn_input(qn_graph *graph, const char *name, qn_shape shape) {
    QN_NEED_OR(graph, "graph", QN_NO_VALUE);
    return qn_graph_add_source(graph, QN_KIND_INPUT, name, (qn_tensor){graph->real, shape},
                               (qn_initial){QN_INITIAL_ZERO, 0}, false);
}

qn_value qn_label(qn_graph *graph, const char *name, qn_dtype dtype, qn_shape shape) {
    QN_NEED_OR(graph, "graph", QN_NO_VALUE);
    return qn_graph_add_source(graph, QN_KIND_LABEL, name, (qn_tensor){dtype, shape},
                               (qn_initial){QN_INITIAL_ZERO, 0}, false);
}

qn_value qn_index_input(qn_graph *graph, const char *name, qn_shape shape) {
    QN_NEED_OR(graph, "graph", QN_NO_VALUE);
    return qn_graph_add_source(graph, QN_KIND_INPUT, name, (qn_tensor){QN_I32, shape},
                               (qn_initial){QN_INITIAL_ZERO, 0}, false);
}

qn_value qn_graph_latest(const qn_graph *graph, qn_value v) {
    for (int32_t next = v.id + 1; v.id >= 0 && next < graph->n_values; next++) {
        if (graph->values[next]->overwrites == v.id)
            v.id = next;
    }
    return v;
}

qn_value qn_graph_unview(const qn_graph *graph, qn_value v) {
    for (;;) {
        const int32_t producer = graph->values[v.id]->producer;
        if (producer < 0 || !graph->nodes[producer]->op->is_view)
            return v;
        v = graph->nodes[producer]->inputs[0];
    }
}

/* A parameter that an earlier call of the same layers has declared. */
static qn_value share_parameter(qn_graph *graph, qn_value found, qn_shape shape) {
    char text[QN_SHAPE_TEXT], wanted[QN_SHAPE_TEXT];
    const qn_value_info *info = graph->values[found.id];
    if (info->kind == QN_KIND_PARAMETER && qn_shape_equal(info->tensor.shape, shape))
        return qn_graph_latest(graph, found);
    qn_graph_fail(graph, QN_ERROR_ARGUMENT,
                  "%s: it is %s %s, and cannot be shared as a parameter %s", info->name,
                  qn_kind_name(info->kind), qn_shape_print(info->tensor.shape, text),
                  qn_shape_print(shape, wanted));
    return QN_NO_VALUE;
}

qn_value qn_graph_add_parameter(qn_graph *graph, const char *name, qn_tensor tensor,
                                qn_initial initial, bool trainable) {
    const char *full;
    if (graph->status != QN_OK || !name)
        return QN_NO_VALUE;
    if (graph->n_calls > 0) {
        full = qn_arena_format(&graph->arena, "%s%s", graph->parameter_scope, name);
        const qn_value found = full ? qn_graph_find(graph, full) : QN_NO_VALUE;
        if (found.id >= 0)
            return share_parameter(graph, found, tensor.shape);
    }
    return add_source(graph, QN_KIND_PARAMETER, graph->parameter_scope, name, tensor, initial,
                      trainable);
}

qn_value qn_parameter(qn_graph *graph, const char *name, qn_shape shape, qn_initial initial,
                      bool trainable) {
    QN_NEED_OR(graph, "graph", QN_NO_VALUE);
    return qn_graph_add_parameter(graph, name, (qn_tensor){graph->real, shape}, initial, trainable);
}

void qn_graph_give(qn_graph *graph, qn_value source, const qn_given *given) {
    qn_value_info *info = qn_graph_value(graph, source);
    if (graph->status != QN_OK || !info || !given)
        return;
    qn_given *copy = qn_arena_allocate(&graph->arena, 1, sizeof *copy);
    if (!copy) {
        fail_memory(graph);
        return;
    }
    *copy = *given;
    info->given = copy;
}

void qn_graph_lend(qn_graph *graph, qn_value source, const void *data) {
    qn_value_info *info = qn_graph_value(graph, source);
    if (graph->status == QN_OK && info)
        info->lent = data;
}

qn_value qn_parameter_from(qn_graph *graph, const char *name, qn_shape shape, const qn_given *given,
                           bool trainable) {
    QN_NEED_OR(graph, "graph", QN_NO_VALUE);
    const qn_value value =
        qn_parameter(graph, name, shape, (qn_initial){QN_INITIAL_ZERO, 0}, trainable);
    const qn_value_info *info = qn_graph_value(graph, value);
    if (info && info->producer < 0 && !info->given)
        qn_graph_give(graph, value, given);
    return value;
}

void qn_result(qn_graph *graph, qn_value value) {
    QN_NEED_OR(graph, "graph", );
    qn_value_info *info = qn_graph_value(graph, value);
    if (graph->status != QN_OK)
        return;
    if (!info || graph->n_results == QN_MAX_RESULTS) {
        qn_graph_fail(graph, QN_ERROR_ARGUMENT,
                      "graph: result %d is not a value, or one more than %d", graph->n_results,
                      QN_MAX_RESULTS);
        return;
    }
    info->is_result = true;
    graph->results[graph->n_results++] = value;
}

/* ---- nodes ---- */

/* An input of a type that its shape rule does not look at is real, and of the type of those before
 * it: *real, or QN_NONE where there is none yet. */
static qn_status check_real(const qn_value_info *info, int i, qn_dtype *real) {
    const qn_dtype dtype = info->tensor.dtype;
    if (!qn_dtype_is_real(dtype) || (*real != QN_NONE && dtype != *real))
        return qn_fail(QN_ERROR_ARGUMENT, "input %d, %s, is %s where %s is needed; cast it", i,
                       info->name, qn_dtype_name(dtype),
                       *real == QN_NONE ? "f32 or f64" : qn_dtype_name(*real));
    *real = dtype;
    return QN_OK;
}

/* An input that may be a 16-bit float (qn_op): of the type of those before it that may, *half, or
 * QN_NONE where there is none yet. */
static qn_status check_half(const qn_value_info *info, int i, qn_dtype *half) {
    const qn_dtype dtype = info->tensor.dtype;
    if (*half != QN_NONE && dtype != *half)
        return qn_fail(QN_ERROR_ARGUMENT, "input %d, %s, is %s where %s is needed; cast it", i,
                       info->name, qn_dtype_name(dtype), qn_dtype_name(*half));
    if (qn_dtype_is_half(dtype) && info->tensor.shape.rank < 2)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "input %d, %s, is %s and has fewer than two axes; cast it", i, info->name,
                       qn_dtype_name(dtype));
    *half = dtype;
    return QN_OK;
}

/* The checks that hold for every operator: count, presence and element type of inputs. */
static qn_status check_inputs(const qn_graph *graph, const qn_op *op, const qn_value *inputs,
                              int n_inputs) {
    if (n_inputs < op->min_inputs || (op->max_inputs >= 0 && n_inputs > op->max_inputs))
        return qn_fail(QN_ERROR_ARGUMENT, "%d inputs, but it takes %d to %d", n_inputs,
                       op->min_inputs, op->max_inputs);
    qn_dtype real = QN_NONE, half = QN_NONE;
    for (int i = 0; i < n_inputs; i++) {
        const uint32_t bit = i < 32 ? UINT32_C(1) << i : 0;
        const qn_value_info *info = qn_graph_value(graph, inputs[i]);
        if (!info) {
            if (inputs[i].id != -1)
                return qn_fail(QN_ERROR_ARGUMENT, "input %d is not a value of this graph", i);
            if (!(op->optional_inputs & bit))
                return qn_fail(QN_ERROR_ARGUMENT, "input %d is left out", i);
            continue;
        }
        if (op->halves & bit)
            QN_TRY(check_half(info, i, &half));
        if (!(op->any_type_inputs >> (i < 31 ? i : 31) & 1) &&
            !(op->halves & bit && qn_dtype_is_half(info->tensor.dtype)))
            QN_TRY(check_real(info, i, &real));
    }
    return QN_OK;
}

/* Runs the shape rule and checks what it says. */
static qn_status infer_outputs(const qn_graph *graph, const qn_node *node, qn_infer *infer) {
    char text[QN_SHAPE_TEXT];
    QN_TRY(node->op->infer(infer));
    if (infer->n_outputs < 1 || infer->n_outputs > QN_MAX_OUTPUTS)
        return qn_fail(QN_ERROR_ARGUMENT, "%d outputs", infer->n_outputs);
    for (int i = 0; i < infer->n_outputs; i++) {
        if (!qn_shape_is_valid(infer->outputs[i].shape))
            return qn_fail(QN_ERROR_ARGUMENT, "output %s is empty or too large",
                           qn_shape_print(infer->outputs[i].shape, text));
        const int from = node->op->overwrites[i] - 1;
        const qn_value_info *old = from < 0 ? NULL : qn_graph_value(graph, node->inputs[from]);
        if (old && old->producer >= 0 && old->overwrites < 0)
            return qn_fail(QN_ERROR_ARGUMENT, "%s is computed, so it cannot be updated", old->name);
        if (old && old->is_overwritten)
            return qn_fail(QN_ERROR_ARGUMENT, "%s is updated twice", old->name);
    }
    return QN_OK;
}

static qn_value add_output(qn_graph *graph, const qn_node *node, int i, qn_tensor tensor) {
    const char *word = node->op->output_names[i];
    const char *name = node->name;
    if (i > 0)
        name = word ? qn_arena_format(&graph->arena, "%s.%s", node->name, word)
                    : qn_arena_format(&graph->arena, "%s.%d", node->name, i);
    if (!name) {
        fail_memory(graph);
        return QN_NO_VALUE;
    }
    qn_value_info info = {.name = name,
                          .kind = QN_KIND_FEATURE,
                          .tensor = tensor,
                          .producer = graph->n_nodes,
                          .output = i,
                          .overwrites = -1};
    if (node->op->overwrites[i] > 0) {
        const qn_value old = node->inputs[node->op->overwrites[i] - 1];
        info.overwrites = old.id;
        info.kind = graph->values[old.id]->kind;
        graph->values[old.id]->is_overwritten = true;
    }
    return add_value(graph, info);
}

/* A node with all but its outputs; null after a failure. */
static qn_node *make_node(qn_graph *graph, const qn_op *op, const char *name,
                          const qn_value *inputs, int n_inputs, const void *attributes) {
    qn_node *node = qn_arena_allocate(&graph->arena, 1, sizeof *node);
    qn_value *copies = qn_arena_allocate(&graph->arena, (size_t)n_inputs + 1, sizeof *copies);
    void *fields = qn_arena_allocate(&graph->arena, 1, op->attributes_bytes + 1);
    const char *full = name ? name : qn_graph_unique(graph, op->name, true);
    full = full ? scoped(graph, graph->scope, full) : NULL;
    if (!node || !copies || !fields || !full) {
        fail_memory(graph);
        return NULL;
    }
    if (n_inputs > 0)
        memcpy(copies, inputs, (size_t)n_inputs * sizeof *copies);
    if (op->attributes_bytes > 0)
        memcpy(fields, attributes, op->attributes_bytes);
    *node = (qn_node){.op = op,
                      .name = full,
                      .key = qn_hash_text(full),
                      .attributes = fields,
                      .n_inputs = n_inputs,
                      .inputs = copies};
    return node;
}

/* Gives the node its outputs and puts it into the list. */
static bool add_node(qn_graph *graph, qn_node *node) {
    qn_tensor *tensors =
        qn_arena_allocate(&graph->arena, (size_t)node->n_inputs + 1, sizeof *tensors);
    qn_value *outputs = qn_arena_allocate(&graph->arena, QN_MAX_OUTPUTS, sizeof *outputs);
    if (!tensors || !outputs ||
        qn_grow(graph->allocator, &graph->nodes, &graph->node_capacity, (size_t)graph->n_nodes + 1,
                sizeof *graph->nodes) != QN_OK) {
        fail_memory(graph);
        return false;
    }
    for (int i = 0; i < node->n_inputs; i++)
        tensors[i] = qn_graph_tensor(graph, node->inputs[i]);
    qn_infer infer = {.attributes = node->attributes,
                      .n_inputs = node->n_inputs,
                      .inputs = tensors,
                      .n_outputs = 1};
    qn_status status = infer_outputs(graph, node, &infer);
    if (status != QN_OK) {
        qn_graph_fail(graph, status, "%s (%s): %s", node->name, node->op->name, qn_error_message());
        return false;
    }
    for (int i = 0; i < infer.n_outputs; i++) {
        outputs[i] = add_output(graph, node, i, infer.outputs[i]);
        if (outputs[i].id < 0)
            return false;
    }
    node->input_tensors = tensors;
    node->outputs = outputs;
    node->n_outputs = infer.n_outputs;
    graph->nodes[graph->n_nodes++] = node;
    return true;
}

const qn_node *qn_graph_add(qn_graph *graph, const qn_op *op, const char *name,
                            const qn_value *inputs, int n_inputs, const void *attributes) {
    QN_NEED_OR(graph, "graph", NULL);
    if (graph->status != QN_OK)
        return NULL;
    const qn_status status = check_inputs(graph, op, inputs, n_inputs);
    if (status != QN_OK) {
        qn_graph_fail(graph, status, "%s%s (%s): %s", graph->scope, name ? name : "unnamed",
                      op->name, qn_error_message());
        return NULL;
    }
    qn_node *node = make_node(graph, op, name, inputs, n_inputs, attributes);
    return node && add_node(graph, node) ? node : NULL;
}

qn_value qn_graph_add1(qn_graph *graph, const qn_op *op, const char *name, const qn_value *inputs,
                       int n_inputs, const void *attributes) {
    const qn_node *node = qn_graph_add(graph, op, name, inputs, n_inputs, attributes);
    return node ? node->outputs[0] : QN_NO_VALUE;
}
