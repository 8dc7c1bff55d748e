/* A measurement for a terminal of at most 80 columns: the figures of the run with their parts, and
 * the types of operation that took most time. No line is longer, whatever its content: lists are
 * wrapped, names are truncated. A value that was not measured is left out or called so, never shown
 * as 0; estimates are marked. */
#include "base/print.h"
#include "meter/load.h"
#include "report/processors.h"
#include "report/profile.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    COLUMNS = 80,
    LEAST_COLUMNS = 59,
    LABEL = 14,
    MOST_TYPES = 10,
    OTHERS = 51,
    MOST_CORES = 16,
    MOST_NOTES = 12
};

/* A line with a label that is put when it is full, and goes on below.
 *     LABEL <= used < columns <= COLUMNS */
typedef struct writer {
    void *user;
    void (*put)(void *user, const char *line);
    int columns;
    char line[COLUMNS + 1];
    int used;
    bool has_pieces;
} writer;

/* ---- lines ---- */

static void begin_line(writer *w, const char *label) {
    w->used = snprintf(w->line, sizeof w->line, "%-*.*s", LABEL, LABEL, label);
    w->has_pieces = false;
}

static void end_line(writer *w) {
    w->line[w->used] = 0;
    if (w->has_pieces)
        w->put(w->user, w->line);
}

/* Bytes of a text's beginning that end with a whole character. */
static int whole(const char *text, int length) {
    while (length > 0 && ((unsigned char)text[length] & 0xC0) == 0x80)
        length--;
    return length;
}

/* A piece that is not broken: on a new line where it does not fit, cut if it fits in none. What
 * separates it from the one before is at most a byte, and stays on that one's line. */
static void add_piece(writer *w, const char *separator, const char *text, int length) {
    const int room = w->columns - LABEL - 1;
    const int bytes = length < room ? length : whole(text, room);
    if (w->has_pieces)
        w->used += snprintf(w->line + w->used, sizeof w->line - (size_t)w->used, "%s", separator);
    if (w->has_pieces && w->used + 1 + bytes >= w->columns) {
        end_line(w);
        begin_line(w, "");
    }
    if (w->has_pieces)
        w->line[w->used++] = ' ';
    memcpy(w->line + w->used, text, (size_t)bytes);
    w->used += bytes;
    w->has_pieces = true;
}

/* An item of a list. */
__attribute__((format(printf, 2, 3))) static void add(writer *w, const char *format, ...) {
    char text[COLUMNS + 1];
    va_list list;
    va_start(list, format);
    const int length = qn_print_list(text, sizeof text, format, list);
    va_end(list);
    add_piece(w, ",", text, length < COLUMNS ? length : COLUMNS);
}

static void add_words(writer *w, const char *text) {
    while (*text) {
        const int length = (int)strcspn(text, " \n\t");
        if (length > 0)
            add_piece(w, "", text, length);
        text += length;
        text += strspn(text, " \n\t");
    }
}

/* ---- numbers ---- */

enum { NUMBER = 16 };

/* About four digits: "0.0123", "1.234", "412.1", "123456", "1.2e+09"; "-" for what is not known. */
static const char *number(double value, char text[NUMBER]) {
    const double size = fabs(value);
    if (isnan(value))
        snprintf(text, NUMBER, "-");
    else if (size >= 1e7)
        qn_print(text, NUMBER, "%.3g", value);
    else
        qn_print(text, NUMBER, "%.*f",
                 size >= 1000  ? 0
                 : size >= 100 ? 1
                 : size >= 10  ? 2
                               : 3,
                 value);
    return text;
}

static const char *mebibytes(double bytes, char text[NUMBER]) {
    const double value = bytes / (1 << 20);
    qn_print(text, NUMBER, value >= 1e7 ? "%.3g" : value >= 0.1 ? "%.1f" : "%.3f", value);
    return text;
}

static double percent(double part, double whole) {
    return whole > 0 ? 100 * part / whole : NAN;
}

/* Adds "text" or, where the whole is known, "text (12.3 %)". */
static void add_part(writer *w, const char *text, double part, double of) {
    const double share = percent(part, of);
    if (isfinite(share))
        add(w, "%s (%.1f %%)", text, share);
    else
        add(w, "%s", text);
}

/* ---- the run ---- */

static void put_step(writer *w, const qn_measurement *m) {
    char text[NUMBER], deviation[64];
    begin_line(w, "step");
    add(w, "%s ms median", number(m->step_ms_median, text));
    add(w, "%s ms mean", number(m->step_ms_mean, text));
    snprintf(deviation, sizeof deviation, "deviation %s ms", number(m->step_ms_deviation, text));
    if (isfinite(m->step_ms_deviation))
        add_part(w, deviation, m->step_ms_deviation, m->step_ms_mean);
    end_line(w);
}

/* How far the median can be relied on, and who else was at work. */
static void put_spread(writer *w, const qn_measurement *m) {
    char low[NUMBER], high[NUMBER], text[COLUMNS];
    if (m->n_steps > 1 && isfinite(m->step_ms_low)) {
        begin_line(w, "spread");
        add(w, "%s to %s ms", number(m->step_ms_low, low), number(m->step_ms_high, high));
        if (m->n_measurements > 1)
            add(w, "medians of %d measurements", m->n_measurements);
        else
            add(w, "medians of stretches of the run");
        end_line(w);
    }
    if (!(m->others >= QN_LOAD_NOTED))
        return;
    begin_line(w, "uncertain");
    qn_print(text, sizeof text, "other programs used %.0f %% of the processors", 100 * m->others);
    add_words(w, text);
    if (m->n_measurements > 1) {
        snprintf(text, sizeof text, "in the quietest of %d measurements", m->n_measurements);
        add_words(w, text);
    }
    end_line(w);
}

static void put_throughput(writer *w, const qn_measurement *m) {
    char text[NUMBER];
    begin_line(w, "throughput");
    if (isfinite(m->throughput))
        add(w, "%s samples/s", number(m->throughput, text));
    if (m->gflops > 0 && isfinite(m->peak_flops))
        add(w, "%s GFLOP/s of %.0f that were measured at most", number(m->gflops, text),
            m->peak_flops * 1e-9);
    else if (m->gflops > 0)
        add(w, "%s GFLOP/s", number(m->gflops, text));
    end_line(w);
}

static void put_operations(writer *w, const qn_measurement *m) {
    char text[NUMBER], item[64];
    if (!isfinite(m->operations_ms_per_step))
        return;
    begin_line(w, "operations");
    snprintf(item, sizeof item, "%s ms a step", number(m->operations_ms_per_step, text));
    add_part(w, item, m->operations_ms_per_step, m->step_ms_mean);
    snprintf(item, sizeof item, "idle %s ms", number(m->idle_ms_per_step, text));
    add_part(w, item, m->idle_ms_per_step, m->step_ms_mean);
    end_line(w);
}

/* Whether no sensor measured a part's power, so that its energy is the model's. */
static bool is_estimated(const qn_measurement *m, qn_part part) {
    bool is_measured = false;
    for (int i = 0; i < m->n_series && !is_measured; i++) {
        const qn_channel *c = &m->series[i].channel;
        is_measured = c->quantity == QN_QUANTITY_POWER && c->part == part && !c->is_estimated &&
                      m->series[i].n > 0;
    }
    return m->energy_is_estimated && !is_measured;
}

static void put_energy(writer *w, const qn_measurement *m) {
    static const char *const names[QN_PART_COUNT] = {[QN_PART_CPU] = "CPU",
                                                     [QN_PART_GPU] = "GPU",
                                                     [QN_PART_MEMORY] = "memory",
                                                     [QN_PART_SOC] = "SoC",
                                                     [QN_PART_OTHER] = "other"};
    const char *estimated = m->energy_is_estimated ? " estimated" : "";
    char text[NUMBER];
    begin_line(w, "energy");
    if (isnan(m->energy_j)) {
        add_words(w, "no sensor: this device's power cannot be measured; see quern devices");
        end_line(w);
        return;
    }
    add(w, "%s mJ a step%s", number(m->energy_mj_per_step, text), estimated);
    if (isfinite(m->energy_mj_per_sample))
        add(w, "%s mJ a sample%s", number(m->energy_mj_per_sample, text), estimated);
    if (m->energy_j > 0 && isfinite(m->idle_energy_j))
        add(w, "%.1f %% of it idle", percent(m->idle_energy_j, m->energy_j));
    for (int i = 0; i < QN_PART_COUNT; i++) {
        if (names[i] && isfinite(m->part_energy_j[i]))
            add(w, "%s %s mJ%s", names[i], number(m->part_energy_j[i] * 1e3 / m->n_steps, text),
                is_estimated(m, (qn_part)i) ? " estimated" : "");
    }
    end_line(w);
}

/* Where there are others than the CPU. */
static void put_processors(writer *w, const qn_measurement *m) {
    qn_processor_use uses[QN_REPORT_PROCESSORS];
    const int n = qn_report_processors(m, uses);
    char text[NUMBER];
    begin_line(w, "processors");
    for (int i = 0; n > 1 && i < n; i++) {
        const qn_processor_use *u = &uses[i];
        if (u->n_operations > 0)
            add(w, "%.20s %s ms", u->device, number(u->operations_ms, text));
        if (u->copies_ms > 0)
            add(w, "copies of %.20s %s ms", u->device, number(u->copies_ms, text));
        if (isfinite(u->energy_mj))
            add(w, "%.20s %s mJ by its watts", u->device, number(u->energy_mj, text));
    }
    end_line(w);
}

static void put_cores(writer *w, const qn_measurement *m) {
    int n_cores = 0;
    begin_line(w, "cores");
    for (int i = 0; i < m->n_series; i++) {
        const qn_channel *c = &m->series[i].channel;
        const bool is_core =
            c->part == QN_PART_CORE && c->quantity == QN_QUANTITY_UTILISATION && m->series[i].n > 0;
        if (is_core && n_cores++ < MOST_CORES)
            add(w, "%d: %.0f %%", c->index, 100 * m->series[i].mean);
    }
    if (n_cores > MOST_CORES)
        add(w, "and %d more", n_cores - MOST_CORES);
    end_line(w);
}

static void put_utilisation(writer *w, const qn_measurement *m) {
    begin_line(w, "utilisation");
    if (isfinite(m->cpu_utilisation))
        add(w, "CPU %.1f %%", 100 * m->cpu_utilisation);
    if (isfinite(m->gpu_utilisation))
        add(w, "GPU %.1f %%", 100 * m->gpu_utilisation);
    end_line(w);
    put_cores(w, m);
}

static void put_memory(writer *w, const qn_measurement *m) {
    static const char *const kinds[] = {"input", "labels",       "parameters", "gradients",
                                        "state", "feature maps", "workspace"};
    char text[NUMBER];
    begin_line(w, "memory");
    if (m->memory.peak_bytes > 0)
        add(w, "%s MiB in all", mebibytes((double)m->memory.peak_bytes, text));
    for (int i = 0; i < (int)(sizeof kinds / sizeof kinds[0]); i++) {
        if (m->memory.kind_bytes[i] >= 1024)
            add(w, "%s %s", kinds[i], mebibytes((double)m->memory.kind_bytes[i], text));
    }
    if (isfinite(m->resident_peak_bytes))
        add(w, "resident %s MiB", mebibytes(m->resident_peak_bytes, text));
    end_line(w);
}

/* How far a step can be told from the one before: the channel that shows it best. */
static void put_period(writer *w, const qn_measurement *m) {
    const qn_series *best = NULL;
    for (int i = 0; i < m->n_series; i++) {
        const qn_series *s = &m->series[i];
        if (isfinite(s->periodicity) && (!best || s->periodicity > best->periodicity))
            best = s;
    }
    if (!best)
        return;
    char text[NUMBER];
    begin_line(w, "periodicity");
    add(w, "%.2f", best->periodicity);
    add(w, "%s of %s", best->channel.quantity == QN_QUANTITY_POWER ? "power" : "utilisation",
        best->channel.name);
    add(w, "every %s ms", number(1e3 * best->period_s, text));
    end_line(w);
}

/* How long was sampled: longer than the measured steps, by those that are left out. */
static double sampled_seconds(const qn_measurement *m) {
    double longest = 0;
    for (int i = 0; i < m->n_series; i++) {
        const qn_series *s = &m->series[i];
        if (s->n > 0 && s->readings)
            longest = fmax(longest,
                           (double)(s->readings[s->n - 1].end_ns - s->readings[0].begin_ns) * 1e-9);
    }
    return longest;
}

static void put_sampling(writer *w, const qn_measurement *m) {
    char text[NUMBER];
    const double seconds = sampled_seconds(m);
    begin_line(w, "meter");
    add(w, "%lld samplings", (long long)m->n_ticks);
    add(w, "%lld missed", (long long)m->n_missed_ticks);
    if (seconds > 0)
        add(w, "%.2f %% of a core", 100 * m->sampling_s / seconds);
    add(w, "%s MiB", mebibytes((double)m->meter_bytes, text));
    if (m->n_lost_events > 0)
        add(w, "%lld events lost", (long long)m->n_lost_events);
    end_line(w);
}

/* ---- operations ---- */

static const char *bound_name(qn_bound bound) {
    static const char *const names[] = {"-", "compute", "memory"};
    return names[bound];
}

static void put_type(writer *w, const qn_measurement *m, const qn_operation_row *row) {
    char line[160], ms[NUMBER], gflops[NUMBER], mj[NUMBER];
    const double steps = m->n_steps;
    const bool is_estimated = row->is_estimated && isfinite(row->energy_mj);
    const int width = w->columns - OTHERS;
    qn_print(line, sizeof line, "%-*.*s %6lld %8s %6.1f %8s %-7s %7s%s", width, width, row->type,
             (long long)row->calls, number(row->total_ms / steps, ms), 100 * row->share,
             row->flops > 0 ? number(row->gflops, gflops) : "-", bound_name(row->bound),
             number(row->energy_mj / steps, mj), is_estimated ? "*" : "");
    line[w->columns] = 0;
    w->put(w->user, line);
}

static void put_types(writer *w, const qn_measurement *m) {
    bool is_estimated = false;
    char line[COLUMNS + 1];
    if (m->n_types == 0)
        return;
    w->put(w->user, "");
    snprintf(line, sizeof line, "%-*s %6s %8s %6s %8s %-7s %7s", w->columns - OTHERS, "operation",
             "calls", "ms/step", "%time", "GFLOP/s", "bound", "mJ/step");
    w->put(w->user, line);
    for (int i = 0; i < m->n_types && i < MOST_TYPES; i++) {
        put_type(w, m, &m->types[i]);
        is_estimated |= m->types[i].is_estimated && isfinite(m->types[i].energy_mj);
    }
    if (m->n_types > MOST_TYPES) {
        snprintf(line, sizeof line, "and %d more types", m->n_types - MOST_TYPES);
        w->put(w->user, line);
    }
    if (is_estimated)
        w->put(w->user, "* estimated from use and clock of the cores, not measured");
}

static void put_notes(writer *w, const qn_measurement *m) {
    for (int i = 0; i < m->n_said && i < MOST_NOTES; i++) {
        begin_line(w, i == 0 ? "sensors" : "");
        add_words(w, m->said[i]);
        end_line(w);
    }
}

void qn_report_summary(const qn_measurement *m, const char *title, int columns, void *user,
                       void (*put)(void *user, const char *line)) {
    const int fitting = columns < LEAST_COLUMNS ? LEAST_COLUMNS : columns;
    writer w = {.user = user, .put = put, .columns = fitting < COLUMNS ? fitting : COLUMNS};
    char line[COLUMNS + 1];
    char steps[64];
    const int length = (int)strlen(title);
    snprintf(steps, sizeof steps, ": %d step%s measured after %lld", m->n_steps,
             m->n_steps == 1 ? "" : "s", (long long)m->skipped_steps);
    const int room = w.columns - (int)strlen(steps);
    snprintf(line, sizeof line, "%.*s%s", length < room ? length : whole(title, room), title,
             steps);
    put(user, line);
    put_step(&w, m);
    put_spread(&w, m);
    put_throughput(&w, m);
    put_operations(&w, m);
    put_processors(&w, m);
    put_energy(&w, m);
    put_utilisation(&w, m);
    put_memory(&w, m);
    put_period(&w, m);
    put_sampling(&w, m);
    put_notes(&w, m);
    put_types(&w, m);
}
