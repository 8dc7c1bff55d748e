/* The graph as text, and the check of its invariants. */
#include "graph/graph.h"
#include "quern/ops.h"

#include "base/print.h"
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A growing text; status is that of the first failed growth. */
typedef struct text {
    const qn_allocator *allocator;
    char *bytes;
    size_t used, capacity;
    qn_status status;
} text;

__attribute__((format(printf, 2, 3))) static void put(text *t, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = qn_print_list(NULL, 0, format, arguments);
    va_end(arguments);
    if (t->status == QN_OK)
        t->status = qn_grow(t->allocator, &t->bytes, &t->capacity, t->used + (size_t)length + 1, 1);
    if (t->status != QN_OK)
        return;
    va_start(arguments, format);
    qn_print_list(t->bytes + t->used, (size_t)length + 1, format, arguments);
    va_end(arguments);
    t->used += (size_t)length;
}

static void put_window(text *t, const qn_window *w) {
    put(t, " kernel=%dx%d stride=%dx%d pad=%d,%d,%d,%d dilation=%dx%d", w->kernel_h, w->kernel_w,
        w->stride_h, w->stride_w, w->pad_top, w->pad_left, w->pad_bottom, w->pad_right,
        w->dilation_h, w->dilation_w);
}

static void put_conv2d(text *t, const qn_convolution *d) {
    put(t, " x=%lldx%lldx%lldx%lld", (long long)d->n, (long long)d->h, (long long)d->w,
        (long long)d->c);
    put(t, " filter=%lldx%lldx%lld output=%lldx%lld", (long long)d->k, (long long)d->r,
        (long long)d->s, (long long)d->p, (long long)d->q);
    put(t, " stride=%lldx%lld pad=%lld,%lld dilation=%lldx%lld groups=%lld", (long long)d->stride_h,
        (long long)d->stride_w, (long long)d->pad_top, (long long)d->pad_left,
        (long long)d->dilation_h, (long long)d->dilation_w, (long long)d->groups);
    if (d->batch)
        put(t, " batch=%lld", (long long)d->batch);
}

static void put_activation(text *t, const qn_activation *activation) {
    static const char *const names[] = {"none", "relu", "relu6", "leaky_relu", "tanh", "sigmoid"};
    put(t, " activation=%s slope=%.17g", names[activation->kind], activation->slope);
}

static void put_attribute(text *t, const qn_attribute *attribute, const void *attributes) {
    const void *field = (const char *)attributes + attribute->offset;
    char shape[QN_SHAPE_TEXT];
    switch (attribute->type) {
    case QN_ATTRIBUTE_BOOL:
        put(t, " %s=%d", attribute->name, *(const bool *)field);
        break;
    case QN_ATTRIBUTE_INT:
        put(t, " %s=%d", attribute->name, *(const int *)field);
        break;
    case QN_ATTRIBUTE_INT64:
        put(t, " %s=%lld", attribute->name, (long long)*(const int64_t *)field);
        break;
    case QN_ATTRIBUTE_DOUBLE:
        put(t, " %s=%.17g", attribute->name, *(const double *)field);
        break;
    case QN_ATTRIBUTE_SHAPE:
        put(t, " %s=%s", attribute->name, qn_shape_print(*(const qn_shape *)field, shape));
        break;
    case QN_ATTRIBUTE_ACTIVATION:
        put_activation(t, field);
        break;
    case QN_ATTRIBUTE_WINDOW:
        put_window(t, field);
        break;
    case QN_ATTRIBUTE_CONV2D:
        put_conv2d(t, field);
        break;
    }
}

static void put_tensor(text *t, qn_tensor tensor) {
    char shape[QN_SHAPE_TEXT];
    put(t, "%s %s", qn_dtype_name(tensor.dtype), qn_shape_print(tensor.shape, shape));
}

static void put_node(text *t, const qn_graph *graph, const qn_node *node) {
    for (int i = 0; i < node->n_outputs; i++) {
        const qn_value_info *info = qn_graph_value(graph, node->outputs[i]);
        put(t, "%s%s: ", i ? ", " : "", info->name);
        put_tensor(t, info->tensor);
    }
    put(t, " = %s(", node->op->name);
    for (int i = 0; i < node->n_inputs; i++) {
        const qn_value_info *info = qn_graph_value(graph, node->inputs[i]);
        put(t, "%s%s", i ? ", " : "", info ? info->name : "-");
    }
    put(t, ")");
    for (const qn_attribute *a = node->op->attributes; a && a->name; a++)
        put_attribute(t, a, node->attributes);
    put(t, "\n");
}

/* The text in the graph's memory; releases the growing one. */
static const char *finish(text *t, qn_graph *graph) {
    char *copy = NULL;
    if (t->status == QN_OK)
        copy = qn_arena_allocate(&graph->arena, t->used + 1, 1);
    if (copy && t->used > 0)
        memcpy(copy, t->bytes, t->used);
    qn_release(t->allocator, t->bytes, t->capacity, 1);
    return copy;
}

const char *qn_graph_print(qn_graph *graph) {
    QN_NEED_OR(graph, "graph", NULL);
    text t = {.allocator = graph->allocator};
    for (int v = 0; v < graph->n_values; v++) {
        const qn_value_info *info = graph->values[v];
        if (info->producer >= 0)
            continue;
        put(&t, "%s: ", info->name);
        put_tensor(&t, info->tensor);
        put(&t, " %s%s\n", qn_kind_name(info->kind), info->trainable ? " trainable" : "");
    }
    for (int n = 0; n < graph->n_nodes; n++)
        put_node(&t, graph, graph->nodes[n]);
    return finish(&t, graph);
}

const char *qn_node_print_attributes(qn_graph *graph, const qn_node *node) {
    text t = {.allocator = graph->allocator};
    for (const qn_attribute *a = node->op->attributes; a && a->name; a++)
        put_attribute(&t, a, node->attributes);
    return finish(&t, graph);
}

static qn_status check_node(const qn_graph *graph, int n) {
    const qn_node *node = graph->nodes[n];
    for (int i = 0; i < node->n_inputs; i++) {
        const qn_value_info *info = qn_graph_value(graph, node->inputs[i]);
        if (!info && node->inputs[i].id != -1)
            return qn_fail(QN_ERROR_ARGUMENT, "%s: input %d is not a value", node->name, i);
        if (info && info->producer >= n)
            return qn_fail(QN_ERROR_ARGUMENT, "%s: input %s is made later", node->name, info->name);
    }
    for (int i = 0; i < node->n_outputs; i++) {
        const qn_value_info *info = qn_graph_value(graph, node->outputs[i]);
        if (!info || info->producer != n || info->output != i)
            return qn_fail(QN_ERROR_ARGUMENT, "%s: output %d is not its own", node->name, i);
    }
    return QN_OK;
}

static bool is_outside_kind(qn_kind kind) {
    return kind != QN_KIND_FEATURE && kind != QN_KIND_WORKSPACE;
}

static qn_status check_value(const qn_graph *graph, int v) {
    const qn_value_info *info = graph->values[v];
    if (info->producer >= graph->n_nodes)
        return qn_fail(QN_ERROR_ARGUMENT, "%s: its producer is not a node", info->name);
    if (info->producer < 0 && !is_outside_kind(info->kind))
        return qn_fail(QN_ERROR_ARGUMENT, "%s: a %s is given from outside", info->name,
                       qn_kind_name(info->kind));
    if (info->overwrites < 0)
        return QN_OK;
    const qn_value_info *old = qn_graph_value(graph, (qn_value){info->overwrites});
    if (!old || (old->producer >= 0 && old->overwrites < 0) || !old->is_overwritten)
        return qn_fail(QN_ERROR_ARGUMENT, "%s: what it overwrites is not from outside", info->name);
    for (int other = 0; other < v; other++) {
        if (graph->values[other]->overwrites == info->overwrites)
            return qn_fail(QN_ERROR_ARGUMENT, "%s is overwritten twice", old->name);
    }
    return QN_OK;
}

qn_status qn_graph_check(const qn_graph *graph) {
    for (int n = 0; n < graph->n_nodes; n++)
        QN_TRY(check_node(graph, n));
    for (int v = 0; v < graph->n_values; v++)
        QN_TRY(check_value(graph, v));
    return QN_OK;
}
