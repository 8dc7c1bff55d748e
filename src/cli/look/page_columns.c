/* The columns of a table, and what their values are: a histogram of numbers and dates, bars of
 * texts, of the training samples. Values that are missing are not counted. */
#include "base/print.h"
#include "base/status.h"
#include "cli/look/page.h"
#include "data/columns.h"
#include "data/facts.h"
#include "data/table/encode.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_DRAWN = 40, BINS = 24, MOST_READ = 200000 };

_Static_assert(BINS <= (int)QN_CSV_ONE_HOT, "a drawn column has room for either");

/* What is drawn: a feature, or those of a column's texts; or the target. */
typedef struct drawn {
    const char *name;
    const qn_table_column *column; /* null: the target */
    int64_t feature, gap;          /* gap: the feature that is 1 where it is missing; -1: none */
    int n;                         /* bars */
    double least, most;
    double counts[QN_CSV_ONE_HOT];
} drawn;

typedef struct charts {
    const page *p;
    int n;
    drawn *list; /* (n) */
    float *x, *y;
} charts;

/* ---- the table of columns ---- */

static void add_table(const page *p) {
    static const char *const columns[] = {"column", "kind", "missing", "different values",
                                          "left out"};
    const qn_data_facts *f = p->source->facts;
    qn_document_begin_table(p->document, "Columns", 5, columns);
    for (size_t i = 0; i < f->n_columns; i++) {
        const qn_column_fact *c = &f->columns[i];
        qn_document_cell_text(p->document, c->name);
        qn_document_cell_text(p->document, c->kind);
        qn_document_cell_number(p->document, (double)c->n_missing, 0);
        qn_document_cell_number(p->document, c->n_values > 0 ? (double)c->n_values : NAN, 0);
        qn_document_cell_text(p->document, c->left_out ? c->left_out : "");
    }
    qn_document_end_table(p->document);
}

/* ---- counting ---- */

static bool has_texts(const drawn *d) {
    return d->column && d->column->kind == QN_COLUMN_CATEGORY;
}

static float value_of(const charts *c, const drawn *d) {
    return d->column ? c->x[d->feature] : c->y[0];
}

static bool is_missing(const charts *c, const drawn *d) {
    return d->gap >= 0 && c->x[d->gap] > 0.5f;
}

static void find_range(const charts *c, drawn *d) {
    const double value = (double)value_of(c, d);
    d->least = fmin(d->least, value);
    d->most = fmax(d->most, value);
}

static void count(const charts *c, drawn *d) {
    if (has_texts(d)) {
        for (int k = 0; k < d->n; k++)
            d->counts[k] += c->x[d->feature + k] > 0.5f;
        return;
    }
    const double width = d->most - d->least;
    const int bin = width > 0 ? (int)(((double)value_of(c, d) - d->least) / width * d->n) : 0;
    d->counts[bin < d->n ? bin : d->n - 1]++;
}

static qn_status read_all(const charts *c, void (*take)(const charts *c, drawn *d)) {
    const qn_data_source *s = c->p->source;
    const qn_split split = page_split(c->p);
    const int64_t n = s->n_samples[split] < MOST_READ ? s->n_samples[split] : MOST_READ;
    for (int64_t i = 0; i < n; i++) {
        QN_TRY(s->read(s->self, split, i, c->x, c->y));
        for (int k = 0; k < c->n; k++)
            if (!is_missing(c, &c->list[k]))
                take(c, &c->list[k]);
    }
    return QN_OK;
}

/* ---- drawing ---- */

static void draw(const charts *c, const drawn *d) {
    char texts[BINS][32];
    const char *labels[QN_CSV_ONE_HOT];
    for (int k = 0; k < d->n; k++) {
        const double at = d->least + (d->most - d->least) * k / d->n;
        if (!has_texts(d))
            qn_print(texts[k], sizeof texts[k], "%.4g", at);
        labels[k] = has_texts(d) ? d->column->texts[k] : texts[k];
    }
    const char *from = has_texts(d)                                     ? ""
                       : d->column && d->column->kind == QN_COLUMN_DATE ? "days since 2000, from"
                                                                        : "from";
    qn_document_begin_chart(
        c->p->document,
        &(qn_chart){.kind = has_texts(d) && d->n > 8 ? QN_CHART_BARS_ACROSS : QN_CHART_BAR,
                    .title = d->name,
                    .x_label = from,
                    .y_label = "samples",
                    .n_labels = d->n,
                    .labels = labels});
    qn_document_series(c->p->document, "samples", d->n, NULL, d->counts);
    qn_document_end_chart(c->p->document);
}

/* ---- all ---- */

static void add_drawn(charts *c, const qn_table_column *column, const char *name, int64_t feature) {
    const int64_t width = column ? qn_table_feature_count(column) : 0;
    drawn *d = &c->list[c->n++];
    *d = (drawn){.name = name,
                 .column = column,
                 .feature = feature,
                 .gap = column && column->has_gaps ? feature + width - 1 : -1,
                 .least = INFINITY,
                 .most = -INFINITY};
    d->n = has_texts(d) ? column->n_texts : BINS;
}

static void list_drawn(charts *c) {
    const qn_table *table = c->p->source->preparation.table;
    int64_t feature = 0;
    for (int i = 0; i < table->n_columns; i++) {
        const qn_table_column *column = &table->columns[i];
        const bool is_drawn = column->kind != QN_COLUMN_HASHED && column->n_texts <= QN_CSV_ONE_HOT;
        if (is_drawn && c->n < MOST_DRAWN - 1)
            add_drawn(c, column, column->name, feature);
        feature += qn_table_feature_count(column);
    }
    if (c->p->source->n_targets > 0 && c->p->look->n_labels == 0)
        add_drawn(c, NULL, table->n_targets > 0 ? table->targets[0] : "target", 0);
}

static qn_status fill(charts *c) {
    const qn_data_source *s = c->p->source;
    c->list = calloc(MOST_DRAWN, sizeof *c->list);
    c->x = calloc((size_t)qn_shape_count(s->sample), sizeof *c->x);
    c->y = calloc((size_t)(s->n_targets > 0 ? s->n_targets : 1), sizeof *c->y);
    if (!c->list || !c->x || !c->y)
        return qn_fail_memory(MOST_DRAWN * sizeof *c->list);
    list_drawn(c);
    QN_TRY(read_all(c, find_range));
    return read_all(c, count);
}

void page_add_columns(const page *p) {
    const qn_data_source *s = p->source;
    charts c = {.p = p};
    char text[120];
    if (s->facts->n_columns == 0)
        return;
    qn_document_heading(p->document, "Columns");
    add_table(p);
    if (!s->preparation.table || s->sample.rank != 1)
        return;
    const qn_status status = fill(&c);
    qn_document_fail(p->document, status);
    qn_print(text, sizeof text, "Values of the training samples%s, as they are in the table.",
             s->n_samples[page_split(p)] > MOST_READ ? " (the first 200000)" : "");
    qn_document_text(p->document, text);
    for (int i = 0; i < c.n && status == QN_OK; i++)
        draw(&c, &c.list[i]);
    free(c.list);
    free(c.x);
    free(c.y);
}
