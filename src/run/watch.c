/* The lists of operations; see watch.h. Running and recording are in engine.c and executor.c. */
#include "run/watch.h"

#include "device/device.h"
#include "ops/ops.h"
#include "run/engine.h"
#include "run/inspect.h"

const char *qn_engine_program_name(const qn_engine *engine, int program) {
    return qn_engine_get_program(engine, program)->name;
}

int qn_engine_operation_count(const qn_engine *engine, int program) {
    const qn_program *p = qn_engine_get_program(engine, program);
    return p->plan ? p->plan->n_steps : 0;
}

int qn_engine_lane_count(const qn_engine *engine) {
    int n = 0;
    for (int i = 0; i < engine->n_programs; i++) {
        const qn_plan *plan = engine->programs[i].plan;
        if (plan && plan->lanes && plan->lanes->n_lanes - 1 > n)
            n = plan->lanes->n_lanes - 1;
    }
    return n;
}

/* Which pass added a node: later phases add theirs behind those of the phases before. */
static qn_pass pass_of(const qn_program *p, int node) {
    int phase = 0;
    node = qn_program_built_node(p, node);
    node = p->unsplit && node >= 0 ? p->unsplit_node[node] : node;
    while (phase < p->n_phases - 1 && node >= p->phases[phase].update)
        phase++;
    const qn_phase_ends *ends = &p->phases[phase];
    return node < ends->forward    ? QN_PASS_FORWARD
           : node < ends->backward ? QN_PASS_BACKWARD
                                   : QN_PASS_UPDATE;
}

/* A copy to or from another space belongs to what runs behind it. */
static int32_t node_behind(const qn_graph *graph, const qn_plan *plan, int32_t step) {
    while (graph->nodes[plan->steps[step].node]->op->output_space && step + 1 < plan->n_steps)
        step++;
    return plan->steps[step].node;
}

/* Whether no tensor has a type with fractions. */
static bool is_whole(const qn_graph *graph, const qn_node *node) {
    bool is = true;
    for (int i = 0; i < node->n_inputs; i++)
        is = is && (node->inputs[i].id < 0 ||
                    !qn_dtype_is_float(qn_graph_tensor(graph, node->inputs[i]).dtype));
    for (int i = 0; i < node->n_outputs; i++)
        is = is && !qn_dtype_is_float(qn_graph_tensor(graph, node->outputs[i]).dtype);
    return is;
}

qn_operation qn_engine_operation_at(const qn_engine *engine, int program, int item) {
    const qn_program *p = qn_engine_get_program(engine, program);
    const qn_step *step = &p->plan->steps[item];
    const qn_call *call = qn_executor_get_call(p->executor, item);
    const qn_cost cost = qn_node_cost(p->graph, call->node);
    return (qn_operation){
        .type = call->node->op->name,
        .name = call->node->name,
        .device = engine->machine.devices[qn_plan_lane(p->plan, step->lane).device].device->name,
        .pass = pass_of(p, node_behind(p->graph, p->plan, item)),
        .n_threads = step->n_threads,
        .flops = cost.flops,
        .bytes = cost.bytes,
        .is_whole = is_whole(p->graph, call->node),
    };
}
