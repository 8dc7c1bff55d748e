/* See confusion.h. */
#include "report/confusion.h"

#include "base/memory.h"
#include "base/status.h"
#include "format/output.h"
#include "os/heap.h"
#include "os/os.h"
#include "report/document.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

qn_class_scores qn_confusion_scores(const qn_confusion *c, int class) {
    const qn_class_count *n = &c->classes[class];
    const int64_t both = n->n_samples + n->n_taken;
    return (qn_class_scores){
        .n_samples = n->n_samples,
        .n_taken = n->n_taken,
        .n_right = n->n_right,
        .precision = n->n_taken ? (double)n->n_right / (double)n->n_taken : NAN,
        .recall = n->n_samples ? (double)n->n_right / (double)n->n_samples : NAN,
        .f1 = both ? 2 * (double)n->n_right / (double)both : NAN,
    };
}

static double f1_of(qn_class_scores s) {
    return s.f1;
}

static double recall_of(qn_class_scores s) {
    return s.recall;
}

/* Mean over the classes that have samples. */
static double mean_of(const qn_confusion *c, double (*score)(qn_class_scores)) {
    double sum = 0;
    int n = 0;
    for (int i = 0; i < c->n_classes; i++) {
        const qn_class_scores s = qn_confusion_scores(c, i);
        if (s.n_samples == 0)
            continue;
        sum += score(s);
        n++;
    }
    return n ? sum / n : NAN;
}

double qn_confusion_macro_f1(const qn_confusion *c) {
    return mean_of(c, f1_of);
}

double qn_confusion_balanced_accuracy(const qn_confusion *c) {
    return mean_of(c, recall_of);
}

const char *qn_confusion_name(const qn_confusion *c, int class, char text[24]) {
    if (class < c->n_names)
        return c->names[class];
    snprintf(text, 24, "%d", class);
    return text;
}

const qn_confusion_cell *qn_confusion_most_wrong(const qn_confusion *c, int class) {
    const qn_confusion_cell *most = NULL;
    for (int64_t i = c->classes[class].first_cell; i < c->classes[class + 1].first_cell; i++) {
        const qn_confusion_cell *cell = &c->cells[i];
        if (cell->taken != class && (!most || cell->n_samples > most->n_samples))
            most = cell;
    }
    return most;
}

int64_t qn_confusion_next(const qn_confusion *c, int class, int taken, int64_t *cell) {
    if (*cell == c->classes[class + 1].first_cell || c->cells[*cell].taken != taken)
        return 0;
    return c->cells[(*cell)++].n_samples;
}

/* ---- the most confused ---- */

/* Wrong samples of a cell or a class. */
typedef int64_t wrong_at(const qn_confusion *c, int64_t index);

static int64_t wrong_of_cell(const qn_confusion *c, int64_t index) {
    const qn_confusion_cell *cell = &c->cells[index];
    return cell->actual == cell->taken ? 0 : cell->n_samples;
}

static int64_t wrong_of_class(const qn_confusion *c, int64_t index) {
    return c->classes[index].n_samples - c->classes[index].n_right;
}

static int64_t count_above(const qn_confusion *c, int64_t n, wrong_at *wrong, int64_t limit) {
    int64_t n_above = 0;
    for (int64_t i = 0; i < n; i++)
        n_above += wrong(c, i) > limit;
    return n_above;
}

/* The least limit, from 0, that at most so many are above. */
static int64_t find_limit(const qn_confusion *c, int64_t n, wrong_at *wrong, int64_t most) {
    int64_t low = -1, high = 0;
    for (int64_t i = 0; i < n; i++)
        high = wrong(c, i) > high ? wrong(c, i) : high;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (count_above(c, n, wrong, middle) <= most)
            high = middle;
        else
            low = middle;
    }
    return high;
}

static int by_wrong(const void *a, const void *b) {
    const qn_confusion_rank *x = a, *y = b;
    if (x->n_wrong != y->n_wrong)
        return x->n_wrong > y->n_wrong ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

/* Of n cells or classes. Takes no more memory than what comes out: all above a limit, and the first
 * of those at it. */
static qn_status rank(const qn_allocator *allocator, const qn_confusion *c, int64_t n,
                      wrong_at *wrong, int64_t most, qn_confusion_ranking *ranking) {
    const int64_t limit = find_limit(c, n, wrong, most);
    const int64_t n_above = count_above(c, n, wrong, limit);
    qn_confusion_ranking r = {.n_all = count_above(c, n, wrong, 0)};
    int64_t n_equal = (r.n_all < most ? r.n_all : most) - n_above;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, (size_t)(n_above + n_equal), sizeof *r.ranks, &r.ranks));
    for (int64_t i = 0; i < n; i++) {
        const int64_t n_wrong = wrong(c, i);
        if (n_wrong > limit || (n_wrong == limit && limit > 0 && n_equal-- > 0))
            r.ranks[r.n++] = (qn_confusion_rank){i, n_wrong};
    }
    qsort(r.ranks, (size_t)r.n, sizeof *r.ranks, by_wrong);
    *ranking = r;
    return QN_OK;
}

qn_status qn_confusion_rank_pairs(const qn_allocator *allocator, const qn_confusion *confusion,
                                  int64_t most, qn_confusion_ranking *ranking) {
    return rank(allocator, confusion, confusion->n_cells, wrong_of_cell, most, ranking);
}

qn_status qn_confusion_rank_classes(const qn_allocator *allocator, const qn_confusion *confusion,
                                    int64_t most, qn_confusion_ranking *ranking) {
    return rank(allocator, confusion, confusion->n_classes, wrong_of_class, most, ranking);
}

void qn_confusion_ranking_deinit(const qn_allocator *allocator, qn_confusion_ranking *ranking) {
    qn_release(qn_allocator_or_default(allocator), ranking->ranks, (size_t)ranking->n,
               sizeof *ranking->ranks);
}

/* ---- CSV ---- */

typedef struct table {
    const qn_confusion *confusion;
    const qn_confusion_ranking *pairs;
} table;

static qn_status put_matrix(void *context, qn_writer *writer) {
    const qn_confusion *c = ((const table *)context)->confusion;
    qn_output out = qn_output_to_file(writer);
    char text[24];
    qn_output_text(&out, "class");
    for (int i = 0; i < c->n_classes; i++) {
        qn_output_text(&out, ",");
        qn_output_csv(&out, qn_confusion_name(c, i, text));
    }
    qn_output_text(&out, "\n");
    for (int i = 0; i < c->n_classes; i++) {
        int64_t cell = c->classes[i].first_cell;
        qn_output_csv(&out, qn_confusion_name(c, i, text));
        for (int k = 0; k < c->n_classes; k++) {
            qn_output_text(&out, ",");
            qn_output_count(&out, qn_confusion_next(c, i, k, &cell));
        }
        qn_output_text(&out, "\n");
    }
    return out.status;
}

static qn_status put_pairs(void *context, qn_writer *writer) {
    const table *t = context;
    qn_output out = qn_output_to_file(writer);
    char text[24];
    qn_output_text(&out, "class,taken for,samples\n");
    for (int64_t i = 0; i < t->pairs->n; i++) {
        const qn_confusion_cell *cell = &t->confusion->cells[t->pairs->ranks[i].index];
        qn_output_csv(&out, qn_confusion_name(t->confusion, cell->actual, text));
        qn_output_text(&out, ",");
        qn_output_csv(&out, qn_confusion_name(t->confusion, cell->taken, text));
        qn_output_text(&out, ",");
        qn_output_count(&out, cell->n_samples);
        qn_output_text(&out, "\n");
    }
    return out.status;
}

qn_status qn_confusion_write_csv(const qn_allocator *allocator, const qn_confusion *confusion,
                                 int64_t most, const char *path) {
    qn_confusion_ranking pairs;
    table t = {confusion, &pairs};
    if (confusion->n_classes <= most)
        return qn_file_write(path, put_matrix, &t);
    QN_TRY(qn_confusion_rank_pairs(allocator, confusion, most, &pairs));
    const qn_status status = qn_file_write(path, put_pairs, &t);
    qn_confusion_ranking_deinit(allocator, &pairs);
    return status;
}

/* ---- HTML ---- */

static void add_figures(qn_document *d, const qn_confusion *c, const qn_metrics *metrics) {
    char text[QN_NUMBER_TEXT + 2], note[64];
    int64_t n = 0;
    for (int i = 0; i < c->n_classes; i++)
        n += qn_confusion_scores(c, i).n_samples;
    qn_print_fixed(100 * qn_metrics_get(metrics, "accuracy"), 2, text);
    strcat(text, " %");
    qn_document_figure(d, "accuracy", text, "of the samples");
    const double balanced = qn_confusion_balanced_accuracy(c);
    qn_document_figure(d, "balanced accuracy",
                       isfinite(balanced) ? qn_print_fixed(balanced, 3, text) : "-",
                       "mean recall of the classes that have samples");
    const double f1 = qn_confusion_macro_f1(c);
    qn_document_figure(d, "F1, mean of classes", isfinite(f1) ? qn_print_fixed(f1, 3, text) : "-",
                       "those that have samples");
    qn_document_figure(d, "loss", qn_print_fixed(qn_metrics_get(metrics, "loss"), 4, text),
                       "mean of samples");
    snprintf(text, sizeof text, "%lld", (long long)n);
    snprintf(note, sizeof note, "of %d classes", c->n_classes);
    qn_document_figure(d, "samples", text, note);
}

/* {names: [name], counts: [[count]]} */
static void add_picture(qn_document *d, const qn_confusion *c) {
    static const char *const none[] = {NULL};
    char text[24];
    qn_output *out = qn_document_begin_picture(d, "matrix", "Confusion matrix",
                                               "Rows are true classes, columns predictions; a "
                                               "stronger colour is a larger part of the row. "
                                               "Point at a cell to read it.",
                                               none, NULL);
    if (!out)
        return;
    qn_json_open(out, NULL, '{');
    qn_json_open(out, "names", '[');
    for (int i = 0; i < c->n_classes; i++)
        qn_json_text(out, NULL, qn_confusion_name(c, i, text));
    qn_json_close(out, ']');
    qn_json_open(out, "counts", '[');
    for (int i = 0; i < c->n_classes; i++) {
        int64_t cell = c->classes[i].first_cell;
        qn_json_open(out, NULL, '[');
        for (int k = 0; k < c->n_classes; k++)
            qn_json_count(out, NULL, qn_confusion_next(c, i, k, &cell));
        qn_json_close(out, ']');
    }
    qn_json_close(out, ']');
    qn_json_close(out, '}');
    qn_document_end_picture(d);
}

/* What is left out, above a table of the most. */
static void add_left_out(qn_document *d, const qn_confusion_ranking *r, const char *what) {
    char text[160];
    snprintf(text, sizeof text, "The %lld with the most wrong samples, of %lld %s.",
             (long long)r->n, (long long)r->n_all, what);
    qn_document_text(d, text);
}

static void add_pairs(qn_document *d, const qn_confusion *c, int64_t most) {
    static const char *const columns[] = {"class", "taken for", "samples", "of the class (%)"};
    qn_confusion_ranking pairs;
    char text[24];
    const qn_status status = qn_confusion_rank_pairs(qn_document_allocator(d), c, most, &pairs);
    if (status != QN_OK) {
        qn_document_fail(d, status);
        return;
    }
    add_left_out(d, &pairs, "pairs of classes that were confused");
    qn_document_begin_table(d, "Most confused", 4, columns);
    for (int64_t i = 0; i < pairs.n; i++) {
        const qn_confusion_cell *cell = &c->cells[pairs.ranks[i].index];
        const double n = (double)c->classes[cell->actual].n_samples;
        qn_document_cell_text(d, qn_confusion_name(c, cell->actual, text));
        qn_document_cell_text(d, qn_confusion_name(c, cell->taken, text));
        qn_document_cell_number(d, (double)cell->n_samples, 0);
        qn_document_cell_number(d, 100 * (double)cell->n_samples / n, 1);
    }
    qn_document_end_table(d);
    qn_confusion_ranking_deinit(qn_document_allocator(d), &pairs);
}

static void begin_classes(qn_document *d) {
    static const char *const columns[] = {"class",      "samples", "precision (%)",
                                          "recall (%)", "F1 (%)",  "most often taken for",
                                          "that often"};
    qn_document_begin_table(d, "Classes", 7, columns);
}

static void add_class(qn_document *d, const qn_confusion *c, int i) {
    const qn_class_scores s = qn_confusion_scores(c, i);
    const qn_confusion_cell *wrong = qn_confusion_most_wrong(c, i);
    char text[24];
    qn_document_cell_text(d, qn_confusion_name(c, i, text));
    qn_document_cell_number(d, (double)s.n_samples, 0);
    qn_document_cell_number(d, 100 * s.precision, 1);
    qn_document_cell_number(d, 100 * s.recall, 1);
    qn_document_cell_number(d, 100 * s.f1, 1);
    qn_document_cell_text(d, wrong ? qn_confusion_name(c, wrong->taken, text) : "-");
    qn_document_cell_number(d, wrong ? (double)wrong->n_samples : NAN, 0);
}

static void add_classes(qn_document *d, const qn_confusion *c) {
    begin_classes(d);
    for (int i = 0; i < c->n_classes; i++)
        add_class(d, c, i);
    qn_document_end_table(d);
}

static void add_worst_classes(qn_document *d, const qn_confusion *c, int64_t most) {
    qn_confusion_ranking classes;
    const qn_status status = qn_confusion_rank_classes(qn_document_allocator(d), c, most, &classes);
    if (status != QN_OK) {
        qn_document_fail(d, status);
        return;
    }
    add_left_out(d, &classes, "classes that have wrong samples");
    begin_classes(d);
    for (int64_t i = 0; i < classes.n; i++)
        add_class(d, c, (int)classes.ranks[i].index);
    qn_document_end_table(d);
    qn_confusion_ranking_deinit(qn_document_allocator(d), &classes);
}

qn_status qn_confusion_write_html(const qn_allocator *allocator, const qn_confusion *confusion,
                                  int64_t most, const char *title, int n_threads,
                                  const qn_metrics *metrics, const char *path) {
    const bool is_whole = confusion->n_classes <= most;
    qn_document *d;
    QN_TRY(qn_document_create(allocator, title, &d));
    qn_document_about(d, NULL, n_threads);
    add_figures(d, confusion, metrics);
    qn_document_heading(d, "Confusion");
    if (is_whole)
        add_picture(d, confusion);
    else
        add_pairs(d, confusion, most);
    qn_document_heading(d, "Classes");
    qn_document_text(d,
                     "Precision: the part of the predictions of a class that is right. Recall: the "
                     "part of its samples that is recognised. F1: their harmonic mean. The last "
                     "columns show its most frequent wrong prediction.");
    if (is_whole)
        add_classes(d, confusion);
    else
        add_worst_classes(d, confusion, most);
    const qn_status status = qn_document_write(d, path);
    qn_document_destroy(d);
    return status;
}
