/* See memory_subject.h. */
#include "memory_subject.h"

#include "base/rng.h"
#include "base/status.h"
#include "device/disk.h"
#include "os/heap.h"
#include "os/os.h"
#include "os/team.h"
#include "plan/baselines.h"
#include "run/optimizer.h"
#include "run/trainer.h"
#include "tasks/tasks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the graph ---- */

/* The options as an engine completes them. */
static qn_engine_options engine_options(const qn_model *model, int n_threads) {
    qn_engine_options o = {QN_OPTIONS_INIT(qn_engine_options),
                           .allocator = qn_allocator_default(),
                           .real = QN_F32,
                           .update = qn_update_options_for(model),
                           .n_threads = n_threads > 0 ? n_threads : qn_cpu_count(),
                           .seed = 1};
    o.update.accumulate = 1;
    o.update.beta1 = o.update.beta1 > 0 ? o.update.beta1 : 0.9;
    o.update.beta2 = 0.999;
    o.update.epsilon = 1e-8;
    o.update.warmup = 0;
    o.update.rate = 1e-5; /* nothing overflows in hundreds of steps on one batch */
    return o;
}

static qn_status build_classifier(qn_subject *s, int64_t batch, int64_t size, qn_program *program) {
    qn_trainer_options options = qn_trainer_options_for(s->model);
    qn_program_options programs[QN_TRAINER_PROGRAMS];
    options.real = QN_F32;
    options.input = s->model->input;
    for (int i = 0; size > 0 && i < 2 && options.input.rank == 3; i++)
        options.input.dims[i] = size;
    options.n_outputs = qn_model_classes(s->model, options.input);
    options.batch = options.evaluation_batch = batch;
    qn_trainer_describe(&options, programs);
    return qn_program_build(program, &programs[QN_TRAINER_TRAINING], &s->engine);
}

static qn_status build_network(qn_subject *s, int64_t batch, qn_program *program) {
    qn_task_network network = {s->model, s->model->sizes};
    qn_program_options options = {QN_OPTIONS_INIT(qn_program_options), .training = true,
                                  .n_phases = s->model->n_phases, .user = &network,
                                  .build = qn_task_build};
    network.sizes.batch = batch;
    memcpy(options.trained, s->model->trained, sizeof options.trained);
    return qn_program_build(program, &options, &s->engine);
}

static qn_status build(qn_subject *s, int64_t batch, int64_t size, qn_program *program) {
    return s->model->network ? build_network(s, batch, program)
                             : build_classifier(s, batch, size, program);
}

static qn_status measure_unplanned(qn_subject *s, int64_t batch, int64_t size) {
    qn_program program = {0};
    s->engine.no_fusion = true;
    qn_status status = build(s, batch, size, &program);
    s->engine.no_fusion = false;
    if (status == QN_OK)
        status = qn_baseline_unplanned(s->engine.allocator, program.graph, &s->unplanned);
    qn_program_deinit(&program);
    return status;
}

static size_t workspace_of(const qn_subject *s, const qn_node *node) {
    qn_tensor outputs[QN_MAX_OUTPUTS];
    const qn_query query = qn_machine_query(s->program.graph, node, s->machine.n_threads, outputs);
    return qn_machine_workspace(&s->machine, 0, &query);
}

/* By the roofline of a middling processor, until they are measured. */
static qn_status estimate(qn_subject *s) {
    const size_t n_nodes = (size_t)s->program.graph->n_nodes;
    const qn_speed speed = {0};
    QN_TRY(qn_allocate(s->engine.allocator, n_nodes, sizeof *s->node_ns, &s->node_ns));
    QN_TRY(qn_allocate(s->engine.allocator, n_nodes, sizeof *s->workspace, &s->workspace));
    for (int n = 0; n < s->program.graph->n_nodes; n++) {
        s->node_ns[n] = qn_estimate_ns(s->program.graph, n, &speed);
        s->workspace[n] = workspace_of(s, s->program.graph->nodes[n]);
    }
    return QN_OK;
}

static void add_fixed(qn_subject *s) {
    for (int v = 0; v < s->program.graph->n_values; v++) {
        const qn_value_info *info = s->program.graph->values[v];
        if (info->producer < 0 && (info->kind == QN_KIND_PARAMETER || info->kind == QN_KIND_STATE))
            s->fixed_bytes += qn_tensor_bytes(info->tensor);
    }
}

static qn_status open_subject(qn_subject *s, int64_t batch, int64_t size) {
    qn_isa isa;
    int row;
    QN_TRY(qn_cpu_isa(&isa));
    s->machine = qn_machine_of_isa(isa, s->engine.n_threads);
    QN_TRY(qn_machine_add(&s->machine, &qn_device_disk, NULL, &row));
    QN_TRY(measure_unplanned(s, batch, size));
    QN_TRY(build(s, batch, size, &s->program));
    add_fixed(s);
    QN_TRY(qn_team_create(s->engine.allocator, s->engine.n_threads, &s->team));
    QN_TRY(estimate(s));
    return qn_sequence_base(s->engine.allocator, s->program.graph, &s->base);
}

qn_status qn_subject_open(qn_subject *s, const char *model, int64_t batch, int64_t size,
                          int n_threads) {
    *s = (qn_subject){.model = qn_model_find(model)};
    if (!s->model)
        return QN_ERROR_ARGUMENT;
    s->engine = engine_options(s->model, n_threads);
    qn_store_init(&s->store, s->engine.allocator);
    const qn_status status = open_subject(s, batch, size);
    if (status != QN_OK)
        qn_subject_close(s);
    return status;
}

static size_t input_bytes(const qn_subject *s, int i) {
    const size_t bytes = qn_tensor_bytes(qn_graph_tensor(s->program.graph, s->program.inputs[i]));
    return (bytes + QN_ALIGNMENT - 1) / QN_ALIGNMENT * QN_ALIGNMENT;
}

void qn_subject_close(qn_subject *s) {
    const qn_allocator *a = s->engine.allocator;
    const size_t n_nodes = s->program.graph ? (size_t)s->program.graph->n_nodes : 0;
    for (int i = 0; s->inputs && i < s->program.n_inputs; i++)
        qn_release(a, s->inputs[i], 1, input_bytes(s, i));
    qn_release(a, s->inputs, (size_t)s->program.n_inputs, sizeof *s->inputs);
    qn_release(a, s->hyper, QN_HYPER_COUNT, sizeof(double));
    qn_release(a, s->node_ns, n_nodes, sizeof *s->node_ns);
    qn_release(a, s->workspace, n_nodes, sizeof *s->workspace);
    if (s->base.allocator)
        qn_sequence_deinit(&s->base);
    qn_store_deinit(&s->store);
    qn_team_destroy(s->team);
    qn_program_deinit(&s->program);
    *s = (qn_subject){0};
}

/* ---- its memory ---- */

/* Numbers for an input: normal ones; lengths that use all of a sentence; of classes and words the
 * first two. */
static void fill_input(const qn_subject *s, int i) {
    const qn_value_info *info = qn_graph_value(s->program.graph, s->program.inputs[i]);
    const qn_rng rng = qn_rng_make(1, qn_hash_text(info->name), 0);
    const int64_t n = qn_shape_count(info->tensor.shape);
    const bool is_length = strstr(info->name, "lengths") != NULL;
    const qn_shape first = qn_graph_shape(s->program.graph, s->program.inputs[0]);
    for (int64_t k = 0; k < n; k++) {
        if (info->tensor.dtype == QN_I32)
            ((int32_t *)s->inputs[i])[k] = is_length ? (int32_t)first.dims[1] : (int32_t)(k % 2);
        else
            ((float *)s->inputs[i])[k] = (float)qn_rng_normal(rng, (uint64_t)k);
    }
}

qn_status qn_subject_fill(qn_subject *s) {
    const qn_allocator *a = s->engine.allocator;
    double values[QN_HYPER_COUNT];
    QN_TRY(qn_allocate(a, QN_HYPER_COUNT, sizeof(double), &s->hyper));
    QN_TRY(qn_allocate(a, (size_t)s->program.n_inputs, sizeof *s->inputs, &s->inputs));
    for (int i = 0; i < s->program.n_inputs; i++) {
        QN_TRY(qn_allocate(a, 1, input_bytes(s, i), &s->inputs[i]));
        fill_input(s, i);
    }
    qn_optimizer_fill(&s->engine.update, 0, values);
    for (int i = 0; i < QN_HYPER_COUNT; i++)
        ((float *)s->hyper)[i] = (float)values[i];
    return qn_subject_restart(s);
}

qn_status qn_subject_restart(qn_subject *s) {
    const uint32_t kept = 1u << QN_KIND_PARAMETER | 1u << QN_KIND_STATE;
    qn_store_deinit(&s->store);
    qn_store_init(&s->store, s->engine.allocator);
    return qn_store_add_graph(&s->store, s->program.graph, kept, s->engine.seed);
}

/* Mixes eight bytes at a time: xor and multiply, as FNV does with single ones. */
uint64_t qn_subject_hash(const qn_subject *s, bool *is_finite) {
    uint64_t hash = 14695981039346656037u;
    *is_finite = true;
    for (int i = 0; i < s->store.n_tensors; i++) {
        const qn_stored_tensor *t = &s->store.tensors[i];
        for (size_t k = 0; k + 4 <= t->bytes; k += 4) {
            uint32_t word;
            float number;
            memcpy(&word, (const char *)t->data + k, 4);
            memcpy(&number, &word, 4);
            *is_finite = *is_finite && isfinite(number);
            hash = (hash ^ word) * 1099511628211u;
        }
    }
    return hash;
}

/* ---- runs ---- */

/* The value of a plan's graph that one of ours has become. */
static qn_value moved(const qn_budget_plan *plan, qn_value value) {
    return plan->origins.first[value.id];
}

static void bind(qn_subject *s, qn_subject_run *run) {
    const qn_graph *graph = run->plan->graph;
    for (int v = 0; v < graph->n_values; v++) {
        const qn_value_info *info = graph->values[v];
        const qn_stored_tensor *tensor =
            info->producer < 0 ? qn_store_find(&s->store, info->name) : NULL;
        if (tensor)
            qn_executor_bind(run->executor, (qn_value){v}, tensor->data);
    }
    for (int i = 0; i < s->program.n_inputs; i++) {
        if (moved(run->plan, s->program.inputs[i]).id >= 0)
            qn_executor_bind(run->executor, moved(run->plan, s->program.inputs[i]), s->inputs[i]);
    }
    if (s->program.hyper.id >= 0)
        qn_executor_bind(run->executor, moved(run->plan, s->program.hyper), s->hyper);
}

qn_status qn_subject_prepare(qn_subject *s, const qn_budget_plan *plan, void *arena,
                             qn_subject_run *run) {
    const int space = qn_machine_disk(&s->machine);
    const qn_disk_options options = {s->swap_folder, qn_plan_arena(plan->plan, space).bytes, 2};
    *run = (qn_subject_run){.plan = plan, .machine = s->machine};
    if (options.bytes > 0 && !s->swap_folder)
        return qn_fail(QN_ERROR_ARGUMENT, "a plan that swaps needs a folder");
    if (options.bytes > 0)
        QN_TRY(qn_device_disk.open(s->engine.allocator, &options, &run->disk));
    run->machine.devices[s->machine.spaces[space].device].state = run->disk;
    return qn_executor_create(s->engine.allocator, plan->graph, plan->plan, &run->machine, s->team,
                              arena, &run->executor);
}

void qn_subject_finish(qn_subject_run *run) {
    qn_executor_destroy(run->executor);
    qn_device_disk.close(run->disk);
    *run = (qn_subject_run){.plan = NULL};
}

/* Parameters lie elsewhere after a restart, so they are bound each time. */
qn_status qn_subject_step(qn_subject *s, qn_subject_run *run, int64_t step) {
    bind(s, run);
    return qn_executor_run(run->executor, s->engine.seed, (uint64_t)step, NULL);
}

qn_status qn_subject_wait(qn_subject *s, qn_subject_run *run, int64_t step, double *waited_ns) {
    qn_events *events;
    qn_event event;
    const qn_plan *plan = run->plan->plan;
    QN_TRY(qn_events_create(s->engine.allocator, s->engine.n_threads, (size_t)plan->n_steps + 1,
                            &events));
    const qn_watch watch = {events, {.program = 0}};
    bind(s, run);
    const qn_status status = qn_executor_run(run->executor, s->engine.seed, (uint64_t)step, &watch);
    int64_t ended_ns = INT64_MAX;
    *waited_ns = 0;
    while (qn_events_take(events, 0, &event, 1) == 1) {
        int32_t n_waits;
        qn_plan_waits(plan, event.item, &n_waits);
        if (n_waits > 0 && event.begin_ns > ended_ns)
            *waited_ns += (double)(event.begin_ns - ended_ns);
        ended_ns = event.end_ns;
    }
    qn_events_destroy(events);
    return status;
}

static int by_ns(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Times of a step's operations, into times[step of the plan * n_steps + round]. */
static qn_status watch_step(qn_subject *s, qn_subject_run *run, qn_events *events, double *times,
                            int round, int n_rounds) {
    const qn_watch watch = {events, {.program = 0}};
    qn_event event;
    bind(s, run);
    QN_TRY(qn_executor_run(run->executor, s->engine.seed, (uint64_t)round, &watch));
    while (qn_events_take(events, 0, &event, 1) == 1)
        times[(int64_t)event.item * n_rounds + round] = (double)(event.end_ns - event.begin_ns);
    return QN_OK;
}

qn_status qn_subject_profile(qn_subject *s, qn_subject_run *base, int n_rounds) {
    const qn_allocator *a = s->engine.allocator;
    const qn_plan *plan = base->plan->plan;
    const size_t n_times = (size_t)plan->n_steps * (size_t)n_rounds;
    qn_events *events = NULL;
    double *times = NULL;
    qn_status status = qn_allocate(a, n_times, sizeof *times, &times);
    if (status == QN_OK)
        status = qn_events_create(a, s->engine.n_threads, (size_t)plan->n_steps + 1, &events);
    if (status == QN_OK)
        status = qn_subject_step(s, base, 0);
    for (int i = 0; status == QN_OK && i < n_rounds; i++)
        status = watch_step(s, base, events, times, i, n_rounds);
    for (int32_t i = 0; status == QN_OK && i < plan->n_steps; i++) {
        double *of = times + (size_t)i * (size_t)n_rounds;
        qsort(of, (size_t)n_rounds, sizeof *of, by_ns);
        const int32_t node = base->plan->origins.node_of[plan->steps[i].node];
        if (node >= 0)
            s->node_ns[node] = of[n_rounds / 2];
    }
    qn_events_destroy(events);
    qn_release(a, times, n_times, sizeof *times);
    return status;
}

qn_policy_problem qn_subject_problem(const qn_subject *s, const qn_swap_speed *swap) {
    return (qn_policy_problem){.allocator = s->engine.allocator,
                               .graph = s->program.graph,
                               .base = &s->base,
                               .node_ns = s->node_ns,
                               .workspace = s->workspace,
                               .swap = swap};
}
