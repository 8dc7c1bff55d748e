/* quern evaluate: what trained weights achieve on data. */
#include "base/status.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/session.h"
#include "report/confusion.h"

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
     .argument = "train|test|validation",
     .fallback = "test",
     .help = "which part of the data"},
    {.name = "holdout",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .most = 0.9,
     .otherwise = "the checkpoint's",
     .help = "part held out for testing where the data has no test samples"},
    {.name = "validation",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .most = 0.9,
     .otherwise = "the checkpoint's",
     .help = "part of the training samples held out for validation"},
    {.name = "batch",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e9,
     .fallback = "64",
     .help = "samples in a batch"},
    {.name = "rules",
     .kind = OPTION_RULES,
     .argument = "FILE",
     .otherwise = "the checkpoint's",
     .help = "table of algorithms, as quern rules prints it"},
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
    {.name = "memory",
     .kind = OPTION_SIZE,
     .argument = "SIZE",
     .otherwise = "as much as it takes",
     .help = "budget of all memory, as 300M; the result does not depend on it"},
    {.name = "threads",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 256,
     .otherwise = "the processors there are",
     .help = "threads; the result does not depend on them"},
    {.name = "per-class",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "precision, recall and F1 of each class"},
    {.name = "confusion",
     .kind = OPTION_TARGET,
     .argument = "FILE",
     .otherwise = "none",
     .help = "CSV file with what the samples of each class were taken for"},
    {.name = "html",
     .kind = OPTION_TARGET,
     .argument = "FILE",
     .otherwise = "none",
     .help = "report of the classes: confusion matrix, precision, recall, F1"},
    {.name = "json", .kind = OPTION_FLAG, .fallback = "no", .help = "print a JSON object"},
};

static bool should_stop(void *user) {
    (void)user;
    return was_interrupted();
}

/* ---- classes ---- */

static bool wants_confusion(const arguments *a) {
    return arguments_flag(a, "per-class") || arguments_get(a, "confusion") ||
           arguments_get(a, "html");
}

static void print_classes(const qn_confusion *c) {
    char text[24];
    size_t width = 5;
    for (int i = 0; i < c->n_classes; i++) {
        const size_t length = strlen(qn_confusion_name(c, i, text));
        width = length > width && length <= 40 ? length : width;
    }
    printf("%-*s %8s %10s %8s %8s  most often taken for\n", (int)width, "class", "samples",
           "precision", "recall", "F1");
    for (int i = 0; i < c->n_classes; i++) {
        const qn_class_scores s = qn_confusion_scores(c, i);
        const int wrong = qn_confusion_most_wrong(c, i);
        printf("%-*s %8lld %8.2f %% %6.2f %% %6.2f %%  ", (int)width, qn_confusion_name(c, i, text),
               (long long)s.n_samples, 100 * s.precision, 100 * s.recall, 100 * s.f1);
        puts(wrong < 0 ? "-" : qn_confusion_name(c, wrong, text));
    }
    printf("mean F1 of the classes %.4f\n", qn_confusion_macro_f1(c));
}

static void add_classes_json(const qn_confusion *c) {
    char text[24];
    json_number("macro_f1", qn_confusion_macro_f1(c));
    json_open_list("classes");
    for (int i = 0; i < c->n_classes; i++) {
        const qn_class_scores s = qn_confusion_scores(c, i);
        json_begin_item();
        json_text("class", qn_confusion_name(c, i, text));
        json_count("samples", s.n_samples);
        json_number("precision", s.precision);
        json_number("recall", s.recall);
        json_number("f1", s.f1);
        json_counts("taken_for", c->n_classes, c->counts + (int64_t)i * c->n_classes);
        json_end_item();
    }
    json_close_list();
}

static qn_status write_files(const arguments *a, const session *s, const qn_metrics *metrics) {
    const qn_confusion c = qn_task_get_confusion(s->task);
    const char *csv = arguments_get(a, "confusion"), *html = arguments_get(a, "html");
    char title[512];
    snprintf(title, sizeof title, "%s on %s, %s samples", s->model->name,
             qn_task_get_facts(s->task).data, arguments_get(a, "split"));
    if (csv)
        QN_TRY(qn_confusion_write_csv(&c, csv));
    return html ? qn_confusion_write_html(NULL, &c, title, metrics, html) : QN_OK;
}

/* ---- all ---- */

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

static void print_json(const qn_metrics *metrics, int64_t n, double seconds,
                       const qn_confusion *confusion) {
    json_begin();
    json_text("event", "evaluation");
    for (int i = metrics->n - 1; i >= 0; i--)
        json_number(metrics->list[i].name, metrics->list[i].value);
    json_count("samples", n);
    json_number("samples_per_second", (double)n / seconds);
    if (confusion->counts)
        add_classes_json(confusion);
    json_end();
}

static int evaluate(const arguments *a, session *s) {
    const char *name = arguments_get(a, "split");
    const qn_split split = strcmp(name, "train") == 0  ? QN_TRAIN
                           : strcmp(name, "test") == 0 ? QN_TEST
                                                       : QN_VALIDATION;
    qn_metrics metrics;
    int64_t n;
    const int64_t begin_ns = qn_clock_ns();
    interrupt_watch();
    qn_status status = qn_task_evaluate(s->task, split, should_stop, NULL, &metrics, &n);
    const double seconds = (double)(qn_clock_ns() - begin_ns) * 1e-9;
    if (status == QN_OK && n == 0)
        status = qn_fail(QN_ERROR_FORMAT, "%s has no %s samples; use --split train, or --%s",
                         qn_task_get_facts(s->task).data, name,
                         split == QN_TEST ? "holdout" : "validation");
    if (status != QN_OK)
        return report_failed_run();
    const qn_confusion confusion = qn_task_get_confusion(s->task);
    if (arguments_flag(a, "json"))
        print_json(&metrics, n, seconds, &confusion);
    else
        print_result(s, &metrics, n, seconds);
    if (arguments_flag(a, "per-class") && !arguments_flag(a, "json"))
        print_classes(&confusion);
    return write_files(a, s, &metrics) == QN_OK ? EXIT_DONE : report_failed_run();
}

static int run(const arguments *a) {
    static const char *const names[] = {"data",  "holdout",  "validation",   "batch",
                                        "rules", "episodes", "test-epsilon", NULL};
    session s;
    session_init(&s);
    s.wants_confusion = wants_confusion(a);
    qn_status status = session_open_trained(&s, a, names);
    if (status == QN_OK && s.wants_confusion && !qn_task_get_confusion(s.task).counts)
        status = qn_fail(QN_ERROR_ARGUMENT, "--per-class, --confusion and --html are for models "
                                            "that tell classes apart");
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
