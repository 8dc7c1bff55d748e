/* See program.h. */
#include "run/program.h"

#include "base/status.h"
#include "ops/ops.h"
#include "passes/passes.h"
#include "run/optimizer.h"

#include <stdio.h>
#include <string.h>

static const qn_program empty = {.x = {-1},
                                 .y = {-1},
                                 .hyper = {-1},
                                 .loss = {-1},
                                 .losses = {-1},
                                 .outputs = {-1},
                                 .chances = {-1}};

static qn_status start(qn_program *program, const qn_trainer_options *options, bool training) {
    *program = empty;
    const qn_graph_options graph_options = {.allocator = options->allocator,
                                            .real = options->real,
                                            .training = training,
                                            .no_dropout = options->no_dropout};
    return qn_graph_create(&graph_options, &program->graph);
}

static void set_result(qn_graph *graph, qn_value value) {
    qn_value_info *info = qn_graph_value(graph, value);
    if (info)
        info->is_result = true;
}

/* x, y, the model, and the loss of every sample. */
static void add_forward(qn_program *p, const qn_trainer_options *options, int64_t batch,
                        double smoothing) {
    qn_shape shape = {.rank = options->input.rank + 1};
    shape.dims[0] = batch;
    for (int i = 0; i < options->input.rank; i++)
        shape.dims[i + 1] = options->input.dims[i];
    p->x = qn_input(p->graph, "input", shape);
    if (options->regression)
        p->y = qn_label(p->graph, "target", options->real, QN_SHAPE(batch, options->n_outputs));
    else
        p->y = qn_label(p->graph, "label", QN_I32, QN_SHAPE(batch));
    p->outputs = options->model->build(p->graph, options->model->user, p->x, options->n_outputs);
    const qn_value_info *info = qn_graph_value(p->graph, p->outputs);
    if (info && !qn_shape_equal(info->tensor.shape, QN_SHAPE(batch, options->n_outputs)))
        qn_graph_fail(p->graph, QN_ERROR_ARGUMENT,
                      "model %s: its output must have the shape (batch, %d); return that of its "
                      "last linear layer",
                      options->model->name, options->n_outputs);
    p->losses = options->regression ? qn_squared_error(p->graph, "loss.samples", p->outputs, p->y)
                                    : qn_softmax_cross_entropy(p->graph, "loss.samples", p->outputs,
                                                               p->y, smoothing);
    set_result(p->graph, p->outputs);
}

/* Puts the fused graph in the place of the one that was built. */
static qn_status fuse(qn_program *p) {
    qn_graph *fused;
    const qn_value *values;
    QN_TRY(qn_graph_finish(p->graph));
    QN_TRY(qn_fuse(p->graph, &fused, &values));
    qn_value *const kept[] = {&p->x, &p->y, &p->loss, &p->losses, &p->outputs, &p->chances};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        if (kept[i]->id >= 0)
            *kept[i] = values[kept[i]->id];
    }
    qn_graph_destroy(p->graph);
    p->graph = fused;
    return QN_OK;
}

/* parameters and gradients without the parameters that the loss does not depend on. */
static qn_status differentiate(qn_program *p, qn_value **parameters, qn_value **gradients, int *n) {
    const qn_value *all, *all_gradients;
    int n_all;
    QN_TRY(qn_autodiff(p->graph, p->loss, &all, &all_gradients, &n_all));
    *parameters = qn_arena_allocate(&p->graph->arena, (size_t)n_all, sizeof **parameters);
    *gradients = qn_arena_allocate(&p->graph->arena, (size_t)n_all, sizeof **gradients);
    if (!*parameters || !*gradients)
        return QN_ERROR_MEMORY;
    *n = 0;
    for (int i = 0; i < n_all; i++) {
        if (all_gradients[i].id < 0)
            continue;
        (*parameters)[*n] = all[i];
        (*gradients)[(*n)++] = all_gradients[i];
    }
    if (*n == 0)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "the loss depends on no trainable parameter; add a layer that has one");
    return QN_OK;
}

static const char sum_prefix[] = "gradient_sum.";

static void add_sums(qn_graph *graph, const qn_value *parameters, const qn_value *gradients,
                     int n) {
    for (int i = 0; i < n; i++) {
        const qn_value_info *info = qn_graph_value(graph, parameters[i]);
        if (!info)
            return;
        char name[512];
        snprintf(name, sizeof name, "%s%s", sum_prefix, info->name);
        qn_value sum = qn_graph_add_source(graph, QN_KIND_GRADIENT, name, info->tensor,
                                           (qn_initial){QN_INITIAL_ZERO, 0}, false);
        snprintf(name, sizeof name, "%s.accumulate", info->name);
        qn_op_accumulate(graph, name, sum, gradients[i]);
    }
}

qn_status qn_program_build_training(qn_program *p, const qn_trainer_options *options) {
    qn_value *parameters, *gradients;
    int n;
    QN_TRY(start(p, options, true));
    add_forward(p, options, options->batch, options->label_smoothing);
    p->loss = qn_mean(p->graph, "loss", p->losses);
    set_result(p->graph, p->loss);
    QN_TRY(fuse(p));
    QN_TRY(differentiate(p, &parameters, &gradients, &n));
    if (options->accumulate > 1)
        add_sums(p->graph, parameters, gradients, n);
    else
        qn_optimizer_add(p->graph, options, parameters, gradients, n, &p->hyper);
    return qn_graph_finish(p->graph);
}

qn_status qn_program_build_update(qn_program *p, const qn_trainer_options *options,
                                  const qn_graph *training) {
    QN_TRY(start(p, options, true));
    const size_t n_most = (size_t)training->n_values;
    qn_value *parameters = qn_arena_allocate(&p->graph->arena, n_most, sizeof *parameters);
    qn_value *sums = qn_arena_allocate(&p->graph->arena, n_most, sizeof *sums);
    if (!parameters || !sums)
        return QN_ERROR_MEMORY;
    int n = 0;
    for (int v = 0; v < training->n_values; v++) {
        const qn_value_info *sum = training->values[v];
        if (sum->producer >= 0 || sum->kind != QN_KIND_GRADIENT)
            continue;
        const char *name = sum->name + sizeof sum_prefix - 1;
        parameters[n] =
            qn_graph_add_source(p->graph, QN_KIND_PARAMETER, name, sum->tensor, sum->initial, true);
        sums[n++] = qn_graph_add_source(p->graph, QN_KIND_GRADIENT, sum->name, sum->tensor,
                                        sum->initial, false);
    }
    qn_optimizer_add(p->graph, options, parameters, sums, n, &p->hyper);
    return qn_graph_finish(p->graph);
}

qn_status qn_program_build_evaluation(qn_program *p, const qn_trainer_options *options) {
    QN_TRY(start(p, options, false));
    add_forward(p, options, options->evaluation_batch, 0);
    set_result(p->graph, p->losses);
    if (!options->regression) {
        p->chances = qn_softmax(p->graph, "probabilities", p->outputs);
        set_result(p->graph, p->chances);
    }
    return fuse(p);
}

void qn_program_deinit(qn_program *p) {
    qn_executor_destroy(p->executor);
    qn_plan_destroy(p->plan);
    qn_graph_destroy(p->graph);
    *p = empty;
}

void qn_program_bind(qn_program *p, const qn_store *store) {
    for (int v = 0; v < p->graph->n_values; v++) {
        const qn_value_info *info = p->graph->values[v];
        const qn_trainer_tensor *tensor =
            info->producer < 0 ? qn_store_find(store, info->name) : NULL;
        if (tensor)
            qn_executor_bind(p->executor, (qn_value){v}, tensor->data);
    }
}
