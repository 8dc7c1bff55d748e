/* See row.h. */
#include "study/row.h"

#include "quern/task.h"

#include <math.h>
#include <string.h>

const char *qn_domain_name(qn_domain domain) {
    static const char *const names[QN_DOMAIN_COUNT] = {
        [QN_DOMAIN_VISION] = "vision",     [QN_DOMAIN_LSTM] = "LSTM",
        [QN_DOMAIN_LANGUAGE] = "language", [QN_DOMAIN_GENERATION] = "generation",
        [QN_DOMAIN_CONTROL] = "control",
    };
    return names[domain];
}

qn_domain qn_domain_of(const qn_model *model) {
    static const struct {
        const char *task;
        qn_domain domain;
    } rows[] = {
        {"language", QN_DOMAIN_LSTM},      {"translation", QN_DOMAIN_LSTM},
        {"answering", QN_DOMAIN_LANGUAGE}, {"generation", QN_DOMAIN_GENERATION},
        {"control", QN_DOMAIN_CONTROL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(qn_task_of(model), rows[i].task) == 0)
            return rows[i].domain;
    }
    return QN_DOMAIN_VISION;
}

/* ---- series ---- */

/* Where the readings begin. */
static double value_at(const qn_series *s, int64_t at_ns, size_t *from) {
    while (*from < s->n && s->readings[*from].end_ns < at_ns)
        ++*from;
    const bool is_within = *from < s->n && s->readings[*from].begin_ns <= at_ns;
    return is_within ? s->readings[*from].value : (double)NAN;
}

double qn_correlation(const qn_series *a, const qn_series *b) {
    double n = 0, sum_a = 0, sum_b = 0, aa = 0, bb = 0, ab = 0;
    size_t from = 0;
    for (size_t i = 0; i < a->n; i++) {
        const qn_reading *r = &a->readings[i];
        const double x = r->value;
        const double y = value_at(b, r->begin_ns + (r->end_ns - r->begin_ns) / 2, &from);
        if (!isfinite(x) || !isfinite(y))
            continue;
        n++;
        sum_a += x;
        sum_b += y;
        aa += x * x;
        bb += y * y;
        ab += x * y;
    }
    const double scale = (n * aa - sum_a * sum_a) * (n * bb - sum_b * sum_b);
    return n >= 8 && scale > 0 ? (n * ab - sum_a * sum_b) / sqrt(scale) : (double)NAN;
}

static const qn_series *find_series(const qn_measurement *m, qn_quantity quantity, qn_part part) {
    for (int i = 0; i < m->n_series; i++) {
        if (m->series[i].channel.quantity == quantity && m->series[i].channel.part == part)
            return &m->series[i];
    }
    return NULL;
}

static double correlation_of(const qn_measurement *m) {
    const qn_series *gpu = find_series(m, QN_QUANTITY_UTILISATION, QN_PART_GPU);
    const qn_series *cpu = find_series(m, QN_QUANTITY_UTILISATION, QN_PART_CPU);
    if (!cpu)
        cpu = find_series(m, QN_QUANTITY_UTILISATION, QN_PART_PROCESS);
    return gpu && cpu ? qn_correlation(gpu, cpu) : (double)NAN;
}

/* ---- periodicity ---- */

/* Readings a step must span for its rhythm to be seen, and how far from the step's length a period
 * may be. */
static const double least_readings = 5, period_tolerance = 0.2;

static double mean_interval_s(const qn_series *s) {
    if (s->n < 2)
        return NAN;
    return (double)(s->readings[s->n - 1].end_ns - s->readings[0].begin_ns) * 1e-9 / (double)s->n;
}

/* How much a series repeats with the step: NaN where it cannot be seen, 0 where it has another
 * period. */
static double series_periodicity(const qn_series *s, double step_s) {
    if (!(step_s >= least_readings * mean_interval_s(s)) || !isfinite(s->periodicity))
        return NAN;
    const bool is_step = fabs(s->period_s - step_s) <= period_tolerance * step_s;
    return is_step ? s->periodicity : 0;
}

/* The most periodic of the channels of a quantity that stand for the whole of a part; power that is
 * estimated from utilisation would only repeat its rhythm, and is left out. */
static double periodicity_of(const qn_measurement *m, qn_quantity quantity) {
    double most = NAN;
    for (int i = 0; i < m->n_series; i++) {
        const qn_series *s = &m->series[i];
        const bool is_piece =
            s->channel.part == QN_PART_THREAD ||
            (s->channel.part == QN_PART_CORE && quantity == QN_QUANTITY_UTILISATION);
        if (s->channel.quantity == quantity && !is_piece && !s->channel.is_estimated)
            most = fmax(most, series_periodicity(s, m->step_ms_mean * 1e-3));
    }
    return most;
}

static bool has_estimated_power(const qn_measurement *m) {
    for (int i = 0; i < m->n_series; i++) {
        if (m->series[i].channel.quantity == QN_QUANTITY_POWER && m->series[i].channel.is_estimated)
            return true;
    }
    return false;
}

/* ---- cores ---- */

static void fill_kinds(const qn_measurement *m, const qn_study_cores *cores, qn_study_row *row) {
    double n[QN_STUDY_KINDS] = {0}, use[QN_STUDY_KINDS] = {0}, idle[QN_STUDY_KINDS] = {0};
    for (int i = 0; i < m->n_series; i++) {
        const qn_series *s = &m->series[i];
        if (s->channel.quantity != QN_QUANTITY_UTILISATION || s->channel.part != QN_PART_CORE ||
            s->channel.index >= cores->n_cores || !isfinite(s->mean))
            continue;
        const int kind = cores->kind[s->channel.index];
        if (kind < 0 || kind >= QN_STUDY_KINDS)
            continue;
        n[kind]++;
        use[kind] += s->mean;
        idle[kind] += s->idle_ratio;
    }
    for (int k = 0; k < QN_STUDY_KINDS; k++) {
        row->kind_use[k] = n[k] > 0 ? use[k] / n[k] : (double)NAN;
        row->kind_idle[k] = n[k] > 0 ? idle[k] / n[k] : (double)NAN;
    }
}

double qn_cell_throughput(const qn_cell *cell) {
    return (double)cell->batch * 1e3 / cell->m.step_ms_mean;
}

static double process_use(const qn_measurement *m, const qn_study_cores *cores) {
    const qn_series *s = find_series(m, QN_QUANTITY_UTILISATION, QN_PART_PROCESS);
    return s && cores->n_cores > 0 ? s->mean / cores->n_cores : (double)NAN;
}

/* Of cells measured by a version that did not say it: what is busy beside the process. */
static double others_of(const qn_measurement *m, const qn_study_cores *cores) {
    return isfinite(m->others) ? m->others : m->cpu_utilisation - process_use(m, cores);
}

void qn_study_row_fill(const qn_cell *cell, const qn_cell *inference, const qn_study_cores *cores,
                       qn_study_row *row) {
    const qn_measurement *m = &cell->m;
    *row = (qn_study_row){
        .model = cell->model->name,
        .domain = qn_domain_of(cell->model),
        .batch = cell->batch,
        .step_ms = m->step_ms_median,
        .throughput = qn_cell_throughput(cell),
        .step_ms_low = m->step_ms_low,
        .step_ms_high = m->step_ms_high,
        .others = others_of(m, cores),
        .process = process_use(m, cores),
        .cpu = m->cpu_utilisation,
        .gpu = m->gpu_utilisation,
        .correlation = correlation_of(m),
        .use_periodicity = periodicity_of(m, QN_QUANTITY_UTILISATION),
        .power_periodicity = periodicity_of(m, QN_QUANTITY_POWER),
        .power_is_estimated = m->energy_is_estimated || has_estimated_power(m),
        .energy_mj = m->energy_mj_per_step,
        .planned_bytes = cell->demand.bytes > 0 ? cell->demand.bytes : (double)NAN,
        .resident_bytes = m->resident_peak_bytes,
        .inference_ms = inference ? inference->m.step_ms_median : (double)NAN,
        .meter_bytes = (double)m->meter_bytes,
    };
    memcpy(row->part_j, m->part_energy_j, sizeof row->part_j);
    for (int i = 0; i < 7; i++)
        row->memory[i] = (double)m->memory.kind_bytes[i];
    fill_kinds(m, cores, row);
}
