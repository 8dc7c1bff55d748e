/* The engine: programs run over one store of parameters, in one arena. */
#include "quern/engine.h"

#include "base/status.h"
#include "run/optimizer.h"
#include "run/program.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A text that is printed once and kept. */
typedef struct text {
    char *to;
    size_t bytes, full_bytes; /* full_bytes counts on when there is no room */
} text;

/* Invariants: 0 <= n_accumulated < options.update.accumulate; every program's outside values are
 * bound to store, sums, hyper or, during a run, to its inputs. */
struct qn_engine {
    qn_counter counter;
    qn_allocator allocator; /* counts in counter */
    qn_engine_options options;
    qn_team *team;
    const qn_kernels *kernels;
    qn_store store; /* parameters and state */
    qn_store sums;  /* of gradients, where batches are accumulated */
    int n_programs;
    qn_program *programs; /* (n_programs) */
    qn_program update;    /* from the sums */
    void *arena;
    size_t arena_bytes;
    void *update_arena; /* of its own: results of the batch before it outlive the update */
    void *hyper;        /* (QN_HYPER_COUNT) */
    char *copies;       /* of inputs that are not aligned, one behind the other */
    size_t copy_bytes;
    int64_t steps, n_accumulated;
    text plan_text;
};

qn_update_options qn_update_options_for(const qn_model *model) {
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

static qn_status check_options(const qn_engine_options *o) {
    if (o->real != QN_F32 && o->real != QN_F64)
        return qn_fail(QN_ERROR_ARGUMENT, "the real type must be QN_F32 or QN_F64");
    QN_TRY(check_update(&o->update));
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

/* ---- making ---- */

static qn_status make_plan(qn_engine *e, qn_program *p) {
    QN_TRY(qn_plan_create(&e->allocator, p->graph, e->kernels, qn_team_size(e->team), &p->plan));
    if (p->plan->arena_bytes > e->arena_bytes)
        e->arena_bytes = p->plan->arena_bytes;
    return QN_OK;
}

static qn_status make_program(qn_engine *e, int index, const qn_program_options *options) {
    const uint32_t kept = 1u << QN_KIND_PARAMETER | 1u << QN_KIND_STATE;
    qn_program *p = &e->programs[index];
    QN_TRY(qn_program_build(p, options, &e->options));
    QN_TRY(qn_store_add_graph(&e->store, p->graph, kept, e->options.seed));
    QN_TRY(make_plan(e, p));
    if (!p->training || e->options.update.accumulate == 1 || e->update.graph)
        return QN_OK;
    QN_TRY(qn_program_build_update(&e->update, &e->options, p->graph));
    QN_TRY(qn_store_add_graph(&e->store, e->update.graph, kept, e->options.seed));
    QN_TRY(qn_store_add_graph(&e->sums, e->update.graph, 1u << QN_KIND_GRADIENT, 0));
    return qn_plan_create(&e->allocator, e->update.graph, e->kernels, qn_team_size(e->team),
                          &e->update.plan);
}

static qn_status make_executor(qn_engine *e, qn_program *p, void *arena) {
    QN_TRY(qn_executor_create(&e->allocator, p->graph, p->plan, e->kernels, e->team, arena,
                              &p->executor));
    qn_program_bind(p, &e->store);
    qn_program_bind(p, &e->sums);
    if (p->hyper.id >= 0)
        qn_executor_bind(p->executor, p->hyper, e->hyper);
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

static qn_status allocate_buffers(qn_engine *e) {
    for (int i = 0; i < e->n_programs; i++) {
        size_t bytes = 0;
        for (int input = 0; input < e->programs[i].n_inputs; input++)
            bytes += copy_bytes(&e->programs[i], input);
        e->copy_bytes = bytes > e->copy_bytes ? bytes : e->copy_bytes;
    }
    QN_TRY(qn_allocate(&e->allocator, QN_HYPER_COUNT, sizeof(double), &e->hyper));
    QN_TRY(qn_allocate(&e->allocator, 1, e->copy_bytes, &e->copies));
    QN_TRY(qn_allocate(&e->allocator, 1, update_bytes(e), &e->update_arena));
    return qn_allocate(&e->allocator, 1, e->arena_bytes, &e->arena);
}

static qn_status make(qn_engine *e, const qn_program_options *programs) {
    qn_isa isa;
    QN_TRY(qn_cpu_isa(&isa));
    e->kernels = qn_kernels_get(e->options.real, isa);
    QN_TRY(qn_team_create(&e->allocator, e->options.n_threads, &e->team));
    QN_TRY(qn_allocate(&e->allocator, (size_t)e->n_programs, sizeof *e->programs, &e->programs));
    for (int i = 0; i < e->n_programs; i++)
        QN_TRY(make_program(e, i, &programs[i]));
    QN_TRY(allocate_buffers(e));
    for (int i = 0; i < e->n_programs; i++)
        QN_TRY(make_executor(e, &e->programs[i], e->arena));
    return e->update.graph ? make_executor(e, &e->update, e->update_arena) : QN_OK;
}

qn_status qn_engine_create(const qn_engine_options *options, const qn_program_options *programs,
                           int n_programs, qn_engine **engine) {
    qn_engine_options filled = *options;
    const qn_allocator *below = qn_allocator_or_default(options->allocator);
    qn_engine *e;
    fill_defaults(&filled);
    QN_TRY(check_options(&filled));
    if (n_programs < 1)
        return qn_fail(QN_ERROR_ARGUMENT, "an engine needs a program");
    QN_TRY(qn_allocate(below, 1, sizeof *e, &e));
    e->allocator = qn_counter_init(&e->counter, below);
    e->options = filled;
    e->options.allocator = &e->allocator;
    e->n_programs = n_programs;
    qn_store_init(&e->store, &e->allocator);
    qn_store_init(&e->sums, &e->allocator);
    qn_status status = make(e, programs);
    if (status != QN_OK) {
        qn_engine_destroy(e);
        return status;
    }
    *engine = e;
    return QN_OK;
}

void qn_engine_destroy(qn_engine *e) {
    if (!e)
        return;
    qn_release(&e->allocator, e->update_arena, 1, update_bytes(e));
    for (int i = 0; e->programs && i < e->n_programs; i++)
        qn_program_deinit(&e->programs[i]);
    qn_program_deinit(&e->update);
    qn_release(&e->allocator, e->programs, (size_t)e->n_programs, sizeof *e->programs);
    qn_store_deinit(&e->store);
    qn_store_deinit(&e->sums);
    qn_release(&e->allocator, e->arena, 1, e->arena_bytes);
    qn_release(&e->allocator, e->hyper, QN_HYPER_COUNT, sizeof(double));
    qn_release(&e->allocator, e->copies, 1, e->copy_bytes);
    qn_release(&e->allocator, e->plan_text.to, 1, e->plan_text.bytes);
    qn_team_destroy(e->team);
    const qn_allocator *below = e->counter.below;
    qn_release(below, e, 1, sizeof *e);
}

const qn_engine_options *qn_engine_get_options(const qn_engine *engine) {
    return &engine->options;
}

/* ---- running ---- */

/* Inputs where kernels may read them; others are copied. */
static void bind_inputs(qn_engine *e, qn_program *p, const void *const *inputs) {
    char *copy = e->copies;
    for (int i = 0; i < p->n_inputs; i++) {
        void *memory = (void *)(uintptr_t)inputs[i];
        if ((uintptr_t)memory % QN_ALIGNMENT != 0) {
            memcpy(copy, memory, qn_tensor_bytes(qn_graph_tensor(p->graph, p->inputs[i])));
            memory = copy;
        }
        qn_executor_bind(p->executor, p->inputs[i], memory);
        copy += copy_bytes(p, i);
    }
}

static void fill_hyper(qn_engine *e) {
    double values[QN_HYPER_COUNT];
    qn_optimizer_fill(&e->options.update, e->steps, values);
    for (int i = 0; i < QN_HYPER_COUNT; i++) {
        if (e->options.real == QN_F64)
            ((double *)e->hyper)[i] = values[i];
        else
            ((float *)e->hyper)[i] = (float)values[i];
    }
}

static qn_status check_losses(const qn_engine *e, const qn_program *p) {
    for (int i = 0; i < p->n_losses; i++) {
        const void *memory = qn_executor_get(p->executor, p->losses[i]);
        const double loss =
            e->options.real == QN_F64 ? *(const double *)memory : (double)*(const float *)memory;
        if (!isfinite(loss))
            return qn_fail(QN_ERROR_NUMERIC,
                           "step %lld: the loss is %g; lower the learning rate (now %g), or clip "
                           "gradients",
                           (long long)e->steps + 1, loss, qn_engine_rate(e));
    }
    return QN_OK;
}

static void finish_step(qn_engine *e) {
    if (e->options.update.accumulate > 1) {
        qn_executor_run(e->update.executor, e->options.seed, (uint64_t)e->steps);
        for (int i = 0; i < e->sums.n_tensors; i++)
            memset(e->sums.tensors[i].data, 0, e->sums.tensors[i].bytes);
    }
    e->steps++;
    e->n_accumulated = 0;
}

qn_status qn_engine_run(qn_engine *e, int program, const void *const *inputs) {
    qn_program *p = &e->programs[program];
    const int64_t accumulate = e->options.update.accumulate;
    bind_inputs(e, p, inputs);
    if (!p->training) {
        qn_executor_run(p->executor, e->options.seed, 0);
        return QN_OK;
    }
    fill_hyper(e);
    qn_executor_run(p->executor, e->options.seed,
                    (uint64_t)(e->steps * accumulate + e->n_accumulated));
    QN_TRY(check_losses(e, p));
    if (++e->n_accumulated == accumulate)
        finish_step(e);
    return QN_OK;
}

const void *qn_engine_result(const qn_engine *e, int program, int index) {
    const qn_program *p = &e->programs[program];
    return qn_executor_get(p->executor, p->graph->results[index]);
}

qn_shape qn_engine_result_shape(const qn_engine *e, int program, int index) {
    const qn_graph *graph = e->programs[program].graph;
    return qn_graph_shape(graph, graph->results[index]);
}

/* ---- looking in ---- */

int qn_engine_input_count(const qn_engine *engine, int program) {
    return engine->programs[program].n_inputs;
}

qn_engine_input qn_engine_input_at(const qn_engine *engine, int program, int index) {
    const qn_program *p = &engine->programs[program];
    const qn_value_info *info = qn_graph_value(p->graph, p->inputs[index]);
    return (qn_engine_input){info->name, info->tensor.dtype, info->tensor.shape,
                             qn_tensor_bytes(info->tensor)};
}

int64_t qn_engine_steps(const qn_engine *engine) {
    return engine->steps;
}

int64_t qn_engine_accumulated(const qn_engine *engine) {
    return engine->n_accumulated;
}

void qn_engine_set_steps(qn_engine *engine, int64_t steps) {
    engine->steps = steps;
}

double qn_engine_rate(const qn_engine *engine) {
    return qn_optimizer_rate(&engine->options.update, engine->steps);
}

int qn_engine_tensor_count(const qn_engine *engine) {
    return engine->store.n_tensors;
}

qn_stored_tensor qn_engine_tensor_at(const qn_engine *engine, int index) {
    return engine->store.tensors[index];
}

qn_stored_tensor qn_engine_find(const qn_engine *engine, const char *name) {
    const qn_stored_tensor *found = qn_store_find(&engine->store, name);
    return found ? *found : (qn_stored_tensor){.name = NULL};
}

qn_status qn_engine_add_state(qn_engine *engine, const char *name, qn_dtype dtype, qn_shape shape,
                              void **data) {
    return qn_store_add(&engine->store, name, dtype, shape, data);
}

qn_memory_use qn_engine_get_memory(const qn_engine *e) {
    qn_memory_use use = {
        .peak_bytes = e->counter.peak_bytes,
        .parameter_bytes = e->store.bytes,
        .arena_bytes = e->arena_bytes,
    };
    qn_plan_peak_by_kind(e->programs[0].plan, use.kind_bytes);
    return use;
}

const qn_allocator *qn_engine_allocator(const qn_engine *engine) {
    return &engine->allocator;
}

static void put_line(void *context, const char *line) {
    text *t = context;
    const size_t length = strlen(line);
    if (t->full_bytes + length + 1 < t->bytes) {
        memcpy(t->to + t->full_bytes, line, length);
        t->to[t->full_bytes + length] = '\n';
    }
    t->full_bytes += length + 1;
}

const char *qn_engine_print_plan(qn_engine *e, int program) {
    const qn_program *p = &e->programs[program];
    text printed = {0};
    qn_release(&e->allocator, e->plan_text.to, 1, e->plan_text.bytes);
    e->plan_text = printed;
    qn_plan_print(p->plan, p->graph, put_line, &printed);
    printed.bytes = printed.full_bytes + 1;
    printed.full_bytes = 0;
    if (qn_allocate(&e->allocator, 1, printed.bytes, &printed.to) != QN_OK)
        return NULL;
    qn_plan_print(p->plan, p->graph, put_line, &printed);
    e->plan_text = printed;
    return e->plan_text.to;
}
