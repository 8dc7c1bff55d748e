/* See page.h. */
#include "cli/look/page.h"

#include "base/print.h"
#include "base/status.h"
#include "cli/look/samples.h"
#include "data/facts.h"
#include "os/heap.h"

#include <string.h>

enum { MOST_CLASSES = 200, MOST_BARS = 40 };

qn_split page_split(const page *p) {
    const int64_t *n = p->source->n_samples;
    return n[QN_TRAIN] > 0 ? QN_TRAIN : n[QN_TEST] > 0 ? QN_TEST : QN_VALIDATION;
}

int page_count_classes(const page *p) {
    return p->look->n_labels > 0 ? p->look->n_labels : p->look->n_classes;
}

const char *page_class_name(const page *p, int class, char text[24]) {
    return p->look->n_labels > 0 ? samples_label_name(p->source, class, text)
                                 : samples_class_name(p->source, class, text);
}

/* ---- before the lines ---- */

static void add_figure(qn_document *d, const char *label, int64_t n, const char *note) {
    char text[32];
    qn_print(text, sizeof text, "%lld", (long long)n);
    qn_document_figure(d, label, text, note);
}

static void warn(void *context, const char *text) {
    qn_document_warning(context, text);
}

qn_status page_begin(page *p, const qn_data_source *source, const qn_look *look) {
    static const char *const columns[] = {"what", "understood"};
    char title[512];
    *p = (page){.source = source, .look = look};
    qn_print(title, sizeof title, "What is understood of %.400s", source->name);
    QN_TRY(qn_document_create(NULL, title, &p->document));
    qn_document_about(p->document, NULL, 0);
    add_figure(p->document, "To train on", source->n_samples[QN_TRAIN], "samples");
    if (source->n_samples[QN_VALIDATION] > 0)
        add_figure(p->document, "To validate", source->n_samples[QN_VALIDATION], "samples");
    add_figure(p->document, "To test", source->n_samples[QN_TEST], "samples");
    if (page_count_classes(p) > 0)
        add_figure(p->document, look->n_labels > 0 ? "Labels" : "Classes", page_count_classes(p),
                   look->n_labels > 0 ? "a sample may have several" : "");
    samples_warn(source, look, (samples_known){false, false}, warn, p->document);
    qn_document_begin_table(p->document, "What was understood", 2, columns);
    return QN_OK;
}

void page_put(void *context, const char *line) {
    const page *p = context;
    char what[64];
    line += strspn(line, " ");
    const char *colon = strstr(line, ": ");
    const bool is_pair = colon && (size_t)(colon - line) < sizeof what;
    qn_print(what, sizeof what, "%.*s", is_pair ? (int)(colon - line) : 0, line);
    qn_document_cell_text(p->document, what);
    qn_document_cell_text(p->document, is_pair ? colon + 2 : line);
}

/* ---- classes ---- */

static double count_of(const page *p, int split, int class) {
    return (double)p->look->counts[split * page_count_classes(p) + class];
}

static void add_bars(const page *p, int n) {
    static const char *const names[QN_SPLITS] = {"training", "test", "validation"};
    char texts[MOST_BARS][24];
    const char *labels[MOST_BARS];
    double counts[MOST_BARS];
    for (int i = 0; i < n; i++)
        labels[i] = page_class_name(p, i, texts[i]);
    qn_document_begin_chart(p->document, &(qn_chart){.kind = QN_CHART_BARS_ACROSS,
                                                     .title = "Samples by class",
                                                     .y_label = "samples",
                                                     .n_labels = n,
                                                     .labels = labels});
    for (int split = 0; split < QN_SPLITS; split++) {
        for (int i = 0; i < n; i++)
            counts[i] = count_of(p, split, i);
        if (p->source->n_samples[split] > 0)
            qn_document_series(p->document, names[split], n, NULL, counts);
    }
    qn_document_end_chart(p->document);
}

static void add_counts(const page *p, int n) {
    static const char *const columns[] = {"class", "training", "test", "validation", "share (%)"};
    const qn_split split = page_split(p);
    char text[24];
    qn_document_begin_table(p->document, "Classes", 5, columns);
    for (int i = 0; i < n; i++) {
        qn_document_cell_text(p->document, page_class_name(p, i, text));
        for (int s = 0; s < QN_SPLITS; s++)
            qn_document_cell_number(p->document, count_of(p, s, i), 0);
        qn_document_cell_number(
            p->document, 100 * count_of(p, split, i) / (double)p->source->n_samples[split], 1);
    }
    qn_document_end_table(p->document);
}

static void add_classes(const page *p) {
    const int n_all = page_count_classes(p), n = n_all < MOST_CLASSES ? n_all : MOST_CLASSES;
    char text[80];
    if (n_all == 0)
        return;
    qn_document_heading(p->document, p->look->n_labels > 0 ? "Labels" : "Classes");
    qn_print(text, sizeof text, "The first %d of %d.", n, n_all);
    if (n < n_all)
        qn_document_text(p->document, text);
    if (n <= MOST_BARS)
        add_bars(p, n);
    add_counts(p, n);
    page_add_pictures(p);
}

/* ---- files ---- */

static void add_files(const page *p, const char *name, const qn_count_facts *facts) {
    static const char *const columns[] = {"kind", "files or rows", "why", "the first"};
    if (facts->n == 0)
        return;
    qn_document_begin_table(p->document, name, 4, columns);
    for (size_t i = 0; i < facts->n; i++) {
        const qn_count_fact *c = &facts->list[i];
        qn_document_cell_text(p->document, c->kind);
        qn_document_cell_number(p->document, (double)c->n, 0);
        qn_document_cell_text(p->document, c->why ? c->why : "");
        qn_document_cell_text(p->document, c->example ? c->example : "");
    }
    qn_document_end_table(p->document);
}

qn_status page_finish(page *p, const char *path) {
    qn_status status = QN_OK;
    if (!p->document)
        return QN_OK;
    qn_document_end_table(p->document);
    if (path) {
        const qn_data_facts *f = p->source->facts;
        add_classes(p);
        page_add_columns(p);
        if (f->formats.n + f->sizes.n + f->dropped.n > 0)
            qn_document_heading(p->document, "Files");
        add_files(p, "Formats", &f->formats);
        add_files(p, "Sizes", &f->sizes);
        add_files(p, "Left out", &f->dropped);
        status = qn_document_write(p->document, path);
    }
    qn_document_destroy(p->document);
    p->document = NULL;
    return status;
}
