/* Differential privacy of whole clients (McMahan et al., "Learning differentially private recurrent
 * language models", ICLR 2018): every change is clipped, and the server adds normal noise to their
 * sum. What that has cost so far is counted by Rényi's divergence. */
#ifndef QN_FEDERATE_PRIVACY_H
#define QN_FEDERATE_PRIVACY_H

#include <stdint.h>

/* The least epsilon of (epsilon, delta)-differential privacy after n rounds, in each of which every
 * client takes part with probability share, independently, and noise times the clip is the noise's
 * deviation: Rényi divergences of the sampled Gaussian mechanism at whole orders (Mironov, Talwar
 * and Zhang, "Rényi differential privacy of the sampled Gaussian mechanism", 2019, section 3.3),
 * turned into epsilon by Canonne, Kamath and Steinke ("The discrete Gaussian for differential
 * privacy", 2020, proposition 12). 0 < share <= 1, noise > 0, 0 < delta < 1; infinite where no
 * order gives a bound. */
double qn_privacy_epsilon(double share, double noise, int64_t n_rounds, double delta);

#endif
