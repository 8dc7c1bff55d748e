/* The privacy loss of one round of the sampled Gaussian mechanism, as a discrete distribution that
 * bounds it from above. */
#ifndef QN_FEDERATE_LOSS_H
#define QN_FEDERATE_LOSS_H

#include "base/memory.h"
#include "base/status.h"

/* masses[i] is the chance of the loss (lowest + i) * step, infinite that of one without bound. */
typedef struct qn_losses {
    const qn_allocator *allocator;
    double step, infinite;
    int64_t lowest, n; /* the lowest and the highest have masses above 0 */
    int64_t n_reserved;
    double *masses; /* (n), room for n_reserved */
} qn_losses;

/* Chances below tail are left to infinite, or put to the lowest loss. is_removed: of a client that
 * is taken away; otherwise that is added. share < 1. */
qn_status qn_losses_create(const qn_allocator *allocator, double share, double noise, double tail,
                           bool is_removed, qn_losses *losses);
void qn_losses_destroy(qn_losses *losses);

/* The logarithm of the mean of exp(order * loss), infinite losses left out. */
double qn_losses_log_moment(const qn_losses *losses, double order);

#endif
