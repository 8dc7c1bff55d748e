/* quern label bench: compares labels of generated streams with the best possible ones and with
 * those of other rules. */
#include "label/bench.h"

#include "base/status.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/label/label.h"
#include "label/rules.h"
#include "report/document.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { OURS, FIRST_RULE, MOST_METHODS = FIRST_RULE + QN_BENCH_MOST_RULES };

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
    double best_balanced, best_error; /* sums */
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
    t->add_ns += trial->add_ns;
    t->largest_ns = fmax(t->largest_ns, trial->largest_ns);
    t->bytes = trial->bytes > t->bytes ? trial->bytes : t->bytes;
}

static void print_trial(const qn_label_trial *t, uint64_t seed, bool is_json) {
    if (!is_json) {
        printf(
            "seed %-4llu %2d features, %d classes, %2d centroids, new %2.0f %%: %5.1f (best %.1f), "
            "errors %5.1f (best %.1f)\n",
            (unsigned long long)seed, t->n_features, t->n_classes, t->n_centroids,
            100 * t->new_share, qn_label_balanced(&t->ours), t->best_balanced,
            qn_label_error(&t->ours), t->best_error);
        fflush(stdout);
        return;
    }
    json_begin();
    json_text("event", "setting");
    json_count("seed", (int64_t)seed);
    json_count("features", t->n_features);
    json_count("classes", t->n_classes);
    json_count("centroids", t->n_centroids);
    json_count("found", t->n_found);
    json_number("new_share", t->new_share);
    json_number("missed_new", qn_label_missed_new(&t->ours));
    json_number("false_new", qn_label_false_new(&t->ours));
    json_number("balanced", qn_label_balanced(&t->ours));
    json_number("best_balanced", t->best_balanced);
    json_number("error", qn_label_error(&t->ours));
    json_number("best_error", t->best_error);
    json_count("bytes", (int64_t)t->bytes);
    json_number("add_us", t->add_ns * 1e-3);
    json_end();
}

static void print_method(const method *m, int n, bool is_json) {
    if (!is_json) {
        printf("%-24s %6.1f %6.1f %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f\n", m->name,
               m->missed_new / n, m->false_new / n, m->balanced / n, m->excess_balanced / n,
               m->worst_balanced, m->error / n, m->excess_error / n, m->worst_error);
        return;
    }
    json_begin();
    json_text("event", "method");
    json_text("name", m->name);
    json_number("missed_new", m->missed_new / n);
    json_number("false_new", m->false_new / n);
    json_number("balanced", m->balanced / n);
    json_number("excess_balanced", m->excess_balanced / n);
    json_number("worst_balanced", m->worst_balanced);
    json_number("error", m->error / n);
    json_number("excess_error", m->excess_error / n);
    json_number("worst_error", m->worst_error);
    json_end();
}

static void print_table(const table *t, bool is_json) {
    const int n = t->n_settings;
    if (!is_json)
        printf("\n%-24s %6s %6s %8s %8s %8s %8s %8s %8s\n%-24s %6s %6s %8.2f %8s %8s %8.2f\n",
               "method", "MNew", "FNew", "mean", "+mean", "+worst", "errors", "+mean", "+worst",
               "the true density", "", "", t->best_balanced / n, "", "", t->best_error / n);
    for (int i = 0; i < t->n_methods; i++)
        print_method(&t->methods[i], n, is_json);
    if (!is_json)
        printf("\n%.1f us of processor time a sample, %.2f ms the longest call, %zu bytes\n",
               t->add_ns * 1e-3 / n, t->largest_ns * 1e-6, t->bytes);
}

static qn_status write_page(const table *t, const char *path) {
    static const char *const columns[] = {
        "method",     "MNew (%)",          "FNew (%)",
        "mean (%)",   "above best",        "above best, worst",
        "errors (%)", "errors above best", "errors above best, worst"};
    enum { N_COLUMNS = sizeof columns / sizeof columns[0] };
    const int n = t->n_settings;
    qn_document *d;
    char text[32];
    QN_TRY(qn_document_create(NULL, "Labelling streams with unknown classes", &d));
    qn_document_about(d, NULL, 1);
    snprintf(text, sizeof text, "%d", n);
    qn_document_figure(d, "Streams", text, "of 5000 samples, 1000 labelled before");
    snprintf(text, sizeof text, "%.2f points", t->methods[OURS].excess_balanced / n);
    qn_document_figure(d, "Mean of MNew and FNew", text, "over the true density");
    snprintf(text, sizeof text, "%.2f points", t->methods[OURS].excess_error / n);
    qn_document_figure(d, "Errors", text, "over the true density");
    qn_document_begin_table(d, "Methods", N_COLUMNS, columns);
    for (int i = 0; i < t->n_methods; i++) {
        const method *m = &t->methods[i];
        const double values[] = {m->missed_new / n,      m->false_new / n,  m->balanced / n,
                                 m->excess_balanced / n, m->worst_balanced, m->error / n,
                                 m->excess_error / n,    m->worst_error};
        qn_document_cell_text(d, m->name);
        for (int j = 0; j < N_COLUMNS - 1; j++)
            qn_document_cell_number(d, values[j], 2);
    }
    qn_document_end_table(d);
    qn_document_text(d, "MNew: new samples that were given a known label. FNew: samples of known "
                        "classes that were called new. Errors: both, and known samples that were "
                        "given a wrong known label. The best is what the density gives that the "
                        "streams were drawn from.");
    const qn_status status = qn_document_write(d, path);
    qn_document_destroy(d);
    return status;
}

int label_bench(const arguments *a) {
    const bool is_json = arguments_flag(a, "json");
    const uint64_t seed = (uint64_t)arguments_count(a, "seed");
    const int features = (int)arguments_count(a, "features");
    table t = {.methods = {[OURS] = {.name = "quern"}}, .n_methods = FIRST_RULE};
    for (int r = 0; qn_label_rule_at(r); r++)
        t.methods[t.n_methods++].name = qn_label_rule_at(r)->name;
    for (int64_t i = 0; i < arguments_count(a, "settings"); i++) {
        const qn_rbf_options options = {.seed = seed + (uint64_t)i,
                                        .n_features = features,
                                        .n_classes = features ? 4 : 0,
                                        .n_centroids = features ? 10 : 0,
                                        .speed = strtod(arguments_get(a, "speed"), NULL),
                                        .nothing_new = arguments_flag(a, "nothing-new")};
        qn_label_trial trial;
        if (qn_label_try(NULL, &options, &trial) != QN_OK)
            return report_failed_run();
        add_trial(&t, &trial);
        print_trial(&trial, options.seed, is_json);
    }
    print_table(&t, is_json);
    if (arguments_get(a, "html") && write_page(&t, arguments_get(a, "html")) != QN_OK)
        return report_failed_run();
    return EXIT_DONE;
}
