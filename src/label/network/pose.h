/* How the samples of a stream have changed since the labelled ones were taken: turned,
 * darker or brighter, noisy. Series are not turned. It is measured without any
 * labels: that pose is best in which the labelled samples are most like the samples of the stream
 * that they are like at all. */
#ifndef QN_LABEL_POSE_H
#define QN_LABEL_POSE_H

#include "label/network/views.h"

#include <stdbool.h>

enum {
    QN_POSE_STREAM = 256,   /* samples of the stream that are looked at, at most */
    QN_POSE_LABELLED = 384, /* and labelled ones */
    QN_POSE_VALUES = 768    /* numbers of each, after means over blocks */
};

typedef struct qn_pose_samples {
    qn_shape sample;                  /* (H, W, C) */
    int n_labelled, n_stream;         /* n_stream above 0 */
    const uint8_t *labelled, *stream; /* (n, sample) */
    const int32_t *order;             /* (n_stream) places in stream */
} qn_pose_samples;

/* Floats of room that measuring takes. */
size_t qn_pose_room(qn_shape sample);

/* Goes on from the pose as it is. Changes too small to tell from chance are none. */
void qn_pose_measure(qn_pose *pose, const qn_pose_samples *samples, float *room);

/* Whether it is one that measuring may find. */
bool qn_pose_is_sound(const qn_pose *pose);

#endif
