/* quern evaluate: measures trained weights on data. */
#include "base/print.h"
#include "base/status.h"
#include "cli/data_name.h"
#include "cli/json.h"
#include "cli/look/reading.h"
#include "cli/model.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "os/process/interrupt.h"
#include "report/confusion.h"
#include "tasks/tasks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const option options[] = {
    {.name = "weights",
     .kind = OPTION_INPUT,
     .of_run = "best",
     .argument = "FILE",
     .otherwise = "none, must be given",
     .help = "checkpoint with the weights, preparation and classes, or a run's folder"},
    {.name = "data",
     .kind = OPTION_DATA,
     .argument = "DATA",
     .otherwise = "the checkpoint's",
     .help = "what to evaluate on"},
    {.name = "split",
     .kind = OPTION_CHOICE,
     .argument = "train|test|validation|all",
     .otherwise = "test; all of data that is not the checkpoint's",
     .help = "which part of the data"},
    {.name = "holdout",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .most = 0.9,
     .otherwise = "the checkpoint's",
     .help = "fraction held out for testing if the data has no test set"},
    {.name = "validation",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .most = 0.9,
     .otherwise = "the checkpoint's",
     .help = "fraction of the training samples held out for validation"},
    {.name = "batch",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e9,
     .fallback = "64",
     .help = "samples in a batch"},
    {.name = "length",
     .of = "tokens",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e6,
     .otherwise = "the checkpoint's, else 256",
     .help = "tokens of a row, each of which is predicted from those before it"},
    {.name = "loss",
     .of = "arrays",
     .kind = OPTION_CHOICE,
     .argument = "auto|cross-entropy|bce|mse|l1|huber|none",
     .otherwise = "the checkpoint's; auto, by the targets",
     .help = "loss of each trained output; none: an output is the loss"},
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
     .help = "fraction of random actions; 1 plays at random"},
    {.name = "per-class",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "precision, recall and F1 of each class"},
    {.name = "confusion",
     .kind = OPTION_OUTPUT,
     .makes = QN_OWN_CONFUSION,
     .argument = "FILE",
     .otherwise = "none",
     .help = "CSV file for the confusion matrix"},
    {.name = "html",
     .kind = OPTION_OUTPUT,
     .makes = QN_OWN_PAGE,
     .argument = "FILE",
     .otherwise = "none",
     .help = "report of the classes: confusion matrix, precision, recall, F1"},
    {.name = "most-confused",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e9,
     .fallback = "1000",
     .help = "above N classes, show the N most confused pairs instead of the matrix"},
    {.name = "json", .kind = OPTION_FLAG, .fallback = "no", .help = "print a JSON object"},
};

static bool should_stop(void *user) {
    (void)user;
    return qn_was_interrupted();
}

/* ---- splits ---- */

static const char *split_words(qn_split split) {
    static const char *const words[] = {"train", "test", "validation", "all"};
    return words[split];
}

/* Whether the data is what the checkpoint, or the file of a network, was trained on, by whatever
 * path. */
static bool is_own_data(const arguments *a, const session *s) {
    const char *data = arguments_get(a, "data");
    const char *kept = s->kept ? qn_metadata_get(s->kept, "data") : NULL;
    if (!s->kept && model_is_file(s->model->name)) {
        kept = qn_metadata_get(s->pairs, QN_PREPARED);
        kept = kept ? kept : "";
    }
    return !data || !kept || data_name_is_same(data, kept);
}

static bool is_of_tokens(const session *s) {
    return strcmp(qn_task_of(s->model), "tokens") == 0;
}

/* Text that a language model from a file was not trained on is one part. */
static bool is_whole_text(const arguments *a, const session *s) {
    const bool is_part = arguments_get(a, "holdout") || arguments_get(a, "split");
    const bool is_own = s->kept && is_own_data(a, s);
    return is_of_tokens(s) && !is_part && !is_own;
}

static qn_status prepare(const arguments *a, session *s) {
    if (arguments_has(a, "length") && !is_of_tokens(s))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--length is not for %s, which is no language model from a file",
                       s->model->name);
    return is_whole_text(a, s) ? qn_metadata_set(s->pairs, QN_WHOLE, "yes") : QN_OK;
}

/* Other data was not trained on: all of it can be judged, unless a part of it is asked for. */
static qn_split find_split(const arguments *a, const session *s) {
    const char *asked = arguments_get(a, "split");
    const bool is_part = arguments_get(a, "holdout") || arguments_get(a, "validation");
    for (int split = 0; asked && split <= QN_ALL_SPLITS; split++)
        if (strcmp(asked, split_words((qn_split)split)) == 0)
            return (qn_split)split;
    if (is_whole_text(a, s))
        return QN_TRAIN;
    const bool can = strcmp(qn_task_of(s->model), "classification") == 0;
    return can && !is_part && !is_own_data(a, s) ? QN_ALL_SPLITS : QN_TEST;
}

static int64_t count_all(const qn_task_facts *facts) {
    int64_t n = 0;
    for (int split = 0; split < QN_SPLITS; split++)
        n += facts->n_samples[split];
    return n;
}

/* ---- classes ---- */

static bool wants_confusion(const arguments *a) {
    return arguments_flag(a, "per-class") || arguments_get(a, "confusion") ||
           arguments_get(a, "html");
}

static int find_width(const qn_confusion *c) {
    char text[24];
    size_t width = 5;
    for (int i = 0; i < c->n_classes; i++) {
        const size_t length = strlen(terminal_name(qn_confusion_name(c, i, text)));
        width = length > width && length <= 40 ? length : width;
    }
    return (int)width;
}

/* A share in percent; a dash where there was nothing to divide by. */
static void print_score(double score, int width) {
    char text[24] = "-";
    if (!isnan(score))
        qn_print(text, sizeof text, "%.2f %%", 100 * score);
    printf(" %*s", width, text);
}

static void print_class(const qn_confusion *c, int i, int width) {
    const qn_class_scores s = qn_confusion_scores(c, i);
    const qn_confusion_cell *wrong = qn_confusion_most_wrong(c, i);
    char text[24];
    printf("%-*s %8lld", width, terminal_name(qn_confusion_name(c, i, text)),
           (long long)s.n_samples);
    print_score(s.precision, 10);
    print_score(s.recall, 8);
    print_score(s.f1, 8);
    printf("  ");
    puts(wrong ? terminal_name(qn_confusion_name(c, wrong->taken, text)) : "-");
}

static qn_status print_worst_classes(const qn_confusion *c, int64_t most, int width) {
    qn_confusion_ranking classes;
    QN_TRY(qn_confusion_rank_classes(NULL, c, most, &classes));
    for (int64_t i = 0; i < classes.n; i++)
        print_class(c, (int)classes.ranks[i].index, width);
    printf("these are the %lld classes with the most wrong samples, of %d; --most-confused shows "
           "more\n",
           (long long)classes.n, c->n_classes);
    qn_confusion_ranking_deinit(NULL, &classes);
    return QN_OK;
}

static qn_status print_classes(const qn_confusion *c, int64_t most) {
    const int width = find_width(c);
    printf("%-*s %8s %10s %8s %8s  most often confused with\n", width, "class", "samples",
           "precision", "recall", "F1");
    for (int i = 0; c->n_classes <= most && i < c->n_classes; i++)
        print_class(c, i, width);
    if (c->n_classes > most)
        QN_TRY(print_worst_classes(c, most, width));
    printf("balanced accuracy (mean recall) %.2f %%, mean F1 of the classes %.4f\n",
           100 * qn_confusion_balanced_accuracy(c), qn_confusion_macro_f1(c));
    return QN_OK;
}

static void add_row_json(const qn_confusion *c, int class) {
    int64_t cell = c->classes[class].first_cell;
    json_open_list("taken_for");
    for (int i = 0; i < c->n_classes; i++)
        json_item_count(qn_confusion_next(c, class, i, &cell));
    json_close_list();
}

static qn_status add_pairs_json(const qn_confusion *c, int64_t most) {
    qn_confusion_ranking pairs;
    char text[24];
    QN_TRY(qn_confusion_rank_pairs(NULL, c, most, &pairs));
    json_count("confused_pairs", pairs.n_all);
    json_open_list("most_confused");
    for (int64_t i = 0; i < pairs.n; i++) {
        const qn_confusion_cell *cell = &c->cells[pairs.ranks[i].index];
        json_begin_item();
        json_text("class", qn_confusion_name(c, cell->actual, text));
        json_text("taken_for", qn_confusion_name(c, cell->taken, text));
        json_count("samples", cell->n_samples);
        json_end_item();
    }
    json_close_list();
    qn_confusion_ranking_deinit(NULL, &pairs);
    return QN_OK;
}

static qn_status add_classes_json(const qn_confusion *c, int64_t most) {
    char text[24];
    json_number("balanced_accuracy", qn_confusion_balanced_accuracy(c));
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
        if (c->n_classes <= most)
            add_row_json(c, i);
        json_end_item();
    }
    json_close_list();
    return c->n_classes <= most ? QN_OK : add_pairs_json(c, most);
}

static qn_status write_files(const arguments *a, const session *s, const qn_metrics *metrics) {
    const qn_confusion c = qn_task_get_confusion(s->task);
    const char *csv = arguments_get(a, "confusion"), *html = arguments_get(a, "html");
    const int64_t most = arguments_count(a, "most-confused");
    char title[512];
    snprintf(title, sizeof title, "%s on %s, %s samples", s->model->name,
             qn_task_get_facts(s->task).data, split_words(find_split(a, s)));
    if (csv)
        QN_TRY(qn_confusion_write_csv(NULL, &c, most, csv));
    if (!html)
        return QN_OK;
    const int n_threads = qn_engine_get_options(qn_task_engine(s->task))->n_threads;
    return qn_confusion_write_html(NULL, &c, most, title, n_threads, metrics, html);
}

/* ---- all ---- */

static void print_result(const session *s, const qn_metrics *metrics, int64_t n, double seconds) {
    const qn_task_facts facts = qn_task_get_facts(s->task);
    char words[40];
    printf("%s on %s: ", terminal_name(s->model->name), terminal_name(facts.data));
    for (int i = metrics->n - 1; i >= 0; i--) {
        const qn_metric *m = &metrics->list[i];
        printf(m->is_fraction ? "%s %.2f %%, " : "%s %.4f, ",
               metric_words(m->name, words, sizeof words),
               m->is_fraction ? 100 * m->value : m->value);
    }
    const int64_t n_all = count_all(&facts);
    if (n_all > n)
        printf("%lld of %lld %s, %.0f %s/s\n", (long long)n, (long long)n_all, facts.unit,
               (double)n / seconds, facts.unit);
    else
        printf("%s%lld %s, %.0f %s/s\n", n_all == n && n > 1 ? "all " : "", (long long)n,
               facts.unit, (double)n / seconds, facts.unit);
}

static qn_status print_json(const session *s, const qn_metrics *metrics, int64_t n, double seconds,
                            const qn_confusion *confusion, int64_t most) {
    qn_status status = QN_OK;
    json_begin();
    json_text("event", "evaluation");
    for (int i = metrics->n - 1; i >= 0; i--)
        json_number(metrics->list[i].name, metrics->list[i].value);
    const qn_task_facts facts = qn_task_get_facts(s->task);
    json_count("samples", n);
    if (count_all(&facts) > 0)
        json_count("samples_of_data", count_all(&facts));
    json_number("samples_per_second", (double)n / seconds);
    if (confusion->classes)
        status = add_classes_json(confusion, most);
    json_end();
    return status;
}

/* A figure that is no number says nothing of the model but that it is of no use. */
static qn_status check_finite(const qn_metrics *metrics) {
    for (int i = 0; i < metrics->n; i++) {
        if (!isfinite(metrics->list[i].value))
            return qn_fail(QN_ERROR_NUMERIC,
                           "the %s is %g: the weights give no numbers that can be used; take those "
                           "of an earlier checkpoint",
                           metrics->list[i].name, metrics->list[i].value);
    }
    return QN_OK;
}

static int evaluate(const arguments *a, session *s) {
    const qn_split split = find_split(a, s);
    const char *name = split_words(split);
    qn_metrics metrics;
    int64_t n;
    const int64_t begin_ns = qn_clock_ns();
    qn_interrupt_watch(EXIT_FAILED);
    qn_status status = qn_task_evaluate(s->task, split, should_stop, NULL, &metrics, &n);
    const double seconds = (double)(qn_clock_ns() - begin_ns) * 1e-9;
    if (status == QN_OK && n == 0)
        status = qn_fail(QN_ERROR_FORMAT, "%s has no %s samples; use --split train, or --%s",
                         qn_task_get_facts(s->task).data, name,
                         split == QN_TEST ? "holdout" : "validation");
    if (status == QN_OK)
        status = check_finite(&metrics);
    if (status != QN_OK)
        return report_failed_run();
    const qn_confusion confusion = qn_task_get_confusion(s->task);
    const int64_t most = arguments_count(a, "most-confused");
    if (arguments_flag(a, "json"))
        status = print_json(s, &metrics, n, seconds, &confusion, most);
    else
        print_result(s, &metrics, n, seconds);
    if (arguments_flag(a, "per-class") && !arguments_flag(a, "json"))
        status = print_classes(&confusion, most);
    return status == QN_OK && write_files(a, s, &metrics) == QN_OK ? EXIT_DONE
                                                                   : report_failed_run();
}

static int run(const arguments *a) {
    static const char *const names[] = {
        "data", "holdout", "validation", "batch",   "rules", "episodes", "test-epsilon",
        "loss", "header",  "separator",  "decimal", "dates", "length",   NULL};
    session s;
    session_init(&s);
    s.how.confusion = wants_confusion(a);
    qn_status status = session_open_trained(&s, a, names, prepare);
    if (status == QN_OK && s.how.confusion && !qn_task_get_confusion(s.task).classes)
        status = qn_fail(QN_ERROR_ARGUMENT, "--per-class, --confusion and --html are for models "
                                            "that tell classes apart");
    int result = status == QN_OK ? evaluate(a, &s) : report_failure(status);
    session_deinit(&s);
    return result;
}

const command command_evaluate = {
    .name = "evaluate",
    .words = "[MODEL]",
    .most_words = 1,
    .summary = "Evaluate trained weights",
    .description =
        "Data is prepared as in training: size, mean and deviation, classes and vocabulary come\n"
        "from the checkpoint.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .shared = {&session_options, &table_form_options, &reading_options, &onnx_options},
    .run = run,
};
