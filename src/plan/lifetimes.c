/* Which storage every value lies in and for how long. Values given from outside have storages of
 * their own that are bound to memory later; views, updates and results in place share the storage
 * of their input. */
#include "base/status.h"
#include "plan/plan.h"

typedef struct lifetimes {
    qn_plan *plan;
    const qn_graph *graph;
    const qn_kernels *kernels;
    int32_t *root; /* (n_values): the value this one is a view of, or itself */
    int32_t *last; /* (n_values), of roots: last step that reads it, its writer at least, or -1 */
} lifetimes;

static void find_roots(lifetimes *l) {
    for (int v = 0; v < l->graph->n_values; v++) {
        const qn_value_info *info = l->graph->values[v];
        l->root[v] = v;
        l->last[v] = -1;
        if (info->producer < 0)
            continue;
        /* A node's inputs have lower numbers than its outputs, so their roots are known. */
        const qn_node *node = l->graph->nodes[info->producer];
        if (node->op->is_view)
            l->root[v] = l->root[node->inputs[0].id];
    }
}

static void find_last_reads(lifetimes *l) {
    for (int32_t s = 0; s < l->plan->n_steps; s++) {
        const qn_node *node = l->graph->nodes[l->plan->steps[s].node];
        for (int i = 0; i < node->n_inputs; i++) {
            if (node->inputs[i].id >= 0)
                l->last[l->root[node->inputs[i].id]] = s;
        }
        for (int i = 0; i < node->n_outputs; i++)
            l->last[node->outputs[i].id] = s;
    }
    for (int v = 0; v < l->graph->n_values; v++) {
        if (l->graph->values[v]->is_result)
            l->last[l->root[v]] = l->plan->n_steps;
    }
}

static qn_status add_storage(qn_plan *plan, qn_storage storage, int32_t *id) {
    QN_TRY(qn_grow(plan->allocator, &plan->storages, &plan->storage_capacity,
                   (size_t)plan->n_storages + 1, sizeof *plan->storages));
    storage.bytes = (storage.bytes + QN_ALIGNMENT - 1) / QN_ALIGNMENT * QN_ALIGNMENT;
    plan->storages[plan->n_storages] = storage;
    *id = plan->n_storages++;
    return QN_OK;
}

static void place(lifetimes *l, int32_t value, int32_t storage) {
    qn_placement *placement = &l->plan->placements[value];
    const qn_shape shape = l->graph->values[value]->tensor.shape;
    *placement = (qn_placement){.storage = storage};
    int64_t stride = 1;
    for (int axis = shape.rank - 1; axis >= 0; axis--) {
        placement->strides[axis] = stride;
        stride *= shape.dims[axis];
    }
}

static qn_status place_sources(lifetimes *l) {
    for (int v = 0; v < l->graph->n_values; v++) {
        const qn_value_info *info = l->graph->values[v];
        l->plan->placements[v].storage = -1;
        if (info->producer >= 0)
            continue;
        int32_t id;
        QN_TRY(add_storage(l->plan,
                           (qn_storage){.bytes = qn_tensor_bytes(info->tensor),
                                        .first = 0,
                                        .last = l->plan->n_steps,
                                        .kind = info->kind,
                                        .is_bound = true},
                           &id));
        place(l, v, id);
    }
    return QN_OK;
}

/* The storage of an input that output 0 may take over: no other input lies in it, it ends here,
 * and it has the right size. -1: none. */
static int32_t find_in_place(const lifetimes *l, const qn_node *node, int32_t step) {
    const size_t bytes = qn_tensor_bytes(qn_graph_tensor(l->graph, node->outputs[0]));
    for (int i = 0; i < node->n_inputs && i < 32; i++) {
        if (!(node->op->in_place >> i & 1) || node->inputs[i].id < 0)
            continue;
        int32_t id = l->plan->placements[l->root[node->inputs[i].id]].storage;
        const qn_storage *storage = &l->plan->storages[id];
        int n_uses = 0;
        for (int j = 0; j < node->n_inputs; j++) {
            int32_t other = node->inputs[j].id;
            n_uses += other >= 0 && l->plan->placements[l->root[other]].storage == id;
        }
        if (!storage->is_bound && storage->last == step && n_uses == 1 &&
            bytes == qn_tensor_bytes(qn_graph_tensor(l->graph, node->inputs[i])))
            return id;
    }
    return -1;
}

static qn_status place_output(lifetimes *l, const qn_node *node, int index, int32_t step) {
    const int32_t value = node->outputs[index].id;
    const qn_value_info *info = l->graph->values[value];
    int32_t id = -1;
    if (info->overwrites >= 0)
        id = l->plan->placements[info->overwrites].storage;
    else if (index == 0)
        id = find_in_place(l, node, step);
    if (id < 0) {
        QN_TRY(add_storage(l->plan,
                           (qn_storage){.bytes = qn_tensor_bytes(info->tensor),
                                        .first = step,
                                        .last = l->last[value],
                                        .kind = info->kind},
                           &id));
    }
    if (l->plan->storages[id].last < l->last[value])
        l->plan->storages[id].last = l->last[value];
    place(l, value, id);
    return QN_OK;
}

static qn_status place_workspace(lifetimes *l, const qn_node *node, int32_t step) {
    qn_tensor inputs[16], outputs[QN_MAX_OUTPUTS], *all = inputs;
    if (!node->op->workspace)
        return QN_OK;
    const size_t n_inputs = (size_t)node->n_inputs;
    if (n_inputs > 16)
        QN_TRY(qn_allocate(l->plan->allocator, n_inputs, sizeof *all, &all));
    for (int i = 0; i < node->n_inputs; i++)
        all[i] = qn_graph_tensor(l->graph, node->inputs[i]);
    for (int i = 0; i < node->n_outputs; i++)
        outputs[i] = qn_graph_tensor(l->graph, node->outputs[i]);
    size_t bytes = node->op->workspace(l->kernels, node->attributes, all, outputs,
                                       l->plan->steps[step].n_threads);
    if (all != inputs)
        qn_release(l->plan->allocator, all, n_inputs, sizeof *all);
    if (bytes == 0)
        return QN_OK;
    return add_storage(
        l->plan,
        (qn_storage){.bytes = bytes, .first = step, .last = step, .kind = QN_KIND_WORKSPACE},
        &l->plan->steps[step].workspace);
}

static void place_views(lifetimes *l) {
    for (int v = 0; v < l->graph->n_values; v++) {
        if (l->root[v] != v && l->plan->placements[l->root[v]].storage >= 0)
            place(l, v, l->plan->placements[l->root[v]].storage);
    }
}

static qn_status place_all(lifetimes *l) {
    find_roots(l);
    find_last_reads(l);
    QN_TRY(place_sources(l));
    for (int32_t s = 0; s < l->plan->n_steps; s++) {
        const qn_node *node = l->graph->nodes[l->plan->steps[s].node];
        for (int i = 0; i < node->n_outputs; i++)
            QN_TRY(place_output(l, node, i, s));
        QN_TRY(place_workspace(l, node, s));
    }
    place_views(l);
    return QN_OK;
}

qn_status qn_plan_lifetimes(qn_plan *plan, const qn_graph *graph, const qn_kernels *kernels) {
    const size_t n_values = (size_t)graph->n_values;
    lifetimes l = {.plan = plan, .graph = graph, .kernels = kernels};
    qn_status status = qn_allocate(plan->allocator, n_values, sizeof *l.root, &l.root);
    if (status == QN_OK)
        status = qn_allocate(plan->allocator, n_values, sizeof *l.last, &l.last);
    if (status == QN_OK) {
        plan->n_values = graph->n_values;
        status =
            qn_allocate(plan->allocator, n_values, sizeof *plan->placements, &plan->placements);
    }
    if (status == QN_OK)
        status = place_all(&l);
    qn_release(plan->allocator, l.root, n_values, sizeof *l.root);
    qn_release(plan->allocator, l.last, n_values, sizeof *l.last);
    return status;
}
