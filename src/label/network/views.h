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

/* How samples are turned, lit and disturbed. */
enum {
    QN_POSE_ANGLE, /* radians; of pictures */
    QN_POSE_LIGHT, /* a logarithm */
    QN_POSE_NOISE, /* deviation, of bytes */
    QN_POSE_PARTS
};

typedef struct qn_pose {
    float part[QN_POSE_PARTS]; /* all 0: as they are */
} qn_pose;

/* The sample as it is: x (H, W, C). */
void qn_view_plain(qn_shape sample, qn_view_scale scale, const uint8_t *bytes, float *x);

/* View `number` of it. room (H * W * C) is overwritten. */
void qn_view_make(qn_shape sample, qn_view_scale scale, uint64_t seed, uint64_t number,
                  const uint8_t *bytes, float *x, float *room);

/* Sample `number` in a pose. */
void qn_view_show(qn_shape sample, const qn_pose *pose, uint64_t seed, uint64_t number,
                  const uint8_t *bytes, uint8_t *out);

#endif
