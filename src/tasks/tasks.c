/* The kinds of tasks, and opening one. */
#include "tasks/tasks.h"

#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "base/text.h"
#include "os/heap.h"
#include "os/os.h"
#include "os/process/group.h"
#include "run/inspect.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const qn_task_kind *const qn_task_kinds[] = {
    &qn_task_classification, &qn_task_language,    &qn_task_generation,
    &qn_task_control,        &qn_task_translation, &qn_task_answering,
    &qn_task_arrays,         &qn_task_tokens,      NULL};

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

/* What the caller's texts take, and a checkpoint to be written or read, at most: a list of its
 * tensors, its pairs, and the header's text, which grows by doubling. Texts that are not long count
 * alike: a budget that planning names is then one that training accepts, although its pairs are a
 * few more. */
static size_t text_bytes(const qn_task *task) {
    enum { TENSOR_BYTES = 1024, GROWING = 3, LISTS_BYTES = 128 * 1024, USUAL_TEXTS = 16384 };
    size_t text = 0, header = 0;
    for (int i = 0; task->settings && i < qn_metadata_count(task->settings); i++) {
        const char *key, *value;
        qn_metadata_at(task->settings, i, &key, &value);
        text += strlen(key) + strlen(value);
        header += escaped_bytes(key) + escaped_bytes(value);
    }
    const size_t texts = task->outside_bytes + 2 * text + GROWING * header;
    return (size_t)qn_engine_tensor_count(task->engine) * TENSOR_BYTES + LISTS_BYTES +
           (texts > USUAL_TEXTS ? texts : USUAL_TEXTS);
}

/* What a device that was chosen came to is a setting from now on: results depend on it. */
static qn_status keep_device(qn_task *task) {
    const char *asked = qn_setting_text(task, "device", NULL);
    if (!task->training || task->how->plan_only || !asked || !qn_device_is_chosen(asked))
        return QN_OK;
    return qn_metadata_set(task->settings, "device", qn_engine_get_options(task->engine)->device);
}

/* The engine's plans, now that all else is there. */
static qn_status plan(qn_task *task) {
    const size_t engine = qn_engine_get_memory(task->engine).held_bytes;
    const size_t held = sizeof *task + task->counter.held_bytes - engine;
    qn_engine_note_peak(task->engine,
                        sizeof *task + task->counter.peak_bytes + task->outside_bytes);
    QN_TRY(qn_engine_plan(task->engine, held + task->reserve_bytes + text_bytes(task)));
    return keep_device(task);
}

static qn_status make(const qn_allocator *allocator, qn_task_options *options,
                      const qn_task_kind *kind, qn_task **task) {
    qn_task *t;
    QN_TRY(qn_allocate(allocator, 1, sizeof *t, &t));
    *t = (qn_task){.kind = kind,
                   .opening = &options->engine,
                   .how = &options->engine,
                   .had_budget = options->engine.memory_budget_bytes > 0,
                   .log = options->log,
                   .model = options->model,
                   .settings = options->settings,
                   .source = options->source,
                   .given_start = options->start,
                   .training = options->training,
                   .wants_confusion = options->confusion,
                   .outside_bytes = options->memory_outside_bytes};
    t->counting = qn_counter_init(&t->counter, allocator);
    t->allocator = &t->counting;
    *task = t;
    return QN_OK;
}

/* How a task is opened. */
typedef struct opening {
    const qn_allocator *allocator; /* the caller's */
    size_t limit_bytes;            /* of all memory until the plans are made; 0: none */
    size_t room_bytes;    /* that the control group leaves, of all memory; 0: it has no limit */
    size_t refused_bytes; /* that it would have taken at least, where that was above the limit */
    bool is_built;        /* all but the plans was made */
} opening;

static size_t least_of(size_t a, size_t b) {
    return a == 0 || (b > 0 && b < a) ? b : a;
}

/* From now on the task and what its caller holds take no more memory than this; 0: no limit. */
static void limit_memory(qn_task *t, size_t limit) {
    const size_t outside = sizeof *t + t->outside_bytes;
    qn_counter_set_limit(&t->counter, limit == 0 ? 0 : limit > outside ? limit - outside : 1);
}

/* Data and programs, with all their memory. */
static qn_status build(qn_task *t, const qn_task_options *options) {
    qn_status status = qn_task_add_file(t);
    if (status == QN_OK)
        status = qn_numerics_of(t->settings, &t->numerics);
    if (status == QN_OK)
        status = t->kind->open(t);
    if (status == QN_OK && t->training)
        status = qn_proximal_open(t->allocator, t->engine, qn_setting_number(t, "proximal", 0),
                                  &t->proximal);
    if (status == QN_OK && options->on_built)
        status = options->on_built(options->user, t->engine);
    return status;
}

static qn_status open(qn_task_options *options, const qn_task_kind *kind, opening *o,
                      qn_task **task) {
    qn_task *t;
    QN_TRY(make(o->allocator, options, kind, &t));
    limit_memory(t, least_of(o->limit_bytes, o->room_bytes));
    qn_status status = build(t, options);
    o->is_built = status == QN_OK;
    limit_memory(t, o->room_bytes);
    if (status == QN_OK)
        status = plan(t);
    o->refused_bytes = t->counter.refused_bytes;
    limit_memory(t, 0);
    if (status != QN_OK) {
        qn_task_close(t);
        return status;
    }
    t->opening = NULL;
    t->how = qn_engine_get_options(t->engine);
    *task = t;
    return QN_OK;
}

/* Data that alone are above the budget are not read to find out what would do. */
static qn_status refuse_data(size_t budget, size_t refused) {
    char given[QN_SIZE_TEXT], least[QN_SIZE_TEXT];
    return qn_fail(QN_ERROR_MEMORY,
                   "a budget of %s is too small: reading the data takes more than %s; use fewer "
                   "data, or --memory %zuM or more",
                   qn_text_print_size(budget, given), qn_text_print_size(refused, least),
                   ((refused + refused / 16) >> 20) + 9);
}

/* What could not be opened. */
typedef struct refused {
    const qn_task_options *options;
    const qn_task_kind *kind;
    const opening *o;
} refused;

/* In little more memory than the budget. */
static qn_status plan_only(void *context) {
    enum { SMALL_BYTES = 32 << 20 };
    const refused *r = context;
    const size_t budget = r->options->engine.memory_budget_bytes;
    qn_task_options options = *r->options;
    opening o = {.allocator = r->o->allocator,
                 .limit_bytes = budget > SMALL_BYTES ? budget : SMALL_BYTES,
                 .room_bytes = r->o->room_bytes};
    qn_task *task;
    options.engine.plan_only = true;
    options.log = NULL; /* it was said before */
    const qn_status status = open(&options, r->kind, &o, &task);
    if (status == QN_ERROR_MEMORY && o.refused_bytes > 0)
        return refuse_data(budget, o.refused_bytes);
    QN_TRY(status);
    qn_task_close(task);
    return QN_OK;
}

static qn_status take_options(const qn_task_options *options, qn_task_options *taken) {
    QN_TRY(qn_options_take_nested(options, sizeof *taken, sizeof taken->engine, "qn_task_options",
                                  taken));
    if (taken->engine.real == QN_NONE || taken->engine.real == QN_F32)
        return QN_OK;
    return qn_fail(QN_ERROR_UNSUPPORTED, "tasks compute with floats; a trainer or an engine takes "
                                         "doubles");
}

/* ---- within a control group ---- */

/* What a group leaves for a run to plan with: its own code and libraries, and what the kernel holds
 * for it, are in no plan. A budget that was asked for is taken as it is. */
static size_t room_of(const qn_group *group, const qn_task_options *options) {
    enum { CODE_BYTES = 6 << 20 };
    if (group->left_bytes < 0 || options->engine.plan_only)
        return 0;
    const int64_t apart =
        options->engine.memory_budget_bytes > 0 ? 0 : CODE_BYTES + group->left_bytes / 16;
    return group->left_bytes > apart ? (size_t)(group->left_bytes - apart) : 1;
}

static void tell_group(const qn_task_options *options, const qn_group *group, size_t room) {
    char limit[QN_SIZE_TEXT], left[QN_SIZE_TEXT], text[256];
    if (!options->log || !options->log->write)
        return;
    snprintf(text, sizeof text,
             "this control group may take %s of memory, of which %s are left for this run; it is "
             "planned within them, as with a budget",
             qn_text_print_size((uint64_t)group->memory_bytes, limit),
             qn_text_print_size(room, left));
    options->log->write(options->log->user, 0, text);
}

static qn_status open_within(qn_task_options *options, const qn_task_kind *kind, opening *o,
                             qn_task **task) {
    refused r = {options, kind, o};
    o->limit_bytes = options->engine.plan_only ? 0 : options->engine.memory_budget_bytes;
    const qn_status status = open(options, kind, o, task);
    return status == QN_ERROR_MEMORY && o->limit_bytes > 0 && !o->is_built
               ? qn_budget_refuse(&options->engine, plan_only, &r)
               : status;
}

/* The system would end a run that takes more than its group leaves: such a run is planned within
 * that, or refused. */
static qn_status open_in_group(qn_task_options *options, const qn_task_kind *kind, qn_task **task) {
    char limit[QN_SIZE_TEXT];
    qn_group group;
    qn_group_read("", &group);
    opening o = {.allocator = qn_allocator_or_default(options->engine.allocator),
                 .room_bytes = room_of(&group, options)};
    const size_t asked = options->engine.memory_budget_bytes;
    if (o.room_bytes == 0 || asked == 0 || asked <= o.room_bytes) {
        const qn_status status = open_within(options, kind, &o, task);
        if (status != QN_ERROR_MEMORY || o.room_bytes == 0 || asked > 0 || o.refused_bytes == 0)
            return status;
    }
    tell_group(options, &group, o.room_bytes);
    options->engine.memory_budget_bytes = o.room_bytes;
    qn_memory_give_back();
    const qn_status status = open_within(options, kind, &o, task);
    return status == QN_ERROR_MEMORY
               ? qn_fail_within(status, "in a control group of %s",
                                qn_text_print_size((uint64_t)group.memory_bytes, limit))
               : status;
}

qn_status qn_task_open(const qn_task_options *options, qn_task **task) {
    QN_NEED(options, "options");
    QN_NEED(task, "task");
    qn_task_options taken;
    QN_TRY(take_options(options, &taken));
    QN_NEED(taken.model, "options.model");
    QN_NEED(taken.settings, "options.settings");
    const char *name = qn_task_of(taken.model);
    const qn_task_kind *kind = find_kind(name);
    if (!kind)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "model %s is of the task %s, which is none of this build's",
                       taken.model->name, name);
    if (taken.source && !kind->evaluate_on)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "model %s is of the task %s, which takes its data from files",
                       taken.model->name, name);
    if (taken.engine.ranks && taken.training && kind != &qn_task_classification)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "ranks share the steps of classification only, and model %s is of the task "
                       "%s; train it without mpirun",
                       taken.model->name, name);
    return open_in_group(&taken, kind, task);
}

void qn_task_close(qn_task *task) {
    if (!task)
        return;
    task->kind->close(task);
    qn_proximal_close(task->allocator, &task->proximal);
    qn_metadata_destroy(task->start);
    qn_engine_destroy(task->engine);
    const qn_allocator *below = task->counter.below;
    qn_release(below, task, 1, sizeof *task);
}

qn_value qn_task_build(qn_graph *graph, void *user, int phase, qn_value *kept) {
    const qn_task_network *n = user;
    return n->model->network(graph, n->model->user, &n->sizes, phase, kept);
}

qn_engine *qn_task_engine(const qn_task *task) {
    QN_NEED_OR(task, "task", NULL);
    return task->engine;
}

qn_task_facts qn_task_get_facts(const qn_task *task) {
    QN_NEED_OR(task, "task", (qn_task_facts){0});
    return task->facts;
}

const qn_data_source *qn_task_get_source(const qn_task *task) {
    QN_NEED_OR(task, "task", NULL);
    return task->data;
}

static qn_status check_can_run(const qn_task *task) {
    if (!task->how->plan_only)
        return QN_OK;
    return qn_fail(QN_ERROR_UNSUPPORTED, "this task only plans; open one without plan_only");
}

qn_status qn_task_resume(qn_task *task) {
    QN_NEED(task, "task");
    QN_TRY(check_can_run(task));
    return task->kind->resume(task);
}

int qn_task_kept_outputs(const qn_task *task) {
    QN_NEED_OR(task, "task", 0);
    return task->n_kept_outputs;
}

qn_status qn_task_begin(qn_task *task, int *n_loaded, int *n_new, int *n_kept) {
    QN_NEED(task, "task");
    QN_NEED(n_loaded, "n_loaded");
    QN_NEED(n_new, "n_new");
    QN_NEED(n_kept, "n_kept");
    const char *path = qn_setting_text(task, "load", NULL);
    if (!path)
        return qn_fail(QN_ERROR_ARGUMENT, "the settings name no weights to begin with (load)");
    QN_TRY(check_can_run(task));
    *n_kept = task->n_kept_outputs;
    return qn_checkpoint_begin_grown(task->engine, path, *n_kept, n_loaded, n_new);
}

qn_status qn_task_load(qn_task *task, const char *path, bool with_state) {
    QN_NEED(task, "task");
    QN_NEED(path, "path");
    if (!task || !path)
        return qn_fail(QN_ERROR_ARGUMENT, "qn_task_load needs a task and a path");
    QN_TRY(check_can_run(task));
    if (task->settings)
        QN_TRY(qn_checkpoint_load_base(task->engine, task->settings, path));
    QN_TRY(qn_checkpoint_load(task->engine, path, with_state));
    return qn_task_resume(task);
}

qn_status qn_task_step(qn_task *task, qn_metrics *metrics) {
    QN_NEED(task, "task");
    QN_NEED(metrics, "metrics");
    metrics->n = 0;
    QN_TRY(check_can_run(task));
    const double rate = qn_engine_rate(task->engine);
    qn_proximal_begin(&task->proximal, task->engine);
    QN_TRY(task->kind->step(task, metrics));
    qn_proximal_end(&task->proximal, task->engine, rate);
    return QN_OK;
}

qn_status qn_task_evaluate(qn_task *task, qn_split split, bool (*should_stop)(void *user),
                           void *user, qn_metrics *metrics, int64_t *n_samples) {
    QN_NEED(task, "task");
    QN_NEED(metrics, "metrics");
    QN_NEED(n_samples, "n_samples");
    QN_DEMAND(split >= QN_TRAIN && split <= QN_ALL_SPLITS);
    metrics->n = 0;
    *n_samples = 0;
    QN_TRY(check_can_run(task));
    if (split == QN_ALL_SPLITS && task->kind != &qn_task_classification)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "%s is of the task %s, which is evaluated on one split at a time",
                       task->model->name, task->kind->name);
    if (split == QN_VALIDATION && task->facts.n_samples[split] == 0)
        return QN_OK;
    return task->kind->evaluate(task, split, should_stop, user, metrics, n_samples);
}

static qn_status check_other(const qn_task *task, bool can) {
    if (can)
        return check_can_run(task);
    return qn_fail(QN_ERROR_UNSUPPORTED,
                   "%s is of the task %s, which measures and predicts on its own data alone",
                   task->model->name, task->kind->name);
}

qn_status qn_task_evaluate_on(qn_task *task, const qn_data_source *source, qn_split split,
                              bool (*should_stop)(void *user), void *user, qn_metrics *metrics,
                              int64_t *n_samples) {
    QN_NEED(task, "task");
    QN_NEED(source, "source");
    QN_NEED(metrics, "metrics");
    QN_NEED(n_samples, "n_samples");
    QN_DEMAND(split >= QN_TRAIN && split <= QN_ALL_SPLITS);
    metrics->n = 0;
    *n_samples = 0;
    QN_TRY(check_other(task, task->kind->evaluate_on != NULL));
    if (split != QN_ALL_SPLITS && source->n_samples[split] == 0)
        return QN_OK;
    return task->kind->evaluate_on(task, source, split, should_stop, user, metrics, n_samples);
}

qn_status qn_task_predict(qn_task *task, const qn_data_source *source, qn_split split,
                          bool (*should_stop)(void *user), void *user, float *outputs) {
    QN_NEED(task, "task");
    QN_NEED(source, "source");
    QN_NEED(outputs, "outputs");
    QN_DEMAND(split >= QN_TRAIN && split < QN_SPLITS);
    QN_TRY(check_other(task, task->kind->predict != NULL));
    if (source->n_samples[split] == 0)
        return QN_OK;
    return task->kind->predict(task, source, split, should_stop, user, outputs);
}

int qn_task_output_count(const qn_task *task) {
    QN_NEED_OR(task, "task", 0);
    return task->kind->n_outputs ? task->kind->n_outputs(task) : 0;
}

qn_confusion qn_task_get_confusion(const qn_task *task) {
    QN_NEED_OR(task, "task", (qn_confusion){0});
    return task->confusion;
}

qn_status qn_task_infer(qn_task *task) {
    QN_NEED(task, "task");
    double loss;
    QN_TRY(check_can_run(task));
    return task->kind->infer(task, &loss);
}

/* The loss of a step is that before its update. Weights after it may be of no use already. */
qn_status qn_task_check(qn_task *task) {
    QN_NEED(task, "task");
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
    QN_NEED_OR(model, "model", NULL);
    return model->task ? model->task : qn_task_classification.name;
}

qn_status qn_task_sample(qn_task *task, const qn_sample_options *options) {
    QN_NEED(task, "task");
    QN_NEED(options, "options");
    if (!task->kind->sample)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "%s: %s has nothing to show; quern evaluate measures it", task->model->name,
                       task->kind->name);
    qn_sample_options taken;
    QN_TRY(QN_OPTIONS_TAKE(qn_sample_options, options, &taken));
    QN_TRY(check_can_run(task));
    return task->kind->sample(task, &taken);
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
    QN_NEED_OR(metrics, "metrics", 0);
    QN_NEED_OR(name, "name", 0);
    for (int i = 0; i < metrics->n; i++) {
        if (strcmp(metrics->list[i].name, name) == 0)
            return metrics->list[i].value;
    }
    return NAN;
}
