/* See executor.h. */
#include "run/executor.h"

#include "base/status.h"
#include "device/device.h"
#include "os/os.h"
#include "os/team.h"

/* calls[s] is step s; its in, out, steps and descriptions are slices of the arrays below.
 * pointers[i] = bases[storage of operand i] + its offset, for every operand i of every call. */
struct qn_executor {
    const qn_allocator *allocator;
    const qn_graph *graph;
    const qn_plan *plan;
    size_t n_operands;
    qn_call *calls;     /* (n_steps) */
    void **pointers;    /* (n_operands) */
    qn_tensor *tensors; /* (n_operands) */
    int64_t *steps;     /* (n_operands): from row to row; 0: left out */
    int32_t *values;    /* (n_operands), -1: left out */
    char **bases;       /* (n_storages), null: not bound yet */
    size_t n_swaps;
    qn_swap_place *swaps; /* (n_swaps): of the steps that swap, in order */
};

static void *locate(const qn_executor *e, int32_t value) {
    if (value < 0)
        return NULL;
    const qn_placement *placement = &e->plan->placements[value];
    if (placement->storage < 0 || !e->bases[placement->storage])
        return NULL;
    return e->bases[placement->storage] + placement->offset;
}

static size_t count_operands(const qn_graph *graph, const qn_plan *plan) {
    size_t n = 0;
    for (int32_t s = 0; s < plan->n_steps; s++) {
        const qn_node *node = graph->nodes[plan->steps[s].node];
        n += (size_t)node->n_inputs + (size_t)node->n_outputs;
    }
    return n;
}

static void add_operands(qn_executor *e, const qn_value *values, int n, size_t *next) {
    for (int i = 0; i < n; i++, (*next)++) {
        e->values[*next] = values[i].id;
        e->tensors[*next] = qn_graph_tensor(e->graph, values[i]);
        if (values[i].id >= 0)
            e->steps[*next] =
                qn_placement_step(&e->plan->placements[values[i].id], e->tensors[*next].shape);
    }
}

static void fill_calls(qn_executor *e, const qn_kernels *kernels, qn_team *team) {
    size_t next = 0;
    for (int32_t s = 0; s < e->plan->n_steps; s++) {
        const qn_step *step = &e->plan->steps[s];
        const qn_node *node = e->graph->nodes[step->node];
        const size_t begin = next, outputs = next + (size_t)node->n_inputs;
        add_operands(e, node->inputs, node->n_inputs, &next);
        add_operands(e, node->outputs, node->n_outputs, &next);
        e->calls[s] = (qn_call){
            .node = node,
            .attributes = node->attributes,
            .kernels = kernels,
            .team = team,
            .inputs = e->tensors + begin,
            .outputs = e->tensors + outputs,
            .in = e->pointers + begin,
            .out = e->pointers + outputs,
            .in_steps = e->steps + begin,
            .out_steps = e->steps + outputs,
        };
    }
}

/* Where steps swap; the file is not known yet. */
static void fill_swaps(qn_executor *e) {
    qn_swap_place *next = e->swaps;
    int request = 0;
    for (int32_t s = 0; s < e->plan->n_steps; s++) {
        const int32_t swapped = e->plan->steps[s].swapped;
        const qn_swapping swapping = e->calls[s].node->op->swapping;
        if (swapped < 0)
            continue;
        *next = (qn_swap_place){.offset = (int64_t)e->plan->swapped[swapped].offset};
        if (swapping == QN_SWAPPING_STORE || swapping == QN_SWAPPING_LOAD)
            next->request = request++;
        e->calls[s].swap = next++;
    }
}

static size_t count_swaps(const qn_plan *plan) {
    size_t n = 0;
    for (int32_t s = 0; s < plan->n_steps; s++)
        n += plan->steps[s].swapped >= 0;
    return n;
}

static qn_status allocate_all(qn_executor *e) {
    const size_t n_steps = (size_t)e->plan->n_steps, n_storages = (size_t)e->plan->n_storages;
    QN_TRY(qn_allocate(e->allocator, n_steps, sizeof *e->calls, &e->calls));
    QN_TRY(qn_allocate(e->allocator, e->n_operands, sizeof *e->pointers, &e->pointers));
    QN_TRY(qn_allocate(e->allocator, e->n_operands, sizeof *e->tensors, &e->tensors));
    QN_TRY(qn_allocate(e->allocator, e->n_operands, sizeof *e->steps, &e->steps));
    QN_TRY(qn_allocate(e->allocator, e->n_operands, sizeof *e->values, &e->values));
    QN_TRY(qn_allocate(e->allocator, e->n_swaps, sizeof *e->swaps, &e->swaps));
    return qn_allocate(e->allocator, n_storages, sizeof *e->bases, &e->bases);
}

qn_status qn_executor_create(const qn_allocator *allocator, const qn_graph *graph,
                             const qn_plan *plan, const qn_kernels *kernels, qn_team *team,
                             void *arena, qn_executor **executor) {
    qn_executor *e;
    QN_TRY(qn_allocate(allocator, 1, sizeof *e, &e));
    e->allocator = allocator;
    e->graph = graph;
    e->plan = plan;
    e->n_operands = count_operands(graph, plan);
    e->n_swaps = count_swaps(plan);
    qn_status status = allocate_all(e);
    if (status != QN_OK) {
        qn_executor_destroy(e);
        return status;
    }
    fill_calls(e, kernels, team);
    fill_swaps(e);
    if (arena)
        qn_executor_set_arena(e, arena);
    *executor = e;
    return QN_OK;
}

void qn_executor_set_arena(qn_executor *e, void *arena) {
    const qn_plan *plan = e->plan;
    for (int32_t i = 0; i < plan->n_storages; i++) {
        if (!plan->storages[i].is_bound)
            e->bases[i] = arena ? (char *)arena + plan->storages[i].offset : NULL;
    }
    for (size_t i = 0; i < e->n_operands; i++)
        e->pointers[i] = locate(e, e->values[i]);
    for (int32_t s = 0; s < plan->n_steps; s++) {
        if (plan->steps[s].workspace >= 0)
            e->calls[s].workspace = e->bases[plan->steps[s].workspace];
    }
}

void qn_executor_destroy(qn_executor *e) {
    if (!e)
        return;
    const qn_allocator *a = e->allocator;
    qn_release(a, e->calls, (size_t)e->plan->n_steps, sizeof *e->calls);
    qn_release(a, e->pointers, e->n_operands, sizeof *e->pointers);
    qn_release(a, e->tensors, e->n_operands, sizeof *e->tensors);
    qn_release(a, e->steps, e->n_operands, sizeof *e->steps);
    qn_release(a, e->values, e->n_operands, sizeof *e->values);
    qn_release(a, e->swaps, e->n_swaps, sizeof *e->swaps);
    qn_release(a, e->bases, (size_t)e->plan->n_storages, sizeof *e->bases);
    qn_release(a, e, 1, sizeof *e);
}

void qn_executor_bind(qn_executor *e, qn_value value, void *memory) {
    const int32_t storage = e->plan->placements[value.id].storage;
    if (e->bases[storage] == memory)
        return;
    e->bases[storage] = memory;
    for (size_t i = 0; i < e->n_operands; i++) {
        if (e->values[i] >= 0 && e->plan->placements[e->values[i]].storage == storage)
            e->pointers[i] = locate(e, e->values[i]);
    }
}

void qn_executor_set_swap(qn_executor *e, qn_swap *file) {
    for (size_t i = 0; i < e->n_swaps; i++)
        e->swaps[i].file = file;
}

void *qn_executor_get(const qn_executor *e, qn_value value) {
    return locate(e, value.id);
}

/* Runs a step and records it; what further threads do of it goes by the same label. */
static void run_watched(const qn_device *device, const qn_call *call, int32_t item,
                        const qn_watch *watch) {
    qn_event event = watch->label;
    event.kind = QN_EVENT_OPERATION;
    event.item = item;
    qn_team_label(call->team, &event);
    event.begin_ns = qn_clock_ns();
    device->run(call);
    event.end_ns = qn_clock_ns();
    qn_events_put(watch->events, event.thread, &event);
}

qn_status qn_executor_run_from(qn_executor *e, int32_t *next, int32_t end, const int *stop,
                               uint64_t seed, uint64_t step, const qn_watch *watch) {
    for (; *next < end; ++*next) {
        if (stop && __builtin_expect(__atomic_load_n(stop, __ATOMIC_ACQUIRE), 0))
            return QN_OK;
        qn_call *call = &e->calls[*next];
        call->seed = seed;
        call->step = step;
        const qn_device *device = qn_devices[e->plan->steps[*next].device];
        if (__builtin_expect(watch != NULL, 0))
            run_watched(device, call, *next, watch);
        else
            device->run(call);
        if (call->swap && qn_swap_has_failed(call->swap->file))
            return qn_swap_settle(call->swap->file);
    }
    return QN_OK;
}

qn_status qn_executor_run(qn_executor *e, uint64_t seed, uint64_t step, const qn_watch *watch) {
    int32_t next = 0;
    return qn_executor_run_from(e, &next, e->plan->n_steps, NULL, seed, step, watch);
}

const qn_call *qn_executor_get_call(const qn_executor *e, int32_t step) {
    return &e->calls[step];
}
