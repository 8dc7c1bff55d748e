/* A report: headings, text, tables and charts, written as one HTML file that needs no network, is
 * readable on a phone, and follows the reader's light or dark setting. Machine, date and threads
 * are below the title. Tables can be sorted, and the data of every chart and table saved as CSV.
 * Charts are drawn by Chart.js, which is embedded. Adders are sticky: the first failure is kept and
 * returned by write. Texts are copied and escaped. */
#ifndef QN_REPORT_DOCUMENT_H
#define QN_REPORT_DOCUMENT_H

#include "quern/base.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct qn_document qn_document;

qn_status qn_document_create(const qn_allocator *allocator, const char *title,
                             qn_document **document);
void qn_document_destroy(qn_document *document);

/* What the line below the title says beside the date: the machine ("" or null: this one), and with
 * how many threads (0: not said). */
void qn_document_about(qn_document *document, const char *machine, int n_threads);

/* For adders of more than one part: where their memory comes from, and a failure of their own,
 * whose message is this thread's; QN_OK does nothing. */
const qn_allocator *qn_document_allocator(const qn_document *document);
void qn_document_fail(qn_document *document, qn_status status);

void qn_document_heading(qn_document *document, const char *text);
void qn_document_text(qn_document *document, const char *text);    /* a paragraph */
void qn_document_warning(qn_document *document, const char *text); /* one that must be seen */

/* What was found of a claim: how it was judged, in a colour, beside the figures that it rests on.
 * theirs: what it is compared with; may be null. */
typedef enum qn_judgement {
    QN_JUDGED_GOOD,
    QN_JUDGED_BAD,
    QN_JUDGED_UNSURE,
    QN_JUDGED_NOT
} qn_judgement;

typedef struct qn_document_finding {
    qn_judgement judgement;
    const char *verdict, *claim; /* "confirmed", "10. Throughput grows with the batch." */
    const char *here, *theirs;
    const char *theirs_label; /* "Jetson TX2" */
} qn_document_finding;

void qn_document_find(qn_document *document, const qn_document_finding *finding);

/* The figures at the top: a row of boxes. */
void qn_document_figure(qn_document *document, const char *label, const char *value,
                        const char *note);

/* A table, cell by cell, row by row. A number that is NaN shows as a dash. */
void qn_document_begin_table(qn_document *document, const char *name, int n_columns,
                             const char *const *columns);
void qn_document_cell_text(qn_document *document, const char *text);
void qn_document_cell_number(qn_document *document, double value, int decimals);
/* A small picture (h, w, c) of c 1, grey, or 3, colours. */
void qn_document_cell_picture(qn_document *document, const char *name, int h, int w, int c,
                              const uint8_t *pixels);
void qn_document_end_table(qn_document *document);

/* A gallery: cards side by side, as many in a row as there is room for. */
void qn_document_begin_gallery(qn_document *document, const char *name);
typedef struct qn_document_card {
    const uint8_t *jpeg; /* (jpeg_bytes) a file; null: the text alone */
    size_t jpeg_bytes;
    const char *name;       /* of the sample: "photos/cat/1.jpg" */
    const char *line;       /* what matters: "cat -> dog" */
    const char *note;       /* beside it; null: nothing */
    qn_judgement judgement; /* the colour of line; QN_JUDGED_NOT: none */
} qn_document_card;
void qn_document_card_put(qn_document *document, const qn_document_card *card);
void qn_document_end_gallery(qn_document *document);

typedef enum qn_chart_kind {
    QN_CHART_LINE,        /* over numbers */
    QN_CHART_STEP,        /* a value that holds until the next */
    QN_CHART_BAR,         /* over names */
    QN_CHART_STACKED,     /* bars on one another */
    QN_CHART_BARS_ACROSS, /* lying bars over names, the first on top */
    QN_CHART_POINTS,      /* over numbers, not joined */
} qn_chart_kind;

typedef struct qn_chart {
    qn_chart_kind kind;
    const char *title, *x_label, *y_label;
    bool x_is_log, y_is_log;
    int n_labels;
    const char *const *labels; /* (n_labels) of bars; null for lines. Of points: their names, those
                                  of the first series first; or null */
} qn_chart;

void qn_document_begin_chart(qn_document *document, const qn_chart *chart);
/* One series: points (x[i], y[i]); x null for bars, whose n is n_labels. NaN leaves a gap. Long
 * lines are thinned for drawing; the data that is saved is whole. */
void qn_document_series(qn_document *document, const char *name, int64_t n, const double *x,
                        const double *y);
/* A thin dashed line in a chart over numbers, that the series are held against: a roof, a budget,
 * where steps begin. NaN leaves a gap. */
void qn_document_guide(qn_document *document, const char *name, int64_t n, const double *x,
                       const double *y);
/* A line to compare with, from elsewhere: dashed, without a colour of its own. */
void qn_document_reference(qn_document *document, const char *name, int64_t n, const double *x,
                           const double *y);
void qn_document_end_chart(qn_document *document);

/* A picture that a script of the page draws: its data is put as JSON, within begin and end, through
 * the output, which is null after a failure. kind: the figure's class; told: what stands below it
 * until something is pointed at; key: names with colours of series, below 0 hatched; null at the
 * end. */
struct qn_output;
struct qn_output *qn_document_begin_picture(qn_document *document, const char *kind,
                                            const char *title, const char *told,
                                            const char *const *key, const int *colours);
void qn_document_end_picture(qn_document *document);

/* Writes the file, whole or not at all. */
qn_status qn_document_write(qn_document *document, const char *path);

/* The same, readable by its owner alone; path is no stream. */
qn_status qn_document_write_private(qn_document *document, const char *path);

#endif
