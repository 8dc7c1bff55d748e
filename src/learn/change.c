/* See change.h. */
#include "learn/change.h"

#include <math.h>

enum { LEAST_BEFORE = 30, DEVIATIONS = 4 };

int64_t qn_change_recent_wrong(const qn_change *c) {
    int64_t n = 0;
    for (int64_t bits = c->recent; bits > 0; bits &= bits - 1)
        n++;
    return n;
}

static bool is_worse(const qn_change *c) {
    const double n = (double)c->n, recent = QN_CHANGE_WINDOW;
    const double wrong = (double)c->n_wrong, recent_wrong = (double)qn_change_recent_wrong(c);
    const double p = (wrong + recent_wrong) / (n + recent);
    const double deviation = sqrt(p * (1 - p) * (1 / n + 1 / recent));
    return recent_wrong / recent - wrong / n > DEVIATIONS * deviation;
}

bool qn_change_add(qn_change *c, bool is_wrong) {
    if (c->n_recent == QN_CHANGE_WINDOW) {
        c->n++;
        c->n_wrong += c->recent >> (QN_CHANGE_WINDOW - 1) & 1;
    } else {
        c->n_recent++;
    }
    c->recent = (c->recent << 1 | is_wrong) & (((int64_t)1 << QN_CHANGE_WINDOW) - 1);
    return c->n_recent == QN_CHANGE_WINDOW && c->n >= LEAST_BEFORE && is_worse(c);
}
