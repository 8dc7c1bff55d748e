/* Fusion: an activation is merged into the operator that computes its input, if it is the only
 * reader, so that its input is never written to memory. Operators that support this have an
 * attribute of that type. */
#include "base/status.h"
#include "ops/shared.h"
#include "passes/copy.h"
#include "passes/passes.h"

#include <string.h>

typedef struct fusion {
    const qn_graph *from;
    qn_graph *to;
    int first_node; /* those before it stay as they are */
    bool keeps_products;
    qn_value *values;        /* (from's values): the same value in to, or QN_NO_VALUE */
    int32_t *n_readers;      /* (from's values) */
    const qn_node **absorbs; /* (from's nodes): the activation it takes in, or null */
    bool *is_absorbed;       /* (from's nodes) */
} fusion;

/* The activation attribute of a node that is no activation itself, in its attributes or in a copy
 * of them; null: it has none. */
static qn_activation *find_activation(const qn_op *op, void *attributes) {
    for (const qn_attribute *a = op->attributes; a && a->name && !op->is_activation; a++) {
        if (a->type == QN_ATTRIBUTE_ACTIVATION)
            return (qn_activation *)((char *)attributes + a->offset);
    }
    return NULL;
}

static void count_readers(fusion *f) {
    for (int n = 0; n < f->from->n_nodes; n++) {
        const qn_node *node = f->from->nodes[n];
        for (int i = 0; i < node->n_inputs; i++) {
            if (node->inputs[i].id >= 0)
                f->n_readers[node->inputs[i].id]++;
        }
    }
}

static void choose(fusion *f) {
    for (int n = f->first_node; n < f->from->n_nodes; n++) {
        const qn_node *node = f->from->nodes[n];
        if (!node->op->is_activation)
            continue;
        const qn_value_info *input = qn_graph_value(f->from, node->inputs[0]);
        if (input->producer < 0 || input->output != 0 || input->is_result ||
            f->n_readers[node->inputs[0].id] != 1)
            continue;
        const qn_node *producer = f->from->nodes[input->producer];
        const qn_activation *activation =
            find_activation(producer->op, (void *)(uintptr_t)producer->attributes);
        if (!activation || activation->kind != QN_ACTIVATION_NONE ||
            (f->keeps_products && producer->op->is_product))
            continue;
        f->absorbs[input->producer] = node;
        f->is_absorbed[n] = true;
    }
}

static void copy_node(fusion *f, int n) {
    const qn_node *node = f->from->nodes[n], *activation = f->absorbs[n];
    void *attributes = qn_arena_allocate(&f->to->arena, 1, node->op->attributes_bytes + 1);
    if (!attributes) {
        qn_graph_fail(f->to, QN_ERROR_MEMORY, "fusion: %s", qn_error_message());
        return;
    }
    memcpy(attributes, node->attributes, node->op->attributes_bytes);
    if (activation)
        *find_activation(node->op, attributes) =
            ((const qn_activation_attributes *)activation->attributes)->activation;
    const qn_node *copy = qn_copy_node(f->to, f->from, node, node->name, attributes, f->values);
    for (int i = 0; copy && i < node->n_outputs; i++)
        f->to->values[copy->outputs[i].id]->is_result =
            f->from->values[node->outputs[i].id]->is_result;
}

static void copy_all(fusion *f) {
    for (int v = 0; v < f->from->n_values && f->to->status == QN_OK; v++) {
        const qn_value_info *info = f->from->values[v];
        if (info->producer < 0) {
            f->values[v] = qn_copy_source(f->to, info);
            continue;
        }
        if (!f->is_absorbed[info->producer]) {
            if (info->output == 0)
                copy_node(f, info->producer);
            continue;
        }
        f->values[v] = f->values[f->from->nodes[info->producer]->inputs[0].id];
        if (info->is_result && f->values[v].id >= 0)
            f->to->values[f->values[v].id]->is_result = true;
    }
}

static qn_status fuse(fusion *f) {
    qn_arena *arena = &f->to->arena;
    const size_t n_nodes = (size_t)f->from->n_nodes + 1;
    f->n_readers = qn_arena_allocate(arena, (size_t)f->from->n_values + 1, sizeof *f->n_readers);
    f->absorbs = qn_arena_allocate(arena, n_nodes, sizeof *f->absorbs);
    f->is_absorbed = qn_arena_allocate(arena, n_nodes, sizeof *f->is_absorbed);
    if (!f->n_readers || !f->absorbs || !f->is_absorbed)
        return QN_ERROR_MEMORY;
    for (int v = 0; v < f->from->n_values; v++)
        f->values[v] = QN_NO_VALUE;
    count_readers(f);
    choose(f);
    copy_all(f);
    qn_copy_results(f->to, f->from, f->values);
    return qn_graph_finish(f->to);
}

qn_status qn_fuse(const qn_graph *graph, int first_node, bool keeps_products, qn_graph **fused,
                  const qn_value **values) {
    fusion f = {.from = graph, .first_node = first_node, .keeps_products = keeps_products};
    QN_TRY(qn_copy_begin(graph, &f.to));
    f.values = qn_arena_allocate(&f.to->arena, (size_t)graph->n_values + 1, sizeof *f.values);
    qn_status status = f.values ? fuse(&f) : QN_ERROR_MEMORY;
    if (status != QN_OK) {
        qn_graph_destroy(f.to);
        return status;
    }
    *fused = f.to;
    *values = f.values;
    return QN_OK;
}
