/* How a user's samples differ from those that a model was trained with: rotated, darker or
 * brighter, with classes that are new. For simulations; the same sample is always changed alike. */
#ifndef QN_LEARN_DRIFT_H
#define QN_LEARN_DRIFT_H

#include "quern/data.h"

typedef struct qn_drift {
    double degrees; /* rotation about the centre; of each sample up to a third more or less */
    double bright;  /* factor of all values */
    int n_new;      /* the last classes, which the model has never seen */
} qn_drift;

/* "rotate:DEGREES,bright:FACTOR,classes:N", some of them, or "none". QN_ERROR_ARGUMENT says which
 * part is wrong. */
qn_status qn_drift_parse(const char *text, qn_drift *drift);

/* Changes an image (H, W, C) of bytes or floats; index: of the sample, draws its rotation. Places
 * outside of the image are 0. */
void qn_drift_apply(const qn_drift *drift, qn_shape sample, qn_dtype dtype, uint64_t index,
                    const void *from, void *to);

#endif
