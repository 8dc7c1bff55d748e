/* See periodicity.h. Readings are resampled evenly, a fixed number in a step, and correlated with
 * themselves at a lag of about that number. */
#include "meter/results/periodicity.h"

#include "base/memory.h"
#include "base/status.h"
#include "meter/results/readings.h"

#include <math.h>

enum { MOST_PER_STEP = 64, MOST_BINS = 1 << 16, MOST_LAGS = 2 * MOST_PER_STEP };

/* Values over time, less their mean; what was not seen is the mean. */
typedef struct bins {
    double *values;
    int64_t n;
    int per_step;
    double square; /* mean of squares */
} bins;

/* Resampled no finer than it was read. */
static int count_per_step(const qn_reading *readings, size_t n, int64_t begin_ns, int64_t end_ns,
                          int n_steps) {
    const size_t first = qn_readings_find(readings, n, begin_ns);
    const size_t last = qn_readings_find(readings, n, end_ns);
    const double per_step = (double)(last - first) / n_steps;
    if (per_step < QN_PERIOD_READINGS)
        return 0;
    return per_step < MOST_PER_STEP ? (int)per_step : MOST_PER_STEP;
}

static void fill(bins *b, const qn_reading *readings, size_t n, int64_t begin_ns, double bin_ns) {
    double sum = 0;
    int64_t n_seen = 0;
    for (int64_t i = 0; i < b->n; i++) {
        const int64_t from = begin_ns + (int64_t)((double)i * bin_ns);
        const int64_t to = begin_ns + (int64_t)((double)(i + 1) * bin_ns);
        int64_t seen_ns;
        const double integral = qn_readings_integral(readings, n, from, to, &seen_ns);
        b->values[i] = seen_ns > 0 ? integral / ((double)seen_ns * 1e-9) : NAN;
        sum += seen_ns > 0 ? b->values[i] : 0;
        n_seen += seen_ns > 0;
    }
    const double mean = n_seen > 0 ? sum / (double)n_seen : 0;
    b->square = 0;
    for (int64_t i = 0; i < b->n; i++) {
        b->values[i] = isnan(b->values[i]) ? 0 : b->values[i] - mean;
        b->square += b->values[i] * b->values[i] / (double)b->n;
    }
    if (b->square <= 1e-18 * mean * mean) /* nothing but rounding */
        b->square = 0;
}

static double correlation(const bins *b, int lag) {
    double sum = 0;
    for (int64_t i = 0; i + lag < b->n; i++)
        sum += b->values[i] * b->values[i + lag];
    return sum / (double)(b->n - lag) / b->square;
}

/* The highest peak among lags, refined by the parabola through it and its neighbours. */
static qn_period find_peak(const bins *b, double bin_s) {
    const int first = (b->per_step + 1) / 2, last = b->per_step * 3 / 2;
    double r[MOST_LAGS];
    qn_period best = {NAN, NAN};
    for (int lag = first - 1; lag <= last + 1; lag++)
        r[lag - first + 1] = correlation(b, lag);
    for (int lag = first; lag <= last; lag++) {
        const double *at = &r[lag - first + 1];
        if (at[0] < at[-1] || at[0] <= at[1] || (best.height >= at[0]))
            continue;
        const double bend = at[-1] - 2 * at[0] + at[1];
        const double shift = bend < 0 ? 0.5 * (at[-1] - at[1]) / bend : 0;
        best = (qn_period){(lag + shift) * bin_s, fmin(at[0], 1)};
    }
    return best;
}

qn_status qn_periodicity(const qn_allocator *allocator, const qn_reading *readings, size_t n,
                         int64_t begin_ns, int64_t end_ns, int n_steps, qn_period *period) {
    *period = (qn_period){NAN, NAN};
    bins b = {.per_step = count_per_step(readings, n, begin_ns, end_ns, n_steps)};
    if (n_steps < QN_PERIOD_STEPS || b.per_step == 0)
        return QN_OK;
    const double bin_ns = (double)(end_ns - begin_ns) / n_steps / b.per_step;
    b.n = (int64_t)n_steps * b.per_step;
    b.n = b.n < MOST_BINS ? b.n : MOST_BINS;
    const size_t n_values = (size_t)b.n;
    QN_TRY(qn_allocate(allocator, n_values, sizeof *b.values, &b.values));
    fill(&b, readings, n, begin_ns, bin_ns);
    if (b.square > 0)
        *period = find_peak(&b, bin_ns * 1e-9);
    qn_release(allocator, b.values, n_values, sizeof *b.values);
    return QN_OK;
}
