/* quern label bench: compares labels of generated streams with the best possible ones and with
 * those of other rules; or labels of a data set, half of whose classes are held back, with those of
 * other rules. */
#include "label/bench/bench.h"

#include "base/decimal.h"
#include "base/print.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/label/label.h"
#include "label/bench/held_back.h"
#include "label/bench/rules.h"
#include "os/heap.h"
#include "report/document.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    MOST_ROWS = 10000000,
    OURS = 0,
    FIRST_RULE,
    MOST_METHODS = FIRST_RULE + QN_BENCH_MOST_RULES
};

/* What a method's labels cost against the true density, over the settings so far. */
typedef struct method {
    const char *name;
    double missed_new, false_new, balanced, error; /* sums */
    double excess_balanced, excess_error;          /* sums over the best */
    double worst_balanced, worst_error;            /* largest excess */
} method;

typedef struct table {
    method methods[MOST_METHODS];
    int n_methods, n_settings;
    bool has_best;                    /* a true density is known */
    double best_balanced, best_error; /* sums */
    qn_naming_score naming;           /* sums */
    double add_ns, largest_ns;
    size_t bytes;
} table;

static void add_score(method *m, const qn_label_score *score, const qn_label_trial *t) {
    const double balanced = qn_label_balanced(score) - t->best_balanced;
    const double error = qn_label_error(score) - t->best_error;
    m->missed_new += qn_label_missed_new(score);
    m->false_new += qn_label_false_new(score);
    m->balanced += qn_label_balanced(score);
    m->error += qn_label_error(score);
    m->excess_balanced += balanced;
    m->excess_error += error;
    m->worst_balanced = fmax(m->worst_balanced, balanced);
    m->worst_error = fmax(m->worst_error, error);
}

static void add_trial(table *t, const qn_label_trial *trial) {
    add_score(&t->methods[OURS], &trial->ours, trial);
    for (int r = 0; qn_label_rule_at(r); r++)
        add_score(&t->methods[FIRST_RULE + r], &trial->rules[r], trial);
    t->n_settings++;
    t->best_balanced += trial->best_balanced;
    t->best_error += trial->best_error;
    t->naming.matched += trial->naming.matched;
    t->naming.asked += trial->naming.asked;
    t->naming.drawn += trial->naming.drawn;
    t->add_ns += trial->add_ns;
    t->largest_ns = fmax(t->largest_ns, trial->largest_ns);
    t->bytes = trial->bytes > t->bytes ? trial->bytes : t->bytes;
}

static void print_trial_line(const qn_label_trial *t, uint64_t seed, bool has_best) {
    printf("seed %-4llu %2d features, %d classes, ", (unsigned long long)seed, t->n_features,
           t->n_classes);
    if (has_best)
        printf("%2d centroids, new %2.0f %%: %5.1f (best %.1f), errors %5.1f (best %.1f)\n",
               t->n_centroids, 100 * t->new_share, qn_label_balanced(&t->ours), t->best_balanced,
               qn_label_error(&t->ours), t->best_error);
    else
        printf("new %2.0f %%: %5.1f, errors %5.1f\n", 100 * t->new_share,
               qn_label_balanced(&t->ours), qn_label_error(&t->ours));
    fflush(stdout);
}

static void print_trial(const qn_label_trial *t, uint64_t seed, bool has_best, bool is_json) {
    if (!is_json) {
        print_trial_line(t, seed, has_best);
        return;
    }
    json_begin();
    json_text("event", "setting");
    json_count("seed", (int64_t)seed);
    json_count("features", t->n_features);
    json_count("classes", t->n_classes);
    if (has_best)
        json_count("centroids", t->n_centroids);
    json_count("found", t->n_found);
    json_number("new_share", t->new_share);
    json_number("missed_new", qn_label_missed_new(&t->ours));
    json_number("false_new", qn_label_false_new(&t->ours));
    json_number("balanced", qn_label_balanced(&t->ours));
    if (has_best)
        json_number("best_balanced", t->best_balanced);
    json_number("error", qn_label_error(&t->ours));
    if (has_best)
        json_number("best_error", t->best_error);
    json_count("bytes", (int64_t)t->bytes);
    json_number("add_us", t->add_ns * 1e-3);
    json_end();
}

static void print_method_line(const method *m, int n, bool has_best) {
    printf("%-24s %6.1f %6.1f %8.2f", m->name, m->missed_new / n, m->false_new / n,
           m->balanced / n);
    if (has_best)
        printf(" %8.2f", m->excess_balanced / n);
    printf(" %8.2f %8.2f", m->worst_balanced, m->error / n);
    if (has_best)
        printf(" %8.2f", m->excess_error / n);
    printf(" %8.2f\n", m->worst_error);
}

static void print_method(const method *m, int n, bool has_best, bool is_json) {
    if (!is_json) {
        print_method_line(m, n, has_best);
        return;
    }
    json_begin();
    json_text("event", "method");
    json_text("name", m->name);
    json_number("missed_new", m->missed_new / n);
    json_number("false_new", m->false_new / n);
    json_number("balanced", m->balanced / n);
    if (has_best)
        json_number("excess_balanced", m->excess_balanced / n);
    json_number("worst_balanced", m->worst_balanced);
    json_number("error", m->error / n);
    if (has_best)
        json_number("excess_error", m->excess_error / n);
    json_number("worst_error", m->worst_error);
    json_end();
}

/* What ten names in the middle of a stream are worth. */
static void print_naming(const table *t, bool is_json) {
    const double n = t->n_settings;
    if (!is_json) {
        printf("\nright labels in the second half: %.1f %% with %d answers; %.1f with as many "
               "samples named at random; %.1f with each found class matched to a new one\n",
               t->naming.asked / n, QN_NAMING_ANSWERS, t->naming.drawn / n, t->naming.matched / n);
        return;
    }
    json_begin();
    json_text("event", "names");
    json_number("asked", t->naming.asked / n);
    json_number("drawn", t->naming.drawn / n);
    json_number("matched", t->naming.matched / n);
    json_end();
}

static void print_table(const table *t, bool is_json) {
    const int n = t->n_settings;
    if (!is_json && t->has_best)
        printf("\n%-24s %6s %6s %8s %8s %8s %8s %8s %8s\n%-24s %6s %6s %8.2f %8s %8s %8.2f\n",
               "method", "MNew", "FNew", "mean", "+mean", "+worst", "errors", "+mean", "+worst",
               "the true density", "", "", t->best_balanced / n, "", "", t->best_error / n);
    else if (!is_json)
        printf("\n%-24s %6s %6s %8s %8s %8s %8s\n", "method", "MNew", "FNew", "mean", "worst",
               "errors", "worst");
    for (int i = 0; i < t->n_methods; i++)
        print_method(&t->methods[i], n, t->has_best, is_json);
    print_naming(t, is_json);
    if (!is_json)
        printf("\n%.1f us of processor time a sample, %.2f ms the longest call, %zu bytes\n",
               t->add_ns * 1e-3 / n, t->largest_ns * 1e-6, t->bytes);
}

/* The table of the page; columns of differences only where the best is known. */
static void put_methods(const table *t, qn_document *d) {
    enum { N_COLUMNS = 9 };
    static const struct {
        const char *title;
        bool of_best;
    } columns[N_COLUMNS] = {
        {"method", false},     {"MNew (%)", false},         {"FNew (%)", false},
        {"mean (%)", false},   {"mean above best", true},   {"mean, worst", false},
        {"errors (%)", false}, {"errors above best", true}, {"errors, worst", false}};
    const char *titles[N_COLUMNS];
    const int n = t->n_settings;
    int n_titles = 0;
    for (int j = 0; j < N_COLUMNS; j++)
        if (t->has_best || !columns[j].of_best)
            titles[n_titles++] = columns[j].title;
    qn_document_begin_table(d, "Methods", n_titles, titles);
    for (int i = 0; i < t->n_methods; i++) {
        const method *m = &t->methods[i];
        const double values[N_COLUMNS] = {0,
                                          m->missed_new / n,
                                          m->false_new / n,
                                          m->balanced / n,
                                          m->excess_balanced / n,
                                          m->worst_balanced,
                                          m->error / n,
                                          m->excess_error / n,
                                          m->worst_error};
        qn_document_cell_text(d, m->name);
        for (int j = 1; j < N_COLUMNS; j++)
            if (t->has_best || !columns[j].of_best)
                qn_document_cell_number(d, values[j], 2);
    }
    qn_document_end_table(d);
}

static void put_figures(const table *t, const char *data, qn_document *d) {
    const double n = t->n_settings;
    char text[32];
    snprintf(text, sizeof text, "%d", t->n_settings);
    qn_document_figure(d, "Streams", text, data ? data : "of 5000 samples, 1000 labelled before");
    qn_print(text, sizeof text, t->has_best ? "%.2f points" : "%.2f %%",
             t->methods[OURS].excess_balanced / n);
    qn_document_figure(d, "Mean of MNew and FNew", text,
                       t->has_best ? "over the true density" : "");
    qn_print(text, sizeof text, t->has_best ? "%.2f points" : "%.2f %%",
             t->methods[OURS].excess_error / n);
    qn_document_figure(d, "Errors", text, t->has_best ? "over the true density" : "");
}

static qn_status write_page(const table *t, const char *data, const char *path) {
    qn_document *d;
    QN_TRY(qn_document_create(NULL, "Labelling streams with unknown classes", &d));
    qn_document_about(d, NULL, 1);
    put_figures(t, data, d);
    put_methods(t, d);
    qn_document_text(d, "MNew: new samples that were given a known label. FNew: samples of known "
                        "classes that were called new. Errors: both, and known samples that were "
                        "given a wrong known label.");
    if (t->has_best)
        qn_document_text(d, "The best is what the density gives that the streams were drawn from; "
                            "the worst values are above it.");
    const qn_status status = qn_document_write(d, path);
    qn_document_destroy(d);
    return status;
}

static table begin_table(bool has_best) {
    table t = {
        .methods = {[OURS] = {.name = "quern"}}, .n_methods = FIRST_RULE, .has_best = has_best};
    for (int r = 0; qn_label_rule_at(r); r++)
        t.methods[t.n_methods++].name = qn_label_rule_at(r)->name;
    return t;
}

static void take_trial(const arguments *a, table *t, const qn_label_trial *trial, uint64_t seed) {
    add_trial(t, trial);
    print_trial(trial, seed, t->has_best, arguments_flag(a, "json"));
}

static qn_status try_generated(const arguments *a, table *t) {
    const uint64_t seed = (uint64_t)arguments_count(a, "seed");
    const int features = (int)arguments_count(a, "features");
    for (int64_t i = 0; i < arguments_count(a, "settings"); i++) {
        const qn_rbf_options options = {.seed = seed + (uint64_t)i,
                                        .n_features = features,
                                        .n_classes = features ? 4 : 0,
                                        .n_centroids = features ? 10 : 0,
                                        .speed = qn_decimal_read(arguments_get(a, "speed"), NULL),
                                        .nothing_new = arguments_flag(a, "nothing-new")};
        qn_label_trial trial;
        QN_TRY(qn_label_try(NULL, &options, &trial));
        take_trial(a, t, &trial, options.seed);
    }
    return QN_OK;
}

static qn_status try_all(const arguments *a, const qn_label_known *all, table *t) {
    const uint64_t seed = (uint64_t)arguments_count(a, "seed");
    for (int64_t i = 0; i < arguments_count(a, "settings"); i++) {
        const qn_held_back_options options = {.seed = seed + (uint64_t)i,
                                              .nothing_new = arguments_flag(a, "nothing-new")};
        qn_label_trial trial;
        QN_TRY(qn_label_try_held_back(NULL, all, &options, &trial));
        take_trial(a, t, &trial, options.seed);
    }
    return QN_OK;
}

static qn_status open_data(const arguments *a, qn_data_source *source) {
    const char *const generated[] = {"features", "speed"};
    for (int i = 0; i < 2; i++)
        if (arguments_has(a, generated[i]))
            return qn_fail(QN_ERROR_ARGUMENT,
                           "--%s is of generated streams; give it or --known, not both",
                           generated[i]);
    return label_open_known(a, source);
}

static qn_status try_data(const arguments *a, const qn_data_source *source, table *t) {
    label_samples set = {.n = 0};
    qn_status status = label_samples_read(a, source, &set);
    if (status == QN_OK && set.n > MOST_ROWS)
        status = qn_fail(QN_ERROR_ARGUMENT, "%lld samples; at most %d are supported",
                         (long long)set.n, MOST_ROWS);
    if (status == QN_OK)
        status =
            try_all(a,
                    &(qn_label_known){(int)set.n, set.n_features, source->preparation.n_classes,
                                      set.x, set.label, source->columns},
                    t);
    label_samples_deinit(&set);
    return status;
}

static int bench_rows(const arguments *a, const qn_data_source *source) {
    const char *page = arguments_get(a, "html");
    table t = begin_table(!source);
    qn_status status = t.has_best ? try_generated(a, &t) : try_data(a, source, &t);
    if (status == QN_ERROR_ARGUMENT)
        return report_failure(status);
    if (status == QN_OK) {
        print_table(&t, arguments_flag(a, "json"));
        status = page ? write_page(&t, arguments_get(a, "known"), page) : QN_OK;
    }
    return status == QN_OK ? EXIT_DONE : report_failed_run();
}

int label_bench(const arguments *a) {
    qn_data_source source;
    if (!arguments_get(a, "known"))
        return label_refuse_reading(a, "without --known the streams are generated") == QN_OK
                   ? bench_rows(a, NULL)
                   : report_failure(QN_ERROR_ARGUMENT);
    const qn_status status = open_data(a, &source);
    if (status != QN_OK)
        return report_failure(status);
    const int result =
        label_has_pictures(&source) ? label_arriving(a, &source) : bench_rows(a, &source);
    qn_data_close(&source);
    return result;
}
