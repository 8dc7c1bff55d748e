/* Making, checking and printing plans. */
#include "plan/plan.h"

#include "base/status.h"
#include "device/device.h"

#include <stdio.h>
#include <string.h>

static qn_status make(qn_plan *plan, const qn_graph *graph, const qn_kernels *kernels) {
    QN_TRY(qn_plan_order(plan, graph));
    QN_TRY(qn_plan_lifetimes(plan, graph, kernels));
    return qn_plan_pack(plan);
}

qn_status qn_plan_create(const qn_allocator *allocator, const qn_graph *graph,
                         const qn_kernels *kernels, int n_threads, qn_plan **plan) {
    qn_plan *fresh;
    QN_TRY(qn_allocate(allocator, 1, sizeof *fresh, &fresh));
    fresh->allocator = allocator;
    fresh->n_threads = n_threads;
    qn_status status = make(fresh, graph, kernels);
    if (status != QN_OK) {
        qn_plan_destroy(fresh);
        return status;
    }
    *plan = fresh;
    return QN_OK;
}

void qn_plan_destroy(qn_plan *plan) {
    if (!plan)
        return;
    const qn_allocator *a = plan->allocator;
    qn_release(a, plan->steps, plan->step_capacity, sizeof *plan->steps);
    qn_release(a, plan->storages, plan->storage_capacity, sizeof *plan->storages);
    qn_release(a, plan->placements, (size_t)plan->n_values, sizeof *plan->placements);
    qn_release(a, plan, 1, sizeof *plan);
}

/* ---- check ---- */

static qn_status check_storage(const qn_plan *plan, int32_t i) {
    const qn_storage *a = &plan->storages[i];
    if (a->first < 0 || a->last < a->first || a->last > plan->n_steps)
        return qn_fail(QN_ERROR_ARGUMENT, "plan: storage %d lives from step %d to %d of %d", i,
                       a->first, a->last, plan->n_steps);
    if (a->is_bound)
        return QN_OK;
    if (a->offset % QN_ALIGNMENT || a->offset > plan->arena_bytes ||
        a->bytes > plan->arena_bytes - a->offset)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "plan: storage %d at %zu with %zu bytes leaves the arena of %zu or its "
                       "alignment",
                       i, a->offset, a->bytes, plan->arena_bytes);
    for (int32_t j = 0; j < i; j++) {
        const qn_storage *b = &plan->storages[j];
        bool meets = !b->is_bound && a->first <= b->last && b->first <= a->last;
        if (meets && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes)
            return qn_fail(QN_ERROR_ARGUMENT,
                           "plan: storages %d and %d are alive in step %d and share bytes", j, i,
                           a->first > b->first ? a->first : b->first);
    }
    return QN_OK;
}

/* What every storage holds while the steps go by. */
typedef struct replay {
    const qn_plan *plan;
    const qn_graph *graph;
    int32_t *content; /* (n_storages): the value it holds, views resolved; -1: nothing */
} replay;

static int32_t resolve_view(const qn_graph *graph, int32_t value) {
    for (;;) {
        const qn_value_info *info = graph->values[value];
        if (info->producer < 0 || !graph->nodes[info->producer]->op->is_view)
            return value;
        value = graph->nodes[info->producer]->inputs[0].id;
    }
}

static qn_status check_use(const replay *r, int32_t step, int32_t value) {
    const char *name = r->graph->values[value]->name;
    const qn_placement *placement = &r->plan->placements[value];
    if (placement->storage < 0 || placement->storage >= r->plan->n_storages)
        return qn_fail(QN_ERROR_ARGUMENT, "plan: step %d uses %s, which has no storage", step,
                       name);
    const qn_storage *storage = &r->plan->storages[placement->storage];
    if (step < storage->first || step > storage->last)
        return qn_fail(QN_ERROR_ARGUMENT, "plan: step %d uses %s, alive from %d to %d only", step,
                       name, storage->first, storage->last);
    if (placement->offset + qn_tensor_bytes(r->graph->values[value]->tensor) > storage->bytes)
        return qn_fail(QN_ERROR_ARGUMENT, "plan: %s leaves its storage", name);
    return QN_OK;
}

static qn_status check_reads(const replay *r, int32_t step, const qn_node *node) {
    for (int i = 0; i < node->n_inputs; i++) {
        int32_t value = node->inputs[i].id;
        if (value < 0)
            continue;
        QN_TRY(check_use(r, step, value));
        int32_t held = r->content[r->plan->placements[value].storage];
        if (held != resolve_view(r->graph, value))
            return qn_fail(QN_ERROR_ARGUMENT, "plan: step %d (%s) reads %s where %s lies", step,
                           node->name, r->graph->values[value]->name,
                           held < 0 ? "nothing" : r->graph->values[held]->name);
    }
    return QN_OK;
}

static qn_status check_writes(const replay *r, int32_t step, const qn_node *node) {
    for (int i = 0; i < node->n_outputs; i++) {
        int32_t value = node->outputs[i].id;
        QN_TRY(check_use(r, step, value));
        r->content[r->plan->placements[value].storage] = value;
    }
    return QN_OK;
}

static qn_status check_steps(const replay *r) {
    for (int32_t i = 0; i < r->plan->n_storages; i++)
        r->content[i] = -1;
    for (int v = 0; v < r->graph->n_values; v++) {
        if (r->graph->values[v]->producer < 0)
            r->content[r->plan->placements[v].storage] = v;
    }
    for (int32_t s = 0; s < r->plan->n_steps; s++) {
        const qn_node *node = r->graph->nodes[r->plan->steps[s].node];
        QN_TRY(check_reads(r, s, node));
        QN_TRY(check_writes(r, s, node));
    }
    for (int v = 0; v < r->graph->n_values; v++) {
        int32_t storage = r->plan->placements[v].storage;
        if (r->graph->values[v]->is_result &&
            (storage < 0 || r->content[storage] != resolve_view(r->graph, v)))
            return qn_fail(QN_ERROR_ARGUMENT, "plan: result %s is gone at the end",
                           r->graph->values[v]->name);
    }
    return QN_OK;
}

qn_status qn_plan_check(const qn_plan *plan, const qn_graph *graph) {
    if (plan->n_values != graph->n_values)
        return qn_fail(QN_ERROR_ARGUMENT, "plan: made for %d values, the graph has %d",
                       plan->n_values, graph->n_values);
    if (plan->lower_bound_bytes > plan->arena_bytes)
        return qn_fail(QN_ERROR_ARGUMENT, "plan: %zu bytes are alive at once in an arena of %zu",
                       plan->lower_bound_bytes, plan->arena_bytes);
    for (int32_t i = 0; i < plan->n_storages; i++)
        QN_TRY(check_storage(plan, i));
    replay r = {.plan = plan, .graph = graph};
    QN_TRY(qn_allocate(plan->allocator, (size_t)plan->n_storages, sizeof *r.content, &r.content));
    qn_status status = check_steps(&r);
    qn_release(plan->allocator, r.content, (size_t)plan->n_storages, sizeof *r.content);
    return status;
}

/* ---- reports ---- */

static size_t alive_at(const qn_plan *plan, int32_t step, size_t bytes[QN_KIND_COUNT]) {
    size_t total = 0;
    memset(bytes, 0, QN_KIND_COUNT * sizeof *bytes);
    for (int32_t i = 0; i < plan->n_storages; i++) {
        const qn_storage *s = &plan->storages[i];
        if (s->first > step || s->last < step)
            continue;
        bytes[s->kind] += s->bytes;
        total += s->is_bound ? 0 : s->bytes;
    }
    return total;
}

void qn_plan_peak_by_kind(const qn_plan *plan, size_t bytes[QN_KIND_COUNT]) {
    size_t at_step[QN_KIND_COUNT], most = 0;
    alive_at(plan, 0, bytes);
    for (int32_t s = 0; s < plan->n_steps; s++) {
        size_t total = alive_at(plan, s, at_step);
        if (total <= most)
            continue;
        most = total;
        memcpy(bytes, at_step, sizeof at_step);
    }
}

void qn_plan_print(const qn_plan *plan, const qn_graph *graph,
                   void (*put)(void *context, const char *line), void *context) {
    char line[512], text[QN_SHAPE_TEXT];
    snprintf(line, sizeof line, "arena %zu bytes, at least %zu; %d steps, %d storages",
             plan->arena_bytes, plan->lower_bound_bytes, plan->n_steps, plan->n_storages);
    put(context, line);
    for (int32_t s = 0; s < plan->n_steps; s++) {
        const qn_step *step = &plan->steps[s];
        const qn_node *node = graph->nodes[step->node];
        const int32_t value = node->outputs[0].id;
        const qn_storage *storage = &plan->storages[plan->placements[value].storage];
        snprintf(line, sizeof line, "%4d %-4s x%d %-40s %-24s %s %s%zu+%zu [%d, %d]", s,
                 qn_devices[step->device]->name, step->n_threads, node->name, node->op->name,
                 qn_shape_print(graph->values[value]->tensor.shape, text),
                 storage->is_bound ? "bound " : "", storage->offset, storage->bytes, storage->first,
                 storage->last);
        put(context, line);
    }
}
