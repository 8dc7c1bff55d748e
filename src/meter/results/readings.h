/* Consecutive readings of one channel within a time span. */
#ifndef QN_METER_RESULTS_READINGS_H
#define QN_METER_RESULTS_READINGS_H

#include "meter/sources/source.h"

/* The first of n readings that ends after a moment; n: none. */
size_t qn_readings_find(const qn_reading *readings, size_t n, int64_t moment_ns);

/* Value x seconds over [begin_ns, end_ns): joules of watts. Where nothing was read, and where it is
 * no finite number, counts as nothing; *seen_ns is the time of the rest. */
double qn_readings_integral(const qn_reading *readings, size_t n, int64_t begin_ns, int64_t end_ns,
                            int64_t *seen_ns);

#endif
