/* See stretch.h. */
#include "report/stretch.h"

enum { USUAL_STEPS = 3, ENOUGH_READINGS = 20 };

/* Readings that end at or before a moment. */
static size_t count_until(const qn_series *series, int64_t at_ns) {
    size_t low = 0, high = series->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (series->readings[middle].end_ns <= at_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const qn_reading *qn_stretch_readings(const qn_series *series, int64_t begin_ns, int64_t end_ns,
                                      size_t *n) {
    const size_t first = count_until(series, begin_ns);
    size_t end = count_until(series, end_ns);
    if (end < series->n && series->readings[end].begin_ns < end_ns)
        end++;
    *n = end - first;
    return series->readings + first;
}

static const qn_series *densest(const qn_measurement *m) {
    const qn_series *most = NULL;
    for (int i = 0; i < m->n_series; i++) {
        if (!most || m->series[i].n > most->n)
            most = &m->series[i];
    }
    return most;
}

qn_stretch qn_stretch_of(const qn_measurement *m) {
    const qn_series *series = densest(m);
    int n = m->n_steps < USUAL_STEPS ? m->n_steps : USUAL_STEPS;
    if (n == 0)
        return (qn_stretch){0, m->begin_ns, m->end_ns};
    const size_t before = series ? count_until(series, m->steps[0].begin_ns) : 0;
    while (series && n < m->n_steps &&
           count_until(series, m->steps[n - 1].end_ns) - before < ENOUGH_READINGS)
        n++;
    return (qn_stretch){n, m->steps[0].begin_ns, m->steps[n - 1].end_ns};
}
