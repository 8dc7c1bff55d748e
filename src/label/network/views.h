/* Altered views of a sample, as it might look at another time: turned, shifted, larger or smaller,
 * darker or brighter, with noise. Of series, (T, 1, C): shifted and stretched in time, weaker or
 * stronger, with noise. A view is a function of the seed, its number and the sample. */
#ifndef QN_LABEL_VIEWS_H
#define QN_LABEL_VIEWS_H

#include "quern/graph.h"

/* How stored bytes become the network's numbers: (byte - shift) * factor. */
typedef struct qn_view_scale {
    float shift, factor;
} qn_view_scale;

/* The sample as it is: x (H, W, C). */
void qn_view_plain(qn_shape sample, qn_view_scale scale, const uint8_t *bytes, float *x);

/* View `number` of it. room (H * W * C) is overwritten. */
void qn_view_make(qn_shape sample, qn_view_scale scale, uint64_t seed, uint64_t number,
                  const uint8_t *bytes, float *x, float *room);

/* Sample `number` of a stream that drifts: part, 0 to 1, of the way to turned by 40 degrees, half
 * as bright, and noisy. */
void qn_view_drift(qn_shape sample, uint64_t seed, uint64_t number, float part,
                   const uint8_t *bytes, uint8_t *out);

#endif
