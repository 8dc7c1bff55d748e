/* Making and printing plans. */
#include "plan/plan.h"

#include "base/status.h"
#include "plan/schedule/cores.h"

#include <stdio.h>
#include <string.h>

/* How a plan is to be made: all nodes in the graph's order, or as few and as early as can be; in
 * lanes, or null: one. */
typedef struct wish {
    bool keeps_order;
    const qn_assignment *assignment;
} wish;

static qn_status make(qn_plan *plan, const qn_graph *graph, const qn_machine *machine, wish w) {
    if (w.assignment && w.assignment->order)
        QN_TRY(qn_plan_take_order(plan, w.assignment->order, w.assignment->n_order));
    else
        QN_TRY(w.keeps_order ? qn_plan_keep_order(plan, graph) : qn_plan_order(plan, graph));
    if (w.assignment)
        QN_TRY(qn_plan_order_lanes(plan, graph, machine, w.assignment));
    else
        QN_TRY(qn_plan_order_copies(plan, graph, machine));
    QN_TRY(qn_plan_lifetimes(plan, graph, machine));
    return qn_plan_pack(plan);
}

static qn_status create(const qn_allocator *allocator, const qn_graph *graph,
                        const qn_machine *machine, wish w, qn_plan **plan) {
    qn_plan *fresh;
    QN_TRY(qn_allocate(allocator, 1, sizeof *fresh, &fresh));
    fresh->allocator = allocator;
    fresh->n_threads = machine->n_threads;
    qn_status status = make(fresh, graph, machine, w);
    if (status != QN_OK) {
        qn_plan_destroy(fresh);
        return status;
    }
    *plan = fresh;
    return QN_OK;
}

qn_status qn_plan_create(const qn_allocator *allocator, const qn_graph *graph,
                         const qn_machine *machine, qn_plan **plan) {
    return create(allocator, graph, machine, (wish){0}, plan);
}

qn_status qn_plan_create_as_is(const qn_allocator *allocator, const qn_graph *graph,
                               const qn_machine *machine, qn_plan **plan) {
    return create(allocator, graph, machine, (wish){.keeps_order = true}, plan);
}

qn_status qn_plan_create_for_lanes(const qn_allocator *allocator, const qn_graph *graph,
                                   const qn_machine *machine, const qn_assignment *assignment,
                                   qn_plan **plan) {
    return create(allocator, graph, machine, (wish){.keeps_order = true, .assignment = assignment},
                  plan);
}

static void destroy_lanes(const qn_allocator *a, qn_lanes *lanes) {
    if (!lanes)
        return;
    qn_release(a, lanes->lanes, (size_t)lanes->n_lanes, sizeof *lanes->lanes);
    qn_release(a, lanes->further, (size_t)lanes->n_further, sizeof *lanes->further);
    qn_release(a, lanes->waits, lanes->wait_capacity, sizeof *lanes->waits);
    qn_release(a, lanes, 1, sizeof *lanes);
}

void qn_plan_destroy(qn_plan *plan) {
    if (!plan)
        return;
    const qn_allocator *a = plan->allocator;
    qn_release(a, plan->steps, plan->step_capacity, sizeof *plan->steps);
    qn_release(a, plan->storages, plan->storage_capacity, sizeof *plan->storages);
    destroy_lanes(a, plan->lanes);
    qn_release(a, plan->placements, (size_t)plan->n_values, sizeof *plan->placements);
    qn_release(a, plan, 1, sizeof *plan);
}

size_t qn_plan_given_bytes(const qn_plan *plan, int space) {
    size_t bytes = 0;
    for (int32_t i = 0; i < plan->n_storages; i++) {
        const qn_storage *s = &plan->storages[i];
        bytes += s->is_bound && s->space == space ? s->bytes : 0;
    }
    return bytes;
}

qn_arena_need qn_plan_arena(const qn_plan *plan, int space) {
    if (space > 0)
        return plan->lanes && space <= plan->lanes->n_further ? plan->lanes->further[space - 1]
                                                              : (qn_arena_need){0};
    return (qn_arena_need){plan->arena_bytes, plan->lower_bound_bytes, QN_ALIGNMENT};
}

size_t qn_plan_bytes(const qn_plan *plan, const qn_machine *machine, int space) {
    size_t bytes = 0;
    for (int i = 0; i < machine->n_spaces; i++)
        bytes += qn_machine_same_memory(machine, i, space) ? qn_plan_arena(plan, i).bytes : 0;
    return bytes;
}

qn_lane qn_plan_lane(const qn_plan *plan, int lane) {
    return plan->lanes ? plan->lanes->lanes[lane]
                       : (qn_lane){.n_threads = (int16_t)plan->n_threads};
}

int qn_plan_team_size(const qn_plan *plan, int32_t step) {
    const int n = plan->steps[step].n_threads;
    if (!plan->lanes || !plan->lanes->are_cores)
        return n;
    const int most = QN_CORES_HELP * n;
    return most < plan->lanes->n_lanes ? most : plan->lanes->n_lanes;
}

const int32_t *qn_plan_waits(const qn_plan *plan, int32_t step, int32_t *n) {
    if (!plan->lanes) {
        *n = 0;
        return NULL;
    }
    const int32_t begin = plan->steps[step].first_wait;
    const int32_t end =
        step + 1 < plan->n_steps ? plan->steps[step + 1].first_wait : plan->lanes->n_waits;
    *n = end - begin;
    return *n > 0 ? plan->lanes->waits + begin : NULL;
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
        if (s->first > step || s->last < step || s->space != 0)
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

/* " lane 2 after 5 7"; "" where there is one lane. */
static const char *print_lane(const qn_plan *plan, int32_t step, char *text, size_t bytes) {
    int32_t n;
    const int32_t *waits = qn_plan_waits(plan, step, &n);
    size_t used = 0;
    text[0] = 0;
    if (plan->lanes)
        used = (size_t)snprintf(text, bytes, " lane %d%s", plan->steps[step].lane,
                                n > 0 ? " after" : "");
    for (int32_t i = 0; i < n && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, " %d", waits[i]);
    return text;
}

void qn_plan_print(const qn_plan *plan, const qn_graph *graph, const qn_machine *machine,
                   void (*put)(void *context, const char *line), void *context) {
    char line[768], text[QN_SHAPE_TEXT], columns[COLUMNS_TEXT], lane[16 * QN_MAX_LANES];
    snprintf(line, sizeof line, "arena %zu bytes, lower bound %zu; %d steps, %d storages",
             plan->arena_bytes, plan->lower_bound_bytes, plan->n_steps, plan->n_storages);
    put(context, line);
    for (int i = 0; plan->lanes && i < plan->lanes->n_further; i++) {
        snprintf(line, sizeof line, "arena of space %s: %zu bytes, lower bound %zu",
                 machine->spaces[i + 1].space->name, plan->lanes->further[i].bytes,
                 plan->lanes->further[i].lower_bound_bytes);
        put(context, line);
    }
    for (int32_t s = 0; s < plan->n_steps; s++) {
        const qn_step *step = &plan->steps[s];
        const qn_node *node = graph->nodes[step->node];
        const int32_t value = node->outputs[0].id;
        const qn_storage *storage = &plan->storages[plan->placements[value].storage];
        snprintf(line, sizeof line, "%4d %-4s x%d %-40s %-24s %s %s%zu+%zu [%d, %d]%s%s", s,
                 machine->devices[qn_plan_lane(plan, step->lane).device].device->name,
                 step->n_threads, node->name, node->op->name,
                 qn_shape_print(graph->values[value]->tensor.shape, text),
                 storage->is_bound ? "bound " : "", storage->offset, storage->bytes, storage->first,
                 storage->last, print_columns(plan, graph, value, columns),
                 print_lane(plan, s, lane, sizeof lane));
        put(context, line);
    }
}
