/* quern train: trains a model, resumes a run, saves checkpoints. */
#include "base/status.h"
#include "cli/interrupt.h"
#include "cli/training.h"
#include "tensor/tensor.h"

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
     .otherwise = "images 0.1, npy and csv 0",
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
     .fallback = "0",
     .otherwise = "0, no clipping",
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
     .kind = OPTION_NUMBER,
     .argument = "X",
     .most = 0.999999,
     .is_kept = true,
     .otherwise = RECIPE,
     .help = "part of each target spread over all classes"},
    {.name = "augment",
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
     .kind = OPTION_SHAPE,
     .argument = "HxWxC",
     .is_kept = true,
     .otherwise = "the model's; for rows of numbers, their length",
     .help = "input shape; 224x224x3 builds the ImageNet form where there is one"},
    {.name = "classes",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e6,
     .is_kept = true,
     .otherwise = "the data's",
     .help = "outputs of the model"},
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
static qn_status check_save(const char *path) {
    char folder[4096];
    const char *slash = path ? strrchr(path, '/') : NULL;
    if (path && (!*path || qn_path_is_folder(path)))
        return qn_fail(QN_ERROR_ARGUMENT, "--save \"%s\": it must name a file", path);
    if (!slash || slash == path)
        return QN_OK;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    if (!qn_path_is_folder(folder))
        return qn_fail(QN_ERROR_IO, "--save %s: there is no folder %s", path, folder);
    return QN_OK;
}

/* ---- opening ---- */

static qn_status read_settings(training *t) {
    const char *resume = arguments_get(t->a, "resume");
    if (resume) {
        QN_TRY(session_read_checkpoint(&t->s, resume));
        const char *step = qn_metadata_get(t->s.metadata, "step");
        t->first_step = step ? strtoll(step, NULL, 10) : 0;
        t->saved_step = t->first_step;
    }
    QN_TRY(settings_resolve(t->a, t->s.model, t->s.metadata, &t->settings));
    return check_settings(t->a, &t->settings);
}

static qn_status open_data(training *t) {
    data_request request = {
        .specification = settings_get(&t->settings, "data"),
        .seed = (uint64_t)settings_count(&t->settings, "seed"),
        .holdout = settings_number(&t->settings, "holdout"),
        .n_classes = (int)settings_count(&t->settings, "classes"),
    };
    const char *input = settings_get(&t->settings, "input");
    const char *kept_data = t->s.metadata ? qn_metadata_get(t->s.metadata, "data") : NULL;
    const qn_preparation kept = t->s.preparation;
    const bool is_same =
        kept_data && request.specification && strcmp(kept_data, request.specification) == 0;
    if (!request.specification)
        return qn_fail(QN_ERROR_ARGUMENT, "the checkpoint does not say its data; give --data");
    if (input)
        shape_parse(input, &request.input);
    QN_TRY(session_open_data(&t->s, &request, is_same ? &kept : NULL));
    char text[QN_SHAPE_TEXT];
    QN_TRY(settings_set(&t->settings, "input", qn_shape_print(t->s.input, text)));
    snprintf(text, sizeof text, "%d", t->s.n_outputs);
    return settings_set(&t->settings, "classes", text);
}

static qn_status open_loaders(training *t) {
    const settings *s = &t->settings;
    const char *augment = settings_get(s, "augment");
    const int64_t batch = settings_count(s, "batch");
    const int64_t n_samples = t->s.source.n_samples[QN_TRAIN];
    const qn_loader_options loader = {
        .allocator = &t->s.allocator,
        .split = QN_TRAIN,
        .batch = batch,
        .seed = (uint64_t)settings_count(s, "seed"),
        .shuffle = settings_flag(s, "shuffle"),
        .crop = strstr(augment, "crop") != NULL,
        .flip = strstr(augment, "flip") != NULL,
        .first = t->first_step * settings_count(s, "accumulate"),
        .n_batches = -1,
        .n_prefetched = 2,
    };
    if (batch > n_samples)
        return qn_fail(QN_ERROR_FORMAT,
                       "a batch of %lld is larger than the data set: %s has %lld training "
                       "samples; use a smaller --batch",
                       (long long)batch, t->s.source.name, (long long)n_samples);
    QN_TRY(qn_loader_create(&t->s.source, &t->s.preparation, &loader, &t->s.train));
    if (t->s.source.n_samples[QN_TEST] == 0 || !arguments_flag(t->a, "test"))
        return QN_OK;
    return session_open_test(&t->s, QN_TEST, batch);
}

static qn_status open_trainer(training *t) {
    qn_trainer_options trainer = settings_trainer_options(&t->settings, t->s.model);
    t->total_steps = settings_total_steps(&t->settings, qn_loader_epoch_batches(t->s.train));
    trainer.allocator = &t->s.allocator;
    trainer.input = t->s.input;
    trainer.n_outputs = t->s.n_outputs;
    trainer.regression = t->s.is_regression;
    trainer.n_threads = (int)arguments_count(t->a, "threads");
    if (trainer.update.schedule_steps == 0)
        trainer.update.schedule_steps = t->total_steps;
    return qn_trainer_create(&trainer, &t->s.trainer);
}

static qn_status make_pairs(training *t) {
    QN_TRY(qn_metadata_create(NULL, &t->pairs));
    QN_TRY(qn_metadata_set(t->pairs, "format", "quern checkpoint 1"));
    QN_TRY(qn_metadata_set(t->pairs, "model", t->s.model->name));
    QN_TRY(settings_store(&t->settings, t->pairs));
    return qn_metadata_set_preparation(t->pairs, &t->s.preparation);
}

/* ---- the run ---- */

static qn_status next_batch(void *self, qn_batch *batch) {
    training *t = self;
    QN_TRY(t->batches.next(t->batches.self, batch));
    t->last = *batch;
    return QN_OK;
}

/* The loss of a step is that before its update. Weights after it may be of no use already: then
 * they must not replace those that were. */
static qn_status check_loss(training *t) {
    qn_evaluation sum = {0};
    if (!t->last.x)
        return QN_OK;
    QN_TRY(qn_trainer_evaluate(t->s.trainer, t->last.x, t->last.y, t->last.n_valid, &sum));
    if (isfinite(sum.loss_sum))
        return QN_OK;
    return qn_fail(QN_ERROR_NUMERIC,
                   "step %lld: after it the loss is %g; lower the learning rate, or clip gradients",
                   (long long)qn_trainer_steps(t->s.trainer), sum.loss_sum);
}

static qn_status save_checkpoint(training *t) {
    QN_TRY(check_loss(t));
    QN_TRY(qn_checkpoint_save(qn_trainer_engine(t->s.trainer), t->pairs, t->save));
    t->saved_step = qn_trainer_steps(t->s.trainer);
    return QN_OK;
}

static qn_status on_step(void *user, const qn_step_result *result, int64_t nanoseconds) {
    training *t = user;
    progress_step(&t->progress, result, nanoseconds);
    return QN_OK;
}

static qn_status on_epoch(void *user, const qn_epoch_result *result) {
    training *t = user;
    progress_epoch(&t->progress, result);
    if (result->has_test && !isfinite(result->test_loss))
        return qn_fail(QN_ERROR_NUMERIC,
                       "step %lld: the test loss is %g; lower the learning rate, or clip gradients",
                       (long long)qn_trainer_steps(t->s.trainer), result->test_loss);
    return QN_OK;
}

/* Hours of training are not thrown away for a disk that is full now: the end tries again. */
static qn_status on_checkpoint(void *user) {
    training *t = user;
    qn_status status = save_checkpoint(t);
    if (status == QN_OK || status == QN_ERROR_NUMERIC)
        return status;
    progress_clear(&t->progress);
    fprintf(stderr, "quern: warning: no checkpoint at step %lld: %s; training goes on\n",
            (long long)qn_trainer_steps(t->s.trainer), qn_error_message());
    return QN_OK;
}

static bool should_stop(void *user) {
    (void)user;
    return was_interrupted();
}

static qn_status fit(training *t) {
    qn_batches test = {NULL, NULL, NULL};
    qn_fit_options fit_options = {
        .train = {t, next_batch, NULL},
        .epoch_batches = qn_loader_epoch_batches(t->s.train),
        .steps = t->total_steps,
        .checkpoint_every = arguments_count(t->a, "checkpoint-every"),
        .user = t,
        .on_step = on_step,
        .on_epoch = on_epoch,
        .on_checkpoint = on_checkpoint,
        .should_stop = should_stop,
    };
    t->batches = qn_loader_batches(t->s.train);
    if (t->s.test) {
        test = qn_loader_batches(t->s.test);
        fit_options.test = interruptible(&test);
    }
    progress_begin(&t->progress);
    interrupt_watch();
    return qn_trainer_fit(t->s.trainer, &fit_options);
}

/* A checkpoint that is trained already is only tested. */
static qn_status test_only(training *t) {
    qn_evaluation sum;
    fprintf(stderr, "quern: %s has %lld of %lld steps already; train longer with --epochs\n",
            arguments_get(t->a, "resume"), (long long)t->first_step, (long long)t->total_steps);
    if (!t->s.test)
        return QN_OK;
    QN_TRY(qn_trainer_evaluate_all(t->s.trainer, qn_loader_batches(t->s.test), &sum));
    t->progress.has_test = sum.n_samples > 0;
    t->progress.test_loss = sum.loss_sum / (double)sum.n_samples;
    t->progress.test_accuracy = (double)sum.n_correct / (double)sum.n_samples;
    return QN_OK;
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
    QN_TRY(check_usage(t->a));
    t->s.model = qn_model_find(t->a->words[0]);
    if (!t->s.model)
        return QN_ERROR_ARGUMENT;
    QN_TRY(check_save(t->save));
    QN_TRY(read_settings(t));
    QN_TRY(open_data(t));
    QN_TRY(open_loaders(t));
    QN_TRY(open_trainer(t));
    if (arguments_has(t->a, "resume"))
        QN_TRY(session_load(&t->s, arguments_get(t->a, "resume"), !t->settings.is_new_optimizer));
    return make_pairs(t);
}

static void prepare_progress(training *t) {
    const qn_trainer_options *o = qn_trainer_get_options(t->s.trainer);
    const double epoch_batches = (double)qn_loader_epoch_batches(t->s.train);
    t->progress.is_json = arguments_flag(t->a, "json");
    t->progress.is_regression = t->s.is_regression;
    t->progress.first_step = t->first_step;
    t->progress.total_steps = t->total_steps;
    t->progress.epoch_steps = epoch_batches / (double)o->update.accumulate;
    t->progress.step_samples = o->batch * o->update.accumulate;
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
    qn_metadata_destroy(t.pairs);
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
