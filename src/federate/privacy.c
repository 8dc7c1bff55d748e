/* See privacy.h. */
#include "federate/privacy.h"

#include <math.h>

/* log(exp(a) + exp(b)) */
static double add_logs(double a, double b) {
    const double more = fmax(a, b), less = fmin(a, b);
    return isinf(less) && less < 0 ? more : more + log1p(exp(less - more));
}

/* The divergence of one round at a whole order: with q the share and s the noise,
 *     1 / (order - 1) * log sum over k of C(order, k) (1 - q)^(order - k) q^k e^((k^2 - k) / 2s^2)
 */
static double diverge(double share, double noise, int order) {
    double sum = -INFINITY;
    if (share >= 1)
        return order / (2 * noise * noise);
    for (int k = 0; k <= order; k++) {
        const double ways = lgamma(order + 1.0) - lgamma(k + 1.0) - lgamma(order - k + 1.0);
        const double chance = (order - k) * log1p(-share) + k * log(share);
        sum = add_logs(sum, ways + chance + (double)k * (k - 1) / (2 * noise * noise));
    }
    return sum / (order - 1);
}

double qn_privacy_epsilon(double share, double noise, int64_t n_rounds, double delta) {
    double least = INFINITY;
    /* every order at first, then a sixteenth further each time */
    for (int order = 2; order <= 4096; order += order < 64 ? 1 : order / 16) {
        const double divergence = (double)n_rounds * diverge(share, noise, order);
        const double epsilon =
            divergence + log1p(-1.0 / order) - (log(delta) + log(order)) / (order - 1);
        least = fmin(least, epsilon);
    }
    return n_rounds == 0 ? 0 : fmax(least, 0);
}
