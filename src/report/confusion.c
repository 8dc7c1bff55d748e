/* See confusion.h. */
#include "report/confusion.h"

#include "base/status.h"
#include "format/output.h"
#include "os/os.h"
#include "report/document.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int64_t count_at(const qn_confusion *c, int class, int taken) {
    return c->counts[(int64_t) class * c->n_classes + taken];
}

qn_class_scores qn_confusion_scores(const qn_confusion *c, int class) {
    qn_class_scores s = {.n_right = count_at(c, class, class)};
    for (int i = 0; i < c->n_classes; i++) {
        s.n_samples += count_at(c, class, i);
        s.n_taken += count_at(c, i, class);
    }
    s.precision = s.n_taken ? (double)s.n_right / (double)s.n_taken : NAN;
    s.recall = s.n_samples ? (double)s.n_right / (double)s.n_samples : NAN;
    s.f1 =
        s.n_samples + s.n_taken ? 2 * (double)s.n_right / (double)(s.n_samples + s.n_taken) : NAN;
    return s;
}

double qn_confusion_macro_f1(const qn_confusion *c) {
    double sum = 0;
    int n = 0;
    for (int i = 0; i < c->n_classes; i++) {
        const qn_class_scores s = qn_confusion_scores(c, i);
        if (s.n_samples == 0)
            continue;
        sum += s.f1;
        n++;
    }
    return n ? sum / n : NAN;
}

const char *qn_confusion_name(const qn_confusion *c, int class, char text[24]) {
    if (class < c->n_names)
        return c->names[class];
    snprintf(text, 24, "%d", class);
    return text;
}

int qn_confusion_most_wrong(const qn_confusion *c, int class) {
    int most = -1;
    for (int i = 0; i < c->n_classes; i++) {
        if (i != class && count_at(c, class, i) > (most < 0 ? 0 : count_at(c, class, most)))
            most = i;
    }
    return most;
}

/* ---- CSV ---- */

static qn_status put_rows(void *context, qn_writer *writer) {
    const qn_confusion *c = context;
    qn_output out = qn_output_to_file(writer);
    char text[24];
    qn_output_text(&out, "class");
    for (int i = 0; i < c->n_classes; i++) {
        qn_output_text(&out, ",");
        qn_output_csv(&out, qn_confusion_name(c, i, text));
    }
    qn_output_text(&out, "\n");
    for (int i = 0; i < c->n_classes; i++) {
        qn_output_csv(&out, qn_confusion_name(c, i, text));
        for (int k = 0; k < c->n_classes; k++) {
            qn_output_text(&out, ",");
            qn_output_count(&out, count_at(c, i, k));
        }
        qn_output_text(&out, "\n");
    }
    return out.status;
}

qn_status qn_confusion_write_csv(const qn_confusion *confusion, const char *path) {
    return qn_file_replace(path, put_rows, (void *)(uintptr_t)confusion);
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
    qn_output *out = qn_document_begin_picture(
        d, "matrix", "What samples of each class were taken for",
        "Rows are classes, columns what their samples were taken for; the stronger a colour, the "
        "larger the part of the row. Point at a cell to read it.",
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
        qn_json_open(out, NULL, '[');
        for (int k = 0; k < c->n_classes; k++)
            qn_json_count(out, NULL, count_at(c, i, k));
        qn_json_close(out, ']');
    }
    qn_json_close(out, ']');
    qn_json_close(out, '}');
    qn_document_end_picture(d);
}

static void add_table(qn_document *d, const qn_confusion *c) {
    static const char *const columns[] = {"class",     "samples", "precision %",
                                          "recall %",  "F1 %",    "most often taken for",
                                          "that often"};
    char text[24];
    qn_document_begin_table(d, "Classes", 7, columns);
    for (int i = 0; i < c->n_classes; i++) {
        const qn_class_scores s = qn_confusion_scores(c, i);
        const int wrong = qn_confusion_most_wrong(c, i);
        qn_document_cell_text(d, qn_confusion_name(c, i, text));
        qn_document_cell_number(d, (double)s.n_samples, 0);
        qn_document_cell_number(d, 100 * s.precision, 1);
        qn_document_cell_number(d, 100 * s.recall, 1);
        qn_document_cell_number(d, 100 * s.f1, 1);
        qn_document_cell_text(d, wrong < 0 ? "-" : qn_confusion_name(c, wrong, text));
        qn_document_cell_number(d, wrong < 0 ? NAN : (double)count_at(c, i, wrong), 0);
    }
    qn_document_end_table(d);
}

qn_status qn_confusion_write_html(const qn_allocator *allocator, const qn_confusion *confusion,
                                  const char *title, const qn_metrics *metrics, const char *path) {
    qn_document *d;
    QN_TRY(qn_document_create(allocator, title, &d));
    add_figures(d, confusion, metrics);
    qn_document_heading(d, "Confusion");
    add_picture(d, confusion);
    qn_document_heading(d, "Classes");
    qn_document_text(d, "Precision: of what was taken for the class, the part that was of it. "
                        "Recall: of its samples, the part that was found. F1: their harmonic mean. "
                        "The last columns say what else its samples were most often taken for.");
    add_table(d, confusion);
    const qn_status status = qn_document_write(d, path);
    qn_document_destroy(d);
    return status;
}
