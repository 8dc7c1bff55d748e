/* The kinds of tasks, and opening one. */
#include "tasks/tasks.h"

#include "base/memory.h"
#include "base/status.h"

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
                   .allocator = allocator,
                   .log = options->log,
                   .model = options->model,
                   .settings = options->settings,
                   .training = options->training,
                   .n_threads = options->n_threads};
    qn_status status = kind->open(t);
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
    qn_release(task->allocator, task, 1, sizeof *task);
}

qn_value qn_task_build(qn_graph *graph, void *user, int phase, qn_value *kept) {
    const qn_task_network *n = user;
    return n->model->network(graph, &n->sizes, phase, kept);
}

qn_engine *qn_task_engine(const qn_task *task) {
    return task->engine;
}

qn_task_facts qn_task_get_facts(const qn_task *task) {
    return task->facts;
}

qn_status qn_task_resume(qn_task *task) {
    return task->kind->resume(task);
}

qn_status qn_task_step(qn_task *task, qn_metrics *metrics) {
    metrics->n = 0;
    return task->kind->step(task, metrics);
}

qn_status qn_task_evaluate(qn_task *task, qn_split split, bool (*should_stop)(void *user),
                           void *user, qn_metrics *metrics, int64_t *n_samples) {
    metrics->n = 0;
    *n_samples = 0;
    return task->kind->evaluate(task, split, should_stop, user, metrics, n_samples);
}

qn_status qn_task_check(qn_task *task) {
    return task->kind->check ? task->kind->check(task) : QN_OK;
}

const char *qn_task_of(const qn_model *model) {
    return model->task ? model->task : qn_task_classification.name;
}

qn_status qn_task_sample(qn_task *task, const qn_sample_options *options) {
    if (!task->kind->sample)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "%s: %s has nothing to show; quern evaluate measures it", task->model->name,
                       task->kind->name);
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
