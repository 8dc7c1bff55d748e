/* Differential privacy of whole clients (McMahan et al., "Learning differentially private recurrent
 * language models", ICLR 2018): every change is clipped, and the server adds normal noise to their
 * sum. Two data sets are neighbours if one has a client more, with all of its samples.
 *
 * What that has cost is counted by the distribution of the privacy loss (Koskela, Jälkö and
 * Honkela, "Computing tight differential privacy guarantees using FFT", AISTATS 2020), made
 * discrete as Doroshenko et al. do ("Connect the dots: tighter discrete approximations of privacy
 * loss distributions", PoPETs 2022). Epsilon is an upper bound, and exact but for the grid: a
 * fraction of a per cent for shares from 1e-4 on. Beyond a million rounds, for which the grid would
 * be too long, it is the looser bound of Rényi's divergence. */
#ifndef QN_FEDERATE_ACCOUNTANT_H
#define QN_FEDERATE_ACCOUNTANT_H

#include "base/memory.h"
#include "base/status.h"

typedef struct qn_accountant qn_accountant;

/* Every client takes part in a round with probability share, independently, and the noise's
 * deviation is noise times the clip. n_most: rounds that will be asked about, at most.
 * 0 < share <= 1, 1e-3 <= noise <= 1e6, 1e-200 <= delta <= 0.5, n_most > 0. */
qn_status qn_accountant_create(const qn_allocator *allocator, double share, double noise,
                               int64_t n_most, double delta, qn_accountant **accountant);
void qn_accountant_destroy(qn_accountant *accountant);

/* The least epsilon of (epsilon, delta)-differential privacy after n rounds. */
qn_status qn_accountant_count(qn_accountant *accountant, int64_t n_rounds, double *epsilon);

#endif
