/* What methods for comparison learn of labels, of rows as of windows of pictures: support vectors
 * and boosting. */
#ifndef QN_LABEL_MACHINES_H
#define QN_LABEL_MACHINES_H

#include "base/rng.h"

#include <stdbool.h>
#include <stdint.h>

/* Samples that have a label, below 0: none. */
typedef struct qn_taught {
    int n, d, n_classes;
    const float *x;       /* (n, d) */
    const int32_t *label; /* (n) */
} qn_taught;

/* ---- support vectors: one linear machine a class ---- */

typedef struct qn_machines_options {
    qn_rng rng;     /* draws a sample for each step */
    int begin, end; /* steps from begin to end - 1 */
    float warm;     /* steps that the rate falls as if there had been before */
    float bias;     /* how much faster the bias learns */
    bool decays_bias;
} qn_machines_options;

/* Fits machines of one class against all others, weight (n_classes, d + 1), by subgradients of the
 * hinge loss (Shalev-Shwartz et al. 2007, "Pegasos"). */
void qn_machines_fit(const qn_taught *t, const qn_machines_options *options, float *weight);

/* What each machine says of a sample: say (n_classes). */
void qn_machines_ask(const float *weight, int n_classes, int d, const float *x, float *say);

/* ---- boosting ---- */

/* A question about one feature, the class of each answer, and how much it counts. */
typedef struct qn_stump {
    int feature, below, above;
    float limit, say;
} qn_stump;

/* Questions that a round chooses from: n_even limits from -2 to 2 for each feature; 0: n_drawn, of
 * which the limit is a sample's number. */
typedef struct qn_stumps_options {
    int n_even, n_drawn;
    uint64_t seed;
    float slack; /* of a question's share of mistakes, so that one without any counts so much */
} qn_stumps_options;

/* Questions that weigh what those before answered wrong (Zhu et al. 2009, "Multi-class AdaBoost").
 * All samples have a label. weight (n), sums (2, n_classes). */
void qn_stumps_fit(const qn_taught *t, const qn_stumps_options *options, int n, qn_stump *stumps,
                   float *weight, float *sums);

/* What the stumps say of a sample: say (n_classes). */
void qn_stumps_ask(const qn_stump *stumps, int n, int n_classes, const float *x, float *say);

#endif
