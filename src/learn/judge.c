/* See judge.h. */
#include "learn/judge.h"

#include <math.h>

double qn_comparison_chance(const qn_comparison *c) {
    const double n = (double)(c->n_better + c->n_worse);
    double sum = 0;
    for (int64_t k = c->n_better; k <= c->n_better + c->n_worse; k++) {
        const double i = (double)k;
        sum += exp(lgamma(n + 1) - lgamma(i + 1) - lgamma(n - i + 1) - n * log(2));
    }
    return fmin(sum, 1);
}

qn_comparison qn_comparison_make(const bool *model, const bool *candidate, int64_t n) {
    qn_comparison c = {.n = n};
    for (int64_t i = 0; i < n; i++) {
        c.n_right += candidate[i];
        c.n_better += candidate[i] && !model[i];
        c.n_worse += model[i] && !candidate[i];
    }
    return c;
}

bool qn_judge(const qn_comparison *recent, const qn_comparison *old, double most, int64_t best_old,
              int64_t n_forgotten) {
    return recent->n_better > recent->n_worse && qn_comparison_chance(recent) <= most &&
           old->n_right + n_forgotten >= best_old;
}
