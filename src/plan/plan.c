/* Making and printing plans. */
#include "plan/plan.h"

#include "base/status.h"
#include "device/device.h"

#include <stdio.h>
#include <string.h>

typedef qn_status ordering(qn_plan *plan, const qn_graph *graph);

static qn_status make(qn_plan *plan, const qn_graph *graph, const qn_kernels *kernels,
                      ordering *order) {
    QN_TRY(order(plan, graph));
    QN_TRY(qn_plan_lifetimes(plan, graph, kernels));
    QN_TRY(qn_plan_pack(plan));
    return qn_plan_swap(plan, graph);
}

static qn_status create(const qn_allocator *allocator, const qn_graph *graph,
                        const qn_kernels *kernels, int n_threads, ordering *order, qn_plan **plan) {
    qn_plan *fresh;
    QN_TRY(qn_allocate(allocator, 1, sizeof *fresh, &fresh));
    fresh->allocator = allocator;
    fresh->n_threads = n_threads;
    qn_status status = make(fresh, graph, kernels, order);
    if (status != QN_OK) {
        qn_plan_destroy(fresh);
        return status;
    }
    *plan = fresh;
    return QN_OK;
}

qn_status qn_plan_create(const qn_allocator *allocator, const qn_graph *graph,
                         const qn_kernels *kernels, int n_threads, qn_plan **plan) {
    return create(allocator, graph, kernels, n_threads, qn_plan_order, plan);
}

qn_status qn_plan_create_as_is(const qn_allocator *allocator, const qn_graph *graph,
                               const qn_kernels *kernels, int n_threads, qn_plan **plan) {
    return create(allocator, graph, kernels, n_threads, qn_plan_keep_order, plan);
}

void qn_plan_destroy(qn_plan *plan) {
    if (!plan)
        return;
    const qn_allocator *a = plan->allocator;
    qn_release(a, plan->steps, plan->step_capacity, sizeof *plan->steps);
    qn_release(a, plan->storages, plan->storage_capacity, sizeof *plan->storages);
    qn_release(a, plan->swapped, plan->swapped_capacity, sizeof *plan->swapped);
    qn_release(a, plan->placements, (size_t)plan->n_values, sizeof *plan->placements);
    qn_release(a, plan, 1, sizeof *plan);
}

int64_t qn_placement_step(const qn_placement *placement, qn_shape shape) {
    if (shape.rank >= 2)
        return placement->strides[shape.rank - 2];
    return shape.rank == 1 ? shape.dims[0] : 1;
}

/* ---- reports ---- */

const char *qn_plan_name_of(const qn_plan *plan, const qn_graph *graph, int32_t storage) {
    for (int32_t v = 0; v < plan->n_values; v++) {
        if (plan->placements[v].storage == storage)
            return graph->values[v]->name;
    }
    for (int32_t s = 0; s < plan->n_steps; s++) {
        if (plan->steps[s].workspace == storage)
            return graph->nodes[plan->steps[s].node]->name;
    }
    return "nothing";
}

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

enum { COLUMNS_TEXT = 96 };

/* " columns 24 to 35 of 168" of a value whose rows lie in longer ones; "" of others. */
static const char *print_columns(const qn_plan *plan, const qn_graph *graph, int32_t value,
                                 char text[COLUMNS_TEXT]) {
    const qn_placement *placement = &plan->placements[value];
    const qn_tensor tensor = graph->values[value]->tensor;
    const int64_t step = qn_placement_step(placement, tensor.shape);
    const int64_t first = (int64_t)(placement->offset / qn_dtype_bytes(tensor.dtype));
    text[0] = 0;
    if (tensor.shape.rank > 0 && (first > 0 || step > tensor.shape.dims[tensor.shape.rank - 1]))
        snprintf(text, COLUMNS_TEXT, " columns %lld to %lld of %lld", (long long)first,
                 (long long)(first + tensor.shape.dims[tensor.shape.rank - 1] - 1),
                 (long long)step);
    return text;
}

void qn_plan_print(const qn_plan *plan, const qn_graph *graph,
                   void (*put)(void *context, const char *line), void *context) {
    char line[512], text[QN_SHAPE_TEXT], columns[COLUMNS_TEXT];
    snprintf(line, sizeof line, "arena %zu bytes, at least %zu; %d steps, %d storages",
             plan->arena_bytes, plan->lower_bound_bytes, plan->n_steps, plan->n_storages);
    put(context, line);
    for (int32_t s = 0; s < plan->n_steps; s++) {
        const qn_step *step = &plan->steps[s];
        const qn_node *node = graph->nodes[step->node];
        const int32_t value = node->outputs[0].id;
        const qn_storage *storage = &plan->storages[plan->placements[value].storage];
        snprintf(line, sizeof line, "%4d %-4s x%d %-40s %-24s %s %s%zu+%zu [%d, %d]%s", s,
                 qn_devices[step->device]->name, step->n_threads, node->name, node->op->name,
                 qn_shape_print(graph->values[value]->tensor.shape, text),
                 storage->is_bound ? "bound " : "", storage->offset, storage->bytes, storage->first,
                 storage->last, print_columns(plan, graph, value, columns));
        put(context, line);
    }
}
