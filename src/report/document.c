/* See document.h. The body is built in memory; style, script and charts are added when it is
 * written. A chart's data is stored beside it as JSON. */
#include "report/document.h"

#include "base/memory.h"
#include "base/status.h"
#include "format/output.h"
#include "meter/processor.h"
#include "os/heap.h"
#include "os/os.h"
#include "report/assets.h"
#include "report/bitmap.h"

#include <string.h>

/* What is open in the body. */
typedef enum block { BLOCK_NONE, BLOCK_FIGURES, BLOCK_TABLE, BLOCK_GALLERY, BLOCK_CHART } block;

enum { MESSAGE_BYTES = 256 };

/* used <= capacity; column < n_columns in a table. */
struct qn_document {
    const qn_allocator *allocator;
    char *title;
    size_t title_bytes;
    qn_output out; /* into body */
    char *body;
    size_t used, capacity;
    block open;
    int n_columns, column;
    char machine[QN_PROCESSOR_TEXT]; /* "": this one */
    int n_threads;                   /* 0: not said */
    char message[MESSAGE_BYTES];     /* of the first failure */
};

/* Keeps the message of a failure, so that it is still there when the document is written. */
static qn_status keep_message(qn_document *d, qn_status status) {
    snprintf(d->message, sizeof d->message, "%s", qn_error_message());
    return status;
}

static qn_status append(void *user, const void *data, size_t bytes) {
    qn_document *d = user;
    const qn_status status =
        qn_grow(d->allocator, &d->body, &d->capacity, d->used + bytes, sizeof *d->body);
    if (status != QN_OK)
        return keep_message(d, status);
    memcpy(d->body + d->used, data, bytes);
    d->used += bytes;
    return QN_OK;
}

qn_status qn_document_create(const qn_allocator *allocator, const char *title,
                             qn_document **document) {
    qn_document *d;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *d, &d));
    d->allocator = allocator;
    d->title_bytes = strlen(title) + 1;
    qn_status status = qn_allocate(allocator, 1, d->title_bytes, &d->title);
    if (status != QN_OK) {
        qn_document_destroy(d);
        return status;
    }
    memcpy(d->title, title, d->title_bytes);
    d->out = (qn_output){.user = d, .put = append};
    *document = d;
    return QN_OK;
}

void qn_document_destroy(qn_document *document) {
    if (!document)
        return;
    qn_release(document->allocator, document->title, 1, document->title_bytes);
    qn_release(document->allocator, document->body, document->capacity, 1);
    qn_release(document->allocator, document, 1, sizeof *document);
}

void qn_document_about(qn_document *document, const char *machine, int n_threads) {
    snprintf(document->machine, sizeof document->machine, "%s", machine ? machine : "");
    document->n_threads = n_threads;
}

const qn_allocator *qn_document_allocator(const qn_document *document) {
    return document->allocator;
}

void qn_document_fail(qn_document *document, qn_status status) {
    if (document->out.status == QN_OK && status != QN_OK)
        document->out.status = keep_message(document, status);
}

/* A call that has no place where it was made. */
static void refuse(qn_document *d, const char *what) {
    qn_document_fail(d, qn_fail(QN_ERROR_ARGUMENT, "report \"%s\": %s", d->title, what));
}

/* Whether something may begin: ends a row of figures. */
static bool begin(qn_document *d, block wanted) {
    if (d->open == BLOCK_TABLE || d->open == BLOCK_CHART || d->open == BLOCK_GALLERY) {
        refuse(d, "a table or chart was not ended before the next part");
        return false;
    }
    if (d->open == BLOCK_FIGURES && wanted != BLOCK_FIGURES)
        qn_output_text(&d->out, "</div>\n");
    if (wanted == BLOCK_FIGURES && d->open != BLOCK_FIGURES)
        qn_output_text(&d->out, "<div class=\"figures\">\n");
    d->open = wanted;
    return true;
}

static bool is_open(qn_document *d, block wanted) {
    if (d->open != wanted)
        refuse(d, wanted == BLOCK_TABLE     ? "a cell without a table"
                  : wanted == BLOCK_GALLERY ? "a card without a gallery"
                                            : "a series without a chart");
    return d->open == wanted;
}

/* An element with a text in it. */
static void put_element(qn_output *out, const char *open, const char *text, const char *close) {
    qn_output_text(out, open);
    qn_output_html(out, text);
    qn_output_text(out, close);
}

void qn_document_heading(qn_document *document, const char *text) {
    if (begin(document, BLOCK_NONE))
        put_element(&document->out, "<h2>", text, "</h2>\n");
}

void qn_document_text(qn_document *document, const char *text) {
    if (begin(document, BLOCK_NONE))
        put_element(&document->out, "<p>", text, "</p>\n");
}

void qn_document_warning(qn_document *document, const char *text) {
    if (begin(document, BLOCK_NONE))
        put_element(&document->out, "<p class=\"warning\" role=\"note\">", text, "</p>\n");
}

/* A paragraph of a finding, with what it is about before it. */
static void put_side(qn_output *out, const char *label, const char *text) {
    put_element(out, "<p><span class=\"label\">", label, "</span> ");
    put_element(out, "", text, "</p>\n");
}

static const char *const judgement_kinds[] = {[QN_JUDGED_GOOD] = "good",
                                              [QN_JUDGED_BAD] = "bad",
                                              [QN_JUDGED_UNSURE] = "unsure",
                                              [QN_JUDGED_NOT] = "open"};

void qn_document_find(qn_document *document, const qn_document_finding *f) {
    qn_output *out = &document->out;
    if (!begin(document, BLOCK_NONE))
        return;
    put_element(out, "<section class=\"finding ", judgement_kinds[f->judgement], "\">\n");
    put_element(out, "<h3><span class=\"badge\">", f->verdict, "</span> ");
    put_element(out, "", f->claim, "</h3>\n");
    put_side(out, "Here", f->here);
    if (f->theirs)
        put_side(out, f->theirs_label, f->theirs);
    qn_output_text(out, "</section>\n");
}

/* A list without spaces may break after its commas. */
static void put_value(qn_output *out, const char *value) {
    qn_output_text(out, "<span class=\"value\">");
    for (const char *at = value; *at;) {
        const size_t n = strcspn(at, ",") + 1;
        char part[64];
        if (n >= sizeof part || n > strlen(at)) {
            qn_output_html(out, at);
            break;
        }
        memcpy(part, at, n);
        part[n] = 0;
        put_element(out, "", part, "<wbr>");
        at += n;
    }
    qn_output_text(out, "</span>");
}

void qn_document_figure(qn_document *document, const char *label, const char *value,
                        const char *note) {
    qn_output *out = &document->out;
    if (!begin(document, BLOCK_FIGURES))
        return;
    put_element(out, "<div class=\"figure\"><span class=\"label\">", label, "</span>");
    put_value(out, value);
    if (note && *note)
        put_element(out, "<span class=\"note\">", note, "</span>");
    qn_output_text(out, "</div>\n");
}

/* ---- tables ---- */

void qn_document_begin_table(qn_document *document, const char *name, int n_columns,
                             const char *const *columns) {
    qn_output *out = &document->out;
    if (!begin(document, BLOCK_TABLE))
        return;
    if (n_columns < 1)
        refuse(document, "a table without columns");
    document->n_columns = n_columns;
    document->column = 0;
    put_element(out, "<figure class=\"table\" data-name=\"", name, "\">");
    put_element(out, "<figcaption>", name, "</figcaption>\n");
    qn_output_text(out, "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>");
    for (int i = 0; i < n_columns; i++)
        put_element(out, "<th scope=\"col\">", columns[i], "</th>");
    qn_output_text(out, "</tr></thead><tbody>\n");
}

static bool begin_cell(qn_document *d) {
    if (!is_open(d, BLOCK_TABLE))
        return false;
    if (d->column == 0)
        qn_output_text(&d->out, "<tr>");
    return true;
}

static void end_cell(qn_document *d) {
    qn_output_text(&d->out, "</td>");
    d->column++;
    if (d->column == d->n_columns) {
        qn_output_text(&d->out, "</tr>\n");
        d->column = 0;
    }
}

void qn_document_cell_text(qn_document *document, const char *text) {
    if (!begin_cell(document))
        return;
    put_element(&document->out, "<td>", text ? text : "", "");
    end_cell(document);
}

void qn_document_cell_number(qn_document *document, double value, int decimals) {
    qn_output *out = &document->out;
    if (!begin_cell(document))
        return;
    qn_output_text(out, "<td class=\"n\" data-v=\"");
    qn_output_number(out, value, 12, "");
    qn_output_text(out, "\">");
    qn_output_fixed(out, value, decimals, "\xe2\x80\x93"); /* a dash */
    end_cell(document);
}

void qn_document_cell_picture(qn_document *document, const char *name, int h, int w, int c,
                              const uint8_t *pixels) {
    qn_output *out = &document->out;
    if (!begin_cell(document))
        return;
    put_element(out, "<td><img class=\"small\" alt=\"", name, "\" src=\"");
    qn_bitmap_put(out, h, w, c, pixels);
    qn_output_text(out, "\">");
    end_cell(document);
}

void qn_document_end_table(qn_document *document) {
    if (!is_open(document, BLOCK_TABLE))
        return;
    if (document->column != 0)
        refuse(document, "a table ended within a row");
    qn_output_text(&document->out, "</tbody></table></div></figure>\n");
    document->open = BLOCK_NONE;
}

/* ---- galleries ---- */

void qn_document_begin_gallery(qn_document *document, const char *name) {
    if (!begin(document, BLOCK_GALLERY))
        return;
    put_element(&document->out, "<ul class=\"gallery\" aria-label=\"", name, "\">\n");
}

void qn_document_card_put(qn_document *document, const qn_document_card *card) {
    qn_output *out = &document->out;
    if (!is_open(document, BLOCK_GALLERY))
        return;
    put_element(out, "<li class=\"", judgement_kinds[card->judgement], "\">");
    if (card->jpeg) {
        put_element(out, "<img loading=\"lazy\" alt=\"", card->name, "\" src=\"");
        qn_bitmap_put_jpeg(out, card->jpeg, card->jpeg_bytes);
        qn_output_text(out, "\">");
    }
    put_element(out, "<span class=\"line\">", card->line, "</span>");
    put_element(out, "<span class=\"note\">", card->name, "</span>");
    if (card->note)
        put_element(out, "<span class=\"note\">", card->note, "</span>");
    qn_output_text(out, "</li>\n");
}

void qn_document_end_gallery(qn_document *document) {
    if (!is_open(document, BLOCK_GALLERY))
        return;
    qn_output_text(&document->out, "</ul>\n");
    document->open = BLOCK_NONE;
}

/* ---- charts ---- */

static const char *const kind_names[] = {
    [QN_CHART_LINE] = "line",       [QN_CHART_STEP] = "step",          [QN_CHART_BAR] = "bar",
    [QN_CHART_STACKED] = "stacked", [QN_CHART_BARS_ACROSS] = "across", [QN_CHART_POINTS] = "points",
};

void qn_document_begin_chart(qn_document *document, const qn_chart *chart) {
    qn_output *out = &document->out;
    if (!begin(document, BLOCK_CHART))
        return;
    put_element(out, "<figure class=\"chart\" data-name=\"", chart->title, "\">");
    put_element(out, "<figcaption>", chart->title, "</figcaption>\n");
    put_element(out, "<div class=\"plot\"><canvas role=\"img\" aria-label=\"", chart->title,
                "\"></canvas></div>\n<script type=\"application/json\">");
    out->is_within = false;
    qn_json_open(out, NULL, '{');
    qn_json_text(out, "kind", kind_names[chart->kind]);
    qn_json_text(out, "x", chart->x_label ? chart->x_label : "");
    qn_json_text(out, "y", chart->y_label ? chart->y_label : "");
    qn_json_flag(out, "xLog", chart->x_is_log);
    qn_json_flag(out, "yLog", chart->y_is_log);
    qn_json_open(out, "labels", '[');
    for (int i = 0; i < chart->n_labels; i++)
        qn_json_text(out, NULL, chart->labels[i]);
    qn_json_close(out, ']');
    qn_json_open(out, "series", '[');
}

static void put_numbers(qn_output *out, const char *key, int64_t n, const double *values) {
    qn_json_open(out, key, '[');
    for (int64_t i = 0; i < n; i++) {
        if (i > 0)
            qn_output_text(out, ",");
        qn_output_number(out, values[i], 12, "null");
    }
    qn_json_close(out, ']');
}

typedef enum series_role { ROLE_DATA, ROLE_GUIDE, ROLE_REFERENCE } series_role;

static void put_series(qn_document *d, const char *name, series_role role, int64_t n,
                       const double *x, const double *y) {
    qn_output *out = &d->out;
    if (!is_open(d, BLOCK_CHART))
        return;
    qn_json_open(out, NULL, '{');
    qn_json_text(out, "name", name);
    qn_json_flag(out, "guide", role == ROLE_GUIDE);
    if (role == ROLE_REFERENCE)
        qn_json_flag(out, "reference", true);
    if (x)
        put_numbers(out, "x", n, x);
    put_numbers(out, "y", n, y);
    qn_json_close(out, '}');
}

void qn_document_series(qn_document *document, const char *name, int64_t n, const double *x,
                        const double *y) {
    put_series(document, name, ROLE_DATA, n, x, y);
}

void qn_document_guide(qn_document *document, const char *name, int64_t n, const double *x,
                       const double *y) {
    put_series(document, name, ROLE_GUIDE, n, x, y);
}

void qn_document_reference(qn_document *document, const char *name, int64_t n, const double *x,
                           const double *y) {
    put_series(document, name, ROLE_REFERENCE, n, x, y);
}

void qn_document_end_chart(qn_document *document) {
    if (!is_open(document, BLOCK_CHART))
        return;
    qn_json_close(&document->out, ']');
    qn_json_close(&document->out, '}');
    qn_output_text(&document->out, "</script></figure>\n");
    document->open = BLOCK_NONE;
}

/* ---- pictures ---- */

static void put_key(qn_output *out, const char *const *key, const int *colours) {
    qn_output_text(out, "<ul class=\"key\">");
    for (int i = 0; key[i]; i++) {
        if (colours[i] < 0) {
            put_element(out, "<li><span class=\"hatched\"></span>", key[i], "</li>");
            continue;
        }
        qn_output_text(out, "<li><span style=\"background:var(--series-");
        qn_output_count(out, colours[i]);
        put_element(out, ")\"></span>", key[i], "</li>");
    }
    qn_output_text(out, "</ul>\n");
}

qn_output *qn_document_begin_picture(qn_document *document, const char *kind, const char *title,
                                     const char *told, const char *const *key, const int *colours) {
    qn_output *out = &document->out;
    if (!begin(document, BLOCK_CHART))
        return NULL;
    put_element(out, "<figure class=\"", kind, "\" data-name=\"");
    put_element(out, "", title, "\">");
    put_element(out, "<figcaption>", title, "</figcaption>\n");
    put_element(out, "<canvas role=\"img\" tabindex=\"0\" aria-label=\"", title, "\"></canvas>\n");
    put_element(out, "<div class=\"zoom\"></div><p class=\"told\" aria-live=\"polite\">", told,
                "</p>\n");
    put_key(out, key, colours);
    qn_output_text(out, "<script type=\"application/json\">");
    out->is_within = false;
    return out->status == QN_OK ? out : NULL;
}

void qn_document_end_picture(qn_document *document) {
    if (!is_open(document, BLOCK_CHART))
        return;
    qn_output_text(&document->out, "</script></figure>\n");
    document->open = BLOCK_NONE;
}

/* ---- the file ---- */

/* The policy lets nothing be loaded: all that the page needs is in it. */
static const char head[] =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"generator\" content=\"quern\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
    "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n";

/* "Intel Core i7-1260P, 16 cores · 8 threads · 2026-03-01 14:05" */
static void put_about(qn_output *out, const qn_document *d) {
    char date[QN_DATE_TEXT];
    put_element(out, "<p class=\"about\"><span>", d->machine, "</span>");
    if (d->n_threads > 0) {
        qn_output_text(out, " \xc2\xb7 <span>");
        qn_output_count(out, d->n_threads);
        qn_output_text(out, d->n_threads == 1 ? " thread</span>" : " threads</span>");
    }
    put_element(out, " \xc2\xb7 <span>", qn_clock_print_date(date), "</span></p>\n");
}

static qn_status find_machine(qn_document *d) {
    qn_processor *here;
    if (*d->machine)
        return QN_OK;
    QN_TRY(qn_processor_create(d->allocator, "", &here));
    qn_processor_print(here, d->machine);
    qn_processor_destroy(here);
    return QN_OK;
}

static qn_status write_document(void *context, qn_writer *writer) {
    const qn_document *d = context;
    qn_output out = qn_output_to_file(writer);
    qn_output_text(&out, head);
    put_element(&out, "<title>", d->title, "</title>\n<style>\n");
    qn_asset_put(&out, QN_ASSET_STYLE);
    put_element(&out, "</style>\n</head>\n<body>\n<main>\n<h1>", d->title, "</h1>\n");
    put_about(&out, d);
    qn_output_text(&out, "<noscript><p class=\"warning\">Charts are drawn by scripts in this page, "
                         "which this browser does not run.</p></noscript>\n");
    qn_output_bytes(&out, d->body, d->used);
    qn_output_text(&out, d->open == BLOCK_FIGURES ? "</div>\n" : "");
    put_element(&out, "</main>\n<footer><p>Made by quern ", qn_version(), ".</p></footer>\n");
    qn_output_text(&out, "<script>\n");
    qn_asset_put(&out, QN_ASSET_CHARTS);
    qn_output_text(&out, "</script>\n<script>\n");
    qn_asset_put(&out, QN_ASSET_SCRIPT);
    qn_output_text(&out, "</script>\n</body>\n</html>\n");
    return out.status;
}

static qn_status check(qn_document *document) {
    if (document->open > BLOCK_FIGURES)
        refuse(document, "a table or chart was not ended");
    if (document->out.status != QN_OK)
        return qn_fail(document->out.status, "%s", document->message);
    return find_machine(document);
}

qn_status qn_document_write(qn_document *document, const char *path) {
    QN_TRY(check(document));
    return qn_file_write(path, write_document, document);
}

qn_status qn_document_write_private(qn_document *document, const char *path) {
    QN_TRY(check(document));
    return qn_file_replace_private(path, write_document, document);
}
