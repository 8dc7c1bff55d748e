/* A run's numbers: the metrics of the TX2 study (equations 1 to 4) and what belongs beside them. */
#ifndef QN_METER_METRICS_H
#define QN_METER_METRICS_H

#include "meter/sums.h"

/* Fills m's series, in m->arena: those of the recording that have readings. */
qn_status qn_metrics_series(const qn_recording *recording, qn_measurement *m);

/* Fills m's numbers; steps and series are there. */
qn_status qn_metrics_fill(const qn_recording *recording, const qn_sums *sums,
                          const qn_roofline *roofline, qn_measurement *m);

/* What a reader must know of how far the numbers can be trusted: adds lines to m's said. */
qn_status qn_metrics_say(const qn_recording *recording, qn_measurement *m);

#endif
