/* How regularly a channel repeats itself from step to step. */
#ifndef QN_METER_RESULTS_PERIODICITY_H
#define QN_METER_RESULTS_PERIODICITY_H

#include "meter/sources/source.h"

/* Fewest readings and steps from which a period can be told. */
enum { QN_PERIOD_READINGS = 4, QN_PERIOD_STEPS = 3 };

typedef struct qn_period {
    double seconds; /* where autocorrelation peaks between half a step and one and a half */
    double height;  /* of that peak, -1 to 1 */
} qn_period;

/* Of the readings over [begin_ns, end_ns), which is that of n_steps steps. NaN where steps or
 * readings are too few, where the value never changes, and where there is no peak. */
qn_status qn_periodicity(const qn_allocator *allocator, const qn_reading *readings, size_t n,
                         int64_t begin_ns, int64_t end_ns, int n_steps, qn_period *period);

#endif
