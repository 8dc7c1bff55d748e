/* A measurement as a document: the figures at the top, steps, memory and energy, and how it was
 * measured; see profile.h. Operations and samples are in files of their own (sections.h). */
#include "report/profile.h"

#include "base/print.h"
#include "report/processors.h"

#include "base/status.h"
#include "base/text.h"
#include "meter/load.h"
#include "report/sections.h"
#include "report/words.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

/* ---- what sections share ---- */

static void *allocate(qn_sections *s, size_t n, size_t size) {
    void *memory = qn_arena_allocate(s->scratch, n + 1, size);
    if (!memory)
        qn_document_fail(s->document, QN_ERROR_MEMORY);
    return memory;
}

double *qn_sections_numbers(qn_sections *s, size_t n) {
    return allocate(s, n, sizeof(double));
}

const char **qn_sections_texts(qn_sections *s, size_t n) {
    return allocate(s, n, sizeof(const char *));
}

const char *qn_sections_format(qn_sections *s, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    qn_print_list(text, sizeof text, format, arguments);
    va_end(arguments);
    const char *kept = qn_arena_text(s->scratch, text);
    if (!kept)
        qn_document_fail(s->document, QN_ERROR_MEMORY);
    return kept ? kept : "";
}

const char *qn_sections_scaled(qn_sections *s, double value, const char *unit) {
    char text[QN_WORDS_NUMBER];
    if (!isfinite(value))
        return "\xe2\x80\x93";
    return qn_sections_format(s, "%s", qn_words_scaled(value, unit, text));
}

const char *qn_sections_mark(bool is_estimated) {
    return is_estimated ? ", estimated" : "";
}

/* ---- figures ---- */

/* A figure, where its number is known. */
static void add_figure(qn_sections *s, const char *label, double value, const char *unit,
                       const char *note) {
    if (isfinite(value))
        qn_document_figure(s->document, label, qn_sections_scaled(s, value, unit), note);
}

/* A size, where it is known. */
static void add_size(qn_sections *s, const char *label, double bytes, const char *note) {
    char text[QN_SIZE_TEXT];
    if (isfinite(bytes))
        qn_document_figure(s->document, label, qn_text_print_size((uint64_t)bytes, text), note);
}

static const char *percent(qn_sections *s, double part) {
    return isfinite(part) ? qn_sections_format(s, "%d.%d %%", (int)(part * 1000 + 0.5) / 10,
                                               (int)(part * 1000 + 0.5) % 10)
                          : "\xe2\x80\x93";
}

static void add_percent(qn_sections *s, const char *label, double part, const char *note) {
    if (isfinite(part))
        qn_document_figure(s->document, label, percent(s, part), note);
}

/* The parts of a step with and without operations. */
static void add_idle_figures(qn_sections *s) {
    const qn_measurement *m = s->m;
    add_percent(s, "in operations", m->operations_ms_per_step / m->step_ms_mean,
                qn_sections_format(s, "%s of a step",
                                   qn_sections_scaled(s, m->operations_ms_per_step * 1e-3, "s")));
    add_percent(s, "idle", m->idle_ms_per_step / m->step_ms_mean,
                qn_sections_format(s, "%s of a step",
                                   qn_sections_scaled(s, m->idle_ms_per_step * 1e-3, "s")));
}

static void add_time_figures(qn_sections *s) {
    const qn_measurement *m = s->m;
    const char *note =
        qn_sections_format(s, "median of %d, %s to %s over the run; mean %s, deviation %s",
                           m->n_steps, qn_sections_scaled(s, m->step_ms_low * 1e-3, "s"),
                           qn_sections_scaled(s, m->step_ms_high * 1e-3, "s"),
                           qn_sections_scaled(s, m->step_ms_mean * 1e-3, "s"),
                           qn_sections_scaled(s, m->step_ms_deviation * 1e-3, "s"));
    if (m->n_steps == 1)
        add_figure(s, "time", m->step_ms_median * 1e-3, "s", "");
    else
        add_figure(s, "step time", m->step_ms_median * 1e-3, "s", note);
    if (m->n_nodes > 0)
        add_idle_figures(s);
    add_figure(s, "throughput", m->throughput, "samples/s", "");
    if (m->flops_per_step > 0)
        add_figure(s, "arithmetic", m->gflops * 1e9, "FLOP/s",
                   isfinite(m->peak_flops)
                       ? qn_sections_format(s, "%s of the measured peak",
                                            percent(s, m->gflops * 1e9 / m->peak_flops))
                       : "");
}

/* Whose energy it is: the sensors that count towards the whole. */
static const char *energy_note(qn_sections *s) {
    const char *note = s->m->energy_is_estimated ? "estimated: " : "of ";
    bool is_first = true;
    for (int i = 0; i < s->m->n_series; i++) {
        const qn_series *series = &s->m->series[i];
        if (!series->counts || series->n == 0)
            continue;
        note = qn_sections_format(s, "%s%s%s", note, is_first ? "" : ", ", series->channel.name);
        is_first = false;
    }
    return is_first ? "" : note;
}

static void add_figures(qn_sections *s) {
    const qn_measurement *m = s->m;
    const char *kind = energy_note(s);
    add_time_figures(s);
    add_figure(s, m->n_steps == 1 ? "energy" : "energy per step", m->energy_mj_per_step * 1e-3, "J",
               kind);
    add_figure(s, "energy per sample", m->energy_mj_per_sample * 1e-3, "J", kind);
    if (!isfinite(m->energy_j))
        qn_document_figure(s->document, "energy", "not known", "no power sensor was read");
    if (m->memory.peak_bytes > 0)
        add_size(s, "memory of training", (double)m->memory.peak_bytes, "peak, as planned");
    add_size(s, "resident memory", m->resident_peak_bytes, "peak of the process");
    add_percent(s, "CPU utilisation", m->cpu_utilisation, "mean of all cores");
    add_percent(s, "GPU utilisation", m->gpu_utilisation, "");
}

/* ---- what must be seen ---- */

/* Others at work: what it means for the numbers. */
static void warn_of_others(qn_sections *s) {
    const qn_measurement *m = s->m;
    if (!(m->others >= QN_LOAD_NOTED))
        return;
    qn_document_warning(
        s->document,
        qn_sections_format(
            s,
            "Other programs used %s of the processors while this was measured%s. "
            "Times are from a busy machine and uncertain.",
            percent(s, m->others),
            m->n_measurements > 1
                ? qn_sections_format(s, " (the quietest of %d measurements)", m->n_measurements)
                : ""));
}

static void add_warnings(qn_sections *s) {
    const qn_measurement *m = s->m;
    warn_of_others(s);
    if (m->energy_is_estimated)
        qn_document_warning(s->document,
                            "No sensor measures all of the power. Energy and power are estimated, "
                            "in whole or in part, from the utilisation and frequency of the cores, "
                            "and marked as estimated.");
    if (m->n_lost_events > 0)
        qn_document_warning(
            s->document,
            qn_sections_format(s,
                               "The meter could not keep up and lost %lld records of operations: "
                               "times of operations are too small, idle time is too large.",
                               (long long)m->n_lost_events));
    if (m->n_missed_ticks * 20 > m->n_ticks)
        qn_document_warning(
            s->document,
            qn_sections_format(s,
                               "%lld of %lld samples were missed because the device was too busy. "
                               "A longer sampling interval helps.",
                               (long long)m->n_missed_ticks,
                               (long long)(m->n_ticks + m->n_missed_ticks)));
}

/* ---- steps ---- */

/* Energy by step, where every step's is known. */
static void add_step_energy(qn_sections *s, const double *number) {
    const qn_measurement *m = s->m;
    double *energy = qn_sections_numbers(s, (size_t)m->n_steps);
    const char *mark = qn_sections_mark(m->energy_is_estimated);
    if (!energy || !isfinite(m->energy_j))
        return;
    for (int i = 0; i < m->n_steps; i++)
        energy[i] = m->steps[i].energy_mj;
    qn_document_begin_chart(s->document,
                            &(qn_chart){.kind = QN_CHART_LINE,
                                        .title = "Energy of each step",
                                        .x_label = "step",
                                        .y_label = qn_sections_format(s, "energy (mJ%s)", mark)});
    qn_document_series(s->document, qn_sections_format(s, "energy%s", mark), m->n_steps, number,
                       energy);
    qn_document_end_chart(s->document);
}

static void add_steps(qn_sections *s) {
    const qn_measurement *m = s->m;
    const size_t n = (size_t)m->n_steps;
    double *number = qn_sections_numbers(s, n), *whole = qn_sections_numbers(s, n);
    double *operations = qn_sections_numbers(s, n), *idle = qn_sections_numbers(s, n);
    if (n < 2 || !number || !whole || !operations || !idle)
        return;
    for (size_t i = 0; i < n; i++) {
        number[i] = (double)m->skipped_steps + (double)i + 1;
        whole[i] = (double)(m->steps[i].end_ns - m->steps[i].begin_ns) * 1e-6;
        operations[i] = m->steps[i].operations_ms;
        idle[i] = m->steps[i].idle_ms;
    }
    qn_document_heading(s->document, "Steps");
    qn_document_begin_chart(s->document, &(qn_chart){.kind = QN_CHART_LINE,
                                                     .title = "Time of each step",
                                                     .x_label = "step",
                                                     .y_label = "time (ms)"});
    qn_document_series(s->document, "step", m->n_steps, number, whole);
    if (m->n_nodes > 0) {
        qn_document_series(s->document, "in operations", m->n_steps, number, operations);
        qn_document_series(s->document, "idle", m->n_steps, number, idle);
    }
    qn_document_end_chart(s->document);
    add_step_energy(s, number);
}

/* ---- memory and energy by kind ---- */

/* Lying bars with one series; nothing where there are none. */
static void add_bars(qn_sections *s, const char *title, const char *unit, int n,
                     const char *const *names, const double *values) {
    if (n == 0)
        return;
    qn_document_begin_chart(s->document, &(qn_chart){.kind = QN_CHART_BARS_ACROSS,
                                                     .title = title,
                                                     .y_label = unit,
                                                     .n_labels = n,
                                                     .labels = names});
    qn_document_series(s->document, unit, n, NULL, values);
    qn_document_end_chart(s->document);
}

static void add_memory(qn_sections *s) {
    const char *names[QN_MEMORY_KINDS];
    double values[QN_MEMORY_KINDS];
    int n = 0;
    static const char *const plain[QN_MEMORY_KINDS] = {
        "input",           "labels",       "parameters", "gradients",
        "optimiser state", "feature maps", "workspace"};
    for (int i = 0; i < QN_MEMORY_KINDS; i++) {
        if (s->m->memory.kind_bytes[i] == 0)
            continue;
        names[n] = plain[i];
        values[n++] = (double)s->m->memory.kind_bytes[i] / (1 << 20);
    }
    if (n == 0)
        return;
    qn_document_heading(s->document, "Memory");
    add_bars(s, "Memory by kind, at the plan's peak", "memory (MiB)", n, names, values);
}

static void add_energy(qn_sections *s) {
    const qn_measurement *m = s->m;
    const char *names[QN_PART_COUNT];
    double values[QN_PART_COUNT];
    const char *mark = qn_sections_mark(m->energy_is_estimated);
    int n = 0;
    for (int i = 0; i < QN_PART_COUNT; i++) {
        if (!isfinite(m->part_energy_j[i]))
            continue;
        names[n] = qn_words_part((qn_part)i);
        values[n++] = m->part_energy_j[i] / m->n_steps;
    }
    if (!isfinite(m->energy_j))
        return;
    qn_document_heading(s->document, "Energy");
    if (m->n_nodes > 0)
        qn_document_text(
            s->document,
            qn_sections_format(s, "%s in %d steps%s, of which %s in time without operations.",
                               qn_sections_scaled(s, m->energy_j, "J"), m->n_steps, mark,
                               qn_sections_scaled(s, m->idle_energy_j, "J")));
    add_bars(s, "Energy by component",
             qn_sections_format(s, "energy%s (J%s)", m->n_steps == 1 ? "" : " per step", mark), n,
             names, values);
}

/* ---- how it was measured ---- */

static void add_method(qn_sections *s) {
    const qn_measurement *m = s->m;
    char held[QN_SIZE_TEXT];
    qn_document_heading(s->document, "How this was measured");
    qn_document_text(
        s->document,
        qn_sections_format(s,
                           "%d steps were measured after %lld warm-up steps. %lld samples were "
                           "taken and %lld missed; sampling took %s of processor time, and the "
                           "meter used at most %s of memory.",
                           m->n_steps, (long long)m->skipped_steps, (long long)m->n_ticks,
                           (long long)m->n_missed_ticks, qn_sections_scaled(s, m->sampling_s, "s"),
                           qn_text_print_size(m->meter_bytes, held)));
    if (m->n_folded_events > 0)
        qn_document_text(
            s->document,
            qn_sections_format(s,
                               "%lld operations are counted in the tables but missing in "
                               "the trace, because the meter's memory was full.",
                               (long long)m->n_folded_events));
    if (m->n_said == 0)
        return;
    qn_document_begin_table(s->document, "Sensor messages", 2,
                            (const char *const[]){"source", "message"});
    for (int i = 0; i < m->n_said; i++) {
        const char *colon = strstr(m->said[i], ": ");
        const int length = colon ? (int)(colon - m->said[i]) : 0;
        qn_document_cell_text(s->document, qn_sections_format(s, "%.*s", length, m->said[i]));
        qn_document_cell_text(s->document, colon ? colon + 2 : m->said[i]);
    }
    qn_document_end_table(s->document);
}

void qn_report_add_profile(qn_document *document, const qn_measurement *m) {
    qn_arena scratch;
    qn_sections s = {document, m, &scratch};
    qn_arena_init(&scratch, qn_document_allocator(document));
    add_figures(&s);
    add_warnings(&s);
    qn_sections_add_processors(&s);
    qn_sections_add_operations(&s);
    qn_sections_add_roofline(&s);
    add_steps(&s);
    qn_sections_add_samples(&s);
    add_memory(&s);
    add_energy(&s);
    qn_sections_add_sensors(&s);
    add_method(&s);
    qn_arena_deinit(&scratch);
}

qn_status qn_report_html(const qn_allocator *allocator, const qn_measurement *m, const char *title,
                         const char *path) {
    qn_document *document;
    QN_TRY(qn_document_create(allocator, title, &document));
    qn_document_about(document, m->machine, m->n_threads);
    qn_report_add_profile(document, m);
    const qn_status status = qn_document_write(document, path);
    qn_document_destroy(document);
    return status;
}
