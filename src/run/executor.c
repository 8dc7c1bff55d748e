/* See executor.h. */
#include "run/executor_lanes.h"

#include "base/status.h"
#include "device/cpu/cpu.h"
#include "device/run_call.h"
#include "run/cores/runner.h"

/* calls[s] is step s; its in, out, strides and descriptions are slices of the arrays below.
 * pointers[i] = bases[storage of operand i] + its offset, for every operand i of every call. */
struct qn_executor {
    const qn_allocator *allocator;
    const qn_graph *graph;
    const qn_plan *plan;
    size_t n_operands;
    qn_call *calls;        /* (n_steps) */
    void **pointers;       /* (n_operands) */
    qn_tensor *tensors;    /* (n_operands) */
    int64_t *strides;      /* (n_operands): from row to row; 0: left out */
    bool *is_placed;       /* (n_operands), of inputs */
    int32_t *values;       /* (n_operands), -1: left out */
    char **bases;          /* (n_storages), null: not bound yet */
    qn_lane_runner *lanes; /* null: one lane, or cores */
    qn_core_runner *cores; /* null: lanes are no cores */
    qn_guard_marks marks;
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
            e->strides[*next] =
                qn_placement_step(&e->plan->placements[values[i].id], e->tensors[*next].shape);
    }
}

static void fill_calls(qn_executor *e, const qn_machine *machine, qn_team *team) {
    size_t next = 0;
    for (int32_t s = 0; s < e->plan->n_steps; s++) {
        const qn_step *step = &e->plan->steps[s];
        const qn_node *node = e->graph->nodes[step->node];
        const size_t begin = next, outputs = next + (size_t)node->n_inputs;
        for (int i = 0; i < node->n_inputs; i++)
            e->is_placed[begin + (size_t)i] = qn_plan_is_placed(e->plan, e->graph, node, i);
        add_operands(e, node->inputs, node->n_inputs, &next);
        add_operands(e, node->outputs, node->n_outputs, &next);
        e->calls[s] = (qn_call){
            .node = node,
            .attributes = node->attributes,
            .team = team,
            .inputs = e->tensors + begin,
            .outputs = e->tensors + outputs,
            .in = e->pointers + begin,
            .out = e->pointers + outputs,
            .in_strides = e->strides + begin,
            .out_strides = e->strides + outputs,
            .is_placed = e->is_placed + begin,
        };
        qn_cpu_prepare(&e->calls[s], machine);
    }
}

static qn_status allocate_all(qn_executor *e) {
    const size_t n_steps = (size_t)e->plan->n_steps, n_storages = (size_t)e->plan->n_storages;
    QN_TRY(qn_allocate(e->allocator, n_steps, sizeof *e->calls, &e->calls));
    QN_TRY(qn_allocate(e->allocator, e->n_operands, sizeof *e->pointers, &e->pointers));
    QN_TRY(qn_allocate(e->allocator, e->n_operands, sizeof *e->tensors, &e->tensors));
    QN_TRY(qn_allocate(e->allocator, e->n_operands, sizeof *e->strides, &e->strides));
    QN_TRY(qn_allocate(e->allocator, e->n_operands, sizeof *e->is_placed, &e->is_placed));
    QN_TRY(qn_allocate(e->allocator, e->n_operands, sizeof *e->values, &e->values));
    return qn_allocate(e->allocator, n_storages, sizeof *e->bases, &e->bases);
}

static qn_status make(qn_executor *e, const qn_machine *machine, qn_team *team, void *arena) {
    QN_TRY(allocate_all(e));
    fill_calls(e, machine, team);
    if (e->plan->lanes && e->plan->lanes->are_cores)
        QN_TRY(qn_core_runner_create(e->allocator, e->plan, e->calls, team, &e->cores));
    else if (e->plan->lanes)
        QN_TRY(
            qn_lane_runner_create(e->allocator, e->plan, e->graph, e->calls, machine, &e->lanes));
    if (!arena)
        return QN_OK;
    qn_executor_set_arena(e, arena);
    return qn_executor_open_lanes(e, 0, NULL);
}

qn_status qn_executor_create(const qn_allocator *allocator, const qn_graph *graph,
                             const qn_plan *plan, const qn_machine *machine, qn_team *team,
                             void *arena, qn_executor **executor) {
    qn_executor *e;
    QN_TRY(qn_allocate(allocator, 1, sizeof *e, &e));
    e->allocator = allocator;
    e->graph = graph;
    e->plan = plan;
    e->n_operands = count_operands(graph, plan);
    const qn_status status = make(e, machine, team, arena);
    if (status != QN_OK) {
        qn_executor_destroy(e);
        return status;
    }
    *executor = e;
    return QN_OK;
}

/* Where storages of the host's space lie (is_host), or those of others. */
static void set_bases(qn_executor *e, bool is_host, void *arena) {
    const qn_plan *plan = e->plan;
    for (int32_t i = 0; i < plan->n_storages; i++) {
        const qn_storage *s = &plan->storages[i];
        if (s->is_bound || (s->space == 0) != is_host)
            continue;
        char *begin = is_host ? arena : qn_lane_runner_space(e->lanes, s->space);
        e->bases[i] = begin ? begin + s->offset : NULL;
    }
    for (size_t i = 0; i < e->n_operands; i++)
        e->pointers[i] = locate(e, e->values[i]);
    for (int32_t s = 0; s < plan->n_steps; s++) {
        if (plan->steps[s].workspace >= 0)
            e->calls[s].workspace = e->bases[plan->steps[s].workspace];
    }
}

void qn_executor_set_arena(qn_executor *e, void *arena) {
    set_bases(e, true, arena);
}

qn_status qn_executor_open_lanes(qn_executor *e, int space, char *arena) {
    if (!e->lanes)
        return QN_OK;
    QN_TRY(qn_lane_runner_open(e->lanes, space, arena));
    set_bases(e, false, NULL);
    return QN_OK;
}

void qn_executor_destroy(qn_executor *e) {
    if (!e)
        return;
    const qn_allocator *a = e->allocator;
    qn_lane_runner_destroy(e->lanes);
    qn_core_runner_destroy(e->cores);
    qn_release(a, e->calls, (size_t)e->plan->n_steps, sizeof *e->calls);
    qn_release(a, e->pointers, e->n_operands, sizeof *e->pointers);
    qn_release(a, e->tensors, e->n_operands, sizeof *e->tensors);
    qn_release(a, e->strides, e->n_operands, sizeof *e->strides);
    qn_release(a, e->is_placed, e->n_operands, sizeof *e->is_placed);
    qn_release(a, e->values, e->n_operands, sizeof *e->values);
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

void *qn_executor_get(const qn_executor *e, qn_value value) {
    return locate(e, value.id);
}

void qn_executor_check_updates(qn_executor *e, qn_finite_check *check) {
    for (int32_t s = 0; s < e->plan->n_steps; s++)
        e->calls[s].finite = e->calls[s].node->op->finite_inputs ? check : NULL;
}

void qn_executor_set_marks(qn_executor *e, qn_guard_marks marks) {
    e->marks = marks;
}

qn_guard_marks qn_executor_get_marks(const qn_executor *e) {
    return e->marks;
}

static void run_cores(qn_executor *e, int32_t *next, int32_t end, uint64_t seed, uint64_t step,
                      const qn_watch *watch) {
    for (int32_t s = *next; s < end; s++) {
        e->calls[s].seed = seed;
        e->calls[s].step = step;
    }
    qn_core_runner_run(e->cores, *next, end, watch);
    *next = end;
}

qn_status qn_executor_run_from(qn_executor *e, int32_t *next, int32_t end, const int *stop,
                               uint64_t seed, uint64_t step, const qn_watch *watch) {
    if (e->cores) {
        run_cores(e, next, end, seed, step, watch);
        return QN_OK;
    }
    if (e->lanes)
        return qn_lane_runner_run(e->lanes, next, end, stop, seed, step, watch);
    void (*run)(const qn_call *) = qn_device_cpu.run;
    for (; *next < end; ++*next) {
        if (stop && __builtin_expect(__atomic_load_n(stop, __ATOMIC_ACQUIRE), 0))
            return QN_OK;
        qn_call *call = &e->calls[*next];
        call->seed = seed;
        call->step = step;
        if (__builtin_expect(watch != NULL, 0))
            qn_run_recorded(run, call, *next, watch->events, &watch->label);
        else
            run(call);
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

/* ---- running ahead ---- */

static bool is_safe_ahead(const qn_executor *e, int32_t step) {
    const qn_node *node = e->graph->nodes[e->plan->steps[step].node];
    if (!node->op->output_space || node->op->output_space(node->attributes) == 0)
        return true;
    const qn_value_info *info = e->graph->values[node->inputs[0].id];
    const bool is_input =
        info->producer < 0 && (info->kind == QN_KIND_INPUT || info->kind == QN_KIND_LABEL);
    return is_input || qn_tensor_bytes(info->tensor) <= QN_TAKEN_AT_ONCE;
}

bool qn_executor_can_go_ahead(const qn_executor *e) {
    bool can = e->lanes && qn_lane_runner_can_go_ahead(e->lanes);
    for (int32_t s = 0; can && s < e->plan->n_steps; s++)
        can = is_safe_ahead(e, s);
    return can;
}

qn_status qn_executor_run_ahead(qn_executor *e, uint64_t seed, uint64_t step) {
    return qn_lane_runner_run_ahead(e->lanes, seed, step);
}

void qn_executor_await_begun(const qn_executor *e) {
    qn_lane_runner_await_begun(e->lanes);
}

qn_status qn_executor_finish(qn_executor *e) {
    return e->lanes ? qn_lane_runner_finish(e->lanes) : QN_OK;
}
