/* The part of a run that is shown by charts over a few steps. */
#ifndef QN_REPORT_STRETCH_H
#define QN_REPORT_STRETCH_H

#include "meter/results/measurement.h"

typedef struct qn_stretch {
    int n_steps; /* from the first measured step */
    int64_t begin_ns, end_ns;
} qn_stretch;

/* The first three measured steps, or as many as hold twenty readings of the channel that has most.
 */
qn_stretch qn_stretch_of(const qn_measurement *m);

/* Readings of a series that overlap [begin_ns, end_ns): the first of them, and how many. */
const qn_reading *qn_stretch_readings(const qn_series *series, int64_t begin_ns, int64_t end_ns,
                                      size_t *n);

#endif
