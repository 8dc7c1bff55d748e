/* See trace.h. */
#include "learn/trace.h"

#include "base/decimal.h"
#include "base/memory.h"
#include "base/status.h"
#include "os/heap.h"

#include <math.h>
#include <string.h>

typedef struct trace_column {
    const char *name;
    qn_sense sense;
    double least, most;
} trace_column;

static const trace_column columns[] = {
    {"second", QN_SENSE_HOUR, 0, 4e11},      {"in_use", QN_SENSE_IDLE, 0, 1},
    {"charging", QN_SENSE_CHARGING, 0, 1},   {"battery", QN_SENSE_BATTERY, 0, 100},
    {"celsius", QN_SENSE_CELSIUS, -60, 150}, {"load", QN_SENSE_LOAD, 0, 1e4},
    {"stall", QN_SENSE_STALL, 0, 100},       {"memory", QN_SENSE_MEMORY, 0, 1e9},
};

enum { N_COLUMNS = sizeof columns / sizeof columns[0] };

/* Field of each column; -1: the trace has none. */
typedef struct layout {
    int field[N_COLUMNS];
    size_t n_fields;
} layout;

static qn_status read_header(const qn_csv_reader *r, layout *l) {
    for (int c = 0; c < N_COLUMNS; c++)
        l->field[c] = -1;
    l->n_fields = r->n_fields;
    for (size_t i = 0; i < r->n_fields; i++) {
        int c = 0;
        while (c < N_COLUMNS && strcmp(columns[c].name, qn_csv_text(r, i)) != 0)
            c++;
        if (c == N_COLUMNS || l->field[c] >= 0)
            return qn_fail(QN_ERROR_FORMAT,
                           "%s: \"%.40s\" %s; columns are second, in_use, charging, battery, "
                           "celsius, load, stall, memory",
                           r->name, qn_csv_text(r, i),
                           c == N_COLUMNS ? "is not a column of a trace" : "stands twice");
        l->field[c] = (int)i;
    }
    if (l->field[0] < 0 || l->field[1] < 0)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s: a trace needs the columns second and in_use in its first line",
                       r->name);
    return QN_OK;
}

static qn_status read_value(const qn_csv_reader *r, const layout *l, int c, double *value) {
    *value = (double)NAN;
    if (l->field[c] < 0)
        return QN_OK;
    const char *text = qn_csv_text(r, (size_t)l->field[c]);
    if (!text[0] && c > 1)
        return QN_OK;
    if (qn_decimal_parse(text, value) && *value >= columns[c].least && *value <= columns[c].most)
        return QN_OK;
    return qn_fail(QN_ERROR_FORMAT, "%s, line %lld: %s is \"%.20s\"; it must be from %g to %g",
                   r->name, (long long)r->line, columns[c].name, text, columns[c].least,
                   columns[c].most);
}

static qn_status read_row(const qn_csv_reader *r, const layout *l, qn_trace *t) {
    double values[N_COLUMNS];
    qn_moment m;
    if (r->n_fields != l->n_fields)
        return qn_fail(QN_ERROR_FORMAT, "%s, line %lld: %zu fields instead of %zu", r->name,
                       (long long)r->line, r->n_fields, l->n_fields);
    for (int c = 0; c < N_COLUMNS; c++) {
        QN_TRY(read_value(r, l, c, &values[c]));
        m.sense[columns[c].sense] = values[c];
    }
    m.second = (int64_t)values[0];
    m.sense[QN_SENSE_IDLE] = values[1] < 0.5;
    m.sense[QN_SENSE_HOUR] = (double)NAN;
    if (t->n_rows > 0 && m.second <= t->rows[t->n_rows - 1].second)
        return qn_fail(QN_ERROR_FORMAT, "%s, line %lld: seconds must rise from row to row", r->name,
                       (long long)r->line);
    QN_TRY(qn_grow(t->allocator, &t->rows, &t->room, t->n_rows + 1, sizeof *t->rows));
    t->rows[t->n_rows++] = m;
    return QN_OK;
}

/* Seconds count from the first day's midnight from here on. */
static qn_status finish(const char *name, qn_trace *t) {
    if (t->n_rows == 0)
        return qn_fail(QN_ERROR_FORMAT, "%s: no rows after the first line", name);
    const int64_t begin = t->rows[0].second / QN_DAY_SECONDS * QN_DAY_SECONDS;
    for (size_t i = 0; i < t->n_rows; i++)
        t->rows[i].second -= begin;
    t->n_days = t->rows[t->n_rows - 1].second / QN_DAY_SECONDS + 1;
    if (t->n_days > QN_TRACE_MOST_DAYS)
        return qn_fail(QN_ERROR_FORMAT, "%s: covers %lld days; at most %d", name,
                       (long long)t->n_days, QN_TRACE_MOST_DAYS);
    return QN_OK;
}

static qn_status read_all(qn_csv_reader *r, qn_trace *t) {
    layout l;
    bool is_end;
    QN_TRY(qn_csv_next(r, &is_end));
    if (is_end)
        return qn_fail(QN_ERROR_FORMAT, "%s: empty; its first line must name the columns", r->name);
    QN_TRY(read_header(r, &l));
    for (;;) {
        QN_TRY(qn_csv_next(r, &is_end));
        if (is_end)
            return finish(r->name, t);
        QN_TRY(read_row(r, &l, t));
    }
}

static qn_status read_and_close(qn_csv_reader *r, const qn_allocator *allocator, qn_trace *trace) {
    qn_trace t = {.allocator = allocator};
    const qn_status status = read_all(r, &t);
    qn_csv_deinit(r);
    if (status != QN_OK)
        qn_trace_close(&t);
    else
        *trace = t;
    return status;
}

qn_status qn_trace_parse(const qn_allocator *allocator, const char *name, const char *text,
                         size_t bytes, qn_trace *trace) {
    qn_csv_reader r;
    allocator = qn_allocator_or_default(allocator);
    qn_csv_read_text(&r, allocator, name, text, bytes);
    return read_and_close(&r, allocator, trace);
}

qn_status qn_trace_open(const qn_allocator *allocator, const char *path, qn_trace *trace) {
    qn_csv_reader r;
    qn_file *file;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_file_open(allocator, path, &file));
    qn_csv_read_file(&r, allocator, file);
    const qn_status status = read_and_close(&r, allocator, trace);
    qn_file_close(file);
    return status;
}

void qn_trace_close(qn_trace *t) {
    if (t->rows)
        qn_release(t->allocator, t->rows, t->room, sizeof *t->rows);
    *t = (qn_trace){0};
}

const qn_moment *qn_trace_at(const qn_trace *t, int64_t second) {
    size_t low = 0, high = t->n_rows;
    second %= t->n_days * QN_DAY_SECONDS;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (t->rows[middle].second <= second)
            low = middle;
        else
            high = middle;
    }
    return &t->rows[low];
}
