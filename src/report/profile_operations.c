/* The time of operations: by type, by layer, by node, and against the roofline. */
#include "base/status.h"
#include "report/sections.h"
#include "report/words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BARS = 16, MOST_COLOURS = 6, ROOF_POINTS = 3 };

/* ---- tables ---- */

/* Columns that not every measurement has. */
typedef struct columns {
    bool has_name, has_type, has_roof, has_energy;
} columns;

static columns columns_of(const qn_measurement *m, int n, const qn_operation_row *const *rows) {
    columns c = {.has_name = rows[0]->name != NULL,
                 .has_type = rows[0]->type != NULL,
                 .has_energy = isfinite(m->energy_j)};
    for (int i = 0; i < n; i++)
        c.has_roof |= rows[i]->bound != QN_BOUND_UNKNOWN;
    return c;
}

static int name_columns(const columns *c, bool is_estimated, const char *names[16]) {
    static const char *const usual[] = {"share (%)",        "total (ms)",      "calls",
                                        "mean (\xc2\xb5s)", "p50 (\xc2\xb5s)", "p95 (\xc2\xb5s)",
                                        "GFLOP/s"};
    int n = 0;
    if (c->has_name)
        names[n++] = c->has_type ? "operation" : "layer";
    if (c->has_type)
        names[n++] = "type";
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        names[n++] = usual[i];
    if (c->has_roof) {
        names[n++] = "roof (%)";
        names[n++] = "bound";
    }
    names[n++] = "busy (%)";
    if (c->has_energy) {
        names[n++] = is_estimated ? "energy (mJ, estimated)" : "energy (mJ)";
        names[n++] = is_estimated ? "power (W, estimated)" : "power (W)";
    }
    return n;
}

static void add_row(qn_document *d, const columns *c, const qn_operation_row *row) {
    if (c->has_name)
        qn_document_cell_text(d, row->name);
    if (c->has_type)
        qn_document_cell_text(d, row->type);
    qn_document_cell_number(d, row->share * 100, 1);
    qn_document_cell_number(d, row->total_ms, 2);
    qn_document_cell_number(d, (double)row->calls, 0);
    qn_document_cell_number(d, row->mean_us, 1);
    qn_document_cell_number(d, row->p50_us, 1);
    qn_document_cell_number(d, row->p95_us, 1);
    qn_document_cell_number(d, row->flops > 0 ? row->gflops : NAN, 2);
    if (c->has_roof) {
        qn_document_cell_number(d, row->roof * 100, 0);
        qn_document_cell_text(d, row->bound == QN_BOUND_UNKNOWN ? "" : qn_words_bound(row->bound));
    }
    qn_document_cell_number(d, row->utilisation * 100, 0);
    if (c->has_energy) {
        qn_document_cell_number(d, row->energy_mj, 1);
        qn_document_cell_number(d, row->mean_w, 2);
    }
}

static void add_table(qn_sections *s, const char *title, int n,
                      const qn_operation_row *const *rows) {
    const char *names[16];
    if (n == 0)
        return;
    const columns c = columns_of(s->m, n, rows);
    qn_document_begin_table(s->document, title, name_columns(&c, s->m->energy_is_estimated, names),
                            names);
    for (int i = 0; i < n; i++)
        add_row(s->document, &c, rows[i]);
    qn_document_end_table(s->document);
}

static int compare_times(const void *left, const void *right) {
    const qn_operation_row *a = *(const qn_operation_row *const *)left;
    const qn_operation_row *b = *(const qn_operation_row *const *)right;
    if (a->total_ms != b->total_ms)
        return a->total_ms > b->total_ms ? -1 : 1;
    return (a > b) - (a < b); /* rows of one array */
}

/* Rows that were called, longest first. */
static void add_sorted(qn_sections *s, const char *title, int n, const qn_operation_row *rows) {
    const qn_operation_row **sorted = qn_arena_allocate(s->scratch, (size_t)n + 1, sizeof *sorted);
    int n_called = 0;
    if (!sorted) {
        qn_document_fail(s->document, QN_ERROR_MEMORY);
        return;
    }
    for (int i = 0; i < n; i++) {
        if (rows[i].calls > 0)
            sorted[n_called++] = &rows[i];
    }
    qsort(sorted, (size_t)n_called, sizeof *sorted, compare_times);
    add_table(s, title, n_called, sorted);
}

/* ---- time by type ---- */

/* The longest, and the rest in one bar. */
static void add_time_chart(qn_sections *s) {
    const qn_measurement *m = s->m;
    const int n_shown = m->n_types > MOST_BARS ? MOST_BARS - 1 : m->n_types;
    const char *names[MOST_BARS];
    double values[MOST_BARS] = {0};
    for (int i = 0; i < m->n_types; i++) {
        const int at = i < n_shown ? i : n_shown;
        names[at] = i < n_shown ? m->types[i].type : "all others";
        values[at] += m->types[i].total_ms / m->n_steps;
    }
    const int n = n_shown + (m->n_types > n_shown);
    qn_document_begin_chart(s->document, &(qn_chart){.kind = QN_CHART_BARS_ACROSS,
                                                     .title = "Time by type of operation",
                                                     .y_label = "time per step (ms)",
                                                     .n_labels = n,
                                                     .labels = names});
    qn_document_series(s->document, "time per step (ms)", n, NULL, values);
    qn_document_end_chart(s->document);
}

void qn_sections_add_operations(qn_sections *s) {
    const qn_measurement *m = s->m;
    qn_document_heading(s->document, "Operations");
    if (m->n_types == 0 || m->n_steps == 0) {
        qn_document_text(s->document, "No operations were recorded: only the device was measured.");
        return;
    }
    add_time_chart(s);
    add_sorted(s, "By type", m->n_types, m->types);
    add_sorted(s, "By layer", m->n_layers, m->layers);
    add_sorted(s, "Single operations", m->n_nodes, m->nodes);
}

/* ---- roofline ---- */

static bool has_point(const qn_operation_row *row) {
    return row->flops > 0 && row->bytes > 0 && row->gflops > 0;
}

/* The colour of a type: its place among those that have points, or the last for all others. */
static int colour_of(const qn_measurement *m, const char *type) {
    int place = 0;
    for (int i = 0; i < m->n_types && place < MOST_COLOURS; i++) {
        if (strcmp(m->types[i].type, type) == 0)
            return place;
        place += has_point(&m->types[i]);
    }
    return MOST_COLOURS;
}

static const char *colour_name(const qn_measurement *m, int colour) {
    int place = -1;
    for (int i = 0; i < m->n_types && colour < MOST_COLOURS; i++) {
        place += has_point(&m->types[i]);
        if (place == colour)
            return m->types[i].type;
    }
    return "all others";
}

/* What bounds a device: memory's slope up to where it meets the arithmetic peak. */
static void add_roof(qn_sections *s, double least, double most) {
    const double peak = s->m->peak_flops * 1e-9, slope = s->m->peak_bandwidth * 1e-9;
    const double ridge = peak / slope;
    if (!isfinite(ridge) || ridge <= 0)
        return;
    const double x[ROOF_POINTS] = {fmin(least, ridge / 2), ridge, fmax(most, ridge * 2)};
    const double y[ROOF_POINTS] = {x[0] * slope, peak, peak};
    qn_document_guide(s->document, "measured roof", ROOF_POINTS, x, y);
}

/* One series for each colour, its points beside one another. Gives the ends of x. */
static void add_points(qn_sections *s, double *x, double *y, double *least, double *most) {
    const qn_measurement *m = s->m;
    for (int colour = 0; colour <= MOST_COLOURS; colour++) {
        int n = 0;
        for (int i = 0; i < m->n_nodes; i++) {
            if (!has_point(&m->nodes[i]) || colour_of(m, m->nodes[i].type) != colour)
                continue;
            x[n] = m->nodes[i].flops / m->nodes[i].bytes;
            y[n] = m->nodes[i].gflops;
            *least = fmin(*least, x[n]);
            *most = fmax(*most, x[n]);
            n++;
        }
        if (n > 0)
            qn_document_series(s->document, colour_name(m, colour), n, x, y);
    }
}

/* Names of the points in the order of add_points. */
static int name_points(const qn_measurement *m, const char **names) {
    int n = 0;
    for (int colour = 0; colour <= MOST_COLOURS; colour++) {
        for (int i = 0; i < m->n_nodes; i++) {
            if (has_point(&m->nodes[i]) && colour_of(m, m->nodes[i].type) == colour)
                names[n++] = m->nodes[i].name;
        }
    }
    return n;
}

void qn_sections_add_roofline(qn_sections *s) {
    const qn_measurement *m = s->m;
    const size_t n = (size_t)m->n_nodes;
    const char **names = qn_sections_texts(s, n);
    double *x = qn_sections_numbers(s, n), *y = qn_sections_numbers(s, n);
    double least = INFINITY, most = 0;
    const int n_points = names ? name_points(m, names) : 0;
    if (n_points == 0 || !x || !y)
        return;
    qn_document_heading(s->document, "Roofline");
    qn_document_text(
        s->document,
        isfinite(m->peak_flops) && isfinite(m->peak_bandwidth)
            ? "Each point is an operation. Below the slope it is limited by memory, below the "
              "level part by arithmetic. A point above the roof had its data in a cache, or its "
              "algorithm needs less arithmetic than the direct one, which is counted (Winograd "
              "convolutions)."
            : "Each point is an operation. Run \"quern devices --calibrate\" to measure this "
              "machine's roof.");
    qn_document_begin_chart(s->document, &(qn_chart){.kind = QN_CHART_POINTS,
                                                     .title = "Speed by arithmetic intensity",
                                                     .x_label = "intensity (FLOP per byte)",
                                                     .y_label = "speed (GFLOP/s)",
                                                     .x_is_log = true,
                                                     .y_is_log = true,
                                                     .n_labels = n_points,
                                                     .labels = names});
    add_points(s, x, y, &least, &most);
    add_roof(s, least, most);
    qn_document_end_chart(s->document);
}
