/* Divides a data set that was opened into training, test and validation samples, for all formats. A
 * format gives all of its samples as QN_TRAIN, in its own order; what reads afterwards sees them
 * divided. */
#ifndef QN_DATA_SPLIT_DIVIDE_H
#define QN_DATA_SPLIT_DIVIDE_H

#include "data/source.h"
#include "data/split/holdout.h"

/* In the source's arena. */
typedef struct qn_division {
    qn_holdout test;       /* of the format's samples */
    qn_holdout validation; /* of those that are left */
    /* The format's. */
    qn_status (*read)(void *self, qn_split split, int64_t index, void *x, void *y);
    qn_status (*read_class)(void *self, qn_split split, int64_t index, int32_t *class);
    qn_status (*read_weight)(void *self, qn_split split, int64_t index, float *weight);
} qn_division;

/* Holds out test samples, where the set has none of its own and options or format ask for some, and
 * validation samples, where options do. Says how many are copies of others, and how many of those
 * that a checkpoint was trained on are test samples now. */
qn_status qn_source_divide(qn_source_base *base, qn_data_source *source);

/* The format's number of a training sample. */
int64_t qn_source_training_sample(const qn_source_base *base, int64_t index);

#endif
