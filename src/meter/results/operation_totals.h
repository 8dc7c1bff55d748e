/* A recording's measured steps, and the totals of their operations. */
#ifndef QN_METER_RESULTS_OPERATION_TOTALS_H
#define QN_METER_RESULTS_OPERATION_TOTALS_H

#include "meter/recording.h"

/* Sums over the measured steps; arrays in the measurement's arena.
 *     sum of energy_j[...] + idle_j = sum of step energies (to rounding) */
typedef struct qn_operation_totals {
    qn_fold_row *rows; /* (n_operations) */
    double *energy_j;  /* (n_operations) of all channels that count */
    double *core_s;    /* (n_operations) of sampled processor use: cores x seconds */
    double idle_j;
    bool has_energy, has_core; /* whether a reading of that kind was in the measured steps */
} qn_operation_totals;

/* Fills m's steps (begin_ns to idle_energy_j) and the sums, all in m->arena. */
qn_status qn_operation_totals_take(const qn_recording *recording, qn_measurement *m,
                                   qn_operation_totals *sums);

#endif
