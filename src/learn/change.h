/* Whether the world changed: a model is wrong on the latest samples more often than on those before
 * (a test of two proportions, of 32 samples beside all before them). What is fed are samples that
 * the model has not learned from, as they come. */
#ifndef QN_LEARN_CHANGE_H
#define QN_LEARN_CHANGE_H

#include "quern/base.h"

enum { QN_CHANGE_WINDOW = 32 };

/*     0 <= n_wrong <= n; 0 <= n_recent <= QN_CHANGE_WINDOW; recent < 2^32 */
typedef struct qn_change {
    int64_t n, n_wrong; /* before the latest samples */
    int64_t n_recent;
    int64_t recent; /* a bit for each of the latest, 1: wrong; bit 0 is the last */
} qn_change;

/* Takes a sample. True: of the latest samples, more are wrong than of those before by four standard
 * deviations; there must be 30 before them. The caller begins anew then, with zeros. */
bool qn_change_add(qn_change *change, bool is_wrong);

/* Of the latest samples. */
int64_t qn_change_recent_wrong(const qn_change *change);

#endif
