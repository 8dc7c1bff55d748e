/* quern evaluate: accuracy and loss of trained weights on data. */
#include "base/status.h"
#include "cli/json.h"
#include "cli/session.h"
#include "os/os.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const option options[] = {
    {.name = "weights",
     .kind = OPTION_TEXT,
     .argument = "FILE",
     .otherwise = "none, must be given",
     .help = "checkpoint with the weights, the preparation and the classes"},
    {.name = "data",
     .kind = OPTION_TEXT,
     .argument = "DATA",
     .otherwise = "the checkpoint's",
     .help = "what to evaluate on"},
    {.name = "split",
     .kind = OPTION_CHOICE,
     .argument = "train|test",
     .fallback = "test",
     .help = "which part of the data"},
    {.name = "holdout",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .most = 0.9,
     .otherwise = "the checkpoint's",
     .help = "part held out for testing where the data has no test samples"},
    {.name = "batch",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e9,
     .fallback = "64",
     .help = "samples in a batch"},
    {.name = "threads",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 256,
     .otherwise = "the processors there are",
     .help = "threads; the result does not depend on them"},
    {.name = "json", .kind = OPTION_FLAG, .fallback = "no", .help = "print a JSON object"},
};

/* An option as given, else the checkpoint's setting, else "". */
static const char *given_or_kept(const arguments *a, const session *s, const char *name) {
    const char *kept = qn_metadata_get(s->metadata, name);
    return arguments_has(a, name) ? arguments_get(a, name) : kept ? kept : "";
}

static qn_status open_data(const arguments *a, session *s) {
    const char *seed = qn_metadata_get(s->metadata, "seed");
    const qn_preparation kept = s->preparation;
    const int n_outputs = s->n_outputs;
    const bool is_regression = s->is_regression;
    const data_request request = {
        .specification = given_or_kept(a, s, "data"),
        .seed = seed ? strtoull(seed, NULL, 10) : 0,
        .holdout = strtod(given_or_kept(a, s, "holdout"), NULL),
        .input = s->input,
        .n_classes = s->n_outputs,
    };
    if (!*request.specification)
        return qn_fail(QN_ERROR_ARGUMENT, "quern evaluate needs --data");
    QN_TRY(session_open_data(s, &request, &kept));
    if (s->n_outputs != n_outputs || s->is_regression != is_regression)
        return qn_fail(QN_ERROR_FORMAT, "%s has other targets than the weights were trained for",
                       request.specification);
    return QN_OK;
}

static qn_status open_all(const arguments *a, session *s) {
    const char *weights = arguments_get(a, "weights");
    const int64_t batch = arguments_count(a, "batch");
    const bool is_train = strcmp(arguments_get(a, "split"), "train") == 0;
    const qn_split split = is_train ? QN_TRAIN : QN_TEST;
    if (!weights)
        return qn_fail(QN_ERROR_ARGUMENT, "quern evaluate needs --weights FILE");
    s->model = qn_model_find(a->words[0]);
    if (!s->model)
        return QN_ERROR_ARGUMENT;
    QN_TRY(session_read_checkpoint(s, weights));
    QN_TRY(session_open_weights(s, weights, batch, (int)arguments_count(a, "threads")));
    QN_TRY(open_data(a, s));
    if (s->source.n_samples[split] == 0)
        return qn_fail(QN_ERROR_FORMAT, "%s has no test samples; use --split train, or --holdout",
                       s->source.name);
    return session_open_test(s, split, batch);
}

static void print_result(const session *s, const qn_evaluation *sum, double seconds) {
    printf("%s on %s: ", s->model->name, s->source.name);
    if (!s->is_regression)
        printf("accuracy %.2f %%, ", 100.0 * (double)sum->n_correct / (double)sum->n_samples);
    printf("loss %.4f, %lld samples, %.0f samples/s\n", sum->loss_sum / (double)sum->n_samples,
           (long long)sum->n_samples, (double)sum->n_samples / seconds);
}

static void print_json(const session *s, const qn_evaluation *sum, double seconds) {
    const double n = (double)sum->n_samples;
    json_begin();
    json_text("event", "evaluation");
    json_number("accuracy", s->is_regression ? NAN : (double)sum->n_correct / n);
    json_number("loss", sum->loss_sum / n);
    json_count("samples", sum->n_samples);
    json_number("samples_per_second", n / seconds);
    json_end();
}

static int evaluate(const arguments *a, session *s) {
    qn_evaluation sum;
    const int64_t begin_ns = qn_clock_ns();
    if (qn_trainer_evaluate_all(s->trainer, qn_loader_batches(s->test), &sum) != QN_OK)
        return report_failed_run();
    const double seconds = (double)(qn_clock_ns() - begin_ns) * 1e-9;
    if (arguments_flag(a, "json"))
        print_json(s, &sum, seconds);
    else
        print_result(s, &sum, seconds);
    return EXIT_DONE;
}

static int run(const arguments *a) {
    session s;
    session_init(&s);
    qn_status status = open_all(a, &s);
    int result = status == QN_OK ? evaluate(a, &s) : report_failure(status);
    session_deinit(&s);
    return result;
}

const command command_evaluate = {
    .name = "evaluate",
    .words = "MODEL",
    .least_words = 1,
    .most_words = 1,
    .summary = "Measure accuracy and loss of trained weights",
    .description =
        "Samples are prepared as the checkpoint says: size, mean and deviation, classes.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run,
};
