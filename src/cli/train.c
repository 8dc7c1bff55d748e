/* quern train: trains a model, resumes a run, saves checkpoints. */
#include "base/status.h"
#include "cli/interrupt.h"
#include "cli/training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECIPE             "the model's recipe"
#define RECIPE_FOR(others) RECIPE ", or for another optimizer " others

static const double many = 1e15;

static const option options[] = {
    {.name = "data",
     .kind = OPTION_TEXT,
     .argument = "DATA",
     .is_kept = true,
     .otherwise = "none; on resume, the checkpoint's",
     .help = "what to train on"},
    {.name = "holdout",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .most = 0.9,
     .is_kept = true,
     .fallback = "0",
     .otherwise = "images 0.1, text and pairs 0.05, npy and csv 0",
     .help = "part held out for testing where the data has no test samples"},
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
    {.name = "batch",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e9,
     .is_kept = true,
     .otherwise = RECIPE,
     .help = "samples in a batch"},
    {.name = "optimizer",
     .kind = OPTION_CHOICE,
     .argument = "sgd|adam|adamw",
     .is_kept = true,
     .otherwise = RECIPE,
     .help = "how gradients change weights"},
    {.name = "lr",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .most = 1e6,
     .is_kept = true,
     .otherwise = RECIPE_FOR("0.001, sgd 0.01"),
     .help = "learning rate, after warm-up"},
    {.name = "momentum",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .most = 0.999999,
     .is_kept = true,
     .otherwise = RECIPE_FOR("0.9"),
     .help = "momentum of sgd"},
    {.name = "nesterov",
     .kind = OPTION_FLAG,
     .is_kept = true,
     .fallback = "no",
     .otherwise = RECIPE,
     .help = "Nesterov's form of momentum; --no-nesterov for the plain one"},
    {.name = "weight-decay",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .most = 1e6,
     .is_kept = true,
     .otherwise = RECIPE_FOR("0, adamw 0.01"),
     .help = "decay of the weights"},
    {.name = "beta1",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .most = 0.999999,
     .is_kept = true,
     .otherwise = RECIPE,
     .help = "decay of the mean gradient of adam and adamw"},
    {.name = "schedule",
     .kind = OPTION_CHOICE,
     .argument = "constant|step|cosine",
     .is_kept = true,
     .otherwise = RECIPE,
     .help = "the rate over time: constant, a tenth after each third, cosine to 0"},
    {.name = "warmup",
     .kind = OPTION_COUNT,
     .argument = "N",
     .most = many,
     .is_kept = true,
     .otherwise = RECIPE,
     .help = "steps in which the rate rises from 0"},
    {.name = "schedule-steps",
     .kind = OPTION_COUNT,
     .argument = "N",
     .most = many,
     .is_kept = true,
     .fallback = "0",
     .otherwise = "0, the run's; a run made longer on resume stretches it",
     .help = "length of the schedule"},
    {.name = "clip-norm",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .most = many,
     .is_kept = true,
     .otherwise = RECIPE ", 0: no clipping",
     .help = "largest norm of the whole gradient"},
    {.name = "accumulate",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e6,
     .is_kept = true,
     .fallback = "1",
     .help = "batches whose gradients make one step"},
    {.name = "label-smoothing",
     .of = "classification",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .most = 0.999999,
     .is_kept = true,
     .otherwise = RECIPE,
     .help = "part of each target spread over all classes"},
    {.name = "augment",
     .of = "classification",
     .kind = OPTION_LIST,
     .argument = "crop,flip",
     .is_kept = true,
     .fallback = "none",
     .help = "random shifts, mirror images, or both"},
    {.name = "shuffle",
     .kind = OPTION_FLAG,
     .is_kept = true,
     .fallback = "yes",
     .help = "keep the file's order; else a new one every epoch"},
    {.name = "input",
     .of = "classification",
     .kind = OPTION_SHAPE,
     .argument = "HxWxC",
     .is_kept = true,
     .otherwise = "the model's; for rows of numbers, their length",
     .help = "input shape; 224x224x3 builds the ImageNet form where there is one"},
    {.name = "classes",
     .of = "classification",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e6,
     .is_kept = true,
     .otherwise = "the data's",
     .help = "outputs of the model"},
    {.name = "length",
     .of = "language translation answering",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e6,
     .is_kept = true,
     .otherwise = "the model's",
     .help = "characters of a block, words of a sentence, tokens of a row"},
    {.name = "stride",
     .of = "answering",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e6,
     .is_kept = true,
     .otherwise = "a third of the length",
     .help = "tokens by which the window on a long passage moves on"},
    {.name = "wordpiece",
     .of = "answering",
     .kind = OPTION_TEXT,
     .argument = "FILE",
     .is_kept = true,
     .otherwise = "none, must be given but for synthetic data",
     .help = "vocabulary, a token a line; kept in checkpoints"},
    {.name = "vocabulary",
     .of = "language translation",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 2,
     .most = 1e6,
     .is_kept = true,
     .otherwise = "the model's",
     .help = "most characters, or words of each language, to tell apart"},
    {.name = "hidden",
     .of = "language translation",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 65536,
     .is_kept = true,
     .otherwise = "the model's",
     .help = "units of each layer"},
    {.name = "net",
     .of = "control",
     .kind = OPTION_CHOICE,
     .argument = "conv|mlp",
     .is_kept = true,
     .fallback = "conv",
     .help = "the network: for frames, or for rows of numbers"},
    {.name = "frames",
     .of = "control",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = many,
     .is_kept = true,
     .is_free = true,
     .otherwise = "conv 200000, mlp 60000; none beside --steps",
     .help = "frames of the game to be played; with --steps, the shorter"},
    {.name = "replay",
     .of = "control",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 100,
     .most = 1e9,
     .is_kept = true,
     .otherwise = "conv 30000, mlp 20000",
     .help = "observations that are remembered; 7 kB each where they are frames"},
    {.name = "fill",
     .of = "control",
     .kind = OPTION_COUNT,
     .argument = "N",
     .most = many,
     .is_kept = true,
     .otherwise = "conv 8000, mlp 1000",
     .help = "frames that are played before the first update"},
    {.name = "explore",
     .of = "control",
     .kind = OPTION_COUNT,
     .argument = "N",
     .most = many,
     .is_kept = true,
     .otherwise = "conv 80000, mlp 10000",
     .help = "frames in which the part of random actions falls from 1 to --epsilon"},
    {.name = "epsilon",
     .of = "control",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .most = 1,
     .is_kept = true,
     .otherwise = "conv 0.05, mlp 0.02",
     .help = "part of random actions after --explore"},
    {.name = "update-every",
     .of = "control",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e6,
     .is_kept = true,
     .otherwise = "conv 4, mlp 1",
     .help = "actions between updates"},
    {.name = "target-every",
     .of = "control",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = many,
     .is_kept = true,
     .fallback = "250",
     .help = "updates between copies to the target network"},
    {.name = "return-steps",
     .of = "control",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 100,
     .is_kept = true,
     .fallback = "3",
     .help = "actions whose rewards a target adds up before a learned value"},
    {.name = "discount",
     .of = "control",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .most = 1,
     .is_kept = true,
     .fallback = "0.99",
     .help = "worth of a reward one action later"},
    {.name = "episodes",
     .of = "control",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e6,
     .is_kept = true,
     .is_free = true,
     .otherwise = "conv 30, mlp 100",
     .help = "episodes of a test"},
    {.name = "test-epsilon",
     .of = "control",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .most = 1,
     .is_kept = true,
     .is_free = true,
     .otherwise = "conv 0.05, mlp 0",
     .help = "part of random actions in tests and samples"},
    {.name = "timeout",
     .of = "control",
     .kind = OPTION_COUNT,
     .argument = "SECONDS",
     .least = 1,
     .most = 86400,
     .is_kept = true,
     .is_free = true,
     .fallback = "30",
     .help = "how long an environment's process may take to answer"},
    {.name = "min-count",
     .of = "translation",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e9,
     .is_kept = true,
     .fallback = "1",
     .help = "how often a word must be met to be told apart"},
    {.name = "seed",
     .kind = OPTION_COUNT,
     .argument = "N",
     .most = 9e18,
     .is_kept = true,
     .fallback = "1",
     .help = "of weights, order, augmentation, dropout and held-out parts"},
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
     .kind = OPTION_TEXT,
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
    {.name = "threads",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 256,
     .otherwise = "the processors there are",
     .help = "threads; the result does not depend on them"},
    {.name = "save",
     .kind = OPTION_TEXT,
     .argument = "FILE",
     .otherwise = "none",
     .help = "checkpoint, written at the end, when stopped, and between"},
    {.name = "checkpoint-every",
     .kind = OPTION_COUNT,
     .argument = "N",
     .most = many,
     .fallback = "0",
     .otherwise = "0, never",
     .help = "steps between checkpoints"},
    {.name = "resume",
     .kind = OPTION_TEXT,
     .argument = "FILE",
     .otherwise = "none",
     .help = "checkpoint to go on from, with its settings"},
    {.name = "override",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "let options replace the settings of the checkpoint"},
    {.name = "json", .kind = OPTION_FLAG, .fallback = "no", .help = "print one JSON object a line"},
};

/* ---- usage ---- */

static qn_status check_usage(const arguments *a) {
    if (!arguments_has(a, "data") && !arguments_has(a, "resume"))
        return qn_fail(QN_ERROR_ARGUMENT, "quern train needs --data; see quern train --help");
    if (arguments_flag(a, "override") && !arguments_has(a, "resume"))
        return qn_fail(QN_ERROR_ARGUMENT, "--override is of use with --resume only");
    if (arguments_count(a, "checkpoint-every") > 0 && !arguments_has(a, "save"))
        return qn_fail(QN_ERROR_ARGUMENT, "--checkpoint-every needs --save FILE");
    if (arguments_count(a, "picture-every") > 0 && !arguments_has(a, "picture"))
        return qn_fail(QN_ERROR_ARGUMENT, "--picture-every needs --picture FILE");
    return QN_OK;
}

/* Of what was given: a recipe's momentum is no error with adam. */
static qn_status check_settings(const arguments *a, const settings *s) {
    const bool is_sgd = strcmp(settings_get(s, "optimizer"), "sgd") == 0;
    if (!is_sgd && (arguments_has(a, "momentum") || arguments_flag(a, "nesterov")))
        return qn_fail(QN_ERROR_ARGUMENT, "--momentum and --nesterov are of sgd, not of %s",
                       settings_get(s, "optimizer"));
    if (settings_flag(s, "nesterov") && !(settings_number(s, "momentum") > 0))
        return qn_fail(QN_ERROR_ARGUMENT, "--nesterov needs a --momentum above 0");
    return QN_OK;
}

/* A path that cannot be written is found before training, not after. */
static qn_status check_target(const char *name, const char *path) {
    char folder[4096];
    const char *slash = path ? strrchr(path, '/') : NULL;
    if (path && (!*path || qn_path_is_folder(path)))
        return qn_fail(QN_ERROR_ARGUMENT, "--%s \"%s\": it must name a file", name, path);
    if (!slash || slash == path)
        return QN_OK;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    if (!qn_path_is_folder(folder))
        return qn_fail(QN_ERROR_IO, "--%s %s: there is no folder %s", name, path, folder);
    return QN_OK;
}

/* ---- opening ---- */

static qn_status read_settings(training *t) {
    if (t->s.kept) {
        const char *step = qn_metadata_get(t->s.kept, "step");
        t->first_step = step ? strtoll(step, NULL, 10) : 0;
        t->saved_step = t->first_step;
    }
    QN_TRY(settings_resolve(t->a, t->s.model, t->s.kept, &t->settings));
    return check_settings(t->a, &t->settings);
}

/* What the task is opened with, and what its checkpoints say. */
static qn_status make_pairs(training *t) {
    QN_TRY(qn_metadata_set(t->s.pairs, "format", "quern checkpoint 1"));
    QN_TRY(qn_metadata_set(t->s.pairs, "model", t->s.model->name));
    QN_TRY(settings_store(&t->settings, t->s.pairs));
    /* What is not a setting was found out by the task; a setting that is gone stays gone. */
    for (int i = 0; t->s.kept && i < qn_metadata_count(t->s.kept); i++) {
        const char *key, *value;
        qn_metadata_at(t->s.kept, i, &key, &value);
        if (option_find(t->a->command, key) < 0 && strcmp(key, "step") != 0)
            QN_TRY(qn_metadata_set(t->s.pairs, key, value));
    }
    return QN_OK;
}

static qn_status open_task(training *t) {
    if (!settings_get(&t->settings, "data"))
        return qn_fail(QN_ERROR_ARGUMENT, "the checkpoint does not say its data; give --data");
    QN_TRY(make_pairs(t));
    QN_TRY(session_open_task(&t->s, true, (int)arguments_count(t->a, "threads")));
    t->total_steps = qn_task_get_facts(t->s.task).total_steps;
    if (t->total_steps < 1)
        return qn_fail(QN_ERROR_ARGUMENT, "nothing says how long to train; give --steps");
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

/* Measures on what is held out, into the progress; nothing where there is none. */
static qn_status test(training *t, bool *has_test, qn_metrics *metrics) {
    int64_t n_samples = 0;
    *has_test = false;
    if (!arguments_flag(t->a, "test"))
        return QN_OK;
    QN_TRY(qn_task_evaluate(t->s.task, QN_TEST, should_stop, t, metrics, &n_samples));
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

static qn_status end_epoch(training *t, int64_t epoch) {
    qn_metrics metrics;
    bool has_test;
    QN_TRY(test(t, &has_test, &metrics));
    progress_epoch(&t->progress, epoch, has_test ? &metrics : NULL);
    const qn_metric *first = has_test ? &metrics.list[0] : NULL;
    if (first && strcmp(first->name, "loss") == 0 && !isfinite(first->value))
        return qn_fail(QN_ERROR_NUMERIC,
                       "step %lld: the test loss is %g; lower the learning rate, or clip gradients",
                       (long long)qn_engine_steps(qn_task_engine(t->s.task)), first->value);
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

static qn_status fit(training *t) {
    const int64_t every = arguments_count(t->a, "checkpoint-every");
    const int64_t pictures = arguments_count(t->a, "picture-every");
    progress_begin(&t->progress);
    interrupt_watch();
    for (int64_t step = t->first_step + 1; step <= t->total_steps; step++) {
        QN_TRY(do_step(t, step));
        const int64_t epoch = epoch_of(t, step);
        if (pictures > 0 && step % pictures == 0)
            QN_TRY(show(t, arguments_get(t->a, "picture"), NULL));
        if (epoch > epoch_of(t, step - 1) || step == t->total_steps)
            QN_TRY(end_epoch(t, epoch));
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
    fprintf(stderr, "quern: %s has %lld of %lld steps already; train longer with --epochs\n",
            arguments_get(t->a, "resume"), (long long)t->first_step, (long long)t->total_steps);
    return test(t, &t->progress.has_test, &t->progress.test);
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

static int finish_done(training *t) {
    qn_status saved = t->save ? save_checkpoint(t) : QN_OK;
    training_print_done(t);
    if (saved != QN_OK) {
        qn_fail_within(saved, "trained, but not saved");
        return finish_failed(t);
    }
    if (t->save && !arguments_flag(t->a, "json"))
        printf("saved to %s\n", t->save);
    if (arguments_flag(t->a, "samples") && !t->progress.is_json && show(t, NULL, put_line) != QN_OK)
        return report_failed_run();
    return EXIT_DONE;
}

static int run_training(training *t) {
    const bool has_steps = t->first_step < t->total_steps;
    qn_status status = has_steps ? fit(t) : test_only(t);
    progress_clear(&t->progress);
    if (status == QN_ERROR_INTERRUPTED)
        return finish_interrupted(t);
    return status == QN_OK ? finish_done(t) : finish_failed(t);
}

static qn_status open_training(training *t) {
    const char *resume = arguments_get(t->a, "resume");
    QN_TRY(check_usage(t->a));
    QN_TRY(session_begin(&t->s, t->a->words[0], resume));
    QN_TRY(check_target("save", t->save));
    QN_TRY(check_target("picture", arguments_get(t->a, "picture")));
    QN_TRY(read_settings(t));
    QN_TRY(open_task(t));
    return resume ? session_load(&t->s, resume, !t->settings.is_new_optimizer) : QN_OK;
}

static void prepare_progress(training *t) {
    const qn_task_facts facts = qn_task_get_facts(t->s.task);
    t->progress.is_json = arguments_flag(t->a, "json");
    t->progress.first_step = t->first_step;
    t->progress.total_steps = t->total_steps;
    t->progress.epoch_steps = facts.epoch_steps;
    t->progress.step_samples = facts.step_samples;
    t->progress.unit = facts.unit;
}

static int run(const arguments *a) {
    static training t; /* half a megabyte of step times */
    t.a = a;
    t.save = arguments_get(a, "save");
    t.saved_step = -1;
    session_init(&t.s);
    qn_status status = open_training(&t);
    int result = EXIT_DONE;
    if (status != QN_OK) {
        result = report_failure(status);
    } else {
        prepare_progress(&t);
        if (!t.progress.is_json)
            training_print_opening(&t);
        result = run_training(&t);
    }
    settings_deinit(&t.settings);
    session_deinit(&t.s);
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
        "--checkpoint-every and --json are free. A run that is made longer stretches its schedule, "
        "unless\n"
        "--schedule-steps was given when it began. Ctrl-C finishes the step and saves.\n"
        "quern train MODEL --help shows that model's recipe.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run,
};
