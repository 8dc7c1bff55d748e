/* quern train: trains a model, resumes a run, saves checkpoints. */
#include "base/status.h"
#include "cli/budget.h"
#include "cli/json.h"
#include "cli/look/reading.h"
#include "cli/terminal.h"
#include "cli/train/core_choice.h"
#include "cli/train/personal.h"
#include "cli/train/ranks.h"
#include "cli/train/start.h"
#include "cli/train/training.h"
#include "os/os.h"
#include "os/process/interrupt.h"

#include <stdio.h>
#include <string.h>

#define RECIPE "the model's recipe"

static const double many = 1e15;

static const option options[] = {
    {.name = "data",
     .kind = OPTION_DATA,
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
     .help = "passes over the data, including those before a resume"},
    {.name = "steps",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = many,
     .is_kept = true,
     .is_free = true,
     .otherwise = "none",
     .help = "steps, including those before a resume; with --epochs, the shorter"},
    {.name = "test",
     .kind = OPTION_FLAG,
     .fallback = "yes",
     .help = "skip evaluation, after each epoch and at the end"},
    {.name = "samples",
     .kind = OPTION_FLAG,
     .fallback = "yes",
     .help = "do not print samples after training"},
    {.name = "picture",
     .of = "generation",
     .kind = OPTION_TARGET,
     .makes = QN_OWN_PICTURE,
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
     .makes = QN_OWN_WEIGHTS,
     .replaces = "resume",
     .argument = "FILE",
     .otherwise = "a new folder runs/MODEL-N, with the best, a log and a page",
     .help = "checkpoint, written during training, at the end, and on failure"},
    {.name = "no-save", .kind = OPTION_FLAG, .fallback = "no", .help = "keep nothing of the run"},
    {.name = "load",
     .kind = OPTION_INPUT,
     .of_run = "best",
     .argument = "FILE",
     .is_kept = true,
     .is_free = true,
     .otherwise = "none",
     .help = "initial weights; all but those of --head and --lora are required"},
    CORE_CHOICE_POWER,
    {.name = "save-best",
     .kind = OPTION_TARGET,
     .makes = QN_OWN_WEIGHTS,
     .replaces = "resume",
     .argument = "FILE",
     .otherwise = "none",
     .help = "checkpoint of the best weights so far"},
    {.name = "early-stop",
     .kind = OPTION_COUNT,
     .argument = "N",
     .most = 1e9,
     .is_kept = true,
     .is_free = true,
     .fallback = "0",
     .otherwise = "0, never",
     .help = "stop after N epochs without improvement"},
    {.name = "checkpoint-every",
     .kind = OPTION_COUNT,
     .argument = "N",
     .most = many,
     .otherwise = "soon, then every two minutes, for 1 % of the time at most",
     .help = "steps between checkpoints; 0: none between"},
    {.name = "measure",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "plan --memory from measured operation times; kept for later runs"},
    {.name = "budget-file",
     .kind = OPTION_INPUT,
     .argument = "FILE",
     .otherwise = "none",
     .help = "file with the memory budget (300M, none), read when it changes"},
    {.name = "memory-pressure",
     .kind = OPTION_SIZE,
     .argument = "SIZE",
     .otherwise = "none",
     .help = "budget while the system is short of memory"},
    {.name = "pressure-file",
     .kind = OPTION_INPUT,
     .argument = "FILE",
     .otherwise = "/proc/pressure/memory",
     .help = "pressure file to watch, such as a control group's"},
    {.name = "pressure-calm",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 86400,
     .fallback = "10",
     .help = "seconds without pressure before the budget is restored"},
    {.name = "json", .kind = OPTION_FLAG, .fallback = "no", .help = "print one JSON object a line"},
};

/* ---- usage ---- */

static qn_status check_usage(const arguments *a) {
    if (!arguments_has(a, "data") && !arguments_has(a, "resume"))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "quern train needs MODEL and --data; see quern train --help");
    if (arguments_flag(a, "no-save") && arguments_has(a, "save"))
        return qn_fail(QN_ERROR_ARGUMENT, "--save and --no-save contradict each other");
    if (arguments_count(a, "checkpoint-every") > 0 && arguments_flag(a, "no-save"))
        return qn_fail(QN_ERROR_ARGUMENT, "--checkpoint-every needs a run that is saved");
    if (arguments_get(a, "save-best") && arguments_get(a, "save") &&
        strcmp(arguments_get(a, "save-best"), arguments_get(a, "save")) == 0)
        return qn_fail(QN_ERROR_ARGUMENT, "--save and --save-best need two files");
    if (arguments_flag(a, "measure") && !arguments_has(a, "memory"))
        return qn_fail(QN_ERROR_ARGUMENT, "--measure needs --memory SIZE");
    if (arguments_count(a, "picture-every") > 0 && !arguments_has(a, "picture"))
        return qn_fail(QN_ERROR_ARGUMENT, "--picture-every needs --picture FILE");
    if (arguments_has(a, "pressure-file") && !arguments_has(a, "memory-pressure"))
        return qn_fail(QN_ERROR_ARGUMENT, "--pressure-file needs --memory-pressure SIZE");
    return personal_check(a);
}

/* ---- what is beside training ---- */

static bool should_stop(void *user) {
    (void)user;
    return qn_was_interrupted();
}

static void put_line(void *user, const char *line) {
    (void)user;
    puts(line);
}

static qn_status show(training *t, const char *picture, void (*put)(void *, const char *)) {
    const qn_sample_options sampled = {
        QN_OPTIONS_INIT(qn_sample_options),
        .temperature = 1,
        .seed = (uint64_t)settings_count(&t->settings, "seed"),
        .picture = picture,
        .put = put,
    };
    const qn_status status = qn_task_sample(t->s.task, &sampled);
    return status == QN_ERROR_UNSUPPORTED ? QN_OK : status;
}

static void warn(training *t, const char *message) {
    progress_clear(&t->progress);
    terminal_note("warning: %s", message);
}

static void draw(training *t) {
    const char *picture = arguments_get(t->a, "picture");
    if (picture && show(t, picture, NULL) != QN_OK)
        warn(t, qn_error_message());
}

/* ---- what the library tells of the run ---- */

static void print_stopped(const training *t, int64_t epoch) {
    const qn_best b = qn_training_get_state(t->run).best;
    char words[40];
    if (arguments_flag(t->a, "json")) {
        json_begin();
        json_text("event", "early_stop");
        json_count("epoch", epoch);
        json_count("step", b.measured);
        json_count("epochs_without_better", b.n_worse);
        best_add_json(&b);
        json_end();
    } else {
        printf("stopped early after epoch %lld, step %lld: the %s %s was no better in %lld "
               "epoch%s; best %.4f, at step %lld\n",
               (long long)epoch, (long long)b.measured, best_split(&b),
               metric_words(b.metric, words, sizeof words), (long long)b.n_worse,
               b.n_worse == 1 ? "" : "s", b.value, (long long)b.step);
        fflush(stdout);
    }
    if (t->progress.n_steps == 0)
        fputs("quern: a larger --early-stop, or --early-stop 0, goes on\n", stderr);
}

static void note_step(training *t, const qn_training_event *e) {
    const int64_t pictures = arguments_count(t->a, "picture-every");
    progress_step(&t->progress, e->step, e->metrics, e->ns);
    training_hold_power(t);
    if (pictures > 0 && e->step % pictures == 0)
        draw(t);
}

static void note_tested(training *t, const qn_training_event *e) {
    if (t->first_step >= t->total_steps && arguments_get(t->a, "resume") &&
        !arguments_get(t->a, "personalise"))
        terminal_note("%s has %lld of %lld steps already; train longer with --epochs",
                      arguments_get(t->a, "resume"), (long long)t->first_step,
                      (long long)t->total_steps);
    t->progress.has_test = e->test != NULL;
    if (e->test)
        t->progress.test = *e->test;
}

static void note(void *user, const qn_training_event *e) {
    training *t = user;
    switch (e->kind) {
    case QN_TRAINING_STEP:
        note_step(t, e);
        break;
    case QN_TRAINING_EPOCH:
        if (run_folder_note(&t->folder, e, &t->progress) != QN_OK)
            warn(t, qn_error_message());
        progress_epoch(&t->progress, e->epoch, e->test, e->validation);
        draw(t);
        break;
    case QN_TRAINING_STOPPED:
        print_stopped(t, e->epoch);
        break;
    case QN_TRAINING_TESTED:
        note_tested(t, e);
        break;
    case QN_TRAINING_WARNING:
        warn(t, e->message);
        break;
    }
}

/* ---- the run ---- */

/* What is saved, and how to go on from it. */
static int finish_failed(training *t) {
    const char *resume = arguments_get(t->a, "resume");
    const int64_t saved = t->state.saved_step;
    const char *from = saved >= 0 ? t->state.saved_to : resume;
    if (qn_ranks_own(t->s.how.engine.ranks) > 0 && qn_was_interrupted())
        return EXIT_FAILED; /* rank 0 tells, or has died: then mpirun does */
    report_failed_run();
    if (!t->save && t->progress.n_steps > 0)
        fputs("quern: nothing is saved; without --no-save a stopped run can be resumed\n", stderr);
    if (!t->save)
        return EXIT_FAILED;
    if (saved >= 0 && strcmp(from, t->save) != 0)
        terminal_note("%s was trained longer, and stays", t->save);
    if (from && (saved >= 0 || strcmp(from, t->save) == 0))
        terminal_note("%s %sholds the checkpoint of step %lld", from,
                      saved < t->progress.step ? "still " : "",
                      (long long)(saved >= 0 ? saved : t->first_step));
    if (from)
        training_print_resume_command(t, from);
    return EXIT_FAILED;
}

/* Where the best weights are; false: they are lost. */
static bool tell_best(const training *t) {
    const char *path = t->save_best;
    const qn_best *b = &t->state.best;
    const bool is_saved = t->state.saved_best_step == b->step;
    char words[40];
    if (!path || b->step < 0)
        return true;
    if (!is_saved && b->step > t->first_step) {
        terminal_note("the best weights, of step %lld, could not be saved", (long long)b->step);
        return false;
    }
    if (arguments_flag(t->a, "json"))
        return true;
    printf("best: step %lld, %s %s %.4f", (long long)b->step, best_split(b),
           metric_words(b->metric, words, sizeof words), b->value);
    printf(is_saved ? ", saved to %s\n" : ", before this run; %s is as it was\n",
           terminal_name(is_saved && t->state.saved_best_to ? t->state.saved_best_to : path));
    return true;
}

/* What is used of a run's folder, and where the best is that was not asked for. */
static void tell_folder(const training *t) {
    const qn_best *b = &t->state.best;
    const bool has_best = *t->folder.path && qn_path_is_file(t->folder.best);
    if (t->progress.is_json)
        return;
    if (*t->folder.path)
        printf("kept in %s: quern predict --weights %s uses %s\n", terminal_name(t->folder.path),
               terminal_name(t->folder.path), has_best ? "the best" : "the last");
    else if (t->save && !t->save_best && b->split == QN_VALIDATION && b->step >= 0 &&
             b->step < t->state.saved_step)
        printf("the best by validation was step %lld; --save-best FILE keeps it\n",
               (long long)b->step);
}

static int finish_done(training *t) {
    const char *to = t->state.saved_to;
    if (to && !arguments_flag(t->a, "json"))
        printf("saved to %s\n", terminal_name(to));
    if (to && strcmp(t->save, to) != 0)
        terminal_note("%s was trained longer, and stays", t->save);
    if (!tell_best(t))
        return EXIT_FAILED;
    tell_folder(t);
    if (arguments_flag(t->a, "samples") && !t->progress.is_json && show(t, NULL, put_line) != QN_OK)
        return report_failed_run();
    return personal_run(t) == QN_OK ? EXIT_DONE : report_failed_run();
}

static qn_status run_within_budget(training *t) {
    budget b;
    qn_status status = budget_begin(&b, t);
    qn_interrupt_watch(EXIT_FAILED);
    if (status == QN_OK && training_print_look(t) != QN_OK)
        warn(t, qn_error_message());
    progress_begin(&t->progress);
    if (status == QN_OK && start_is_due(t))
        status = start_fit(t);
    if (status == QN_OK)
        status = qn_training_run(t->run);
    budget_end(&b);
    return status;
}

/* Keeps the message of the run's failure. */
static void end_folder(training *t, qn_status status) {
    char message[1024];
    snprintf(message, sizeof message, "%s", qn_error_message());
    const char *how = status != QN_OK       ? message
                      : t->state.is_stopped ? "Stopped early: no improvement."
                                            : "All steps are done.";
    if (run_folder_end(&t->folder, &t->state, t->s.model->name, how) != QN_OK)
        warn(t, qn_error_message());
    if (status != QN_OK)
        (void)qn_fail(status, "%s", message);
}

static int run_training(training *t) {
    const qn_status status = run_within_budget(t);
    t->state = qn_training_get_state(t->run);
    progress_clear(&t->progress);
    end_folder(t, status);
    if (t->state.is_trained) {
        training_print_cores(t, true);
        training_print_done(t);
    }
    return status == QN_OK ? finish_done(t) : finish_failed(t);
}

/* Steps between checkpoints, as the library counts them. */
static int64_t save_every(const arguments *a) {
    const int64_t every = arguments_count(a, "checkpoint-every");
    return arguments_has(a, "checkpoint-every") && every == 0 ? -1 : every;
}

static qn_status create(training *t) {
    const qn_training_options wanted = {QN_OPTIONS_INIT(qn_training_options),
                                        .task = t->s.task,
                                        .settings = t->s.pairs,
                                        .save = t->save,
                                        .save_best = t->save_best,
                                        .replaces_longer = arguments_flag(t->a, "override"),
                                        .save_every = save_every(t->a),
                                        .total_steps = t->total_steps,
                                        .patience = settings_count(&t->settings, "early-stop"),
                                        .no_test = !arguments_flag(t->a, "test"),
                                        .user = t,
                                        .should_stop = should_stop,
                                        .stop_flag = qn_interrupt_flag(),
                                        .tell = note,
                                        .is_standby = qn_ranks_own(t->s.how.engine.ranks) > 0};
    return qn_training_create(&wanted, &t->run);
}

/* A run that names no file is kept in a folder, with the best where it is validated. */
static qn_status choose_folder(training *t) {
    const char *resume = arguments_get(t->a, "resume");
    const qn_task_facts facts = qn_task_get_facts(t->s.task);
    if (t->save || arguments_flag(t->a, "no-save") || qn_ranks_own(t->s.how.engine.ranks) > 0)
        return QN_OK;
    if (t->first_step >= t->total_steps)
        return QN_OK; /* it is only tested */
    QN_TRY(run_folder_open(&t->folder, t->s.model->name, resume));
    if (!*t->folder.path)
        return QN_OK;
    t->save = t->folder.last;
    if (!t->save_best && facts.n_samples[QN_VALIDATION] > 0)
        t->save_best = t->folder.best;
    return QN_OK;
}

/* The first checkpoint is written at once: whatever ends the run, there is one to go on from. */
static qn_status begin_folder(training *t) {
    if (!*t->folder.path)
        return QN_OK;
    QN_TRY(run_folder_begin(&t->folder, t->s.pairs, t->first_step));
    if (t->first_step > 0 && !t->folder.is_new)
        return QN_OK;
    return qn_checkpoint_save(qn_task_engine(t->s.task), t->s.pairs, t->folder.last);
}

static qn_status open_training(training *t) {
    /* Two ranks have the same weights: one is enough to survive the other. */
    t->save = qn_ranks_own(t->s.how.engine.ranks) > 1 ? NULL : arguments_get(t->a, "save");
    t->save_best = arguments_get(t->a, "save-best");
    QN_TRY(check_usage(t->a));
    QN_TRY(training_begin(t));
    QN_TRY(personal_check_model(t->a, t->s.model));
    if (arguments_flag(t->a, "measure"))
        QN_TRY(training_measure(t));
    QN_TRY(training_open(t));
    QN_TRY(choose_folder(t));
    QN_TRY(create(t));
    t->state = qn_training_get_state(t->run);
    return begin_folder(t);
}

static int run(const arguments *a) {
    static training t; /* half a megabyte of step times */
    training_init(&t, a);
    t.s.how.engine.budget_changes = budget_may_change(a);
    qn_status status = ranks_join(&t);
    if (status == QN_OK)
        status = open_training(&t);
    int result = EXIT_DONE;
    if (status != QN_OK) {
        result = report_failure(status);
    } else {
        if (!t.progress.is_json)
            training_print_opening(&t);
        training_print_plan(&t);
        training_print_tuning(&t);
        training_print_cores(&t, false);
        result = run_training(&t);
    }
    qn_training_destroy(t.run);
    run_folder_close(&t.folder);
    ranks_leave(&t, result == EXIT_DONE && status == QN_OK);
    training_deinit(&t);
    return result;
}

const command command_train = {
    .name = "train",
    .words = "[MODEL]",
    .least_words = 0,
    .most_words = 1,
    .summary = "Train a model on data",
    .description =
        "With --resume, the checkpoint's model and settings apply. An option that contradicts\n"
        "them is refused unless --override is given; --epochs, --steps, --no-test, --threads,\n"
        "--save, --save-best, --early-stop, --checkpoint-every and --json may always change. A\n"
        "longer run stretches its learning rate schedule, unless it began with\n"
        "--schedule-steps. Checkpoints are also written during training\n"
        "(--checkpoint-every). Ctrl-C, TERM, HUP and most errors save the last step before\n"
        "quern exits. quern train MODEL --help shows that model's recipe.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .shared = {&training_options, &table_options, &table_form_options, &reading_options,
               &by_plan_options, &personal_options, &onnx_options, &start_options},
    .run = run,
    .makes_files = true,
};
