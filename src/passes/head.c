/* See head.h. The network is built into a graph of its own and copied from there. Shapes after the
 * new layer are inferred again; a view that names the old width gets the new one. */
#include "passes/head.h"

#include "base/status.h"
#include "passes/copy.h"
#include "passes/tune.h"

#include <math.h>
#include <string.h>

typedef struct replacing {
    const qn_graph *from;
    qn_graph *to;
    int n_heads;
    const qn_node *heads[QN_MOST_HEADS];
    qn_value biases[QN_MOST_HEADS]; /* of a node of its own; or no value */
    int64_t old_width, width;
    qn_value *values; /* (from's values): the same in to */
} replacing;

static bool is_of(const replacing *r, int head, int v) {
    const qn_node *node = r->heads[head];
    for (int i = 1; i < node->n_inputs; i++) {
        if (node->inputs[i].id >= 0 && qn_graph_unview(r->from, node->inputs[i]).id == v)
            return true;
    }
    return r->biases[head].id == v;
}

/* The head that a value is a parameter of, or null. */
static const qn_node *head_of(const replacing *r, int v) {
    for (int head = 0; head < r->n_heads; head++) {
        if (is_of(r, head, v))
            return r->heads[head];
    }
    return NULL;
}

/* The axis of the outputs: a weight's first, and of a bias, which has one number for each, that
 * which is no 1. */
static int outputs_axis(const replacing *r, qn_shape shape) {
    int axis = 0;
    if (qn_shape_count(shape) != r->old_width)
        return 0;
    while (axis < shape.rank - 1 && shape.dims[axis] != r->old_width)
        axis++;
    return axis;
}

/* A parameter of the head. Weights and bias start uniform with bound 1 / sqrt(fan in), as those of
 * any layer. */
static qn_value add_new(replacing *r, const qn_node *head, const qn_value_info *info) {
    const qn_shape weight = qn_graph_shape(r->from, head->inputs[1]);
    const double fan_in = (double)(qn_shape_count(weight) / weight.dims[0]);
    qn_tensor tensor = info->tensor;
    tensor.shape.dims[outputs_axis(r, tensor.shape)] = r->width;
    return qn_graph_add_source(r->to, info->kind, info->name, tensor,
                               (qn_initial){QN_INITIAL_UNIFORM, 1 / sqrt(fan_in)}, true);
}

/* Makes the shape that a view of the outputs names that of the new ones. */
static void widen(const replacing *r, const qn_node *node, void *attributes) {
    if (!node->op->is_view || qn_shape_equal(qn_graph_shape(r->to, r->values[node->inputs[0].id]),
                                             qn_graph_shape(r->from, node->inputs[0])))
        return;
    for (const qn_attribute *a = node->op->attributes; a && a->name; a++) {
        qn_shape *shape = (qn_shape *)(void *)((char *)attributes + a->offset);
        for (int i = a->type == QN_ATTRIBUTE_SHAPE ? shape->rank - 1 : -1; i >= 0; i--) {
            if (shape->dims[i] == r->old_width) {
                shape->dims[i] = r->width;
                break;
            }
        }
    }
}

static void copy_node(replacing *r, const qn_node *node) {
    void *attributes = qn_arena_allocate(&r->to->arena, 1, node->op->attributes_bytes + 1);
    if (!attributes) {
        qn_graph_fail(r->to, QN_ERROR_MEMORY, "head: %s", qn_error_message());
        return;
    }
    memcpy(attributes, node->attributes, node->op->attributes_bytes);
    if (node->n_inputs > 0 && node->inputs[0].id >= 0)
        widen(r, node, attributes);
    qn_copy_node(r->to, r->from, node, node->name, attributes, r->values);
}

static void copy_all(replacing *r) {
    for (int v = 0; v < r->from->n_values && r->to->status == QN_OK; v++) {
        const qn_value_info *info = r->from->values[v];
        if (r->values[v].id >= 0)
            continue;
        const qn_node *head = info->producer < 0 ? head_of(r, v) : NULL;
        if (info->producer < 0)
            r->values[v] = head ? add_new(r, head, info) : qn_copy_source(r->to, info);
        else if (info->output == 0)
            copy_node(r, r->from->nodes[info->producer]);
    }
}

static qn_value replace(qn_graph *from, qn_graph *to, qn_value given, qn_value x, qn_value logits,
                        int n_outputs, const char *head) {
    replacing r = {.from = from, .to = to, .width = n_outputs};
    r.n_heads = qn_find_heads(from, logits, head, r.heads);
    const qn_node *last = r.n_heads > 0 ? r.heads[0] : NULL;
    const qn_value_info *weight = last ? qn_parameter_of(from, last->inputs[1]) : NULL;
    if (!weight || !last->op->is_linear) {
        qn_graph_fail(to, QN_ERROR_UNSUPPORTED,
                      "head: %s is no linear layer or convolution that could be made anew; name "
                      "one that is",
                      last ? last->name : head);
        return QN_NO_VALUE;
    }
    r.old_width = weight->tensor.shape.dims[0];
    for (int i = 0; i < r.n_heads; i++)
        r.biases[i] = qn_find_head_bias(from, r.heads[i]);
    r.values = qn_arena_allocate(&from->arena, (size_t)from->n_values + 1, sizeof *r.values);
    if (!r.values) {
        qn_graph_fail(to, QN_ERROR_MEMORY, "head: %s", qn_error_message());
        return QN_NO_VALUE;
    }
    for (int v = 0; v < from->n_values; v++)
        r.values[v] = QN_NO_VALUE;
    r.values[given.id] = x;
    copy_all(&r);
    return to->status == QN_OK ? r.values[logits.id] : QN_NO_VALUE;
}

qn_value qn_build_outputs(qn_graph *graph, const qn_model *model, qn_value x, int n_outputs,
                          const char *head) {
    qn_graph *own;
    if (!model->has_fixed_outputs || (!head && n_outputs == model->n_classes))
        return model->build(graph, model->user, x, n_outputs);
    if (!head) {
        qn_graph_fail(graph, QN_ERROR_ARGUMENT,
                      "%s: it has %d outputs, and the data %d classes; replace its last layer with "
                      "--head %d",
                      model->name, model->n_classes, n_outputs, n_outputs);
        return QN_NO_VALUE;
    }
    qn_status status = graph->status == QN_OK ? qn_copy_begin(graph, &own) : graph->status;
    if (status != QN_OK) {
        qn_graph_fail(graph, status, "%s", qn_error_message());
        return QN_NO_VALUE;
    }
    const qn_value given = qn_input(own, "input", qn_graph_shape(graph, x));
    const qn_value logits = model->build(own, model->user, given, model->n_classes);
    qn_value made = QN_NO_VALUE;
    status = qn_graph_finish(own);
    if (status == QN_OK)
        made = replace(own, graph, given, x, logits, n_outputs, head);
    else
        qn_graph_fail(graph, status, "%s", qn_error_message());
    qn_graph_destroy(own);
    return made;
}
