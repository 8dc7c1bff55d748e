/* quern train: trains a model, resumes a run, saves checkpoints. */
#include "base/status.h"
#include "cli/budget.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECIPE "the model's recipe"

static const double many = 1e15;

static const option options[] = {
    {.name = "data",
     .kind = OPTION_TEXT,
     .argument = "DATA",
     .is_kept = true,
     .otherwise = "none; on resume, the checkpoint's",
     .help = "what to train on"},
    {.name = "epochs",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e9,
     .is_kept = true,
     .is_free = true,
     .otherwise = RECIPE,
     .help = "passes over the data, from the start of training, resumed ones too"},
    {.name = "steps",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = many,
     .is_kept = true,
     .is_free = true,
     .otherwise = "none",
     .help = "steps, counted likewise; alone it replaces --epochs, else the shorter"},
    {.name = "test",
     .kind = OPTION_FLAG,
     .fallback = "yes",
     .help = "leave the test after each epoch and at the end out"},
    {.name = "samples",
     .kind = OPTION_FLAG,
     .fallback = "yes",
     .help = "do not show, after training, what models of text and games have learned"},
    {.name = "picture",
     .of = "generation",
     .kind = OPTION_TARGET,
     .argument = "FILE",
     .otherwise = "none",
     .help = "PNG file that samples are drawn to, after every epoch"},
    {.name = "picture-every",
     .of = "generation",
     .kind = OPTION_COUNT,
     .argument = "N",
     .most = many,
     .fallback = "0",
     .otherwise = "0, after every epoch",
     .help = "steps between pictures"},
    {.name = "save",
     .kind = OPTION_TARGET,
     .argument = "FILE",
     .otherwise = "none",
     .help = "checkpoint, written at the end, when stopped, and between"},
    {.name = "load",
     .kind = OPTION_TEXT,
     .argument = "FILE",
     .is_kept = true,
     .is_free = true,
     .otherwise = "none",
     .help = "weights to begin with; all but those of --head and --lora must be in it"},
    {.name = "save-best",
     .kind = OPTION_TARGET,
     .argument = "FILE",
     .otherwise = "none",
     .help = "checkpoint of the best weights, written when there are better ones"},
    {.name = "early-stop",
     .kind = OPTION_COUNT,
     .argument = "N",
     .most = 1e9,
     .is_kept = true,
     .is_free = true,
     .fallback = "0",
     .otherwise = "0, never",
     .help = "end after so many epochs that measured no better"},
    {.name = "checkpoint-every",
     .kind = OPTION_COUNT,
     .argument = "N",
     .most = many,
     .fallback = "0",
     .otherwise = "0, never",
     .help = "steps between checkpoints"},
    {.name = "measure",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "measure operations first, and plan --memory by that; kept for later runs"},
    {.name = "budget-file",
     .kind = OPTION_TEXT,
     .argument = "FILE",
     .otherwise = "none",
     .help = "file with the memory budget (300M, none), read when it changes"},
    {.name = "memory-pressure",
     .kind = OPTION_SIZE,
     .argument = "SIZE",
     .otherwise = "none",
     .help = "budget while the system is short of memory"},
    {.name = "pressure-file",
     .kind = OPTION_TEXT,
     .argument = "FILE",
     .otherwise = "/proc/pressure/memory",
     .help = "what says so, as a control group's"},
    {.name = "pressure-calm",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 86400,
     .fallback = "10",
     .help = "seconds without shortage until the budget is as before"},
    {.name = "json", .kind = OPTION_FLAG, .fallback = "no", .help = "print one JSON object a line"},
};

/* ---- usage ---- */

static qn_status check_usage(const arguments *a) {
    if (!arguments_has(a, "data") && !arguments_has(a, "resume"))
        return qn_fail(QN_ERROR_ARGUMENT, "quern train needs --data; see quern train --help");
    if (arguments_count(a, "checkpoint-every") > 0 && !arguments_has(a, "save"))
        return qn_fail(QN_ERROR_ARGUMENT, "--checkpoint-every needs --save FILE");
    if (arguments_get(a, "save-best") && arguments_get(a, "save") &&
        strcmp(arguments_get(a, "save-best"), arguments_get(a, "save")) == 0)
        return qn_fail(QN_ERROR_ARGUMENT, "--save and --save-best need two files");
    if (arguments_flag(a, "measure") && !arguments_has(a, "memory"))
        return qn_fail(QN_ERROR_ARGUMENT, "--measure is of use with --memory SIZE only");
    if (arguments_count(a, "picture-every") > 0 && !arguments_has(a, "picture"))
        return qn_fail(QN_ERROR_ARGUMENT, "--picture-every needs --picture FILE");
    if (arguments_has(a, "pressure-file") && !arguments_has(a, "memory-pressure"))
        return qn_fail(QN_ERROR_ARGUMENT, "--pressure-file needs --memory-pressure SIZE");
    return QN_OK;
}

/* ---- the run ---- */

static qn_status save_checkpoint(training *t) {
    const qn_engine *engine = qn_task_engine(t->s.task);
    QN_TRY(qn_task_check(t->s.task));
    QN_TRY(qn_checkpoint_save(engine, t->s.pairs, t->save));
    t->saved_step = qn_engine_steps(engine);
    return QN_OK;
}

static bool should_stop(void *user) {
    (void)user;
    return was_interrupted();
}

/* Measures on a split; nothing where there is none, and where no test is wanted. */
static qn_status test(training *t, qn_split split, bool *has_test, qn_metrics *metrics) {
    int64_t n_samples = 0;
    *has_test = false;
    if (split == QN_TEST && !arguments_flag(t->a, "test"))
        return QN_OK;
    QN_TRY(qn_task_evaluate(t->s.task, split, should_stop, t, metrics, &n_samples));
    *has_test = n_samples > 0;
    return QN_OK;
}

static void put_line(void *user, const char *line) {
    (void)user;
    puts(line);
}

static qn_status show(training *t, const char *picture, void (*put)(void *, const char *)) {
    const qn_sample_options sampled = {
        .temperature = 1,
        .seed = (uint64_t)settings_count(&t->settings, "seed"),
        .picture = picture,
        .put = put,
    };
    const qn_status status = qn_task_sample(t->s.task, &sampled);
    return status == QN_ERROR_UNSUPPORTED ? QN_OK : status;
}

/* ---- the best so far ---- */

static bool has_validation(const training *t) {
    return qn_task_get_facts(t->s.task).n_samples[QN_VALIDATION] > 0;
}

/* Whether it is looked for; there must be something to measure by. A game is its own test. */
static qn_status begin_best(training *t) {
    const qn_task_facts facts = qn_task_get_facts(t->s.task);
    const bool is_asked =
        settings_count(&t->settings, "early-stop") > 0 || arguments_get(t->a, "save-best");
    const bool has_test = facts.n_samples[QN_TRAIN] == 0 || facts.n_samples[QN_TEST] > 0;
    if (is_asked && !has_validation(t) && !(has_test && arguments_flag(t->a, "test")))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--early-stop and --save-best need something to measure by: --validation "
                       "X%s",
                       has_test ? ", or a test" : ", or --holdout X");
    t->has_best = is_asked || has_validation(t);
    if (t->has_best)
        best_read(&t->best, t->s.kept);
    return QN_OK;
}

static bool is_patience_over(const training *t) {
    const int64_t patience = settings_count(&t->settings, "early-stop");
    return patience > 0 && t->best.step >= 0 && t->best.n_worse >= patience;
}

/* As with other checkpoints, training goes on where the disk is full; the end says so again. */
static void save_best(training *t) {
    const char *path = arguments_get(t->a, "save-best");
    if (!path || qn_checkpoint_save(qn_task_engine(t->s.task), t->s.pairs, path) == QN_OK) {
        t->saved_best = t->best.step;
        return;
    }
    progress_clear(&t->progress);
    fprintf(stderr, "quern: warning: the best weights so far, of step %lld, are not saved: %s\n",
            (long long)t->best.step, qn_error_message());
}

static void tell_stopped(const training *t, int64_t epoch) {
    const best *b = &t->best;
    char words[40];
    if (arguments_flag(t->a, "json")) {
        json_begin();
        json_text("event", "early_stop");
        json_count("epoch", epoch);
        json_count("step", b->measured);
        json_count("epochs_without_better", b->n_worse);
        best_add_json(b);
        json_end();
        return;
    }
    printf("stopped early after epoch %lld, step %lld: the %s %s was no better in %lld epoch%s; "
           "best %.4f, at step %lld\n",
           (long long)epoch, (long long)b->measured, best_split(b),
           metric_words(b->metric, words, sizeof words), (long long)b->n_worse,
           b->n_worse == 1 ? "" : "s", b->value, (long long)b->step);
    fflush(stdout);
}

static qn_status note_best(training *t, qn_split split, const qn_metric *metric) {
    const int64_t step = qn_engine_steps(qn_task_engine(t->s.task));
    bool is_better;
    if (strstr(metric->name, "loss") && !isfinite(metric->value))
        return qn_fail(QN_ERROR_NUMERIC,
                       "step %lld: the %s loss is %g; lower the learning rate, or clip gradients",
                       (long long)step, split == QN_TEST ? "test" : "validation", metric->value);
    if (!t->has_best || (split == QN_TEST && has_validation(t)))
        return QN_OK;
    QN_TRY(best_note(&t->best, split, metric, step, t->s.pairs, &is_better));
    if (is_better)
        save_best(t);
    t->is_stopped = is_patience_over(t);
    return QN_OK;
}

/* With validation samples the test waits for the end: what is chosen by it would flatter it. */
static qn_status end_epoch(training *t, int64_t epoch, bool is_last) {
    qn_metrics metrics, validation;
    bool has_test = false, is_validated;
    QN_TRY(test(t, QN_VALIDATION, &is_validated, &validation));
    if (is_validated)
        QN_TRY(note_best(t, QN_VALIDATION, &validation.list[0]));
    if (!is_validated || is_last || t->is_stopped)
        QN_TRY(test(t, QN_TEST, &has_test, &metrics));
    progress_epoch(&t->progress, epoch, has_test ? &metrics : NULL,
                   is_validated ? &validation : NULL);
    if (has_test)
        QN_TRY(note_best(t, QN_TEST, &metrics.list[0]));
    if (t->is_stopped)
        tell_stopped(t, epoch);
    const char *picture = arguments_get(t->a, "picture");
    return picture ? show(t, picture, NULL) : QN_OK;
}

/* Hours of training are not thrown away for a disk that is full now: the end tries again. */
static qn_status save_between(training *t, int64_t step) {
    qn_status status = save_checkpoint(t);
    if (status == QN_OK || status == QN_ERROR_NUMERIC)
        return status;
    progress_clear(&t->progress);
    fprintf(stderr, "quern: warning: no checkpoint at step %lld: %s; training goes on\n",
            (long long)step, qn_error_message());
    return QN_OK;
}

/* The epoch that a step is of, counted from 0; all of endless data are one. */
static int64_t epoch_of(const training *t, int64_t step) {
    const double epoch_steps = t->progress.epoch_steps;
    return epoch_steps > 0 ? (int64_t)floor((double)step / epoch_steps + 1e-9) : 0;
}

static qn_status do_step(training *t, int64_t step) {
    qn_metrics metrics;
    const int64_t begin = qn_clock_ns();
    QN_TRY(qn_task_step(t->s.task, &metrics));
    progress_step(&t->progress, step, &metrics, qn_clock_ns() - begin);
    return QN_OK;
}

/* A run that was stopped while an epoch's end was measured measures it now: what follows is then as
 * if it had not been stopped. */
static qn_status measure_beginning(training *t) {
    const int64_t step = t->first_step, epoch = epoch_of(t, step);
    const bool is_end = step > 0 && epoch > epoch_of(t, step - 1);
    return t->has_best && is_end && t->best.measured != step ? end_epoch(t, epoch, false) : QN_OK;
}

static qn_status fit(training *t) {
    const int64_t every = arguments_count(t->a, "checkpoint-every");
    const int64_t pictures = arguments_count(t->a, "picture-every");
    progress_begin(&t->progress);
    interrupt_watch();
    QN_TRY(measure_beginning(t));
    for (int64_t step = t->first_step + 1; step <= t->total_steps; step++) {
        QN_TRY(do_step(t, step));
        const int64_t epoch = epoch_of(t, step);
        if (pictures > 0 && step % pictures == 0)
            QN_TRY(show(t, arguments_get(t->a, "picture"), NULL));
        if (epoch > epoch_of(t, step - 1) || step == t->total_steps)
            QN_TRY(end_epoch(t, epoch, step == t->total_steps));
        if (t->is_stopped)
            return QN_OK;
        if (t->save && every > 0 && step % every == 0 && step < t->total_steps)
            QN_TRY(save_between(t, step));
        if (was_interrupted() && step < t->total_steps)
            return qn_fail(QN_ERROR_INTERRUPTED, "stopped after step %lld of %lld", (long long)step,
                           (long long)t->total_steps);
    }
    return QN_OK;
}

/* A checkpoint that is trained already is only tested. */
static qn_status test_only(training *t) {
    if (t->first_step < t->total_steps) {
        t->is_stopped = true;
        tell_stopped(t, epoch_of(t, t->first_step));
        fputs("quern: a larger --early-stop, or --early-stop 0, goes on\n", stderr);
        return test(t, QN_TEST, &t->progress.has_test, &t->progress.test);
    }
    fprintf(stderr, "quern: %s has %lld of %lld steps already; train longer with --epochs\n",
            arguments_get(t->a, "resume"), (long long)t->first_step, (long long)t->total_steps);
    return test(t, QN_TEST, &t->progress.has_test, &t->progress.test);
}

static int finish_interrupted(training *t) {
    report_failed_run();
    if (t->save && save_checkpoint(t) != QN_OK) {
        fprintf(stderr, "quern: not saved: %s\n", qn_error_message());
        return EXIT_FAILED;
    }
    training_print_resume_command(t);
    return EXIT_FAILED;
}

static int finish_failed(training *t) {
    report_failed_run();
    if (t->save && t->saved_step >= 0 && qn_path_is_file(t->save))
        fprintf(stderr, "quern: %s still holds the checkpoint of step %lld\n", t->save,
                (long long)t->saved_step);
    return EXIT_FAILED;
}

/* Where the best weights are; false: they are lost. */
static bool tell_best(const training *t) {
    const char *path = arguments_get(t->a, "save-best");
    const best *b = &t->best;
    char words[40];
    if (!path || b->step < 0)
        return true;
    if (t->saved_best != b->step && b->step > t->first_step) {
        fprintf(stderr, "quern: the best weights, of step %lld, could not be saved\n",
                (long long)b->step);
        return false;
    }
    if (arguments_flag(t->a, "json"))
        return true;
    printf("best: step %lld, %s %s %.4f", (long long)b->step, best_split(b),
           metric_words(b->metric, words, sizeof words), b->value);
    printf(t->saved_best == b->step ? ", saved to %s\n" : ", before this run; %s is as it was\n",
           path);
    return true;
}

static int finish_done(training *t) {
    qn_status saved = t->save ? save_checkpoint(t) : QN_OK;
    training_print_done(t);
    if (saved != QN_OK) {
        qn_fail_within(saved, "trained, but not saved");
        return finish_failed(t);
    }
    if (t->save && !arguments_flag(t->a, "json"))
        printf("saved to %s\n", t->save);
    if (!tell_best(t))
        return EXIT_FAILED;
    if (arguments_flag(t->a, "samples") && !t->progress.is_json && show(t, NULL, put_line) != QN_OK)
        return report_failed_run();
    return EXIT_DONE;
}

static qn_status fit_within(training *t) {
    budget b;
    qn_status status = budget_begin(&b, t);
    if (status == QN_OK)
        status = fit(t);
    budget_end(&b);
    return status;
}

static int run_training(training *t) {
    const bool has_steps = t->first_step < t->total_steps && !is_patience_over(t);
    qn_status status = has_steps ? fit_within(t) : test_only(t);
    progress_clear(&t->progress);
    if (status == QN_ERROR_INTERRUPTED)
        return finish_interrupted(t);
    return status == QN_OK ? finish_done(t) : finish_failed(t);
}

static qn_status open_training(training *t) {
    QN_TRY(check_usage(t->a));
    QN_TRY(training_begin(t));
    if (arguments_flag(t->a, "measure"))
        QN_TRY(training_measure(t));
    QN_TRY(training_open(t));
    return begin_best(t);
}

static int run(const arguments *a) {
    static training t; /* half a megabyte of step times */
    training_init(&t, a);
    t.save = arguments_get(a, "save");
    t.saved_best = -1;
    t.s.budget_changes = budget_may_change(a);
    qn_status status = open_training(&t);
    int result = EXIT_DONE;
    if (status != QN_OK) {
        result = report_failure(status);
    } else {
        if (!t.progress.is_json)
            training_print_opening(&t);
        training_print_plan(&t);
        training_print_tuning(&t);
        result = run_training(&t);
    }
    training_deinit(&t);
    return result;
}

const command command_train = {
    .name = "train",
    .words = "MODEL",
    .least_words = 1,
    .most_words = 1,
    .summary = "Train a model on data",
    .description =
        "On --resume the checkpoint's settings hold; an option that says otherwise is refused,\n"
        "unless --override is given. --epochs, --steps, --no-test, --threads, --save,\n"
        "--save-best, --early-stop, --checkpoint-every and --json are free. A run that is made\n"
        "longer stretches its schedule, unless --schedule-steps was given when it began.\n"
        "Ctrl-C finishes the step and saves.\n"
        "quern train MODEL --help shows that model's recipe.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .shared = {&training_options, &by_plan_options},
    .run = run,
};
