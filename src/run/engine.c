/* The engine: programs run over one store of parameters, in one arena. What its options ask for
 * beside that are policies (run/policy.h). */
#include "run/engine.h"

#include "base/options.h"
#include "base/status.h"
#include "base/text.h"
#include "os/heap.h"
#include "os/os.h"
#include "run/guard/guard.h"
#include "run/inspect.h"
#include "run/optimizer.h"
#include "run/policy.h"
#include "tensor/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

qn_update_options qn_update_options_for(const qn_model *model) {
    QN_NEED_OR(model, "model", (qn_update_options){0});
    const qn_recipe *r = &model->recipe;
    return (qn_update_options){
        .optimizer = r->optimizer,
        .rate = r->rate,
        .momentum = r->momentum,
        .weight_decay = r->weight_decay,
        .nesterov = r->nesterov,
        .beta1 = r->beta1,
        .schedule = r->schedule,
        .warmup = r->warmup,
        .clip_norm = r->clip_norm,
    };
}

/* ---- options ---- */

static qn_status check_range(const char *what, double value, double least, double below) {
    if (value >= least && value < below)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT, "%s is %g; it must be at least %g and below %g", what, value,
                   least, below);
}

static qn_status check_update(const qn_update_options *o) {
    const double large = 1e15;
    QN_TRY(check_range("learning rate", o->rate, 0, large));
    QN_TRY(check_range("momentum", o->momentum, 0, 1));
    QN_TRY(check_range("weight decay", o->weight_decay, 0, large));
    QN_TRY(check_range("beta1", o->beta1, 0, 1));
    QN_TRY(check_range("beta2", o->beta2, 0, 1));
    QN_TRY(check_range("warm-up", (double)o->warmup, 0, large));
    QN_TRY(check_range("schedule steps", (double)o->schedule_steps, 0, large));
    QN_TRY(check_range("clipping norm", o->clip_norm, 0, large));
    QN_TRY(check_range("accumulated batches", (double)o->accumulate, 1, 1e9));
    if (o->nesterov && o->momentum <= 0)
        return qn_fail(QN_ERROR_ARGUMENT, "nesterov needs a momentum above 0");
    return QN_OK;
}

/* A model of watts, and what it is asked for. */
static qn_status check_core_wish(const qn_core_wish *w) {
    const double most = 1e6;
    QN_TRY(check_range("power of a core", w->core_watts, 0, most));
    QN_TRY(check_range("power of the idle machine", w->idle_watts, 0, most));
    QN_TRY(check_range("ceiling of power", w->most_watts, 0, most));
    if (w->prefer < QN_PREFER_TIME || w->prefer > QN_PREFER_BALANCED)
        return qn_fail(QN_ERROR_ARGUMENT, "cores are chosen for time, energy or both");
    if ((w->prefer != QN_PREFER_TIME || w->most_watts > 0) && w->core_watts <= 0)
        return qn_fail(QN_ERROR_ARGUMENT, "energy and power need the watts of a core that works");
    if (w->most_watts > 0 && w->most_watts < w->idle_watts + w->core_watts)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%g W are too few: the machine takes %g W with one core; give at least that",
                       w->most_watts, w->idle_watts + w->core_watts);
    return QN_OK;
}

static qn_status check_options(const qn_engine_options *o) {
    if (o->real != QN_F32 && o->real != QN_F64)
        return qn_fail(QN_ERROR_ARGUMENT, "the real type must be QN_F32 or QN_F64");
    QN_TRY(check_update(&o->update));
    QN_TRY(check_range("micro-batch", (double)o->micro_batch, 0, 1e9));
    QN_TRY(check_range("frames a second", o->foreground_hz, 0, 1e4));
    QN_TRY(check_core_wish(&o->core_wish));
    return check_range("number of threads", o->n_threads, 1, QN_MAX_THREADS + 1);
}

static void fill_defaults(qn_engine_options *o) {
    qn_update_options *u = &o->update;
    o->real = o->real ? o->real : QN_F32;
    o->n_threads = o->n_threads ? o->n_threads : qn_cpu_count();
    u->beta1 = u->beta1 > 0 ? u->beta1 : 0.9;
    u->beta2 = u->beta2 > 0 ? u->beta2 : 0.999;
    u->epsilon = u->epsilon > 0 ? u->epsilon : 1e-8;
    u->accumulate = u->accumulate ? u->accumulate : 1;
}

/* No more than the ceiling of power allows. */
static int count_threads(const qn_engine_options *o) {
    const qn_core_wish *w = &o->core_wish;
    const double n = w->most_watts > 0 ? (w->most_watts - w->idle_watts) / w->core_watts : 1e6;
    return n < o->n_threads ? (int)n : o->n_threads;
}

/* ---- making ---- */

static bool is_first_training(const qn_engine *e, int index) {
    bool is = e->programs[index].training;
    for (int i = 0; i < index; i++)
        is &= !e->programs[i].training;
    return is;
}

static qn_status make_program(qn_engine *e, int index, const qn_program_options *options) {
    const uint32_t kept = 1u << QN_KIND_PARAMETER | 1u << QN_KIND_STATE;
    qn_program *p = &e->programs[index];
    QN_TRY(qn_program_build(p, options, &e->options));
    if (p->training && e->options.micro_batch > 0)
        QN_TRY(qn_program_split(p, &e->machine, e->options.micro_batch));
    else if (is_first_training(e, index))
        QN_TRY(qn_policies_build(e, p));
    QN_TRY(qn_store_add_graph(&e->store, p->graph, kept, e->options.seed));
    if (!p->training || e->options.update.accumulate == 1 || e->update.graph)
        return QN_OK;
    QN_TRY(qn_program_build_update(&e->update, &e->options, p->graph));
    QN_TRY(qn_store_add_graph(&e->store, e->update.graph, kept, e->options.seed));
    return qn_store_add_graph(&e->sums, e->update.graph, 1u << QN_KIND_GRADIENT, 0);
}

/* Of an array whose structs may be of another size than ours. */
static qn_status take_program(qn_engine *e, int index, const qn_program_options *programs) {
    const char *place = (const char *)programs + (size_t)index * programs->size;
    qn_program_options options;
    QN_TRY(QN_OPTIONS_TAKE(qn_program_options, place, &options));
    return make_program(e, index, &options);
}

qn_status qn_engine_make_executor(qn_engine *e, qn_program *p) {
    QN_TRY(qn_executor_create(&e->allocator, p->graph, p->plan, &e->machine, e->team, NULL,
                              &p->executor));
    qn_program_bind(p, &e->store);
    qn_program_bind(p, &e->sums);
    if (p->hyper.id >= 0)
        qn_executor_bind(p->executor, p->hyper, e->memory.hyper);
    qn_guard_mark(e, p);
    return QN_OK;
}

/* Bytes of an input's copy. */
static size_t copy_bytes(const qn_program *p, int input) {
    const size_t bytes = qn_tensor_bytes(qn_graph_tensor(p->graph, p->inputs[input]));
    return (bytes + QN_ALIGNMENT - 1) / QN_ALIGNMENT * QN_ALIGNMENT;
}

static size_t update_bytes(const qn_engine *e) {
    return e->update.plan ? e->update.plan->arena_bytes : 0;
}

/* Memory of a run, which an engine that only plans counts. Runs write it before they read it. */
static qn_status allocate_planned(qn_engine *e, size_t bytes, void *memory) {
    if (!e->options.plan_only)
        return qn_allocate_unset(&e->shared, 1, bytes, memory);
    e->memory.planned_bytes += bytes;
    return QN_OK;
}

/* What is there before the plans. */
static qn_status allocate_buffers(qn_engine *e) {
    for (int i = 0; i < e->n_programs; i++) {
        size_t bytes = 0;
        for (int input = 0; input < e->programs[i].n_inputs; input++)
            bytes += copy_bytes(&e->programs[i], input);
        e->memory.copy_bytes = bytes > e->memory.copy_bytes ? bytes : e->memory.copy_bytes;
    }
    if (e->options.aligned_inputs && !qn_engine_shares(e))
        e->memory.copy_bytes = 0;
    if (e->options.plan_only)
        e->memory.planned_bytes += e->store.block_bytes + e->sums.block_bytes;
    QN_TRY(qn_guard_create(e));
    QN_TRY(qn_allocate(&e->shared, QN_HYPER_COUNT, sizeof(double), &e->memory.hyper));
    return allocate_planned(e, e->memory.copy_bytes, &e->memory.copies);
}

static qn_status make(qn_engine *e, const qn_program_options *programs) {
    qn_isa isa;
    QN_TRY(qn_cpu_isa(&isa));
    e->machine = qn_machine_of_isa(isa, e->options.n_threads);
    QN_TRY(qn_policies_create(e));
    QN_TRY(qn_team_create(&e->allocator, e->options.n_threads, &e->team));
    e->store.team = e->sums.team = e->team;
    QN_TRY(qn_allocate(&e->allocator, (size_t)e->n_programs, sizeof *e->programs, &e->programs));
    for (int i = 0; i < e->n_programs; i++)
        QN_TRY(take_program(e, i, programs));
    return allocate_buffers(e);
}

/* Not more than the budget has is taken before it is planned. */
static qn_status make_within(qn_engine *e, const qn_program_options *programs, bool *is_refused) {
    QN_TRY(check_options(&e->options));
    e->options.n_threads = count_threads(&e->options);
    qn_counter_set_limit(&e->counter, e->options.plan_only ? 0 : e->options.memory_budget_bytes);
    const qn_status status = make(e, programs);
    qn_counter_set_limit(&e->counter, 0);
    *is_refused = e->counter.n_refused > 0;
    return status;
}

static qn_status open_arenas(qn_engine *e) {
    bool is_taken;
    QN_TRY(qn_policies_take_arena(e, &is_taken));
    if (!is_taken)
        QN_TRY(allocate_planned(e, e->memory.arena_bytes, &e->memory.arena));
    QN_TRY(allocate_planned(e, update_bytes(e), &e->memory.update_arena));
    for (int i = 0; i < e->n_programs; i++)
        qn_executor_set_arena(e->programs[i].executor, e->memory.arena);
    if (e->update.executor)
        qn_executor_set_arena(e->update.executor, e->memory.update_arena);
    return QN_OK;
}

qn_status qn_engine_plan(qn_engine *e, size_t outside_bytes) {
    QN_NEED(e, "engine");
    if (e->planning.is_done)
        return qn_fail(QN_ERROR_ARGUMENT, "this engine has been planned already");
    if (e->options.budget_changes && e->options.saved_plan)
        return qn_fail(QN_ERROR_UNSUPPORTED, "a plan from a file is fixed, so its budget cannot "
                                             "change; use either a plan file or a changing budget");
    QN_TRY(qn_policies_prepare(e));
    e->memory.outside_bytes = outside_bytes + qn_policies_reserve(e);
    QN_TRY(qn_engine_make_plans(e));
    QN_TRY(qn_policies_open(e));
    QN_TRY(open_arenas(e));
    e->planning.is_done = true;
    return qn_policies_start(e);
}

static qn_status create(const qn_engine_options *options, const qn_program_options *programs,
                        int n_programs, qn_engine **engine, bool *is_refused) {
    const qn_allocator *below = qn_allocator_or_default(options->allocator);
    qn_engine *e;
    QN_TRY(qn_allocate(below, 1, sizeof *e, &e));
    e->allocator = qn_counter_init(&e->counter, below);
    e->options = *options;
    fill_defaults(&e->options);
    e->run.n_forks = qn_fork_count();
    e->options.allocator = &e->allocator;
    e->n_programs = n_programs;
    qn_store_init(&e->store, &e->allocator);
    qn_store_init(&e->sums, &e->allocator);
    e->shared = qn_engine_shared(e);
    e->store.data_allocator = e->sums.data_allocator = &e->shared;
    e->store.plan_only = e->sums.plan_only = options->plan_only;
    e->store.no_random_values = options->no_random_values;
    qn_status status = make_within(e, programs, is_refused);
    if (status == QN_OK && !options->plan_later)
        status = qn_engine_plan(e, 0);
    if (status != QN_OK) {
        qn_engine_destroy(e);
        return status;
    }
    *engine = e;
    return QN_OK;
}

qn_status qn_budget_refuse(const qn_engine_options *options, qn_status (*plan)(void *context),
                           void *context) {
    char given[QN_SIZE_TEXT];
    if (plan && !options->no_least)
        QN_TRY(plan(context));
    return qn_fail(QN_ERROR_MEMORY, "a budget of %s is too small; lower --batch",
                   qn_text_print_size(options->memory_budget_bytes, given));
}

/* What an engine is made of. */
typedef struct making {
    const qn_engine_options *options;
    const qn_program_options *programs;
    int n_programs;
} making;

static qn_status plan_only(void *context) {
    const making *m = context;
    qn_engine_options options = *m->options;
    bool is_refused;
    qn_engine *engine;
    options.plan_only = true;
    QN_TRY(create(&options, m->programs, m->n_programs, &engine, &is_refused));
    qn_engine_destroy(engine);
    return QN_OK;
}

qn_status qn_engine_make(const qn_engine_options *options, const qn_program_options *programs,
                         int n_programs, qn_engine **engine) {
    bool is_refused = false;
    if (n_programs < 1)
        return qn_fail(QN_ERROR_ARGUMENT, "an engine needs a program");
    making m = {options, programs, n_programs};
    const qn_status status = create(options, programs, n_programs, engine, &is_refused);
    return status == QN_ERROR_MEMORY && is_refused
               ? qn_budget_refuse(options, options->plan_later ? NULL : plan_only, &m)
               : status;
}

qn_status qn_engine_create(const qn_engine_options *options, const qn_program_options *programs,
                           int n_programs, qn_engine **engine) {
    QN_NEED(options, "options");
    QN_NEED(programs, "programs");
    QN_NEED(engine, "engine");
    qn_engine_options taken;
    QN_TRY(QN_OPTIONS_TAKE(qn_engine_options, options, &taken));
    return qn_engine_make(&taken, programs, n_programs, engine);
}

void qn_engine_destroy(qn_engine *e) {
    if (!e)
        return;
    qn_policies_stop(e);
    qn_release(&e->shared, e->memory.update_arena, 1, update_bytes(e));
    for (int i = 0; e->programs && i < e->n_programs; i++)
        qn_program_deinit(&e->programs[i]);
    qn_program_deinit(&e->update);
    qn_release(&e->allocator, e->programs, (size_t)e->n_programs, sizeof *e->programs);
    qn_store_deinit(&e->store);
    qn_store_deinit(&e->sums);
    qn_release(&e->shared, e->memory.arena, 1, e->memory.arena_bytes);
    qn_release(&e->shared, e->memory.hyper, QN_HYPER_COUNT, sizeof(double));
    qn_release(&e->shared, e->memory.copies, 1, e->memory.copy_bytes);
    qn_release(&e->allocator, e->planning.text.to, 1, e->planning.text.bytes);
    qn_guard_destroy(e);
    qn_policies_destroy(e);
    qn_team_destroy(e->team);
    const qn_allocator *below = e->counter.below;
    qn_release(below, e, 1, sizeof *e);
}

const qn_engine_options *qn_engine_get_options(const qn_engine *engine) {
    QN_NEED_OR(engine, "engine", NULL);
    return &engine->options;
}

/* ---- running ---- */

/* Inputs where kernels may read them; others are copied. */
static qn_status bind_inputs(qn_engine *e, qn_program *p, const void *const *inputs) {
    char *copy = e->memory.copies;
    for (int i = 0; i < p->n_inputs; i++) {
        void *memory = (void *)(uintptr_t)inputs[i];
        if (!memory)
            return qn_fail(QN_ERROR_ARGUMENT, "input %s is null",
                           qn_graph_value(p->graph, p->inputs[i])->name);
        if ((uintptr_t)memory % QN_ALIGNMENT != 0 || qn_engine_shares(e)) {
            if (!e->memory.copies)
                return qn_fail(QN_ERROR_ARGUMENT,
                               "input %s is not aligned to %d bytes; align it, or create the "
                               "engine without aligned_inputs",
                               qn_graph_value(p->graph, p->inputs[i])->name, QN_ALIGNMENT);
            memcpy(copy, memory, qn_tensor_bytes(qn_graph_tensor(p->graph, p->inputs[i])));
            memory = copy;
        }
        qn_executor_bind(p->executor, p->inputs[i], memory);
        copy += copy_bytes(p, i);
    }
    return QN_OK;
}

static qn_status check_reals(qn_engine *e, const qn_value_info *info, const void *data) {
    const qn_shape shape = info->tensor.shape;
    const qn_dtype dtype = info->tensor.dtype;
    const int64_t n = qn_shape_count(shape);
    if (qn_numbers_are_moderate(dtype, data, n))
        return QN_OK;
    const int64_t bad = qn_numbers_find_bad(dtype, data, n, !e->run.refuses_infinite);
    if (bad == n) {
        e->guard.has_large_inputs |= e->run.refuses_infinite; /* else it may be a mask */
        return QN_OK;
    }
    const int64_t rows = shape.rank > 0 ? shape.dims[0] : 1;
    return qn_fail(QN_ERROR_ARGUMENT,
                   "sample %lld of the batch has %g in its %s; nothing was changed: leave the "
                   "sample out, or put a number there",
                   (long long)(bad / (n / rows)), qn_number_get(dtype, data, bad), info->name);
}

/* A number that is none would be in every parameter after the step, which updates while it runs.
 * Ranks find out by the loss, all at once, and only their update changes parameters. */
static qn_status check_inputs(qn_engine *e, const qn_program *p, const void *const *inputs) {
    e->guard.has_large_inputs = false;
    for (int i = 0; i < p->n_inputs && !qn_policies_can_undo(e); i++) {
        const qn_value_info *info = qn_graph_value(p->graph, p->inputs[i]);
        const bool has_reals = info->tensor.dtype == QN_F32 || info->tensor.dtype == QN_F64;
        if (has_reals && inputs[i])
            QN_TRY(check_reals(e, info, inputs[i]));
    }
    return QN_OK;
}

static void fill_hyper(qn_engine *e) {
    double values[QN_HYPER_COUNT];
    qn_optimizer_fill(&e->options.update, e->run.steps, values);
    for (int i = 0; i < QN_HYPER_COUNT; i++) {
        if (e->options.real == QN_F64)
            ((double *)e->memory.hyper)[i] = values[i];
        else
            ((float *)e->memory.hyper)[i] = (float)values[i];
    }
}

qn_status qn_engine_check_loss(const qn_engine *e, const qn_program *p, int i) {
    const void *memory = qn_executor_get(p->executor, p->losses[i]);
    const double loss =
        e->options.real == QN_F64 ? *(const double *)memory : (double)*(const float *)memory;
    if (isfinite(loss))
        return QN_OK;
    return qn_fail(QN_ERROR_NUMERIC,
                   "step %lld: the loss is %g; lower the learning rate (set to %g, at this "
                   "step %g), or clip gradients",
                   (long long)e->run.steps + 1, loss, e->options.update.rate, qn_engine_rate(e));
}

static bool is_stopped(const qn_engine *e) {
    return e->run.stop && __atomic_load_n(e->run.stop, __ATOMIC_ACQUIRE) != 0;
}

static qn_status run_on_cpu(qn_engine *e, int program, uint64_t step, const qn_watch *watch) {
    const qn_program *p = qn_engine_get_program(e, program);
    const int32_t end = p->plan->n_steps;
    int32_t next = 0;
    if (qn_guard_covers(e, p))
        return qn_guard_run(e, p, step, watch);
    const bool is_update = p->training || program == QN_PROGRAM_UPDATE;
    const int *stop = e->run.may_spoil || !is_update ? e->run.stop : NULL;
    const qn_status status =
        qn_executor_run_from(p->executor, &next, end, stop, e->options.seed, step, watch);
    if (stop && is_stopped(e) && (status != QN_OK || next < end))
        return qn_fail(QN_ERROR_INTERRUPTED, "stopped between two operations");
    return status;
}

static qn_status run_plan(qn_engine *e, int program, uint64_t step, const qn_watch *watch) {
    const qn_program *p = qn_engine_get_program(e, program);
    const qn_policy *policy = qn_policies_that_runs(e, program);
    const bool is_checked = !policy && qn_guard_covers(e, p);
    QN_TRY(policy ? policy->run(e, program, step, watch) : run_on_cpu(e, program, step, watch));
    return is_checked ? QN_OK : qn_program_check_lent(p);
}

static qn_status run_guarded(qn_engine *e, int program, uint64_t step, const qn_watch *watch) {
    const qn_program *p = qn_engine_get_program(e, program);
    if (!p->training || program == QN_PROGRAM_UPDATE || qn_policies_can_undo(e))
        return run_plan(e, program, step, watch);
    qn_status status = qn_guard_begin(e, p, step);
    if (status == QN_OK)
        status = run_plan(e, program, step, watch);
    return qn_guard_end(e, p, status, &e->run.is_spoiled);
}

/* Runs a program and records it. */
static qn_status run_watched(qn_engine *e, int program, uint64_t step) {
    qn_event event = {.program = (int16_t)program, .step = (int32_t)(e->run.steps & INT32_MAX)};
    const qn_watch watch = {e->run.events, event};
    event.kind = QN_EVENT_RUN;
    event.item = -1;
    event.begin_ns = qn_clock_ns();
    const qn_status status = run_guarded(e, program, step, &watch);
    event.end_ns = qn_clock_ns();
    qn_events_put(e->run.events, event.thread, &event);
    return status;
}

static qn_status run(qn_engine *e, int program, uint64_t step) {
    const qn_program *p = qn_engine_get_program(e, program);
    const qn_status status = e->run.events
                                 ? run_watched(e, program, step)
                                 : run_guarded(e, program, step, qn_policies_watch(e, program));
    if (status != QN_OK && p->training && !qn_policies_can_undo(e) && e->run.is_spoiled)
        return qn_fail_within(status,
                              "step %lld failed after it had changed some parameters, which are "
                              "now invalid; continue from a checkpoint",
                              (long long)e->run.steps + 1);
    return status;
}

static qn_status finish_step(qn_engine *e) {
    QN_TRY(qn_policies_finish_step(e));
    if (e->options.update.accumulate > 1) {
        QN_TRY(qn_guard_check_sums(e));
        QN_TRY(run(e, QN_PROGRAM_UPDATE, (uint64_t)e->run.steps));
        QN_TRY(qn_guard_check_update(e));
        for (int i = 0; i < e->sums.n_tensors; i++)
            memset(e->sums.tensors[i].data, 0, e->sums.tensors[i].bytes);
    }
    e->run.steps++;
    e->run.n_accumulated = 0;
    return QN_OK;
}

/* A batch, or one of every rank. */
static qn_status run_batch(qn_engine *e, int program) {
    const int64_t accumulate = e->options.update.accumulate;
    QN_TRY(run(e, program, (uint64_t)(e->run.steps * accumulate + e->run.n_accumulated)));
    qn_policies_end_run(e, program);
    e->run.n_accumulated += qn_policies_batches(e);
    return e->run.n_accumulated == accumulate ? finish_step(e) : QN_OK;
}

/* A forked child has none of the threads that would work. */
static qn_status check_process(const qn_engine *e) {
    if (e->run.n_forks == qn_fork_count())
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT, "this engine was created before the process forked, and its "
                                      "threads do not exist in the child; create one in the child");
}

qn_status qn_engine_run(qn_engine *e, int program, const void *const *inputs) {
    QN_NEED(e, "engine");
    QN_NEED(inputs, "inputs");
    QN_DEMAND(program >= 0 && program < e->n_programs);
    QN_TRY(check_process(e));
    qn_program *p = &e->programs[program];
    if (e->options.plan_only)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "this engine only plans; create one without plan_only");
    if (!e->planning.is_done)
        return qn_fail(QN_ERROR_ARGUMENT, "this engine has no plan yet; call qn_engine_plan");
    if (p->training)
        QN_TRY(check_inputs(e, p, inputs));
    QN_TRY(qn_policies_begin_run(e, program));
    QN_TRY(bind_inputs(e, p, inputs));
    if (!p->training)
        return run(e, program, 0);
    fill_hyper(e);
    e->run.is_spoiled = true; /* unless the guard says otherwise */
    const qn_status status = run_batch(e, program);
    e->run.is_spoiled = status != QN_OK && !qn_policies_can_undo(e) &&
                        (e->run.is_spoiled || !qn_guard_are_finite(e));
    if (status != QN_OK && qn_policies_can_undo(e)) {
        qn_policies_undo_step(e);
        e->run.n_accumulated = 0;
    }
    return status;
}

const void *qn_engine_result(const qn_engine *e, int program, int index) {
    QN_NEED_OR(e, "engine", NULL);
    QN_DEMAND_OR(program >= 0 && program < e->n_programs && e->planning.is_done, NULL);
    const qn_program *p = &e->programs[program];
    QN_DEMAND_OR(index >= 0 && index < p->graph->n_results, NULL);
    return qn_executor_get(p->executor, p->graph->results[index]);
}

qn_shape qn_engine_result_shape(const qn_engine *e, int program, int index) {
    QN_NEED_OR(e, "engine", (qn_shape){0});
    QN_DEMAND_OR(program >= 0 && program < e->n_programs, (qn_shape){0});
    const qn_graph *graph = e->programs[program].graph;
    QN_DEMAND_OR(index >= 0 && index < graph->n_results, (qn_shape){0});
    return qn_graph_shape(graph, graph->results[index]);
}

/* ---- looking in ---- */

int qn_engine_program_count(const qn_engine *engine) {
    return engine->n_programs;
}

const qn_program *qn_engine_get_program(const qn_engine *engine, int program) {
    return program == QN_PROGRAM_UPDATE ? &engine->update : &engine->programs[program];
}

const qn_machine *qn_engine_get_machine(const qn_engine *engine) {
    return &engine->machine;
}

void qn_engine_tell(const qn_engine *e, int level, const char *text) {
    if (e->options.log && e->options.log->write)
        e->options.log->write(e->options.log->user, level, text);
}

void qn_engine_stop_on(qn_engine *engine, const int *stop, bool may_spoil) {
    engine->run.stop = stop;
    engine->run.may_spoil = may_spoil;
}

void qn_engine_watch(qn_engine *engine, qn_events *events) {
    engine->run.events = events;
    (void)qn_team_watch(engine->team, events);
}

int qn_engine_input_count(const qn_engine *engine, int program) {
    QN_NEED_OR(engine, "engine", 0);
    QN_DEMAND_OR(program >= 0 && program < engine->n_programs, 0);
    return engine->programs[program].n_inputs;
}

qn_engine_input qn_engine_input_at(const qn_engine *engine, int program, int index) {
    QN_NEED_OR(engine, "engine", (qn_engine_input){0});
    QN_DEMAND_OR(program >= 0 && program < engine->n_programs, (qn_engine_input){0});
    const qn_program *p = &engine->programs[program];
    QN_DEMAND_OR(index >= 0 && index < p->n_inputs, (qn_engine_input){0});
    const qn_value_info *info = qn_graph_value(p->graph, p->inputs[index]);
    return (qn_engine_input){info->name, info->tensor.dtype, info->tensor.shape,
                             qn_tensor_bytes(info->tensor)};
}

int64_t qn_engine_steps(const qn_engine *engine) {
    QN_NEED_OR(engine, "engine", 0);
    return engine->run.steps;
}

int64_t qn_engine_accumulated(const qn_engine *engine) {
    QN_NEED_OR(engine, "engine", 0);
    return engine->run.n_accumulated;
}

bool qn_engine_is_sound(const qn_engine *engine) {
    QN_NEED_OR(engine, "engine", false);
    return engine && !engine->run.is_spoiled;
}

void qn_engine_set_steps(qn_engine *engine, int64_t steps) {
    QN_NEED_OR(engine, "engine", );
    QN_DEMAND_OR(steps >= 0, );
    engine->run.is_spoiled = false;
    engine->run.steps = steps;
}

double qn_engine_rate(const qn_engine *engine) {
    QN_NEED_OR(engine, "engine", 0);
    return qn_optimizer_rate(&engine->options.update, engine->run.steps);
}

bool qn_engine_has_rate(const qn_engine *engine) {
    QN_NEED_OR(engine, "engine", false);
    for (int i = 0; i < engine->n_programs; i++)
        if (qn_engine_get_program(engine, i)->hyper.id >= 0)
            return true;
    return engine->update.graph && engine->update.hyper.id >= 0;
}

int qn_engine_tensor_count(const qn_engine *engine) {
    QN_NEED_OR(engine, "engine", 0);
    return engine->store.n_tensors;
}

/* Somebody is about to look at what the tensors hold, and may change it. The engine looks the same
 * from outside. */
static void bring_up_to_date(const qn_engine *engine) {
    qn_engine *e = (qn_engine *)(uintptr_t)engine;
    if (qn_policies_fetch(e) != QN_OK)
        e->run.is_spoiled = true;
    e->guard.is_unseen = true;
}

qn_stored_tensor qn_engine_tensor_at(const qn_engine *engine, int index) {
    QN_NEED_OR(engine, "engine", (qn_stored_tensor){0});
    QN_DEMAND_OR(index >= 0 && index < engine->store.n_tensors, (qn_stored_tensor){0});
    bring_up_to_date(engine);
    return engine->store.tensors[index];
}

qn_stored_tensor qn_engine_find(const qn_engine *engine, const char *name) {
    QN_NEED_OR(engine, "engine", (qn_stored_tensor){0});
    QN_NEED_OR(name, "name", (qn_stored_tensor){0});
    bring_up_to_date(engine);
    const qn_stored_tensor *found = qn_store_find(&engine->store, name);
    return found ? *found : (qn_stored_tensor){.name = NULL};
}

qn_status qn_engine_add_state(qn_engine *engine, const char *name, qn_dtype dtype, qn_shape shape,
                              void **data) {
    QN_NEED(engine, "engine");
    QN_NEED(name, "name");
    QN_NEED(data, "data");
    const size_t before = engine->store.block_bytes;
    QN_TRY(qn_store_add(&engine->store, name, dtype, shape, data));
    engine->memory.planned_bytes +=
        engine->options.plan_only ? engine->store.block_bytes - before : 0;
    return QN_OK;
}

qn_memory_use qn_engine_get_memory(const qn_engine *e) {
    QN_NEED_OR(e, "engine", (qn_memory_use){0});
    qn_memory_use use = {
        .held_bytes = sizeof *e + qn_counter_held(&e->counter),
        .peak_bytes = __atomic_load_n(&e->counter.peak_bytes, __ATOMIC_RELAXED),
        .mapped_bytes = e->memory.mapped_bytes,
        .parameter_bytes = e->store.bytes,
        .arena_bytes = e->memory.arena_bytes,
        .planned_bytes = e->memory.planned_bytes,
    };
    if (e->planning.is_done)
        qn_plan_peak_by_kind(e->programs[0].plan, use.kind_bytes);
    return use;
}

const qn_allocator *qn_engine_allocator(const qn_engine *engine) {
    QN_NEED_OR(engine, "engine", NULL);
    return &engine->allocator;
}

static void put_line(void *context, const char *line) {
    qn_engine_text *t = context;
    const size_t length = strlen(line);
    if (t->full_bytes + length + 1 < t->bytes) {
        memcpy(t->to + t->full_bytes, line, length);
        t->to[t->full_bytes + length] = '\n';
    }
    t->full_bytes += length + 1;
}

const char *qn_engine_print_plan(qn_engine *e, int program) {
    QN_NEED_OR(e, "engine", NULL);
    QN_DEMAND_OR(program >= 0 && program < e->n_programs && e->programs[program].plan, NULL);
    const qn_program *p = &e->programs[program];
    qn_engine_text printed = {0};
    qn_release(&e->allocator, e->planning.text.to, 1, e->planning.text.bytes);
    e->planning.text = printed;
    qn_plan_print(p->plan, p->graph, &e->machine, put_line, &printed);
    printed.bytes = printed.full_bytes + 1;
    printed.full_bytes = 0;
    if (qn_allocate(&e->allocator, 1, printed.bytes, &printed.to) != QN_OK)
        return NULL;
    qn_plan_print(p->plan, p->graph, &e->machine, put_line, &printed);
    e->planning.text = printed;
    return e->planning.text.to;
}
