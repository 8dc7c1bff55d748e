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

/* A measurement under way. Samples are compared after means over blocks: each then has mean 0 and
 * length 1. */
typedef struct qn_pose_search {
    qn_pose_samples of;
    qn_pose pose;             /* what it began with; at the end, what was found */
    int n_stream, n_labelled; /* of these */
    int64_t block, rows, columns;
    int d;           /* numbers of a sample, a multiple of a lane count with zeros at the end */
    float *stream;   /* (n_stream, d) */
    float *labelled; /* (n_labelled, d) at the angle that is tried */
    float *like;     /* (n_stream) likeness to the labelled sample that is most like it */
    float *room;     /* (n_stream) */
    uint8_t *shown;  /* a sample */
    int32_t nearest[QN_POSE_STREAM];
    float side[2][QN_POSE_STREAM], limit[2]; /* likeness at two angles, and its median there */
    float angle, tried, here, high[2];       /* best angle, the one that is tried, and scores */
    int stage, at, round;                    /* what is done next, and from which sample on */
    float now[QN_POSE_STREAM][3], then[QN_POSE_STREAM][3]; /* looks of pairs */
    int n_pairs;
} qn_pose_search;

/* Goes on from the pose as it is. room stays the search's until it is done. */
void qn_pose_begin(qn_pose_search *search, const qn_pose *pose, const qn_pose_samples *samples,
                   float *room);

/* A piece of the work; whether more is left. Changes too small to tell from chance are none. */
bool qn_pose_go_on(qn_pose_search *search);

/* All of it. */
void qn_pose_measure(qn_pose *pose, const qn_pose_samples *samples, float *room);

/* Whether it is one that measuring may find. */
bool qn_pose_is_sound(const qn_pose *pose);

#endif
