/* See training.h. The loop over steps of every task. Measuring and saving never change what the
 * next step computes, so a run that was interrupted and resumed ends with the same bits as one that
 * was not. */
#include "quern/training.h"

#include "base/memory.h"
#include "base/options.h"
#include "base/print.h"
#include "base/status.h"
#include "os/heap.h"
#include "os/os.h"
#include "run/watch.h"
#include "tasks/best.h"
#include "tasks/saving/saved_file.h"
#include "tasks/tasks.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct qn_training {
    const qn_allocator *allocator;
    qn_training_options o;
    qn_training_state state;
    double epoch_steps; /* 0: data without end */
    qn_arena texts;
    qn_saved_file last, best;
    /* Of the checkpoints between: when the run began and the last was written, what it took, and
     * before the first, what it may take. */
    int64_t begin_ns, saved_ns, save_ns;
};

enum { TEXT_BYTES = 1024 };

/* ---- time ---- */

static int64_t now_ns(const qn_training *t) {
    return t->o.clock_ns ? t->o.clock_ns(t->o.user) : qn_clock_ns();
}

static qn_engine *engine_of(const qn_training *t) {
    return qn_task_engine(t->o.task);
}

static int64_t steps_of(const qn_training *t) {
    return qn_engine_steps(engine_of(t));
}

/* The epoch that a step is of, counted from 0; all of endless data are one. */
static int64_t epoch_of(const qn_training *t, int64_t step) {
    return t->epoch_steps > 0 ? (int64_t)floor((double)step / t->epoch_steps + 1e-9) : 0;
}

/* ---- telling ---- */

static void tell(const qn_training *t, qn_training_event event) {
    event.step = steps_of(t);
    event.epoch = epoch_of(t, event.step);
    if (t->o.tell)
        t->o.tell(t->o.user, &event);
}

__attribute__((format(printf, 2, 3))) static void warn(const qn_training *t, const char *format,
                                                       ...) {
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    qn_print_list(text, sizeof text, format, arguments);
    va_end(arguments);
    tell(t, (qn_training_event){.kind = QN_TRAINING_WARNING, .message = text});
}

static bool should_stop(void *user) {
    const qn_training *t = user;
    return t->o.should_stop && t->o.should_stop(t->o.user);
}

/* An environment has moved on when a step of its agent begins. */
static const int *stop_flag(const qn_training *t) {
    return t->o.task->kind == &qn_task_control ? NULL : t->o.stop_flag;
}

/* ---- saving ---- */

static qn_status save(qn_training *t) {
    qn_engine_stop_on(engine_of(t), NULL, false); /* the check is short, and is to end */
    const qn_status status = qn_task_check(t->o.task);
    qn_engine_stop_on(engine_of(t), stop_flag(t), false);
    QN_TRY(status);
    QN_TRY(qn_saved_file_save(&t->last, engine_of(t), t->o.settings, &t->state.saved_to));
    t->state.saved_step = steps_of(t);
    t->state.n_saved++;
    return QN_OK;
}

/* Of a disk that has become full since the run began, it tells once. */
static void keep_room(qn_training *t, qn_saved_file *file) {
    const bool was_full = file->is_full;
    file->is_full = qn_saved_file_keep_room(file, engine_of(t), t->o.settings) != QN_OK;
    if (file->is_full && !was_full)
        warn(t, "no room is kept for the next checkpoint: %s", qn_error_message());
}

static qn_status save_timed(qn_training *t) {
    const int64_t begin_ns = now_ns(t);
    const qn_status status = save(t);
    if (status == QN_OK)
        keep_room(t, &t->last);
    t->saved_ns = now_ns(t);
    t->save_ns = t->saved_ns - begin_ns;
    t->state.saving_ns += t->save_ns;
    return status;
}

/* Hours of training are not thrown away for a disk that is full now: the end tries again. */
static qn_status save_between(qn_training *t) {
    const qn_status status = save_timed(t);
    if (status == QN_OK || status == QN_ERROR_NUMERIC)
        return status;
    warn(t, "no checkpoint at step %lld: %s; training goes on", (long long)steps_of(t),
         qn_error_message());
    return QN_OK;
}

/* What a checkpoint may take until one was written: that of a slow disk. */
static int64_t guess_save_ns(const qn_training *t) {
    const double bytes_per_ns = 0.1;
    double bytes = 0;
    for (int i = 0; i < qn_engine_tensor_count(engine_of(t)); i++)
        bytes += (double)qn_engine_tensor_at(engine_of(t), i).bytes;
    return (int64_t)(bytes / bytes_per_ns);
}

/* Whether, saved now, all checkpoints of this run take less than a hundredth of its time, and the
 * first less than a fiftieth. The first comes after seconds, and each of the next when the run has
 * lasted about twice as long, so that a kill costs half of a short run at most. */
static bool is_time_to_save(const qn_training *t) {
    const int64_t second_ns = 1000000000, first_ns = 5 * second_ns, most_ns = 120 * second_ns;
    const int64_t now = now_ns(t), done_ns = t->saved_ns - t->begin_ns;
    const int64_t least_ns = done_ns < first_ns ? first_ns : done_ns < most_ns ? done_ns : most_ns;
    const int64_t part = t->state.n_saved == 0 ? 50 : 100;
    return now - t->saved_ns >= least_ns &&
           (now - t->begin_ns) / part >= t->state.saving_ns + t->save_ns;
}

/* ---- the best so far ---- */

static bool has_samples(const qn_training *t, qn_split split) {
    return qn_task_get_facts(t->o.task).n_samples[split] > 0;
}

/* There must be something to measure by. A game is its own test. */
static qn_status begin_best(qn_training *t) {
    const bool has_validation = has_samples(t, QN_VALIDATION);
    const bool has_test = !has_samples(t, QN_TRAIN) || has_samples(t, QN_TEST);
    const bool is_asked = t->o.patience > 0 || t->o.save_best;
    if (is_asked && !has_validation && !(has_test && !t->o.no_test))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--early-stop and --save-best need something to measure by: --validation "
                       "X%s",
                       has_test ? ", or a test" : ", or --holdout X");
    t->state.has_best = is_asked || has_validation;
    qn_best_read(&t->state.best, t->state.has_best ? t->o.settings : NULL);
    return QN_OK;
}

static bool is_patience_over(const qn_training *t) {
    const qn_best *b = &t->state.best;
    return t->o.patience > 0 && b->step >= 0 && b->n_worse >= t->o.patience;
}

/* As with other checkpoints, training goes on where the disk is full. */
static void save_best(qn_training *t) {
    const int64_t step = t->state.best.step;
    if (!t->best.path || t->o.is_standby) {
        t->state.saved_best_step = step;
    } else if (qn_saved_file_save(&t->best, engine_of(t), t->o.settings, &t->state.saved_best_to) ==
               QN_OK) {
        t->state.saved_best_step = step;
        keep_room(t, &t->best);
    } else
        warn(t, "the best weights so far, of step %lld, are not saved: %s", (long long)step,
             qn_error_message());
}

static qn_status note_best(qn_training *t, qn_split split, const qn_metric *metric) {
    const int64_t step = steps_of(t);
    bool is_better;
    if (strstr(metric->name, "loss") && !isfinite(metric->value))
        return qn_fail(
            QN_ERROR_NUMERIC,
            "step %lld: the %s loss is %g; lower the learning rate, or clip gradients; or a "
            "sample holds what is no number",
            (long long)step, split == QN_TEST ? "test" : "validation", metric->value);
    if (!t->state.has_best || (split == QN_TEST && has_samples(t, QN_VALIDATION)))
        return QN_OK;
    QN_TRY(qn_best_note(&t->state.best, split, metric, step, t->o.settings, &is_better));
    if (is_better)
        save_best(t);
    t->state.is_stopped = is_patience_over(t);
    return QN_OK;
}

/* ---- measuring ---- */

/* Measures on a split; nothing where there is none, and where no test is wanted. */
static qn_status measure(qn_training *t, qn_split split, bool *is_measured, qn_metrics *metrics) {
    int64_t n_samples = 0;
    *is_measured = false;
    if (split == QN_TEST && t->o.no_test)
        return QN_OK;
    QN_TRY(qn_task_evaluate(t->o.task, split, should_stop, t, metrics, &n_samples));
    *is_measured = n_samples > 0;
    return QN_OK;
}

/* With validation samples the test waits for the end: what is chosen by it would flatter it. */
static qn_status end_epoch(qn_training *t, bool is_last) {
    qn_metrics test, validation;
    bool is_tested = false, is_validated;
    QN_TRY(measure(t, QN_VALIDATION, &is_validated, &validation));
    if (is_validated)
        QN_TRY(note_best(t, QN_VALIDATION, &validation.list[0]));
    if (!is_validated || is_last || t->state.is_stopped)
        QN_TRY(measure(t, QN_TEST, &is_tested, &test));
    tell(t, (qn_training_event){.kind = QN_TRAINING_EPOCH,
                                .test = is_tested ? &test : NULL,
                                .validation = is_validated ? &validation : NULL});
    if (is_tested)
        QN_TRY(note_best(t, QN_TEST, &test.list[0]));
    if (t->state.is_stopped)
        tell(t, (qn_training_event){.kind = QN_TRAINING_STOPPED});
    return QN_OK;
}

/* A run that was stopped while an epoch's end, or its own, was measured measures it now: what
 * follows is then as if it had not been stopped. */
static bool is_measure_missing(const qn_training *t) {
    const int64_t step = t->state.first_step;
    const bool is_end =
        step > 0 && (step == t->state.total_steps || epoch_of(t, step) > epoch_of(t, step - 1));
    return t->state.has_best && is_end && t->state.best.measured != step;
}

/* What is trained already is only tested. */
static qn_status test_only(qn_training *t) {
    qn_metrics metrics;
    bool is_tested;
    if (is_measure_missing(t))
        return end_epoch(t, true);
    t->state.is_stopped = t->state.first_step < t->state.total_steps;
    if (t->state.is_stopped)
        tell(t, (qn_training_event){.kind = QN_TRAINING_STOPPED});
    QN_TRY(measure(t, QN_TEST, &is_tested, &metrics));
    tell(t, (qn_training_event){.kind = QN_TRAINING_TESTED, .test = is_tested ? &metrics : NULL});
    return QN_OK;
}

/* ---- the loop ---- */

static qn_status tell_stopped(const qn_training *t) {
    return qn_fail(QN_ERROR_INTERRUPTED, "stopped after step %lld of %lld", (long long)steps_of(t),
                   (long long)t->state.total_steps);
}

static qn_status do_step(qn_training *t) {
    qn_metrics metrics;
    const int64_t begin_ns = now_ns(t);
    const qn_status status = qn_task_step(t->o.task, &metrics);
    if (status == QN_ERROR_INTERRUPTED)
        return tell_stopped(t);
    QN_TRY(status);
    if (t->o.meter)
        qn_meter_mark(t->o.meter);
    tell(t, (qn_training_event){
                .kind = QN_TRAINING_STEP, .metrics = &metrics, .ns = now_ns(t) - begin_ns});
    return QN_OK;
}

/* After a step: an epoch's end, and checkpoints. By time they come before what is measured, which
 * may take long; one that begins there measures it. */
static qn_status finish_step(qn_training *t, int64_t step) {
    const int64_t every = t->o.save_every;
    const bool is_last = step == t->state.total_steps;
    const bool saves = t->o.save && !t->o.is_standby;
    if (saves && every == 0 && !is_last && is_time_to_save(t))
        QN_TRY(save_between(t));
    if (epoch_of(t, step) > epoch_of(t, step - 1) || is_last)
        QN_TRY(end_epoch(t, is_last));
    if (t->state.is_stopped || is_last)
        return QN_OK;
    if (saves && every > 0 && step % every == 0)
        QN_TRY(save_between(t));
    if (!should_stop(t))
        return QN_OK;
    return tell_stopped(t);
}

static qn_status train(qn_training *t) {
    if (is_measure_missing(t))
        QN_TRY(end_epoch(t, false));
    for (int64_t step = t->state.first_step + 1; step <= t->state.total_steps; step++) {
        QN_TRY(do_step(t));
        QN_TRY(finish_step(t, step));
        if (t->state.is_stopped)
            return QN_OK;
    }
    return QN_OK;
}

/* Saves the last good step of a run that ends with a failure, whose message it keeps. */
static qn_status rescue(qn_training *t, qn_status failed) {
    char message[TEXT_BYTES];
    const int64_t step = steps_of(t);
    const bool is_new = step > t->state.first_step || failed == QN_ERROR_INTERRUPTED;
    if (!t->o.save || !is_new || t->state.saved_step == step || !qn_engine_is_sound(engine_of(t)))
        return failed;
    snprintf(message, sizeof message, "%s", qn_error_message());
    const qn_status saved = save(t);
    if (saved != QN_OK && saved != failed)
        warn(t, "step %lld is not saved: %s", (long long)step, qn_error_message());
    return qn_fail(failed, "%s", message);
}

/* The run is done: its best takes the place of the best of a run that was not longer. */
static qn_status finish_best(qn_training *t) {
    if (!t->best.is_beside)
        return QN_OK;
    QN_TRY(qn_saved_file_finish(&t->best, steps_of(t)));
    if (!t->best.is_beside)
        t->state.saved_best_to = t->best.path;
    return QN_OK;
}

qn_status qn_training_run(qn_training *t) {
    if (!t)
        return qn_fail(QN_ERROR_ARGUMENT, "there is no training to run");
    t->state.first_step = steps_of(t);
    t->begin_ns = t->saved_ns = now_ns(t);
    t->save_ns = guess_save_ns(t);
    const bool has_steps = t->state.first_step < t->state.total_steps && !is_patience_over(t);
    qn_engine_stop_on(engine_of(t), stop_flag(t), false);
    const qn_status status = has_steps ? train(t) : test_only(t);
    if (status != QN_OK)
        return rescue(t, status);
    t->state.is_trained = true;
    qn_status saved = t->o.save && !t->o.is_standby ? save(t) : QN_OK;
    if (saved == QN_OK)
        saved = finish_best(t);
    return saved == QN_OK ? QN_OK : qn_fail_within(saved, "trained, but not saved");
}

/* ---- the whole ---- */

/* The best of this very run, which it may replace: a resumed run has its step in the settings. */
static int64_t own_best(const qn_training *t) {
    qn_best best;
    qn_best_read(&best, t->o.settings);
    return t->state.first_step > 0 ? best.step : -1;
}

static qn_status open_files(qn_training *t) {
    qn_training_options *o = &t->o;
    const int64_t most = INT64_MAX, first = t->state.first_step;
    if (o->save && o->save_best && strcmp(o->save, o->save_best) == 0)
        return qn_fail(QN_ERROR_ARGUMENT, "--save and --save-best need two files");
    QN_TRY(qn_saved_file_open(&t->texts, o->save, o->replaces_longer ? most : first, &t->last));
    QN_TRY(qn_saved_file_open(&t->texts, o->save_best, o->replaces_longer ? most : own_best(t),
                              &t->best));
    o->save = t->last.path;
    o->save_best = t->best.path;
    if (t->last.held_step > t->state.total_steps)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%s has been trained for %lld steps, and this run ends after %lld: resume "
                       "it, choose another name, or replace it (override)",
                       o->save, (long long)t->last.held_step, (long long)t->state.total_steps);
    if (o->is_standby)
        return QN_OK;
    QN_TRY(qn_saved_file_keep_room(&t->last, engine_of(t), o->settings));
    return qn_saved_file_keep_room(&t->best, engine_of(t), o->settings);
}

static qn_status open_training(qn_training *t) {
    qn_training_options *o = &t->o;
    const qn_task_facts facts = qn_task_get_facts(o->task);
    t->epoch_steps = facts.epoch_steps;
    t->state.total_steps = o->total_steps > 0 ? o->total_steps : facts.total_steps;
    t->state.saved_step = t->state.saved_best_step = -1;
    t->state.first_step = steps_of(t);
    if (t->state.total_steps < 1)
        return qn_fail(QN_ERROR_ARGUMENT, "the length of training is not set; use --steps");
    QN_TRY(open_files(t));
    return begin_best(t);
}

static qn_status check_options(const qn_training_options *o) {
    if (!o->task)
        return qn_fail(QN_ERROR_ARGUMENT, "a training needs options with a task");
    if (o->save_every < -1 || o->total_steps < 0 || o->patience < 0)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "save_every is %lld, total_steps %lld and patience %lld; they must be at "
                       "least -1, 0 and 0",
                       (long long)o->save_every, (long long)o->total_steps, (long long)o->patience);
    return QN_OK;
}

qn_status qn_training_create(const qn_training_options *options, qn_training **training) {
    qn_training_options taken;
    qn_training *t;
    if (!options || !training)
        return qn_fail(QN_ERROR_ARGUMENT, "a training needs options, and a place for it");
    QN_TRY(QN_OPTIONS_TAKE(qn_training_options, options, &taken));
    options = &taken;
    QN_TRY(check_options(options));
    const qn_allocator *allocator = qn_allocator_or_default(options->allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *t, &t));
    t->allocator = allocator;
    t->o = *options;
    qn_arena_init(&t->texts, allocator);
    const qn_status status = open_training(t);
    if (status != QN_OK) {
        qn_training_destroy(t);
        return status;
    }
    *training = t;
    return QN_OK;
}

void qn_training_destroy(qn_training *t) {
    if (!t)
        return;
    const qn_allocator *allocator = t->allocator;
    qn_saved_file_close(&t->last);
    qn_saved_file_close(&t->best);
    qn_arena_deinit(&t->texts);
    qn_release(allocator, t, 1, sizeof *t);
}

qn_training_state qn_training_get_state(const qn_training *training) {
    return training ? training->state : (qn_training_state){.saved_step = -1};
}
