/* quern label bench with pictures or series: classes of a data set appear one after another. */
#include "label/bench/arriving.h"

#include "base/status.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/label/label.h"
#include "report/document.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_BYTES = 1 << 30 };

/* Sums over the settings so far. */
typedef struct table {
    qn_arriving_trial last; /* names of the methods */
    qn_arriving_part sums[QN_ARRIVING_MOST_METHODS];
    qn_arriving_part ahead[2], least[2]; /* answers at once, and after the next lesson, of the best
                                            other method of each stream: sums, and least */
    int n_settings;
} table;

/* ---- the data set ---- */

/* Numbers of bytes are 0 to 1 here; others are spread over the bytes by their range. */
static void to_bytes(const float *x, size_t n, bool are_bytes, uint8_t *bytes) {
    float least = 0, most = 1;
    for (size_t i = 0; i < n && !are_bytes; i++) {
        least = i == 0 || x[i] < least ? x[i] : least;
        most = i == 0 || x[i] > most ? x[i] : most;
    }
    const float each = most > least ? 255.0f / (most - least) : 0.0f;
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)((x[i] - least) * each + 0.5f);
}

static qn_status read_set(const qn_data_source *source, label_samples *set, uint8_t **bytes) {
    label_pictures p = {.seed = 0};
    const int64_t n = source->n_samples[QN_TRAIN] + source->n_samples[QN_TEST];
    QN_TRY(label_pictures_open(&p, source, (qn_shape){0}));
    const size_t d = (size_t)qn_shape_count(p.sample);
    set->sample = p.sample;
    if (d * (size_t)n > MOST_BYTES) {
        label_pictures_close(&p);
        return qn_fail(QN_ERROR_ARGUMENT, "the data set is too large for the benchmark");
    }
    set->x = malloc((size_t)n * d * sizeof *set->x);
    set->label = malloc((size_t)n * sizeof *set->label);
    *bytes = malloc((size_t)n * d);
    qn_status status =
        set->x && set->label && *bytes ? QN_OK : qn_fail_memory((size_t)n * d * sizeof *set->x);
    for (const float *x = set->x; status == QN_OK && x && set->n < n;) {
        status = label_pictures_next(&p, &x, &set->label[set->n]);
        for (size_t i = 0; status == QN_OK && x && i < d; i++)
            set->x[(size_t)set->n * d + i] = x[i];
        set->n += status == QN_OK && x;
    }
    label_pictures_close(&p);
    if (status == QN_OK)
        to_bytes(set->x, (size_t)set->n * d, source->dtype == QN_U8, *bytes);
    return status;
}

/* ---- printing ---- */

static void print_trial(const qn_arriving_trial *t, uint64_t seed, bool is_json) {
    if (is_json) {
        json_begin();
        json_text("event", "setting");
        json_count("seed", (int64_t)seed);
        json_count("known", t->n_known);
        json_count("classes", t->n_classes);
        json_count("samples", t->n_stream);
        json_count("found", t->n_found);
        json_number("known_share", t->known_share);
        json_number("whole", t->methods[0].part.whole);
        json_number("emerged", t->methods[0].part.emerged);
        json_number("missed_new", qn_label_missed_new(&t->methods[0].score));
        json_number("false_new", qn_label_false_new(&t->methods[0].score));
        json_number("answer_us", t->answer_ns * 1e-3);
        json_number("piece_us", t->piece_ns * 1e-3);
        json_number("sample_us", t->all_ns * 1e-3 / t->n_stream);
        json_end();
        return;
    }
    printf("seed %llu: %d of %d classes known, %d found;", (unsigned long long)seed, t->n_known,
           t->n_classes, t->n_found);
    for (int i = 0; i < t->n_methods; i++)
        printf(" %.1f/%.1f", t->methods[i].part.whole, t->methods[i].part.emerged);
    printf("; MNew %.1f, FNew %.1f; an answer %.2f ms, a piece of a lesson at most %.1f ms, all "
           "%.1f s\n",
           qn_label_missed_new(&t->methods[0].score), qn_label_false_new(&t->methods[0].score),
           t->answer_ns * 1e-6, t->piece_ns * 1e-6, t->all_ns * 1e-9);
    fflush(stdout);
}

static void print_ahead(const char *what, double whole, double emerged, bool is_json) {
    if (!is_json) {
        printf("%-40s %8.2f %8.2f\n", what, whole, emerged);
        return;
    }
    json_begin();
    json_text("event", "ahead");
    json_text("of", what);
    json_number("whole", whole);
    json_number("emerged", emerged);
    json_end();
}

static void print_table(const table *t, bool is_json) {
    const int n = t->n_settings;
    if (!is_json)
        printf("\n%-40s %8s %8s\n", "right labels (%)", "whole", "emerged");
    for (int i = 0; i < t->last.n_methods; i++) {
        const double whole = t->sums[i].whole / n, emerged = t->sums[i].emerged / n;
        if (!is_json) {
            printf("%-40s %8.2f %8.2f\n", t->last.methods[i].name, whole, emerged);
            continue;
        }
        json_begin();
        json_text("event", "method");
        json_text("name", t->last.methods[i].name);
        json_number("whole", whole);
        json_number("emerged", emerged);
        json_end();
    }
    for (int i = 0; i < 2; i++) {
        print_ahead(i == 0 ? "at once, ahead of each stream's best*" : "after, ahead of it",
                    t->ahead[i].whole / n, t->ahead[i].emerged / n, is_json);
        print_ahead("least of these", t->least[i].whole, t->least[i].emerged, is_json);
    }
    if (!is_json)
        printf("* of the methods that are not told how many classes are new\n");
}

static qn_status write_page(const table *t, const char *data, const char *path) {
    static const char *const columns[] = {"method", "right (%)", "since the last class came (%)"};
    qn_document *d;
    char text[32];
    QN_TRY(qn_document_create(NULL, "Labelling classes that appear one after another", &d));
    qn_document_about(d, NULL, 1);
    snprintf(text, sizeof text, "%d", t->n_settings);
    qn_document_figure(d, "Streams", text, data);
    qn_document_begin_table(d, "Methods", 3, columns);
    for (int i = 0; i < t->last.n_methods; i++) {
        qn_document_cell_text(d, t->last.methods[i].name);
        qn_document_cell_number(d, t->sums[i].whole / t->n_settings, 2);
        qn_document_cell_number(d, t->sums[i].emerged / t->n_settings, 2);
    }
    qn_document_end_table(d);
    qn_document_text(d, "A label is right if it is the known class of its sample, or a found class "
                        "that was matched with its new one: one to one, so that most are right.");
    const qn_status status = qn_document_write(d, path);
    qn_document_destroy(d);
    return status;
}

/* ---- all settings ---- */

/* By how much answers of the labeller are ahead of the best other method of this stream. */
static qn_arriving_part measure_ahead(const qn_arriving_trial *trial, int own) {
    qn_arriving_part ahead = {100, 100};
    for (int m = 0; m < trial->n_methods; m++) {
        const qn_arriving_method *other = &trial->methods[m];
        const double whole = trial->methods[own].part.whole - other->part.whole;
        const double emerged = trial->methods[own].part.emerged - other->part.emerged;
        ahead.whole = other->is_other && whole < ahead.whole ? whole : ahead.whole;
        ahead.emerged = other->is_other && emerged < ahead.emerged ? emerged : ahead.emerged;
    }
    return ahead;
}

static double least_of(double a, double b) {
    return a < b ? a : b;
}

static void add_trial(table *t) {
    const bool is_first = t->n_settings++ == 0;
    for (int m = 0; m < t->last.n_methods; m++) {
        t->sums[m].whole += t->last.methods[m].part.whole;
        t->sums[m].emerged += t->last.methods[m].part.emerged;
    }
    for (int own = 0; own < 2; own++) {
        const qn_arriving_part ahead = measure_ahead(&t->last, own);
        qn_arriving_part *least = &t->least[own];
        t->ahead[own].whole += ahead.whole;
        t->ahead[own].emerged += ahead.emerged;
        least->whole = is_first ? ahead.whole : least_of(ahead.whole, least->whole);
        least->emerged = is_first ? ahead.emerged : least_of(ahead.emerged, least->emerged);
    }
}

static qn_status try_all(const arguments *a, const qn_arriving_set *set, table *t) {
    const uint64_t seed = (uint64_t)arguments_count(a, "seed");
    const int64_t n_splits = arguments_count(a, "splits");
    for (int64_t i = 0; i < arguments_count(a, "settings"); i++) {
        const int64_t split = n_splits > 0 ? i % n_splits : i;
        const qn_arriving_options options = {.class_seed = seed + (uint64_t)split,
                                             .seed = seed + (uint64_t)i,
                                             .n_stream = (int)arguments_count(a, "samples"),
                                             .n_threads = (int)arguments_count(a, "threads"),
                                             .has_drift = arguments_flag(a, "drift")};
        QN_TRY(qn_label_try_arriving(set, &options, &t->last));
        add_trial(t);
        print_trial(&t->last, options.seed, arguments_flag(a, "json"));
    }
    return QN_OK;
}

int label_arriving(const arguments *a, const qn_data_source *source) {
    label_samples set = {.n = 0};
    uint8_t *bytes = NULL;
    table t = {.n_settings = 0};
    const char *page = arguments_get(a, "html");
    qn_status status = read_set(source, &set, &bytes);
    if (status == QN_OK)
        status = try_all(a,
                         &(qn_arriving_set){.sample = set.sample,
                                            .n = (int)set.n,
                                            .n_classes = source->preparation.n_classes,
                                            .bytes = bytes,
                                            .label = set.label},
                         &t);
    label_samples_deinit(&set);
    free(bytes);
    if (status == QN_OK) {
        print_table(&t, arguments_flag(a, "json"));
        status = page ? write_page(&t, arguments_get(a, "known"), page) : QN_OK;
    }
    return status == QN_OK ? EXIT_DONE : report_failure(status);
}
