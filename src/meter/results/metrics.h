/* A run's figures: the metrics of the TX2 study (equations 1 to 4) and related ones. */
#ifndef QN_METER_RESULTS_METRICS_H
#define QN_METER_RESULTS_METRICS_H

#include "meter/results/operation_totals.h"

/* Fills m's series, in m->arena: those of the recording that have readings. */
qn_status qn_metrics_series(const qn_recording *recording, qn_measurement *m);

/* Fills m's numbers; steps and series are there. */
qn_status qn_metrics_fill(const qn_recording *recording, const qn_operation_totals *sums,
                          const qn_roofline *roofline, qn_measurement *m);

/* How far the median of step times changes over the run: the least and the largest median of five
 * stretches of them; of two with fewer than ten steps, of single steps with fewer than four. times:
 * (n), n >= 1, in the order of the steps; sorted in place. */
void qn_metrics_interval(double *times, int n, double *low, double *high);

/* What a reader must know of how far the numbers can be trusted: adds lines to m's said. */
qn_status qn_metrics_say(const qn_recording *recording, qn_measurement *m);

#endif
