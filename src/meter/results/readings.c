/* See readings.h. */
#include "meter/results/readings.h"

#include <math.h>

size_t qn_readings_find(const qn_reading *readings, size_t n, int64_t moment_ns) {
    size_t low = 0;
    while (low < n) {
        const size_t middle = low + (n - low) / 2;
        if (readings[middle].end_ns <= moment_ns)
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

double qn_readings_integral(const qn_reading *readings, size_t n, int64_t begin_ns, int64_t end_ns,
                            int64_t *seen_ns) {
    double sum = 0;
    *seen_ns = 0;
    for (size_t i = qn_readings_find(readings, n, begin_ns); i < n; i++) {
        const qn_reading *r = &readings[i];
        const int64_t begin = r->begin_ns > begin_ns ? r->begin_ns : begin_ns;
        const int64_t end = r->end_ns < end_ns ? r->end_ns : end_ns;
        if (begin >= end_ns)
            break;
        if (end <= begin || !isfinite(r->value))
            continue;
        sum += r->value * (double)(end - begin) * 1e-9;
        *seen_ns += end - begin;
    }
    return sum;
}
