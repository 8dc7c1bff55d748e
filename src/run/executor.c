/* See executor.h. */
#include "run/executor.h"

#include "base/status.h"
#include "device/device.h"

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
        e->pointers[*next] = locate(e, values[i].id);
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
            .workspace = step->workspace < 0 ? NULL : e->bases[step->workspace],
        };
    }
}

static qn_status allocate_all(qn_executor *e) {
    const size_t n_steps = (size_t)e->plan->n_steps, n_storages = (size_t)e->plan->n_storages;
    QN_TRY(qn_allocate(e->allocator, n_steps, sizeof *e->calls, &e->calls));
    QN_TRY(qn_allocate(e->allocator, e->n_operands, sizeof *e->pointers, &e->pointers));
    QN_TRY(qn_allocate(e->allocator, e->n_operands, sizeof *e->tensors, &e->tensors));
    QN_TRY(qn_allocate(e->allocator, e->n_operands, sizeof *e->steps, &e->steps));
    QN_TRY(qn_allocate(e->allocator, e->n_operands, sizeof *e->values, &e->values));
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
    qn_status status = allocate_all(e);
    if (status != QN_OK) {
        qn_executor_destroy(e);
        return status;
    }
    for (int32_t i = 0; i < plan->n_storages; i++) {
        if (!plan->storages[i].is_bound)
            e->bases[i] = (char *)arena + plan->storages[i].offset;
    }
    fill_calls(e, kernels, team);
    *executor = e;
    return QN_OK;
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

void qn_executor_run(qn_executor *e, uint64_t seed, uint64_t step) {
    for (int32_t s = 0; s < e->plan->n_steps; s++) {
        qn_call *call = &e->calls[s];
        call->seed = seed;
        call->step = step;
        qn_devices[e->plan->steps[s].device]->run(call);
    }
}
