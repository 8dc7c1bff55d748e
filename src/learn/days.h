/* Days of learning, simulated: a classifier that was trained elsewhere, a user whose pictures
 * differ from those it was trained with, and what the time that a device allows is used for. */
#ifndef QN_LEARN_DAYS_H
#define QN_LEARN_DAYS_H

#include "learn/drift.h"
#include "learn/learner.h"
#include "learn/replay.h"

typedef struct qn_days_options {
    const qn_allocator *allocator;
    const qn_model *model;
    qn_data_source *data; /* open, with classes and a sample shape (H, W, C) */
    qn_drift drift;
    int64_t n_start; /* samples that the model is trained with before the first day */
    int64_t n_daily; /* samples of a day */
    int64_t n_kept;  /* of each origin, as the learner's */
    int64_t n_test;  /* test samples, of each kind */
    double start_epochs;
    const char *weights; /* of the model before the first day, instead of training; null: none */
    int n_threads;
    uint64_t seed;
} qn_days_options;

/* A day's learning. Accuracies are of test samples, which no learner sees. */
typedef struct qn_day_result {
    qn_learned learned;
    double user_accuracy; /* on the user's pictures, of all classes */
    double old_accuracy;  /* on pictures as the model knew them */
} qn_day_result;

typedef struct qn_days qn_days;

/* Trains the model before the first day, or loads it. result: the state then. */
qn_status qn_days_create(const qn_days_options *options, qn_days **days, qn_day_result *start);
void qn_days_destroy(qn_days *days);

/* The samples of the next day come. wanted_flops: the work that learning them is. */
qn_status qn_days_receive(qn_days *days, double *wanted_flops);

/* The day's learning, with the operations that the device was allowed. */
qn_status qn_days_learn(qn_days *days, double flops, qn_day_result *result);

/* Writes the model in use, as quern evaluate and predict read it. */
qn_status qn_days_save(qn_days *days, const char *path);

/* Before the first day: keeps room on the disk for that. */
qn_status qn_days_keep_room(qn_days *days, const char *path);

#endif
