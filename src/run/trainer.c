/* The trainer: its programs over one store of parameters, run on batches. */
#include "quern/trainer.h"

#include "base/status.h"
#include "run/optimizer.h"
#include "run/program.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Invariants: 0 <= n_accumulated < options.accumulate; every program's outside values are bound
 * to store, sums, hyper or, during a run, to the batch. */
struct qn_trainer {
    qn_counter counter;
    qn_allocator allocator; /* counts in counter */
    qn_trainer_options options;
    qn_team *team;
    const qn_kernels *kernels;
    qn_store store; /* parameters and optimiser state */
    qn_store sums;  /* of gradients, where batches are accumulated */
    qn_program training, update, evaluation;
    void *arena;
    size_t arena_bytes;
    void *hyper;  /* (QN_HYPER_COUNT) */
    void *input;  /* copy of a batch that is not aligned */
    void *labels; /* likewise */
    size_t input_bytes, label_bytes;
    int64_t steps, n_accumulated;
    double loss_sum;   /* of the accumulated batches */
    int64_t n_correct; /* likewise */
    char *plan_text;
    size_t plan_text_bytes;
};

qn_trainer_options qn_trainer_options_for(const qn_model *model) {
    return (qn_trainer_options){
        .model = model,
        .input = model->input,
        .batch = model->recipe.batch,
        .optimizer = model->recipe.optimizer,
        .rate = model->recipe.rate,
        .momentum = model->recipe.momentum,
        .weight_decay = model->recipe.weight_decay,
        .nesterov = model->recipe.nesterov,
        .schedule = model->recipe.schedule,
        .warmup = model->recipe.warmup,
        .label_smoothing = model->recipe.label_smoothing,
    };
}

static qn_status check_range(const char *what, double value, double least, double below) {
    if (value >= least && value < below)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT, "%s is %g; it must be at least %g and below %g", what, value,
                   least, below);
}

static qn_status check_options(const qn_trainer_options *o) {
    const double large = 1e15;
    if (!o->model || !o->model->build)
        return qn_fail(QN_ERROR_ARGUMENT, "a trainer needs a model with a build function");
    if (o->real != QN_F32 && o->real != QN_F64)
        return qn_fail(QN_ERROR_ARGUMENT, "the trainer's type must be QN_F32 or QN_F64");
    if (o->input.rank < 1 || o->input.rank >= QN_MAX_RANK)
        return qn_fail(QN_ERROR_ARGUMENT, "the input's rank is %d; it must be 1 to %d",
                       o->input.rank, QN_MAX_RANK - 1);
    QN_TRY(check_range("batch", (double)o->batch, 1, 1e9));
    QN_TRY(check_range("evaluation batch", (double)o->evaluation_batch, 1, 1e9));
    QN_TRY(check_range("number of outputs", o->n_outputs, 1, 1e9));
    QN_TRY(check_range("learning rate", o->rate, 0, large));
    QN_TRY(check_range("momentum", o->momentum, 0, 1));
    QN_TRY(check_range("weight decay", o->weight_decay, 0, large));
    QN_TRY(check_range("beta1", o->beta1, 0, 1));
    QN_TRY(check_range("beta2", o->beta2, 0, 1));
    QN_TRY(check_range("warm-up", (double)o->warmup, 0, large));
    QN_TRY(check_range("schedule steps", (double)o->schedule_steps, 0, large));
    QN_TRY(check_range("clipping norm", o->clip_norm, 0, large));
    QN_TRY(check_range("accumulated batches", (double)o->accumulate, 1, 1e9));
    QN_TRY(check_range("label smoothing", o->label_smoothing, 0, 1));
    if (o->nesterov && o->momentum <= 0)
        return qn_fail(QN_ERROR_ARGUMENT, "nesterov needs a momentum above 0");
    return check_range("number of threads", o->n_threads, 1, QN_MAX_THREADS + 1);
}

static void fill_defaults(qn_trainer_options *o) {
    o->real = o->real ? o->real : QN_F32;
    if (o->input.rank == 0 && o->model)
        o->input = o->model->input;
    if (o->n_outputs == 0 && o->model)
        o->n_outputs = qn_model_classes(o->model, o->input);
    o->evaluation_batch = o->evaluation_batch ? o->evaluation_batch : o->batch;
    o->beta1 = o->beta1 > 0 ? o->beta1 : 0.9;
    o->beta2 = o->beta2 > 0 ? o->beta2 : 0.999;
    o->epsilon = o->epsilon > 0 ? o->epsilon : 1e-8;
    o->accumulate = o->accumulate ? o->accumulate : 1;
    o->n_threads = o->n_threads ? o->n_threads : qn_cpu_count();
}

static qn_status make_plan(qn_trainer *t, qn_program *p) {
    QN_TRY(qn_plan_create(&t->allocator, p->graph, t->kernels, qn_team_size(t->team), &p->plan));
    if (p->plan->arena_bytes > t->arena_bytes)
        t->arena_bytes = p->plan->arena_bytes;
    return QN_OK;
}

static qn_status make_executor(qn_trainer *t, qn_program *p) {
    QN_TRY(qn_executor_create(&t->allocator, p->graph, p->plan, t->kernels, t->team, t->arena,
                              &p->executor));
    qn_program_bind(p, &t->store);
    qn_program_bind(p, &t->sums);
    if (p->hyper.id >= 0)
        qn_executor_bind(p->executor, p->hyper, t->hyper);
    return QN_OK;
}

static qn_status build_programs(qn_trainer *t) {
    const uint32_t kept = 1u << QN_KIND_PARAMETER | 1u << QN_KIND_STATE;
    QN_TRY(qn_program_build_training(&t->training, &t->options));
    QN_TRY(qn_program_build_evaluation(&t->evaluation, &t->options));
    QN_TRY(qn_store_add_graph(&t->store, t->training.graph, kept, t->options.seed));
    QN_TRY(make_plan(t, &t->training));
    QN_TRY(make_plan(t, &t->evaluation));
    if (t->options.accumulate == 1)
        return QN_OK;
    QN_TRY(qn_program_build_update(&t->update, &t->options, t->training.graph));
    QN_TRY(qn_store_add_graph(&t->store, t->update.graph, kept, t->options.seed));
    QN_TRY(qn_store_add_graph(&t->sums, t->update.graph, 1u << QN_KIND_GRADIENT, 0));
    return make_plan(t, &t->update);
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static size_t value_bytes(const qn_program *p, qn_value value) {
    return qn_tensor_bytes(qn_graph_tensor(p->graph, value));
}

static qn_status allocate_buffers(qn_trainer *t) {
    t->input_bytes = larger(value_bytes(&t->training, t->training.x),
                            value_bytes(&t->evaluation, t->evaluation.x));
    t->label_bytes = larger(value_bytes(&t->training, t->training.y),
                            value_bytes(&t->evaluation, t->evaluation.y));
    QN_TRY(qn_allocate(&t->allocator, QN_HYPER_COUNT, sizeof(double), &t->hyper));
    QN_TRY(qn_allocate(&t->allocator, 1, t->input_bytes, &t->input));
    QN_TRY(qn_allocate(&t->allocator, 1, t->label_bytes, &t->labels));
    return qn_allocate(&t->allocator, 1, t->arena_bytes, &t->arena);
}

static qn_status make(qn_trainer *t) {
    qn_isa isa;
    QN_TRY(qn_cpu_isa(&isa));
    t->kernels = qn_kernels_get(t->options.real, isa);
    QN_TRY(qn_team_create(&t->allocator, t->options.n_threads, &t->team));
    QN_TRY(build_programs(t));
    QN_TRY(allocate_buffers(t));
    QN_TRY(make_executor(t, &t->training));
    QN_TRY(make_executor(t, &t->evaluation));
    return t->update.graph ? make_executor(t, &t->update) : QN_OK;
}

qn_status qn_trainer_create(const qn_trainer_options *options, qn_trainer **trainer) {
    qn_trainer_options filled = *options;
    fill_defaults(&filled);
    QN_TRY(check_options(&filled));
    const qn_allocator *below = qn_allocator_or_default(options->allocator);
    qn_trainer *t;
    QN_TRY(qn_allocate(below, 1, sizeof *t, &t));
    t->allocator = qn_counter_init(&t->counter, below);
    t->options = filled;
    t->options.allocator = &t->allocator;
    qn_store_init(&t->store, &t->allocator);
    qn_store_init(&t->sums, &t->allocator);
    qn_status status = make(t);
    if (status != QN_OK) {
        qn_trainer_destroy(t);
        return status;
    }
    *trainer = t;
    return QN_OK;
}

void qn_trainer_destroy(qn_trainer *t) {
    if (!t)
        return;
    qn_program_deinit(&t->training);
    qn_program_deinit(&t->update);
    qn_program_deinit(&t->evaluation);
    qn_store_deinit(&t->store);
    qn_store_deinit(&t->sums);
    qn_release(&t->allocator, t->arena, 1, t->arena_bytes);
    qn_release(&t->allocator, t->hyper, QN_HYPER_COUNT, sizeof(double));
    qn_release(&t->allocator, t->input, 1, t->input_bytes);
    qn_release(&t->allocator, t->labels, 1, t->label_bytes);
    qn_release(&t->allocator, t->plan_text, 1, t->plan_text_bytes);
    qn_team_destroy(t->team);
    const qn_allocator *below = t->counter.below;
    qn_release(below, t, 1, sizeof *t);
}

const qn_trainer_options *qn_trainer_get_options(const qn_trainer *trainer) {
    return &trainer->options;
}

/* ---- running ---- */

/* memory itself if kernels may read it, else its copy. */
static void *align(const void *memory, void *copy, size_t bytes) {
    if ((uintptr_t)memory % QN_ALIGNMENT == 0)
        return (void *)(uintptr_t)memory;
    memcpy(copy, memory, bytes);
    return copy;
}

static void bind_batch(qn_trainer *t, qn_program *p, const void *x, const void *y) {
    qn_executor_bind(p->executor, p->x, align(x, t->input, value_bytes(p, p->x)));
    qn_executor_bind(p->executor, p->y, align(y, t->labels, value_bytes(p, p->y)));
}

static double real_at(const qn_trainer *t, const void *memory, int64_t i) {
    return t->options.real == QN_F64 ? ((const double *)memory)[i] : ((const float *)memory)[i];
}

static qn_status check_labels(const qn_trainer *t, const int32_t *labels, int64_t n) {
    for (int64_t i = 0; !t->options.regression && i < n; i++) {
        if (labels[i] >= t->options.n_outputs)
            return qn_fail(QN_ERROR_ARGUMENT,
                           "sample %lld of the batch is of class %d, but the model has classes 0 "
                           "to %d; make it with more outputs",
                           (long long)i, labels[i], t->options.n_outputs - 1);
    }
    return QN_OK;
}

/* How many of the first n rows of outputs are largest at their label. */
static int64_t count_correct(const qn_trainer *t, const void *outputs, const int32_t *labels,
                             int64_t n) {
    const int64_t n_classes = t->options.n_outputs;
    int64_t n_correct = 0;
    for (int64_t i = 0; !t->options.regression && i < n; i++) {
        int64_t best = 0;
        for (int64_t c = 1; c < n_classes; c++) {
            if (real_at(t, outputs, i * n_classes + c) > real_at(t, outputs, i * n_classes + best))
                best = c;
        }
        n_correct += best == labels[i];
    }
    return n_correct;
}

static void fill_hyper(qn_trainer *t) {
    double values[QN_HYPER_COUNT];
    qn_optimizer_fill(&t->options, t->steps, values);
    for (int i = 0; i < QN_HYPER_COUNT; i++) {
        if (t->options.real == QN_F64)
            ((double *)t->hyper)[i] = values[i];
        else
            ((float *)t->hyper)[i] = (float)values[i];
    }
}

static void finish_step(qn_trainer *t) {
    const uint64_t step = (uint64_t)t->steps;
    if (t->options.accumulate > 1) {
        qn_executor_run(t->update.executor, t->options.seed, step);
        for (int i = 0; i < t->sums.n_tensors; i++)
            memset(t->sums.tensors[i].data, 0, t->sums.tensors[i].bytes);
    }
    t->steps++;
    t->n_accumulated = 0;
    t->loss_sum = 0;
    t->n_correct = 0;
}

qn_status qn_trainer_step(qn_trainer *t, const void *x, const void *y, qn_step_result *result) {
    const qn_trainer_options *o = &t->options;
    QN_TRY(check_labels(t, y, o->batch));
    fill_hyper(t);
    bind_batch(t, &t->training, x, y);
    qn_executor_run(t->training.executor, o->seed,
                    (uint64_t)(t->steps * o->accumulate + t->n_accumulated));
    const double loss = real_at(t, qn_executor_get(t->training.executor, t->training.loss), 0);
    if (!isfinite(loss))
        return qn_fail(QN_ERROR_NUMERIC,
                       "step %lld: the loss is %g; lower the learning rate (now %g), or clip "
                       "gradients",
                       (long long)t->steps + 1, loss, qn_optimizer_rate(o, t->steps));
    t->loss_sum += loss;
    t->n_correct +=
        count_correct(t, qn_executor_get(t->training.executor, t->training.outputs), y, o->batch);
    t->n_accumulated++;
    *result = (qn_step_result){
        .step = t->steps,
        .completed = t->n_accumulated == o->accumulate,
        .loss = t->loss_sum / (double)t->n_accumulated,
        .accuracy = (double)t->n_correct / (double)(t->n_accumulated * o->batch),
        .rate = qn_optimizer_rate(o, t->steps),
    };
    if (result->completed) {
        finish_step(t);
        result->step = t->steps;
    }
    return QN_OK;
}

qn_status qn_trainer_evaluate(qn_trainer *t, const void *x, const void *y, int64_t n_valid,
                              qn_evaluation *sum) {
    qn_program *p = &t->evaluation;
    if (n_valid < 0 || n_valid > t->options.evaluation_batch)
        return qn_fail(QN_ERROR_ARGUMENT, "%lld valid samples in an evaluation batch of %lld",
                       (long long)n_valid, (long long)t->options.evaluation_batch);
    QN_TRY(check_labels(t, y, n_valid));
    bind_batch(t, p, x, y);
    qn_executor_run(p->executor, t->options.seed, 0);
    const void *losses = qn_executor_get(p->executor, p->losses);
    for (int64_t i = 0; i < n_valid; i++)
        sum->loss_sum += real_at(t, losses, i);
    sum->n_correct += count_correct(t, qn_executor_get(p->executor, p->outputs), y, n_valid);
    sum->n_samples += n_valid;
    return QN_OK;
}

qn_status qn_trainer_predict(qn_trainer *t, const void *x, void *outputs) {
    qn_program *p = &t->evaluation;
    qn_value value = t->options.regression ? p->outputs : p->chances;
    memset(t->labels, 0, t->label_bytes);
    bind_batch(t, p, x, t->labels);
    qn_executor_run(p->executor, t->options.seed, 0);
    memcpy(outputs, qn_executor_get(p->executor, value), value_bytes(p, value));
    return QN_OK;
}

/* ---- looking in ---- */

int64_t qn_trainer_steps(const qn_trainer *trainer) {
    return trainer->steps;
}

void qn_trainer_set_steps(qn_trainer *trainer, int64_t steps) {
    trainer->steps = steps;
}

int qn_trainer_tensor_count(const qn_trainer *trainer) {
    return trainer->store.n_tensors;
}

qn_trainer_tensor qn_trainer_tensor_at(const qn_trainer *trainer, int index) {
    return trainer->store.tensors[index];
}

qn_trainer_memory qn_trainer_get_memory(const qn_trainer *t) {
    qn_trainer_memory memory = {
        .peak_bytes = t->counter.peak_bytes,
        .parameter_bytes = t->store.bytes,
        .arena_bytes = t->arena_bytes,
    };
    qn_plan_peak_by_kind(t->training.plan, memory.kind_bytes);
    return memory;
}

const qn_allocator *qn_trainer_allocator(const qn_trainer *trainer) {
    return &trainer->allocator;
}

/* A text that grows; full_bytes counts on when there is no room. */
typedef struct text {
    char *to;
    size_t bytes, full_bytes;
} text;

static void put_line(void *context, const char *line) {
    text *t = context;
    const size_t length = strlen(line);
    if (t->full_bytes + length + 1 < t->bytes) {
        memcpy(t->to + t->full_bytes, line, length);
        t->to[t->full_bytes + length] = '\n';
    }
    t->full_bytes += length + 1;
}

const char *qn_trainer_print_plan(qn_trainer *t) {
    text counted = {0};
    qn_plan_print(t->training.plan, t->training.graph, put_line, &counted);
    if (!t->plan_text) {
        if (qn_allocate(&t->allocator, 1, counted.full_bytes + 1, &t->plan_text) != QN_OK)
            return NULL;
        t->plan_text_bytes = counted.full_bytes + 1;
        text written = {t->plan_text, t->plan_text_bytes, 0};
        qn_plan_print(t->training.plan, t->training.graph, put_line, &written);
    }
    return t->plan_text;
}
