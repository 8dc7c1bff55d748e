/* See program.h. */
#include "run/program.h"

#include "base/status.h"
#include "ops/ops.h"
#include "passes/passes.h"
#include "run/optimizer.h"

#include <stdio.h>
#include <string.h>

/* A program while it is built. */
typedef struct building {
    qn_program *program;
    const qn_program_options *options;
    const qn_engine_options *engine;
    qn_value kept[QN_MAX_KEPT];
} building;

static qn_status start(qn_program *program, const qn_engine_options *engine, bool training) {
    *program = (qn_program){.training = training, .hyper = QN_NO_VALUE};
    const qn_graph_options options = {.allocator = engine->allocator,
                                      .real = engine->real,
                                      .training = training,
                                      .no_dropout = engine->no_dropout};
    return qn_graph_create(&options, &program->graph);
}

/* Puts the graph whose nodes from first_node on are fused in the place of the one that was built. */
static qn_status fuse(building *b, int first_node) {
    qn_program *p = b->program;
    qn_graph *fused;
    const qn_value *values;
    QN_TRY(qn_graph_finish(p->graph));
    QN_TRY(qn_fuse(p->graph, first_node, &fused, &values));
    for (int i = 0; i < QN_MAX_KEPT; i++)
        b->kept[i] = b->kept[i].id < 0 ? QN_NO_VALUE : values[b->kept[i].id];
    for (int i = 0; i < p->n_losses; i++)
        p->losses[i] = values[p->losses[i].id];
    for (int i = 0; i < p->n_inputs; i++)
        p->inputs[i] = values[p->inputs[i].id];
    if (p->hyper.id >= 0)
        p->hyper = values[p->hyper.id];
    qn_graph_destroy(p->graph);
    p->graph = fused;
    return QN_OK;
}

/* The parameters that a loss changes, and their gradients, in the graph's memory. */
static qn_status differentiate(qn_graph *graph, qn_value loss, const char *prefix,
                               qn_value **parameters, qn_value **gradients, int *n) {
    const qn_value *all, *all_gradients;
    int n_all;
    QN_TRY(qn_autodiff(graph, loss, prefix, &all, &all_gradients, &n_all));
    qn_value *wanted = qn_arena_allocate(&graph->arena, (size_t)n_all + 1, sizeof *wanted);
    qn_value *found = qn_arena_allocate(&graph->arena, (size_t)n_all + 1, sizeof *found);
    if (!wanted || !found)
        return QN_ERROR_MEMORY;
    *n = 0;
    for (int i = 0; i < n_all; i++) {
        if (all_gradients[i].id < 0)
            continue;
        wanted[*n] = all[i];
        found[(*n)++] = all_gradients[i];
    }
    *parameters = wanted;
    *gradients = found;
    if (*n == 0)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "the loss depends on no trainable parameter%s%s; add a layer that has one",
                       prefix ? " named " : "", prefix ? prefix : "");
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

/* Gradients of a phase's loss and what is done with them. */
static qn_status add_backward(building *b, qn_value loss, const char *prefix) {
    qn_program *p = b->program;
    qn_value *parameters, *gradients;
    int n;
    QN_TRY(differentiate(p->graph, loss, prefix, &parameters, &gradients, &n));
    if (b->engine->update.accumulate > 1)
        add_sums(p->graph, parameters, gradients, n);
    else
        qn_optimizer_add(p->graph, &b->engine->update, parameters, gradients, n, &p->hyper);
    return qn_graph_finish(p->graph);
}

static qn_status list_inputs(qn_program *p) {
    for (int v = 0; v < p->graph->n_values; v++) {
        const qn_kind kind = p->graph->values[v]->kind;
        if (p->graph->values[v]->producer >= 0 || (kind != QN_KIND_INPUT && kind != QN_KIND_LABEL))
            continue;
        if (p->n_inputs == QN_MAX_INPUTS)
            return qn_fail(QN_ERROR_ARGUMENT, "more than %d inputs", QN_MAX_INPUTS);
        p->inputs[p->n_inputs++] = (qn_value){v};
    }
    return QN_OK;
}

static qn_status build_phase(building *b, int phase) {
    qn_program *p = b->program;
    const int first_node = p->graph->n_nodes;
    const qn_value loss = b->options->build(p->graph, b->options->user, phase, b->kept);
    QN_TRY(qn_graph_finish(p->graph));
    if (phase == 0)
        QN_TRY(list_inputs(p));
    const bool is_trained_on = p->training && loss.id >= 0;
    if (is_trained_on) {
        p->losses[p->n_losses++] = loss;
        p->graph->values[loss.id]->is_result = true;
    }
    QN_TRY(fuse(b, first_node));
    if (!is_trained_on)
        return QN_OK;
    return add_backward(b, p->losses[p->n_losses - 1], b->options->trained[phase]);
}

static qn_status build(building *b, int n_phases) {
    if (n_phases > QN_MAX_PHASES)
        return qn_fail(QN_ERROR_ARGUMENT, "%d phases; there may be %d", n_phases, QN_MAX_PHASES);
    if (n_phases > 1 && b->program->training && b->engine->update.accumulate > 1)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "a step of several updates cannot accumulate batches; use a larger batch");
    for (int phase = 0; phase < n_phases; phase++)
        QN_TRY(build_phase(b, phase));
    if (b->program->training && b->program->n_losses == 0)
        return qn_fail(QN_ERROR_ARGUMENT, "it is to be trained, but has no loss");
    return QN_OK;
}

qn_status qn_program_build(qn_program *program, const qn_program_options *options,
                           const qn_engine_options *engine) {
    building b = {.program = program, .options = options, .engine = engine};
    for (int i = 0; i < QN_MAX_KEPT; i++)
        b.kept[i] = QN_NO_VALUE;
    QN_TRY(start(program, engine, options->training));
    qn_status status = build(&b, options->n_phases > 0 ? options->n_phases : 1);
    if (status != QN_OK && options->name)
        return qn_fail_within(status, "%s", options->name);
    return status;
}

qn_status qn_program_build_update(qn_program *p, const qn_engine_options *engine,
                                  const qn_graph *training) {
    QN_TRY(start(p, engine, true));
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
    qn_optimizer_add(p->graph, &engine->update, parameters, sums, n, &p->hyper);
    return qn_graph_finish(p->graph);
}

void qn_program_deinit(qn_program *p) {
    qn_executor_destroy(p->executor);
    qn_plan_destroy(p->plan);
    qn_graph_destroy(p->graph);
    *p = (qn_program){.hyper = QN_NO_VALUE};
}

void qn_program_bind(qn_program *p, const qn_store *store) {
    for (int v = 0; v < p->graph->n_values; v++) {
        const qn_value_info *info = p->graph->values[v];
        const qn_stored_tensor *tensor =
            info->producer < 0 ? qn_store_find(store, info->name) : NULL;
        if (tensor)
            qn_executor_bind(p->executor, (qn_value){v}, tensor->data);
    }
}
