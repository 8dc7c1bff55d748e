/* The lists of operations; see watch.h. What runs and is recorded is in engine.c and executor.c. */
#include "run/watch.h"

#include "device/device.h"
#include "run/engine.h"

const char *qn_engine_program_name(const qn_engine *engine, int program) {
    return qn_engine_get_program(engine, program)->name;
}

int qn_engine_operation_count(const qn_engine *engine, int program) {
    const qn_program *p = qn_engine_get_program(engine, program);
    return p->plan ? p->plan->n_steps : 0;
}

/* Which pass added a node: later phases add theirs behind those of the phases before. */
static qn_pass pass_of(const qn_program *p, int node) {
    int phase = 0;
    node = qn_program_built_node(p, node);
    node = p->uncut && node >= 0 ? p->uncut_node[node] : node;
    while (phase < p->n_phases - 1 && node >= p->phases[phase].update)
        phase++;
    const qn_phase_ends *ends = &p->phases[phase];
    return node < ends->forward    ? QN_PASS_FORWARD
           : node < ends->backward ? QN_PASS_BACKWARD
                                   : QN_PASS_UPDATE;
}

/* A node that swaps belongs to what runs behind it. */
static int32_t node_behind(const qn_plan *plan, int32_t step) {
    while (plan->steps[step].swapped >= 0 && step + 1 < plan->n_steps)
        step++;
    return plan->steps[step].node;
}

static int64_t bytes_of(const qn_tensor *tensors, int n) {
    int64_t bytes = 0;
    for (int i = 0; i < n; i++)
        bytes += (int64_t)qn_tensor_bytes(tensors[i]);
    return bytes;
}

static qn_cost cost_of(const qn_call *call) {
    const qn_node *node = call->node;
    qn_cost cost = {0};
    if (node->op->cost)
        cost = node->op->cost(node->attributes, call->inputs, call->outputs);
    if (cost.bytes == 0)
        cost.bytes =
            bytes_of(call->inputs, node->n_inputs) + bytes_of(call->outputs, node->n_outputs);
    return cost;
}

qn_operation qn_engine_operation_at(const qn_engine *engine, int program, int item) {
    const qn_program *p = qn_engine_get_program(engine, program);
    const qn_step *step = &p->plan->steps[item];
    const qn_call *call = qn_executor_get_call(p->executor, item);
    const qn_cost cost = cost_of(call);
    return (qn_operation){
        .type = call->node->op->name,
        .name = call->node->name,
        .device = qn_devices[step->device]->name,
        .pass = pass_of(p, node_behind(p->plan, item)),
        .n_threads = step->n_threads,
        .flops = cost.flops,
        .bytes = cost.bytes,
    };
}
