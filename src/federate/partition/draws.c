/* See draws.h. */
#include "federate/partition/draws.h"

#include <math.h>

double qn_draws_uniform(qn_draws *d) {
    const uint32_t high = qn_rng_word(d->rng, d->next++), low = qn_rng_word(d->rng, d->next++);
    return ((double)(high >> 5) * 0x1p26 + (double)(low >> 6) + 0.5) * 0x1p-53;
}

double qn_draws_normal(qn_draws *d) {
    const double radius = sqrt(-2 * log(qn_draws_uniform(d)));
    return radius * cos(6.283185307179586 * qn_draws_uniform(d));
}

/* Marsaglia and Tsang, "A simple method for generating gamma variables", ACM TOMS 26(3), 2000; for
 * shapes below 1 by section 6. */
double qn_draws_log_gamma(qn_draws *d, double shape) {
    if (!(shape > 0))
        return -INFINITY;
    const double boost = shape < 1 ? log(qn_draws_uniform(d)) / shape : 0;
    const double a = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / sqrt(9 * a);
    for (;;) {
        const double x = qn_draws_normal(d), t = 1 + c * x, v = t * t * t;
        if (v > 0 && log(qn_draws_uniform(d)) < 0.5 * x * x + a - a * v + a * log(v))
            return boost + log(a * v);
    }
}

void qn_weigh(const double *logarithms, const int64_t *is_open, int64_t n, double *weights) {
    double most = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        most = is_open[i] && logarithms[i] > most ? logarithms[i] : most;
    for (int64_t i = 0; i < n; i++)
        weights[i] = is_open[i] && isfinite(most) ? exp(logarithms[i] - most) : 0;
}

int64_t qn_draws_choose(qn_draws *d, const double *weights, int64_t n) {
    double sum = 0;
    int64_t last = 0;
    for (int64_t i = 0; i < n; i++)
        sum += weights[i];
    double rest = qn_draws_uniform(d) * sum;
    for (int64_t i = 0; i < n; i++) {
        if (weights[i] > 0 && (rest -= weights[i]) < 0)
            return i;
        last = weights[i] > 0 ? i : last;
    }
    return last; /* by rounding */
}
