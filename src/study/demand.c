/* See demand.h. The training program is built and planned as in an engine; parameters, optimiser
 * state, arena and batches are added up. Other programs (evaluation, the acting half of a
 * Q-network) share arena and parameters. */
#include "study/demand.h"

#include "base/status.h"
#include "ops/ops.h"
#include "os/heap.h"
#include "os/os.h"
#include "plan/plan.h"
#include "run/program.h"
#include "run/trainer.h"
#include "tasks/tasks.h"

#include <stdio.h>
#include <string.h>

/* Of a process before it has any tensor: program, libraries, the meter, threads. And batches that
 * the loader holds beside the one that is trained on. */
static const double process_bytes = 40e6, loader_batches = 4;

static bool is_outside(const qn_value_info *info, qn_kind kind) {
    return info->producer < 0 && info->kind == kind;
}

static void add_bytes(const qn_graph *graph, qn_demand *demand) {
    demand->bytes = process_bytes;
    for (int v = 0; v < graph->n_values; v++) {
        const qn_value_info *info = graph->values[v];
        const double bytes = (double)qn_tensor_bytes(info->tensor);
        if (is_outside(info, QN_KIND_PARAMETER) || is_outside(info, QN_KIND_STATE))
            demand->bytes += bytes;
        if (is_outside(info, QN_KIND_INPUT) || is_outside(info, QN_KIND_LABEL))
            demand->bytes += bytes * loader_batches;
    }
}

static qn_status measure(const qn_program *program, const qn_engine_options *engine,
                         qn_demand *demand) {
    qn_isa isa;
    qn_plan *plan;
    QN_TRY(qn_cpu_isa(&isa));
    const qn_machine machine = qn_machine_of_isa(isa, engine->n_threads);
    QN_TRY(qn_plan_create(engine->allocator, program->graph, &machine, &plan));
    add_bytes(program->graph, demand);
    demand->bytes += (double)plan->arena_bytes;
    for (int i = 0; i < plan->n_steps; i++)
        demand->flops_per_step +=
            (double)qn_node_cost(program->graph, program->graph->nodes[plan->steps[i].node]).flops;
    qn_plan_destroy(plan);
    return QN_OK;
}

/* The options as an engine completes them. */
static qn_engine_options engine_options(const qn_allocator *allocator, const qn_model *model,
                                        int n_threads) {
    qn_engine_options o = {QN_OPTIONS_INIT(qn_engine_options),
                           .allocator = qn_allocator_or_default(allocator),
                           .real = QN_F32,
                           .update = qn_update_options_for(model),
                           .n_threads = n_threads > 0 ? n_threads : qn_cpu_count(),
                           .seed = 1};
    o.update.accumulate = 1;
    o.update.beta1 = o.update.beta1 > 0 ? o.update.beta1 : 0.9;
    o.update.beta2 = 0.999;
    o.update.epsilon = 1e-8;
    return o;
}

static qn_status find(const qn_program_options *program, const qn_engine_options *engine,
                      qn_demand *demand) {
    qn_program built;
    qn_status status = qn_program_build(&built, program, engine);
    if (status == QN_OK)
        status = measure(&built, engine, demand);
    qn_program_deinit(&built);
    return status;
}

static qn_status find_classifier(const qn_model *model, int64_t batch,
                                 const qn_engine_options *engine, qn_demand *demand) {
    qn_trainer_options options = qn_trainer_options_for(model);
    qn_program_options programs[QN_TRAINER_PROGRAMS];
    options.engine.real = engine->real;
    options.input = model->input;
    options.n_outputs = qn_model_classes(model, model->input);
    options.batch = options.evaluation_batch = batch;
    qn_trainer_describe(&options, programs);
    return find(&programs[QN_TRAINER_TRAINING], engine, demand);
}

static qn_status find_network(const qn_model *model, int64_t batch, const qn_engine_options *engine,
                              qn_demand *demand) {
    qn_task_network network = {model, model->sizes};
    qn_program_options options = {QN_OPTIONS_INIT(qn_program_options), .training = true,
                                  .n_phases = model->n_phases, .user = &network,
                                  .build = qn_task_build};
    network.sizes.batch = batch;
    memcpy(options.trained, model->trained, sizeof options.trained);
    return find(&options, engine, demand);
}

qn_status qn_demand_find(const qn_allocator *allocator, const qn_model *model, int64_t batch,
                         int n_threads, qn_demand *demand) {
    const qn_engine_options engine = engine_options(allocator, model, n_threads);
    qn_model_size size;
    qn_demand found = {0};
    QN_TRY(qn_model_measure(model, model->input, qn_model_classes(model, model->input), &size));
    QN_TRY(model->network ? find_network(model, batch, &engine, &found)
                          : find_classifier(model, batch, &engine, &found));
    found.forward_flops = (double)size.forward_flops * (double)batch;
    *demand = found;
    return QN_OK;
}
