/* See within.h. */
#include "run/placing/within.h"

#include "base/status.h"
#include "plan/lanes/partition.h"
#include "run/resident/resident.h"

#include <string.h>

/* What copying to the host's memory and back takes, where what a device's own memory cannot hold is
 * kept: of an x8 link of PCI Express 3. */
static const qn_swap_speed copies = {
    .write_bytes_per_ns = 6, .read_bytes_per_ns = 6, .latency_ns = 10000};

static int space_of(const qn_engine *e) {
    return qn_engine_device(e) > 0 ? e->machine.devices[qn_engine_device(e)].first_space : 0;
}

size_t qn_within_fixed(const qn_engine *e) {
    return space_of(e) > 0 && qn_offload_of(e)->resident ? qn_offload_of(e)->resident->bytes : 0;
}

size_t qn_within_device_bytes(const qn_engine *e) {
    const int space = space_of(e);
    size_t most = 0;
    for (int i = 0; space > 0 && i < e->n_programs; i++) {
        const qn_plan *plan = e->programs[i].plan;
        const size_t bytes = plan ? qn_plan_arena(plan, space).bytes : 0;
        most = bytes > most ? bytes : most;
    }
    return most + qn_within_fixed(e);
}

/* Where the device has memory of its own, its arena and the host's are each as large as that. */
static size_t arena_of(const qn_engine *e, const qn_plan *plan) {
    const int space = space_of(e);
    return space > 0 ? qn_plan_arena(plan, space).bytes : plan->arena_bytes;
}

/* Bytes for the arena of a device's own memory. */
static size_t device_limit(const qn_engine *e, size_t total_bytes) {
    const size_t fixed = qn_within_fixed(e);
    return total_bytes > fixed ? total_bytes - fixed : 0;
}

static bool fits(const qn_engine *e, const qn_plan *plan, size_t host_bytes, size_t bytes) {
    return plan->arena_bytes <= host_bytes && (space_of(e) == 0 || arena_of(e, plan) <= bytes);
}

bool qn_within_fits(const qn_engine *e, const qn_plan *plan, size_t host_bytes,
                    size_t total_bytes) {
    return fits(e, plan, host_bytes, device_limit(e, total_bytes));
}

/* ---- lanes for a plan of one ---- */

/* Of the nodes of its graph, by those of the graph as built. */
static qn_status fill_lane_of(const qn_engine *e, const qn_program *p, const qn_budget_plan *made,
                              int16_t *lane_of) {
    const size_t n_built = (size_t)p->graph->n_nodes;
    int16_t *built;
    QN_TRY(qn_allocate(&e->allocator, n_built + 1, sizeof *built, &built));
    const qn_status status = qn_engine_fill_lane_of(e, p, built);
    for (int n = 0; status == QN_OK && n < made->graph->n_nodes; n++) {
        const int32_t node = made->origins.node_of[n];
        lane_of[n] = (int16_t)(node >= 0 && !made->graph->nodes[n]->op->is_view ? built[node] : 0);
    }
    qn_release(&e->allocator, built, n_built + 1, sizeof *built);
    return status;
}

/* What the graph of a partition is made of: of what the one before it was made of. */
static qn_status compose(const qn_program *p, const qn_budget_plan *made, const qn_partition *s,
                         qn_origins *to) {
    const size_t n_nodes = (size_t)s->graph->n_nodes + 1, n_values = (size_t)s->graph->n_values + 1;
    const size_t n_built = (size_t)p->graph->n_values + 1;
    qn_arena *arena = &s->graph->arena;
    qn_origins o, *from = (qn_origins *)(uintptr_t)&made->origins;
    QN_TRY(qn_engine_find_origins(made->graph, s, &o));
    o.item_of = qn_arena_allocate(arena, n_nodes, sizeof *o.item_of);
    o.first = qn_arena_allocate(arena, n_built, sizeof *o.first);
    o.last = qn_arena_allocate(arena, n_built, sizeof *o.last);
    if (!o.item_of || !o.first || !o.last)
        return QN_ERROR_MEMORY;
    for (size_t n = 0; n + 1 < n_nodes; n++) {
        o.item_of[n] = o.node_of[n] >= 0 ? from->item_of[o.node_of[n]] : -1;
        o.node_of[n] = o.node_of[n] >= 0 ? from->node_of[o.node_of[n]] : -1;
    }
    for (size_t v = 0; v + 1 < n_values; v++)
        o.value_of[v] = o.value_of[v] >= 0 ? from->value_of[o.value_of[v]] : -1;
    for (size_t v = 0; v + 1 < n_built; v++) {
        o.first[v] = from->first[v].id >= 0 ? s->values[from->first[v].id] : QN_NO_VALUE;
        o.last[v] = from->last[v].id >= 0 ? s->values[from->last[v].id] : QN_NO_VALUE;
    }
    *to = o;
    return QN_OK;
}

static qn_status plan_partition(const qn_engine *e, const qn_program *p, const qn_partition *s,
                                qn_budget_plan *made) {
    qn_origins origins;
    qn_plan *plan;
    QN_TRY(compose(p, made, s, &origins));
    QN_TRY(qn_plan_create_for_lanes(&e->allocator, s->graph, &e->machine, &s->assignment, &plan));
    qn_plan_destroy(made->plan);
    qn_graph_destroy(made->graph);
    made->plan = plan;
    made->graph = s->graph;
    made->origins = origins;
    return QN_OK;
}

/* The same order in lanes; the device's steps begin in their turn, so that no more is alive. */
static qn_status partition_with(qn_engine *e, const qn_program *p, int16_t *of_nodes,
                                int16_t *of_values, qn_budget_plan *made) {
    qn_lane lanes[2];
    qn_partition s;
    qn_engine_fill_lanes(e, lanes);
    lanes[1].in_turn = true;
    QN_TRY(fill_lane_of(e, p, made, of_nodes));
    qn_engine_fill_space_of(e, made->graph, of_values);
    const qn_assignment wanted = {.n_lanes = 2,
                                  .n_spaces = e->machine.n_spaces,
                                  .lanes = lanes,
                                  .lane_of = of_nodes,
                                  .space_of = of_values,
                                  .swap_space = qn_machine_disk(&e->machine)};
    QN_TRY(qn_partition_make(made->graph, &wanted, &s));
    const qn_status status = plan_partition(e, p, &s, made);
    if (status != QN_OK)
        qn_graph_destroy(s.graph);
    return status;
}

/* Gives a plan of one lane over a program that is not planned the engine's lanes, in its order. */
static qn_status partition_plan(qn_engine *e, const qn_program *p, qn_budget_plan *made) {
    const size_t n = (size_t)made->graph->n_nodes + (size_t)made->graph->n_values;
    int16_t *numbers;
    QN_TRY(qn_allocate(&e->allocator, n, sizeof *numbers, &numbers));
    const qn_status status = partition_with(e, p, numbers, numbers + made->graph->n_nodes, made);
    qn_release(&e->allocator, numbers, n, sizeof *numbers);
    return status;
}

/* ---- finding ---- */

/* Lanes need more than one does, so less is looked for than there is. */
static qn_status find(qn_engine *e, const qn_program *p, const qn_budget_options *options,
                      size_t host_bytes, qn_budget_plan *found, size_t *least) {
    enum { MOST_TRIES = 4 };
    const size_t limit = options->arena_bytes;
    qn_budget_options asked = *options;
    for (int i = 0; i < MOST_TRIES; i++) {
        QN_TRY(qn_budget_plan_find(&e->allocator, p->graph, &e->machine, &asked, found, least));
        const qn_status status = partition_plan(e, p, found);
        if (status == QN_OK && fits(e, found->plan, host_bytes, limit))
            return QN_OK;
        const size_t bytes = status == QN_OK ? arena_of(e, found->plan) : 0;
        const size_t over = bytes > limit ? bytes - limit : limit / 8;
        qn_budget_plan_deinit(found);
        QN_TRY(status);
        *least = bytes;
        if (over >= asked.arena_bytes)
            break;
        asked.arena_bytes -= over;
    }
    return qn_fail(QN_ERROR_MEMORY, "no plan of the device is within %zu bytes", limit);
}

/* What is made again at less than this part of a step's time is not kept in the host's memory,
 * where it takes room. */
static const double little_time = 0.01;

static bool is_cheap(const qn_budget_plan *p) {
    return p->plan && p->extra_ns <= little_time * p->base_ns;
}

/* Both ways: nothing goes to the host's memory, or what is cheaper to copy than to make again. */
qn_status qn_within_find(qn_engine *e, const qn_program *p, size_t total_bytes,
                         const qn_budget_options *options, qn_budget_plan *found, size_t *least) {
    const size_t host_bytes = options->arena_bytes;
    const bool is_apart = space_of(e) > 0;
    qn_budget_options without = *options;
    qn_budget_plan swapped = {0};
    size_t least_swapped = 0;
    without.swap = NULL;
    without.arena_bytes = is_apart ? device_limit(e, total_bytes) : host_bytes;
    const qn_status status = find(e, p, &without, host_bytes, found, least);
    if (!is_apart || is_cheap(found) || (status != QN_OK && status != QN_ERROR_MEMORY))
        return status;
    qn_budget_options with = without;
    with.swap = &copies;
    with.swap_bytes = host_bytes;
    const qn_status second = find(e, p, &with, host_bytes, &swapped, &least_swapped);
    if (second == QN_OK && (status != QN_OK || swapped.extra_ns < found->extra_ns)) {
        qn_budget_plan_deinit(found);
        *found = swapped;
        return QN_OK;
    }
    qn_budget_plan_deinit(&swapped);
    if (least_swapped > 0 && (*least == 0 || least_swapped < *least))
        *least = least_swapped;
    return second == QN_ERROR_MEMORY ? status : second;
}

/* ---- saved plans ---- */

/* Where a file's plan makes nothing again, the plan is as without a file. */
qn_status qn_within_restore(qn_engine *e, const qn_saved_program *saved, qn_program *p) {
    qn_budget_plan made = {0};
    qn_plan *usual;
    if (saved->micro_batch > 0)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "the plan works on %lld samples at a time, whose sums another device rounds "
                       "differently; make a plan that does not, or train with --device cpu",
                       (long long)saved->micro_batch);
    QN_TRY(qn_saved_restore_usual(&e->allocator, saved, p->graph, &e->machine, &usual));
    if (usual) {
        qn_plan_destroy(usual);
        return qn_engine_plan_device(e, p);
    }
    QN_TRY(qn_saved_restore(&e->allocator, saved, p->graph, &e->machine, &made));
    const qn_status status = partition_plan(e, p, &made);
    if (status != QN_OK)
        qn_budget_plan_deinit(&made);
    else
        qn_program_take(p, &made);
    return status;
}
