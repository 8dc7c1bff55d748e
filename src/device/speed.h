/* Estimated peak speeds of a processor, used until something has been measured: the roofline of
 * Williams, Waterman and Patterson ("Roofline", 2009). */
#ifndef QN_DEVICE_SPEED_H
#define QN_DEVICE_SPEED_H

#include "graph/op.h"

typedef struct qn_speed {
    double flops_per_ns, bytes_per_ns; /* of all threads together; 0: those of one typical thread */
} qn_speed;

/* Of so many threads of a processor with this one's instruction set. */
qn_speed qn_speed_typical(int n_threads);

/* Time of a call: the larger of its arithmetic and its bytes, and a little for the call. */
double qn_speed_ns(const qn_speed *speed, const qn_cost *cost);

#endif
