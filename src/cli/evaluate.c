/* quern evaluate: what trained weights achieve on data. */
#include "base/status.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/session.h"

#include <stdio.h>
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
    {.name = "episodes",
     .of = "control",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e6,
     .otherwise = "the checkpoint's; conv 30, mlp 100",
     .help = "episodes to play"},
    {.name = "test-epsilon",
     .of = "control",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .most = 1,
     .otherwise = "the checkpoint's; conv 0.05, mlp 0",
     .help = "part of random actions; 1 plays at random"},
    {.name = "threads",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 256,
     .otherwise = "the processors there are",
     .help = "threads; the result does not depend on them"},
    {.name = "json", .kind = OPTION_FLAG, .fallback = "no", .help = "print a JSON object"},
};

static bool should_stop(void *user) {
    (void)user;
    return was_interrupted();
}

static void print_result(const session *s, const qn_metrics *metrics, int64_t n, double seconds) {
    const qn_task_facts facts = qn_task_get_facts(s->task);
    char words[40];
    printf("%s on %s: ", s->model->name, facts.data);
    for (int i = metrics->n - 1; i >= 0; i--) {
        const qn_metric *m = &metrics->list[i];
        printf(m->is_fraction ? "%s %.2f %%, " : "%s %.4f, ",
               metric_words(m->name, words, sizeof words),
               m->is_fraction ? 100 * m->value : m->value);
    }
    printf("%lld %s, %.0f %s/s\n", (long long)n, facts.unit, (double)n / seconds, facts.unit);
}

static void print_json(const qn_metrics *metrics, int64_t n, double seconds) {
    json_begin();
    json_text("event", "evaluation");
    for (int i = metrics->n - 1; i >= 0; i--)
        json_number(metrics->list[i].name, metrics->list[i].value);
    json_count("samples", n);
    json_number("samples_per_second", (double)n / seconds);
    json_end();
}

static int evaluate(const arguments *a, session *s) {
    const bool is_train = strcmp(arguments_get(a, "split"), "train") == 0;
    qn_metrics metrics;
    int64_t n;
    const int64_t begin_ns = qn_clock_ns();
    interrupt_watch();
    qn_status status =
        qn_task_evaluate(s->task, is_train ? QN_TRAIN : QN_TEST, should_stop, NULL, &metrics, &n);
    const double seconds = (double)(qn_clock_ns() - begin_ns) * 1e-9;
    if (status == QN_OK && n == 0)
        status = qn_fail(QN_ERROR_FORMAT, "%s has no test samples; use --split train, or --holdout",
                         qn_task_get_facts(s->task).data);
    if (status != QN_OK)
        return report_failed_run();
    if (arguments_flag(a, "json"))
        print_json(&metrics, n, seconds);
    else
        print_result(s, &metrics, n, seconds);
    return EXIT_DONE;
}

static int run(const arguments *a) {
    static const char *const names[] = {"data",     "holdout",      "batch",
                                        "episodes", "test-epsilon", NULL};
    session s;
    session_init(&s);
    qn_status status = session_open_trained(&s, a, names);
    int result = status == QN_OK ? evaluate(a, &s) : report_failure(status);
    session_deinit(&s);
    return result;
}

const command command_evaluate = {
    .name = "evaluate",
    .words = "MODEL",
    .least_words = 1,
    .most_words = 1,
    .summary = "Measure what trained weights achieve",
    .description =
        "Data is prepared as the checkpoint says: size, mean and deviation, classes, vocabulary.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run,
};
