/* See program.h. */
#include "run/program.h"

#include "base/status.h"
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/quantise.h"
#include "passes/sparse.h"
#include "passes/split.h"
#include "passes/tune.h"
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
    const qn_graph_options options = {QN_OPTIONS_INIT(qn_graph_options),
                                      .allocator = engine->allocator, .real = engine->real,
                                      .training = training, .no_dropout = engine->no_dropout};
    return qn_graph_create(&options, &program->graph);
}

/* Puts what a pass has made in the place of the graph that was built. */
static void take_graph(building *b, qn_graph *made, const qn_value *values) {
    qn_program *p = b->program;
    for (int i = 0; i < QN_MAX_KEPT; i++)
        b->kept[i] = b->kept[i].id < 0 ? QN_NO_VALUE : values[b->kept[i].id];
    for (int i = 0; i < p->n_losses; i++)
        p->losses[i] = values[p->losses[i].id];
    for (int i = 0; i < p->n_inputs; i++)
        p->inputs[i] = values[p->inputs[i].id];
    if (p->hyper.id >= 0)
        p->hyper = values[p->hyper.id];
    qn_graph_destroy(p->graph);
    p->graph = made;
}

static int n_phases(const building *b) {
    return b->options->n_phases > 0 ? b->options->n_phases : 1;
}

/* Which layers are trained where not all are: what the user says, or the numerics. */
static qn_status select_trained(const building *b, bool *is_used) {
    const qn_engine_options *engine = b->engine;
    qn_sparse sparse;
    QN_TRY(qn_sparse_read(engine->sparse_update, &sparse));
    if (!sparse.is_used && engine->numerics)
        sparse = qn_quantise_sparse(engine->numerics);
    *is_used = sparse.is_used && b->program->training;
    if (!*is_used)
        return QN_OK;
    if (n_phases(b) > 1)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "update: a step with several updates trains whole networks; use freeze");
    QN_TRY(qn_sparse_select(b->program->graph, &sparse));
    if (engine->update.accumulate > 1 && qn_sparse_has_parts(b->program->graph))
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "update: gradients of parts of layers are not accumulated; use a larger "
                       "batch, or train whole layers");
    return QN_OK;
}

/* What is kept for gradients of parts of weights. */
static qn_status keep_parts(building *b) {
    qn_graph *made;
    const qn_value *values;
    if (!b->program->training || !qn_sparse_has_parts(b->program->graph))
        return QN_OK;
    QN_TRY(qn_sparse_keep(b->program->graph, &made, &values));
    take_graph(b, made, values);
    return QN_OK;
}

/* What is trained, and how; then activations are taken into what is before them. */
static qn_status run_passes(building *b, int first_node) {
    qn_program *p = b->program;
    const qn_tuning *tuning = &b->engine->tuning;
    qn_graph *made;
    const qn_value *values;
    bool is_sparse;
    QN_TRY(select_trained(b, &is_sparse));
    if (is_sparse || qn_tuning_is_used(tuning)) {
        if (p->training)
            QN_TRY(qn_tune_select(p->graph, p->n_losses ? p->losses[p->n_losses - 1] : QN_NO_VALUE,
                                  tuning));
        QN_TRY(qn_tune(p->graph, first_node, tuning, &made, &values));
        take_graph(b, made, values);
    }
    if (b->engine->numerics) {
        QN_TRY(qn_quantise_prepare(p->graph, b->engine->numerics, first_node, &made, &values));
        if (made)
            take_graph(b, made, values);
        if (!qn_quantise_fuses(b->engine->numerics))
            return keep_parts(b);
    }
    if (b->engine->no_fusion)
        return keep_parts(b);
    QN_TRY(qn_fuse(p->graph, first_node, b->engine->numerics != NULL, &made, &values));
    take_graph(b, made, values);
    return keep_parts(b);
}

/* The parameters that a loss changes, and their gradients, in the graph's memory. Gradients of
 * inputs that want one become results. */
static qn_status differentiate(const building *b, qn_value loss, const char *prefix,
                               qn_value **parameters, qn_value **gradients, int *n) {
    qn_graph *graph = b->program->graph;
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
        if (qn_graph_value(graph, all[i])->wants_gradient) {
            qn_result(graph, all_gradients[i]);
            continue;
        }
        wanted[*n] = all[i];
        found[(*n)++] = all_gradients[i];
    }
    *parameters = wanted;
    *gradients = found;
    if (*n == 0 && !b->options->may_train_nothing)
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

/* The graph in smaller types, as the engine's numerics say, and the parameters that are then the
 * optimiser's. */
static qn_status apply_numerics(building *b, qn_value **parameters, qn_value **gradients, int *n) {
    qn_program *p = b->program;
    const qn_numerics *numerics = b->engine->numerics;
    qn_quantised q;
    if (!numerics)
        return QN_OK;
    if (n_phases(b) > 1)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "numerics %s: a step with several updates trains in f32 only; leave the "
                       "numerics out",
                       numerics->name);
    if (numerics->stores_weights && b->engine->update.accumulate > 1)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "numerics %s: whole gradients are not accumulated; use a larger batch",
                       numerics->name);
    const qn_quantise_source source = {.graph = p->graph,
                                       .n_forward = p->phases[0].forward,
                                       .n = *n,
                                       .parameters = *parameters,
                                       .gradients = *gradients,
                                       .total_steps = b->engine->update.schedule_steps,
                                       .shows = b->options->shows_types};
    QN_TRY(qn_quantise_graph(&source, numerics, &q));
    take_graph(b, q.graph, q.values);
    p->phases[0].forward = q.forward_end;
    p->shown = q.shown;
    p->n_shown = q.n_shown;
    *parameters = q.parameters;
    *gradients = q.gradients;
    *n = q.n;
    return QN_OK;
}

/* The optimiser, and what numerics round behind it. */
static void add_update(qn_program *p, const qn_engine_options *engine, const qn_value *parameters,
                       const qn_value *gradients, int n) {
    const int first_node = p->graph->n_nodes;
    qn_optimizer_add(p->graph, engine, parameters, gradients, n, &p->hyper);
    if (engine->numerics)
        qn_quantise_updates(p->graph, engine->numerics, first_node);
}

/* Gradients of a phase's loss and what is done with them. */
static qn_status add_backward(building *b, qn_value loss, const char *prefix) {
    qn_program *p = b->program;
    qn_value *parameters, *gradients;
    int n;
    QN_TRY(differentiate(b, loss, prefix, &parameters, &gradients, &n));
    QN_TRY(apply_numerics(b, &parameters, &gradients, &n));
    if (b->engine->update.accumulate > 1)
        add_sums(p->graph, parameters, gradients, n);
    p->phases[p->n_phases - 1].backward = p->graph->n_nodes;
    if (b->engine->update.accumulate <= 1 && n > 0)
        add_update(p, b->engine, parameters, gradients, n);
    return qn_graph_finish(p->graph);
}

/* A program that trains nothing. */
static qn_status quantise_forward(building *b) {
    qn_value *parameters = NULL, *gradients = NULL;
    int n = 0;
    QN_TRY(apply_numerics(b, &parameters, &gradients, &n));
    b->program->phases[0].forward = b->program->phases[0].backward = b->program->graph->n_nodes;
    return QN_OK;
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
    QN_TRY(run_passes(b, first_node));
    if (p->training && phase == n_phases(b) - 1)
        QN_TRY(qn_tune_check(p->graph, &b->engine->tuning));
    qn_phase_ends *ends = &p->phases[p->n_phases++];
    ends->forward = ends->backward = p->graph->n_nodes;
    if (is_trained_on)
        QN_TRY(add_backward(b, p->losses[p->n_losses - 1], b->options->trained[phase]));
    else if (b->engine->numerics)
        QN_TRY(quantise_forward(b));
    ends->update = p->graph->n_nodes;
    return QN_OK;
}

static qn_status build(building *b) {
    if (n_phases(b) > QN_MAX_PHASES)
        return qn_fail(QN_ERROR_ARGUMENT, "%d phases; at most %d are supported", n_phases(b),
                       QN_MAX_PHASES);
    if (n_phases(b) > 1 && b->program->training && b->engine->update.accumulate > 1)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "a step with several updates cannot accumulate batches; use a larger batch");
    for (int phase = 0; phase < n_phases(b); phase++)
        QN_TRY(build_phase(b, phase));
    if (b->program->training && b->program->n_losses == 0)
        return qn_fail(QN_ERROR_ARGUMENT, "the program trains but has no loss; give it one");
    return QN_OK;
}

static qn_status keep_name(qn_program *program, const char *name) {
    program->name = qn_arena_text(&program->graph->arena, name);
    return program->name ? QN_OK : QN_ERROR_MEMORY;
}

qn_status qn_program_build(qn_program *program, const qn_program_options *options,
                           const qn_engine_options *engine) {
    building b = {.program = program, .options = options, .engine = engine};
    for (int i = 0; i < QN_MAX_KEPT; i++)
        b.kept[i] = QN_NO_VALUE;
    QN_TRY(start(program, engine, options->training));
    qn_status status = build(&b);
    if (status == QN_OK)
        status = keep_name(program, options->name       ? options->name
                                    : options->training ? "training"
                                                        : "evaluation");
    if (status != QN_OK && options->name)
        return qn_fail_within(status, "%s", options->name);
    return status;
}

int64_t qn_program_batch(const qn_program *p) {
    const qn_shape shape = p->n_inputs > 0 ? qn_graph_shape(p->graph, p->inputs[0]) : (qn_shape){0};
    return shape.rank > 0 ? shape.dims[0] : 0;
}

static qn_status check_micro_batch(const qn_program *p, int64_t micro_batch) {
    const int64_t batch = qn_program_batch(p);
    if (micro_batch < 1 || micro_batch > batch || batch % micro_batch != 0)
        return qn_fail(
            QN_ERROR_ARGUMENT,
            "micro-batches of %lld samples do not divide a batch of %lld; choose a divisor",
            (long long)micro_batch, (long long)batch);
    if (p->n_phases > 1)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "a step with several updates cannot be split into micro-batches");
    return QN_OK;
}

static void take_split(qn_program *p, qn_graph *split, qn_split_origins origins,
                       int64_t micro_batch) {
    memcpy(p->whole.inputs, p->inputs, sizeof p->inputs);
    memcpy(p->whole.losses, p->losses, sizeof p->losses);
    p->whole.hyper = p->hyper;
    p->whole.node_ns = p->node_ns;
    p->node_ns = NULL;
    for (int i = 0; i < p->n_inputs; i++)
        p->inputs[i] = origins.values[p->inputs[i].id];
    for (int i = 0; i < p->n_losses; i++)
        p->losses[i] = origins.values[p->losses[i].id];
    if (p->hyper.id >= 0)
        p->hyper = origins.values[p->hyper.id];
    p->unsplit = p->graph;
    p->graph = split;
    p->unsplit_node = origins.node_of;
    p->micro_batch = micro_batch;
}

qn_status qn_program_split(qn_program *p, const qn_machine *machine, int64_t micro_batch) {
    qn_graph *split;
    qn_split_origins origins;
    QN_TRY(check_micro_batch(p, micro_batch));
    if (micro_batch == qn_program_batch(p))
        return QN_OK;
    QN_TRY(qn_split(p->graph, machine, p->inputs, p->n_inputs, qn_program_batch(p) / micro_batch,
                    &split, &origins));
    take_split(p, split, origins, micro_batch);
    return QN_OK;
}

static qn_status split_apart(const qn_program *p, const qn_machine *machine, int64_t pieces,
                             qn_graph **split, qn_split_origins *origins) {
    const int64_t batch = qn_program_batch(p);
    QN_TRY(check_micro_batch(p, pieces > 0 && batch % pieces == 0 ? batch / pieces : 0));
    return qn_split_apart(p->graph, machine, p->inputs, p->n_inputs, pieces, split, origins);
}

bool qn_program_can_split_apart(const qn_program *p, const qn_machine *machine, int64_t pieces) {
    qn_graph *split;
    qn_split_origins origins;
    if (p->unsplit || split_apart(p, machine, pieces, &split, &origins) != QN_OK)
        return false;
    qn_graph_destroy(split);
    return true;
}

qn_status qn_program_split_apart(qn_program *p, const qn_machine *machine, int64_t pieces) {
    qn_graph *split;
    qn_split_origins origins;
    if (pieces == 1)
        return QN_OK;
    QN_TRY(split_apart(p, machine, pieces, &split, &origins));
    take_split(p, split, origins, qn_program_batch(p) / pieces);
    p->is_apart = true;
    return QN_OK;
}

int64_t qn_program_pieces(const qn_program *p) {
    return p->is_apart ? qn_program_batch(p) / p->micro_batch : 0;
}

void qn_program_unsplit(qn_program *p) {
    if (!p->unsplit)
        return;
    qn_graph_destroy(p->graph);
    p->graph = p->unsplit;
    p->unsplit = NULL;
    p->unsplit_node = NULL;
    p->micro_batch = 0;
    p->is_apart = false;
    memcpy(p->inputs, p->whole.inputs, sizeof p->inputs);
    memcpy(p->losses, p->whole.losses, sizeof p->losses);
    p->hyper = p->whole.hyper;
    p->node_ns = p->whole.node_ns;
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
    add_update(p, engine, parameters, sums, n);
    p->phases[p->n_phases++].update = p->graph->n_nodes;
    QN_TRY(qn_graph_finish(p->graph));
    return keep_name(p, "update");
}

/* Graph, plan and values of the budget's plan. */
static void refer(qn_program *p) {
    const qn_value *last = p->budget.origins.last, hyper = p->built.hyper;
    p->graph = p->budget.graph;
    p->plan = p->budget.plan;
    for (int i = 0; i < p->n_inputs; i++)
        p->inputs[i] = last[p->built.inputs[i].id];
    for (int i = 0; i < p->n_losses; i++)
        p->losses[i] = last[p->built.losses[i].id];
    p->hyper = hyper.id < 0 ? QN_NO_VALUE : last[hyper.id];
}

void qn_program_take(qn_program *p, qn_budget_plan *made) {
    memcpy(p->built.inputs, p->inputs, sizeof p->inputs);
    memcpy(p->built.losses, p->losses, sizeof p->losses);
    p->built.hyper = p->hyper;
    p->base = p->graph;
    p->budget = *made;
    refer(p);
    *made = (qn_budget_plan){0};
}

void qn_program_exchange(qn_program *p, qn_budget_plan *plan, qn_executor **executor) {
    const qn_budget_plan old_plan = p->budget;
    qn_executor *old_executor = p->executor;
    p->budget = *plan;
    p->executor = *executor;
    *plan = old_plan;
    *executor = old_executor;
    refer(p);
}

void qn_program_unplan(qn_program *p) {
    qn_executor_destroy(p->executor);
    p->executor = NULL;
    if (!p->base) {
        qn_plan_destroy(p->plan);
        p->plan = NULL;
        return;
    }
    qn_budget_plan_deinit(&p->budget);
    p->plan = NULL;
    p->graph = p->base;
    p->base = NULL;
    memcpy(p->inputs, p->built.inputs, sizeof p->inputs);
    memcpy(p->losses, p->built.losses, sizeof p->losses);
    p->hyper = p->built.hyper;
}

const qn_graph *qn_program_built_graph(const qn_program *p) {
    return p->base ? p->base : p->graph;
}

int32_t qn_program_built_node(const qn_program *p, int32_t node) {
    return p->base ? p->budget.origins.node_of[node] : node;
}

void qn_program_deinit(qn_program *p) {
    qn_program_unplan(p);
    qn_program_unsplit(p);
    qn_graph_destroy(p->graph);
    *p = (qn_program){.hyper = QN_NO_VALUE};
}

void qn_program_bind(qn_program *p, const qn_store *store) {
    for (int v = 0; v < p->graph->n_values; v++) {
        const qn_value_info *info = p->graph->values[v];
        const qn_stored_tensor *tensor =
            info->producer < 0 && info->space == 0 ? qn_store_find(store, info->name) : NULL;
        if (tensor)
            qn_executor_bind(p->executor, (qn_value){v}, tensor->data);
        else if (info->lent) /* calls take inputs as they take outputs, and do not write to them */
            qn_executor_bind(p->executor, (qn_value){v}, (void *)(uintptr_t)info->lent);
    }
}

qn_status qn_program_check_lent(const qn_program *p) {
    for (int v = 0; v < p->graph->n_values; v++) {
        const void *lent = p->graph->values[v]->lent;
        if (lent)
            QN_TRY(qn_file_map_check_same(lent));
    }
    return QN_OK;
}
