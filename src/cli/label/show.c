/* quern label show: the classes of a labeller. */
#include "base/status.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/label/label.h"
#include "cli/terminal.h"
#include "report/document.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- what is shown ---- */

enum { MOST_CLASSES = QN_LABEL_MAX_KNOWN + QN_LABEL_MAX_NEW };

typedef struct shown {
    qn_label_class class[MOST_CLASSES]; /* share: of the samples that are kept, by their labels */
    int n;
} shown;

static void look(const qn_labeller *l, shown *s) {
    const int64_t kept = qn_labeller_kept(l);
    s->n = qn_labeller_class_count(l);
    for (int i = 0; i < s->n; i++) {
        s->class[i] = qn_labeller_class_at(l, i);
        s->class[i].share = 0;
    }
    for (int64_t age = 0; age < kept; age++) {
        qn_label_answer answer;
        if (qn_labeller_revise(l, age, NULL, &answer) != QN_OK)
            continue;
        for (int i = 0; i < s->n; i++)
            if (s->class[i].label == answer.label)
                s->class[i].share += 1.0 / (double)kept;
    }
}

static void print_json(const qn_label_class *c) {
    json_begin();
    json_text("event", "class");
    json_text("name", c->name);
    json_flag("known", c->is_known);
    json_count("members", c->n_members);
    json_count("first", c->first + 1);
    json_count("last", c->last + 1);
    json_number("share", c->share);
    json_number("moved", c->moved);
    json_end();
}

static void print_classes(const arguments *a, const qn_labeller *l, const shown *s) {
    char text[4 * QN_LABEL_NAME];
    const bool is_json = arguments_flag(a, "json");
    const qn_label_place place = qn_labeller_get_place(l);
    if (is_json) {
        json_begin();
        json_text("event", "labeller");
        json_count("samples", qn_labeller_samples(l));
        json_text("under_way", place.source);
        json_end();
    } else {
        printf("%" PRId64 " samples labelled\n%-20s %-6s %8s %7s %8s %8s %6s\n",
               qn_labeller_samples(l), "class", "", "members", "share", "first", "last", "moved");
        if (*place.source)
            printf("under way: %s, %" PRId64 " rows so far\n", terminal_name(place.source),
                   place.n_rows);
    }
    for (int i = 0; i < s->n; i++) {
        const qn_label_class c = s->class[i];
        if (is_json)
            print_json(&c);
        else
            printf("%-20s %-6s %8" PRId64 " %5.1f %% %8" PRId64 " %8" PRId64 " %6.2f\n",
                   qn_text_printable(c.name, text, sizeof text), c.is_known ? "known" : "found",
                   c.n_members, 100 * c.share, c.first + 1, c.last + 1, c.moved);
    }
}

static void add_table(qn_document *d, const shown *s) {
    static const char *const columns[] = {"class", "",     "members", "share (%)",
                                          "first", "last", "moved"};
    enum { N_COLUMNS = sizeof columns / sizeof columns[0] };
    qn_document_begin_table(d, "Classes", N_COLUMNS, columns);
    for (int i = 0; i < s->n; i++) {
        const qn_label_class c = s->class[i];
        qn_document_cell_text(d, c.name);
        qn_document_cell_text(d, c.is_known ? "known" : "found");
        qn_document_cell_number(d, (double)c.n_members, 0);
        qn_document_cell_number(d, 100 * c.share, 1);
        qn_document_cell_number(d, c.first < 0 ? NAN : (double)c.first + 1, 0);
        qn_document_cell_number(d, c.last < 0 ? NAN : (double)c.last + 1, 0);
        qn_document_cell_number(d, c.is_known ? c.moved : NAN, 2);
    }
    qn_document_end_table(d);
}

static void add_shares(qn_document *d, const shown *s) {
    const char *names[MOST_CLASSES];
    double share[MOST_CLASSES];
    const int n = s->n;
    for (int i = 0; i < n; i++) {
        names[i] = s->class[i].name;
        share[i] = 100 * s->class[i].share;
    }
    qn_document_begin_chart(d, &(qn_chart){.kind = QN_CHART_BARS_ACROSS,
                                           .title = "Share of the last samples",
                                           .y_label = "share (%)",
                                           .n_labels = n,
                                           .labels = names});
    qn_document_series(d, "share", n, NULL, share);
    qn_document_end_chart(d);
}

static qn_status write_page(const qn_labeller *l, const shown *s, const char *path) {
    qn_document *d;
    char text[64];
    int n_found = 0;
    QN_TRY(qn_document_create(NULL, "Classes of a stream", &d));
    qn_document_about(d, NULL, 1);
    for (int i = 0; i < s->n; i++)
        n_found += !s->class[i].is_known;
    snprintf(text, sizeof text, "%" PRId64, qn_labeller_samples(l));
    qn_document_figure(d, "Samples labelled", text, "");
    snprintf(text, sizeof text, "%d", s->n - n_found);
    qn_document_figure(d, "Known classes", text, "");
    snprintf(text, sizeof text, "%d", n_found);
    qn_document_figure(d, "Found classes", text, "quern label name gives them names");
    add_table(d, s);
    qn_document_text(d, "first and last: the numbers of the samples that got this label first and "
                        "last. moved: how far the centre of a known class went, in deviations of "
                        "the labelled samples; 0 where nothing says that it moves.");
    add_shares(d, s);
    qn_status status = label_add_typical(d, l);
    if (status == QN_OK)
        status = qn_document_write(d, path);
    qn_document_destroy(d);
    return status;
}

int label_show(const arguments *a, const qn_labeller *labeller) {
    const char *html = arguments_get(a, "html");
    static shown s;
    look(labeller, &s);
    print_classes(a, labeller, &s);
    if (!html)
        return EXIT_DONE;
    if (write_page(labeller, &s, html) != QN_OK)
        return report_failed_run();
    if (!arguments_flag(a, "json"))
        printf("saved to %s\n", terminal_name(html));
    return EXIT_DONE;
}
