/* The kinds of tasks, and opening one. */
#include "tasks/tasks.h"

#include "base/memory.h"
#include "base/status.h"
#include "run/engine.h"

#include <math.h>
#include <string.h>

const qn_task_kind *const qn_task_kinds[] = {&qn_task_classification,
                                             &qn_task_language,
                                             &qn_task_generation,
                                             &qn_task_control,
                                             &qn_task_translation,
                                             &qn_task_answering,
                                             NULL};

static const qn_task_kind *find_kind(const char *name) {
    for (int i = 0; qn_task_kinds[i]; i++) {
        if (strcmp(qn_task_kinds[i]->name, name) == 0)
            return qn_task_kinds[i];
    }
    return NULL;
}

/* Bytes of a text in a checkpoint's header, where some characters are escaped. */
static size_t escaped_bytes(const char *text) {
    size_t n = 2;
    for (; *text; text++)
        n += (unsigned char)*text < ' ' ? 6 : *text == '"' || *text == '\\' ? 2 : 1;
    return n;
}

/* What a checkpoint takes to be written or read, at most: a list of its tensors, its pairs, and the
 * header's text, which grows by doubling. */
static size_t checkpoint_bytes(const qn_task *task) {
    enum { TENSOR_BYTES = 1024, GROWING = 3, LISTS_BYTES = 128 * 1024 };
    size_t text = 0, header = 0;
    for (int i = 0; task->settings && i < qn_metadata_count(task->settings); i++) {
        const char *key, *value;
        qn_metadata_at(task->settings, i, &key, &value);
        text += strlen(key) + strlen(value);
        header += escaped_bytes(key) + escaped_bytes(value);
    }
    return (size_t)qn_engine_tensor_count(task->engine) * TENSOR_BYTES + 2 * text +
           GROWING * header + LISTS_BYTES;
}

/* The engine's plans, now that all else is there. */
static qn_status plan(qn_task *task) {
    const size_t engine = qn_engine_get_memory(task->engine).held_bytes;
    const size_t held = sizeof *task + task->counter.held_bytes - engine;
    qn_engine_note_peak(task->engine,
                        sizeof *task + task->counter.peak_bytes + task->outside_bytes);
    return qn_engine_plan(task->engine, held + task->outside_bytes + task->reserve_bytes +
                                            checkpoint_bytes(task));
}

qn_status qn_task_open(const qn_task_options *options, qn_task **task) {
    const qn_allocator *allocator = qn_allocator_or_default(options->allocator);
    const char *name = qn_task_of(options->model);
    const qn_task_kind *kind = find_kind(name);
    qn_task *t;
    if (!kind)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "model %s is of the task %s, which is none of this "
                       "build's",
                       options->model->name, name);
    QN_TRY(qn_allocate(allocator, 1, sizeof *t, &t));
    *t = (qn_task){.kind = kind,
                   .log = options->log,
                   .model = options->model,
                   .settings = options->settings,
                   .training = options->training,
                   .plan_only = options->plan_only,
                   .no_fusion = options->no_fusion,
                   .tune = options->tune,
                   .budget_changes = options->budget_changes,
                   .wants_confusion = options->confusion,
                   .memory_budget_bytes = options->memory_budget_bytes,
                   .no_least = options->no_least,
                   .saved_plan = options->saved_plan,
                   .swap_folder = options->swap_folder,
                   .outside_bytes = options->memory_outside_bytes,
                   .n_threads = options->n_threads,
                   .micro_batch = options->micro_batch};
    t->counting = qn_counter_init(&t->counter, allocator);
    t->allocator = &t->counting;
    qn_status status = kind->open(t);
    if (status == QN_OK && options->on_built)
        status = options->on_built(options->user, t->engine);
    if (status == QN_OK)
        status = plan(t);
    if (status != QN_OK) {
        qn_task_close(t);
        return status;
    }
    *task = t;
    return QN_OK;
}

void qn_task_close(qn_task *task) {
    if (!task)
        return;
    task->kind->close(task);
    qn_engine_destroy(task->engine);
    const qn_allocator *below = task->counter.below;
    qn_release(below, task, 1, sizeof *task);
}

qn_value qn_task_build(qn_graph *graph, void *user, int phase, qn_value *kept) {
    const qn_task_network *n = user;
    return n->model->network(graph, n->model->user, &n->sizes, phase, kept);
}

qn_engine *qn_task_engine(const qn_task *task) {
    return task->engine;
}

qn_task_facts qn_task_get_facts(const qn_task *task) {
    return task->facts;
}

static qn_status check_can_run(const qn_task *task) {
    if (!task->plan_only)
        return QN_OK;
    return qn_fail(QN_ERROR_UNSUPPORTED, "this task only plans; open one without plan_only");
}

qn_status qn_task_resume(qn_task *task) {
    QN_TRY(check_can_run(task));
    return task->kind->resume(task);
}

qn_status qn_task_step(qn_task *task, qn_metrics *metrics) {
    metrics->n = 0;
    QN_TRY(check_can_run(task));
    return task->kind->step(task, metrics);
}

qn_status qn_task_evaluate(qn_task *task, qn_split split, bool (*should_stop)(void *user),
                           void *user, qn_metrics *metrics, int64_t *n_samples) {
    metrics->n = 0;
    *n_samples = 0;
    QN_TRY(check_can_run(task));
    if (split == QN_VALIDATION && task->facts.n_samples[split] == 0)
        return QN_OK;
    return task->kind->evaluate(task, split, should_stop, user, metrics, n_samples);
}

qn_confusion qn_task_get_confusion(const qn_task *task) {
    return task->confusion;
}

qn_status qn_task_infer(qn_task *task) {
    double loss;
    QN_TRY(check_can_run(task));
    return task->kind->infer(task, &loss);
}

/* The loss of a step is that before its update. Weights after it may be of no use already. */
qn_status qn_task_check(qn_task *task) {
    double loss = 0;
    QN_TRY(check_can_run(task));
    QN_TRY(task->kind->infer(task, &loss));
    if (isfinite(loss))
        return QN_OK;
    return qn_fail(QN_ERROR_NUMERIC,
                   "step %lld: after it the loss is %g; lower the learning rate, or clip gradients",
                   (long long)qn_engine_steps(task->engine), loss);
}

const char *qn_task_of(const qn_model *model) {
    return model->task ? model->task : qn_task_classification.name;
}

qn_status qn_task_sample(qn_task *task, const qn_sample_options *options) {
    if (!task->kind->sample)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "%s: %s has nothing to show; quern evaluate measures it", task->model->name,
                       task->kind->name);
    QN_TRY(check_can_run(task));
    return task->kind->sample(task, options);
}

void qn_metrics_add(qn_metrics *metrics, const char *name, double value, bool is_fraction) {
    if (metrics->n < (int)(sizeof metrics->list / sizeof metrics->list[0]))
        metrics->list[metrics->n++] = (qn_metric){name, value, is_fraction, false};
}

void qn_metrics_add_count(qn_metrics *metrics, const char *name, int64_t count) {
    const int before = metrics->n;
    qn_metrics_add(metrics, name, (double)count, false);
    if (metrics->n > before)
        metrics->list[before].is_count = true;
}

double qn_metrics_get(const qn_metrics *metrics, const char *name) {
    for (int i = 0; i < metrics->n; i++) {
        if (strcmp(metrics->list[i].name, name) == 0)
            return metrics->list[i].value;
    }
    return NAN;
}
