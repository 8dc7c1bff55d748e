/* See metrics.h. */
#include "meter/results/metrics.h"

#include "base/status.h"
#include "meter/results/periodicity.h"
#include "meter/results/readings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STRETCHES = 5 }; /* of the measured steps, whose medians are compared */

/* ---- series ---- */

static void fill_series(qn_series *s, int64_t begin_ns, int64_t end_ns) {
    int64_t seen_ns, idle_ns = 0;
    const double integral = qn_readings_integral(s->readings, s->n, begin_ns, end_ns, &seen_ns);
    s->most = NAN;
    for (size_t i = qn_readings_find(s->readings, s->n, begin_ns);
         i < s->n && s->readings[i].begin_ns < end_ns; i++) {
        const qn_reading *r = &s->readings[i];
        const int64_t begin = r->begin_ns > begin_ns ? r->begin_ns : begin_ns;
        const int64_t end = r->end_ns < end_ns ? r->end_ns : end_ns;
        idle_ns += r->value < 0.005 ? end - begin : 0;
        s->most = fmax(s->most, r->value); /* fmax takes the number of a number and NaN */
    }
    s->seen = (double)seen_ns / (double)(end_ns - begin_ns);
    s->mean = seen_ns > 0 ? integral / ((double)seen_ns * 1e-9) : NAN;
    s->energy_j = s->idle_ratio = s->period_s = s->periodicity = NAN;
    if (s->channel.quantity == QN_QUANTITY_POWER && seen_ns > 0)
        s->energy_j = integral;
    if (s->channel.quantity == QN_QUANTITY_UTILISATION && seen_ns > 0)
        s->idle_ratio = (double)idle_ns / (double)seen_ns;
}

qn_status qn_metrics_series(const qn_recording *r, qn_measurement *m) {
    qn_series *series = qn_arena_allocate(m->arena, (size_t)r->n_series + 1, sizeof *series);
    if (!series)
        return QN_ERROR_MEMORY;
    m->series = series;
    for (int i = 0; i < r->n_series; i++) {
        qn_series *s = &series[m->n_series];
        const qn_quantity quantity = r->series[i].channel.quantity;
        qn_period period = {NAN, NAN};
        if (r->series[i].n == 0)
            continue;
        *s = r->series[i];
        fill_series(s, m->begin_ns, m->end_ns);
        if (quantity == QN_QUANTITY_POWER || quantity == QN_QUANTITY_UTILISATION)
            QN_TRY(qn_periodicity(r->allocator, s->readings, s->n, m->begin_ns, m->end_ns,
                                  m->n_steps, &period));
        s->period_s = period.seconds;
        s->periodicity = period.height;
        m->n_series++;
    }
    return QN_OK;
}

/* Mean over the channels of a part. */
static double mean_of(const qn_measurement *m, qn_quantity quantity, qn_part part) {
    double sum = 0;
    int n = 0;
    for (int i = 0; i < m->n_series; i++) {
        const qn_series *s = &m->series[i];
        if (s->channel.quantity != quantity || s->channel.part != part || !(s->seen > 0))
            continue;
        sum += s->mean;
        n++;
    }
    return n > 0 ? sum / n : NAN;
}

static double resident_peak(const qn_measurement *m) {
    double most = NAN;
    for (int i = 0; i < m->n_series; i++) {
        const qn_channel *c = &m->series[i].channel;
        if (c->quantity == QN_QUANTITY_MEMORY && c->part == QN_PART_PROCESS &&
            strcmp(c->name, "resident") == 0)
            most = fmax(most, m->series[i].most);
    }
    return most;
}

/* ---- energy by component ---- */

static bool is_power_of(const qn_series *s, qn_part part) {
    return s->channel.quantity == QN_QUANTITY_POWER && s->channel.part == part && s->seen > 0;
}

/* Whether a channel lies inside another of its part: its energy is in that one's. inside counts the
 * channels of the same source. */
static bool is_inside_alike(const qn_recording *r, const qn_series *s) {
    int32_t inside = s->channel.inside;
    for (int depth = 0; inside >= 0 && depth < 8; depth++) {
        const qn_channel *outer = NULL;
        for (int i = 0, n = 0; i < r->n_series && !outer; i++) {
            const qn_channel *c = &r->series[i].channel;
            if (strcmp(c->source, s->channel.source) == 0 && n++ == inside)
                outer = c;
        }
        if (!outer)
            return false;
        if (outer->quantity == QN_QUANTITY_POWER && outer->part == s->channel.part)
            return true;
        inside = outer->inside;
    }
    return false;
}

/* The first source that has the part, measured if any measures it: two sensors of one part are not
 * two parts. */
static double part_energy(const qn_recording *r, const qn_measurement *m, qn_part part) {
    const qn_channel *chosen = NULL;
    double sum = 0;
    for (int i = 0; i < m->n_series; i++) {
        const qn_channel *c = &m->series[i].channel;
        if (is_power_of(&m->series[i], part) &&
            (!chosen || (chosen->is_estimated && !c->is_estimated)))
            chosen = c;
    }
    for (int i = 0; i < m->n_series && chosen; i++) {
        const qn_series *s = &m->series[i];
        if (is_power_of(s, part) && strcmp(s->channel.source, chosen->source) == 0 &&
            s->channel.is_estimated == chosen->is_estimated && !is_inside_alike(r, s))
            sum += s->energy_j;
    }
    return chosen ? sum : NAN;
}

static void fill_energy(const qn_recording *r, const qn_operation_totals *sums, qn_measurement *m) {
    double energy_j = 0;
    for (int i = 0; i < m->n_steps; i++)
        energy_j += isnan(m->steps[i].energy_mj) ? 0 : m->steps[i].energy_mj * 1e-3;
    m->energy_j = sums->has_energy ? energy_j : NAN;
    m->idle_energy_j = sums->has_energy ? sums->idle_j : NAN;
    m->energy_mj_per_step = m->energy_j * 1e3 / m->n_steps;
    m->energy_mj_per_sample =
        r->samples_per_step > 0 ? m->energy_mj_per_step / r->samples_per_step : NAN;
    for (int part = 0; part < QN_PART_COUNT; part++)
        m->part_energy_j[part] = part_energy(r, m, (qn_part)part);
    for (int i = 0; i < m->n_series; i++)
        m->energy_is_estimated |=
            m->series[i].counts && m->series[i].seen > 0 && m->series[i].channel.is_estimated;
}

/* ---- steps ---- */

static double square(double x) {
    return x * x;
}

static double step_ms(const qn_step_row *step) {
    return (double)(step->end_ns - step->begin_ns) * 1e-6;
}

static int compare_doubles(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Sorts. */
static double median_of(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, compare_doubles);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

void qn_metrics_interval(double *times, int n, double *low, double *high) {
    const int n_stretches = n >= 2 * STRETCHES ? STRETCHES : n >= 4 ? 2 : n;
    *low = INFINITY;
    *high = -INFINITY;
    for (int i = 0; i < n_stretches; i++) {
        const int begin = i * n / n_stretches, end = (i + 1) * n / n_stretches;
        const double median = median_of(times + begin, end - begin);
        *low = fmin(*low, median);
        *high = fmax(*high, median);
    }
}

static qn_status find_median(const qn_allocator *allocator, qn_measurement *m) {
    const int n = m->n_steps;
    double *times;
    QN_TRY(qn_allocate(allocator, (size_t)n, sizeof *times, &times));
    for (int i = 0; i < n; i++)
        times[i] = step_ms(&m->steps[i]);
    qn_metrics_interval(times, n, &m->step_ms_low, &m->step_ms_high);
    m->step_ms_median = median_of(times, n);
    qn_release(allocator, times, (size_t)n, sizeof *times);
    return QN_OK;
}

static void fill_steps(const qn_recording *r, qn_measurement *m) {
    const int n = m->n_steps;
    double operations = 0, idle = 0, squares = 0;
    m->step_ms_mean = (double)(m->end_ns - m->begin_ns) * 1e-6 / n;
    for (int i = 0; i < n; i++) {
        operations += m->steps[i].operations_ms;
        idle += m->steps[i].idle_ms;
        squares += square(step_ms(&m->steps[i]) - m->step_ms_mean);
    }
    m->step_ms_deviation = n > 1 ? sqrt(squares / (n - 1)) : NAN;
    m->operations_ms_per_step = operations / n;
    m->idle_ms_per_step = idle / n;
    m->samples_per_step = r->samples_per_step;
    m->throughput = r->samples_per_step > 0 ? r->samples_per_step / (m->step_ms_mean * 1e-3) : NAN;
}

static void fill_arithmetic(const qn_recording *r, const qn_operation_totals *sums,
                            const qn_roofline *roofline, qn_measurement *m) {
    double flops = 0;
    for (int i = 0; i < r->n_operations; i++)
        flops += (double)sums->rows[i].calls * (double)r->operations[i].operation.flops;
    m->flops_per_step = r->n_operations > 0 ? flops / m->n_steps : NAN;
    m->gflops = m->flops_per_step * 1e-9 / (m->step_ms_mean * 1e-3);
    m->peak_flops = qn_roofline_flops(roofline, r->dtype, r->n_threads);
    /* A step walks through all of its memory before it comes back to the same. */
    const size_t walked = r->memory.arena_bytes + r->memory.parameter_bytes;
    m->peak_bandwidth =
        qn_roofline_bandwidth(roofline, r->n_threads, walked > 0 ? (double)walked : INFINITY);
}

qn_status qn_metrics_fill(const qn_recording *r, const qn_operation_totals *sums,
                          const qn_roofline *roofline, qn_measurement *m) {
    QN_TRY(find_median(r->allocator, m));
    fill_steps(r, m);
    fill_energy(r, sums, m);
    fill_arithmetic(r, sums, roofline, m);
    m->cpu_utilisation = mean_of(m, QN_QUANTITY_UTILISATION, QN_PART_CORE);
    m->gpu_utilisation = mean_of(m, QN_QUANTITY_UTILISATION, QN_PART_GPU);
    m->memory = r->memory;
    m->resident_peak_bytes = resident_peak(m);
    return QN_OK;
}

/* ---- what a reader must know ---- */

/* m's said has room for so many lines more than the recording's. */
enum { LINES_OF_OUR_OWN = 3 };

static qn_status say(qn_measurement *m, const char **lines, const char *line) {
    lines[m->n_said++] = line;
    return line ? QN_OK : QN_ERROR_MEMORY;
}

static qn_status say_energy(qn_measurement *m, const char **lines) {
    const qn_series *least = NULL;
    for (int i = 0; i < m->n_series; i++) {
        if (m->series[i].counts && (!least || m->series[i].seen < least->seen))
            least = &m->series[i];
    }
    if (!least || least->seen > 0.99)
        return QN_OK;
    return say(m, lines,
               qn_arena_format(m->arena,
                               "meter: power of %s (%s) was measured for %.0f %% of the time; "
                               "energies cover that part only; measure more steps",
                               least->channel.name, least->channel.source, least->seen * 100));
}

static qn_status say_period(qn_measurement *m, const char **lines) {
    int n = 0, n_known = 0;
    for (int i = 0; i < m->n_series; i++) {
        const qn_quantity quantity = m->series[i].channel.quantity;
        const qn_part part = m->series[i].channel.part;
        if (part == QN_PART_THREAD ||
            (quantity != QN_QUANTITY_POWER && quantity != QN_QUANTITY_UTILISATION))
            continue;
        n++;
        n_known += !isnan(m->series[i].periodicity);
    }
    if (n == 0 || n_known > 0)
        return QN_OK;
    return say(
        m, lines,
        qn_arena_format(m->arena,
                        "meter: period not measurable: it needs %d steps with %d samples each, and "
                        "a step takes %.1f ms; sample faster, or use a larger batch",
                        QN_PERIOD_STEPS, QN_PERIOD_READINGS, m->step_ms_mean));
}

qn_status qn_metrics_say(const qn_recording *r, qn_measurement *m) {
    const char **lines =
        qn_arena_allocate(m->arena, (size_t)r->n_said + LINES_OF_OUR_OWN, sizeof *lines);
    if (!lines)
        return QN_ERROR_MEMORY;
    for (int i = 0; i < r->n_said; i++)
        lines[i] = r->said[i];
    m->said = lines;
    m->n_said = r->n_said;
    QN_TRY(say_energy(m, lines));
    QN_TRY(say_period(m, lines));
    if (r->n_lost_events == 0)
        return QN_OK;
    return say(m, lines,
               qn_arena_format(m->arena,
                               "meter: %lld events were lost for lack of space: times of "
                               "operations are too low; measure fewer steps",
                               (long long)r->n_lost_events));
}
