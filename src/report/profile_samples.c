/* Sensor readings: utilisation, power and frequency over a few steps; power, memory and temperature
 * over the run; and a table of all sensors with their periodicity. */
#include "report/sections.h"
#include "report/stretch.h"
#include "report/words.h"

#include <math.h>
#include <stdlib.h>

/* More lines than this in a chart tell nobody anything; more steps need no borders. */
enum { MOST_LINES = 12, MOST_BORDERS = 12 };

/* A chart of the series of a quantity that chosen says yes to, over a stretch of time. */
typedef struct chart {
    const char *title;
    qn_quantity quantity;
    bool (*chosen)(const qn_series *series);
    int64_t begin_ns, end_ns;
    int n_borders; /* steps whose beginnings are shown */
    double unit_s; /* of the time axis */
} chart;

/* Its lines, and what belongs to them. */
typedef struct lines {
    const qn_series *series[MOST_LINES];
    int n, n_left_out;
    bool are_means; /* over the time that a reading covers; else of its end */
    double top;
} lines;

/* ---- which ---- */

static bool is_unit(const qn_series *s) {
    return s->channel.part == QN_PART_CORE || s->channel.part == QN_PART_GPU;
}

static bool is_any(const qn_series *s) {
    (void)s;
    return true;
}

/* The busiest ones, in the order of the measurement. */
static lines choose(const qn_measurement *m, const chart *c) {
    lines l = {.are_means =
                   c->quantity != QN_QUANTITY_MEMORY && c->quantity != QN_QUANTITY_TEMPERATURE};
    for (int i = 0; i < m->n_series; i++) {
        const qn_series *s = &m->series[i];
        size_t n;
        int at = l.n;
        if (s->channel.quantity != c->quantity || s->n == 0 || !c->chosen(s))
            continue;
        qn_stretch_readings(s, c->begin_ns, c->end_ns, &n);
        if (n == 0)
            continue;
        if (l.n == MOST_LINES) { /* the idlest gives way, those behind it move up */
            at = 0;
            for (int k = 1; k < l.n; k++)
                at = l.series[k]->mean < l.series[at]->mean ? k : at;
            l.n_left_out++;
            if (!(s->mean > l.series[at]->mean))
                continue;
            for (l.n--; at < l.n; at++)
                l.series[at] = l.series[at + 1];
        }
        l.series[l.n++] = s;
    }
    return l;
}

/* ---- points ---- */

/* Points of readings (at most 3 n + 1): a mean holds from its begin, and gaps stay gaps. */
static int64_t make_points(const chart *c, const qn_series *s, bool is_mean, double *x, double *y,
                           double *top) {
    double scale;
    size_t n;
    int64_t used = 0;
    const qn_reading *r = qn_stretch_readings(s, c->begin_ns, c->end_ns, &n);
    qn_words_unit(&s->channel, &scale);
    for (size_t i = 0; i < n; i++) {
        const int64_t begin = r[i].begin_ns > c->begin_ns ? r[i].begin_ns : c->begin_ns;
        const int64_t end = r[i].end_ns < c->end_ns ? r[i].end_ns : c->end_ns;
        const bool is_last = i + 1 == n, has_gap = !is_last && r[i + 1].begin_ns > r[i].end_ns;
        const double from = (double)(begin - c->begin_ns) * 1e-9 / c->unit_s;
        const double to = (double)(end - c->begin_ns) * 1e-9 / c->unit_s;
        x[used] = is_mean ? from : to;
        y[used++] = r[i].value * scale;
        *top = fmax(*top, r[i].value * scale);
        if (is_mean && (is_last || has_gap)) {
            x[used] = to;
            y[used++] = r[i].value * scale;
        }
        if (has_gap) {
            x[used] = to;
            y[used++] = NAN;
        }
    }
    return used;
}

static void add_line(qn_sections *s, const chart *c, lines *l, const qn_series *series) {
    const size_t most = series->n * 3 + 1;
    double *x = qn_sections_numbers(s, most), *y = qn_sections_numbers(s, most);
    if (!x || !y)
        return;
    const int64_t n = make_points(c, series, l->are_means, x, y, &l->top);
    qn_document_series(s->document,
                       qn_sections_format(s, "%s%s", series->channel.name,
                                          series->channel.is_estimated ? " (estimated)" : ""),
                       n, x, y);
}

/* Lines from bottom to top where steps begin. */
static void add_borders(qn_sections *s, const chart *c, double top) {
    double x[3 * MOST_BORDERS], y[3 * MOST_BORDERS];
    int n = 0;
    for (int i = 1; i < c->n_borders; i++) {
        const double at = (double)(s->m->steps[i].begin_ns - c->begin_ns) * 1e-9 / c->unit_s;
        for (int k = 0; k < 3; k++) {
            x[n] = at;
            y[n++] = k == 0 ? 0 : k == 1 ? top : NAN;
        }
    }
    if (n > 0 && top > 0)
        qn_document_guide(s->document, "a step begins", n, x, y);
}

static void add_chart(qn_sections *s, const chart *c) {
    lines l = choose(s->m, c);
    double scale;
    if (l.n == 0)
        return;
    qn_document_begin_chart(
        s->document,
        &(qn_chart){.kind = c->quantity == QN_QUANTITY_TEMPERATURE ? QN_CHART_LINE : QN_CHART_STEP,
                    .title = l.n_left_out == 0
                                 ? c->title
                                 : qn_sections_format(s, "%s (the %d highest of %d)", c->title, l.n,
                                                      l.n + l.n_left_out),
                    .x_label = c->unit_s < 1 ? "time (ms)" : "time (s)",
                    .y_label = qn_sections_format(s, "%s (%s)", qn_words_quantity(c->quantity),
                                                  qn_words_unit(&l.series[0]->channel, &scale))});
    for (int i = 0; i < l.n; i++)
        add_line(s, c, &l, l.series[i]);
    if (c->n_borders <= MOST_BORDERS)
        add_borders(s, c, c->quantity == QN_QUANTITY_UTILISATION ? 100 : l.top);
    qn_document_end_chart(s->document);
}

/* Of the time axis: milliseconds of what is short. */
static double unit_of(int64_t begin_ns, int64_t end_ns) {
    return end_ns - begin_ns < 2000000000 ? 1e-3 : 1;
}

static void add_charts(qn_sections *s, const qn_stretch *w, const char *over) {
    const qn_measurement *m = s->m;
    const double unit = unit_of(w->begin_ns, w->end_ns), run_unit = unit_of(m->begin_ns, m->end_ns);
    const int64_t begin = w->begin_ns, end = w->end_ns;
    const chart charts[] = {
        {qn_sections_format(s, "Utilisation by core, %s", over), QN_QUANTITY_UTILISATION, is_unit,
         begin, end, w->n_steps, unit},
        {qn_sections_format(s, "Power, %s", over), QN_QUANTITY_POWER, is_any, begin, end,
         w->n_steps, unit},
        {qn_sections_format(s, "Frequency, %s", over), QN_QUANTITY_FREQUENCY, is_any, begin, end,
         w->n_steps, unit},
        {"Memory over the run", QN_QUANTITY_MEMORY, is_any, m->begin_ns, m->end_ns, 0, run_unit},
        {"Temperature over the run", QN_QUANTITY_TEMPERATURE, is_any, m->begin_ns, m->end_ns, 0,
         run_unit},
        {"Power over the run", QN_QUANTITY_POWER, is_any, m->begin_ns, m->end_ns, 0, run_unit},
    };
    /* The last is the second again where the stretch is the whole run. */
    const size_t n = sizeof charts / sizeof *charts - (w->n_steps == m->n_steps);
    for (size_t i = 0; i < n; i++)
        add_chart(s, &charts[i]);
}

void qn_sections_add_samples(qn_sections *s) {
    const qn_measurement *m = s->m;
    const qn_stretch w = qn_stretch_of(m);
    bool has_any = false;
    for (int i = 0; i < m->n_series; i++)
        has_any |= m->series[i].n > 0;
    if (!has_any || m->n_steps == 0)
        return;
    qn_document_heading(s->document, "Over time");
    add_charts(s, &w,
               m->n_steps == 1 ? "over the run"
                               : qn_sections_format(s, "over %d steps", w.n_steps));
}

/* ---- all sensors ---- */

static void add_sensor(qn_sections *s, const qn_series *series) {
    qn_document *d = s->document;
    double scale;
    const char *unit = qn_words_unit(&series->channel, &scale);
    qn_document_cell_text(d, series->channel.name);
    qn_document_cell_text(d, qn_words_quantity(series->channel.quantity));
    qn_document_cell_text(d, series->channel.source);
    qn_document_cell_text(
        d, qn_sections_format(s, "%s%s", unit, qn_sections_mark(series->channel.is_estimated)));
    qn_document_cell_number(d, series->mean * scale, 2);
    qn_document_cell_number(d, series->most * scale, 2);
    qn_document_cell_number(d, series->energy_j, 2);
    qn_document_cell_number(d, series->idle_ratio * 100, 1);
    qn_document_cell_number(d, series->period_s * 1e3, 1);
    qn_document_cell_number(d, series->periodicity, 2);
    qn_document_cell_number(d, series->seen * 100, 1);
}

void qn_sections_add_sensors(qn_sections *s) {
    static const char *const columns[] = {"sensor",      "quantity",    "source",     "unit",
                                          "mean",        "most",        "energy (J)", "idle (%)",
                                          "period (ms)", "periodicity", "seen (%)"};
    int n = 0;
    for (int i = 0; i < s->m->n_series; i++)
        n += s->m->series[i].n > 0;
    if (n == 0)
        return;
    qn_document_heading(s->document, "Sensors");
    qn_document_text(s->document,
                     qn_sections_format(s,
                                        "Periodicity is the highest autocorrelation near the step "
                                        "time of %s: 1 if every step repeats the one before, 0 if "
                                        "steps predict nothing. Idle is the part of the time with "
                                        "a utilisation of 0, seen the part covered by readings.",
                                        qn_sections_scaled(s, s->m->step_ms_mean * 1e-3, "s")));
    qn_document_begin_table(s->document, "All sensors", 11, columns);
    for (int i = 0; i < s->m->n_series; i++) {
        if (s->m->series[i].n > 0)
            add_sensor(s, &s->m->series[i]);
    }
    qn_document_end_table(s->document);
}
