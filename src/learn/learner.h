/* Learns a classifier from a drip of samples: the newest mixed with a bounded memory of earlier
 * ones, the whole network or its head as effort allows. A candidate replaces the model only when
 * it is better on held-out samples (learn/judge.h). A round of training can be kept and resumed
 * between any two steps. The same options and samples give the same bits for any number of threads,
 * and for any resume. */
#ifndef QN_LEARN_LEARNER_H
#define QN_LEARN_LEARNER_H

#include "learn/judge.h"
#include "learn/samples.h"
#include "quern/trainer.h"

typedef struct qn_learner_options {
    const qn_allocator *allocator;
    const qn_model *model; /* a classifier */
    qn_shape input;
    int n_classes;
    int64_t n_kept;        /* user's samples that are kept to train on; of the old likewise */
    int64_t n_held_out;    /* and to judge by */
    int64_t batch, epochs; /* of a day: passes over what is kept */
    double rate;           /* learning rate; 0: a fifth of the recipe's */
    double most_chance;    /* at which a gain is one (qn_judge); 0: 0.05 */
    double most_forgotten; /* part of the old held-out samples; 0: 0.005 */
    int n_threads;
    uint64_t seed;
    size_t memory_bytes; /* of the engine; 0: no limit */
    /* Asked before each batch of a judgement, which ends with QN_ERROR_INTERRUPTED; may be null. */
    bool (*should_stop)(void *user);
    void *user;
} qn_learner_options;

typedef struct qn_learner qn_learner;

qn_status qn_learner_create(const qn_learner_options *options, qn_learner **learner);
void qn_learner_destroy(qn_learner *learner);

/* Begins with the weights of an engine of the same network. */
qn_status qn_learner_begin(qn_learner *learner, const qn_engine *engine);

/* Where samples come from: what the model was trained with before, or the user. */
typedef enum qn_origin { QN_ORIGIN_OLD, QN_ORIGIN_USER } qn_origin;

/* What a sample is for: of those that are drawn, one in four is held out. */
typedef enum qn_sample_use { QN_USE_DRAWN, QN_USE_TRAIN, QN_USE_TEST } qn_sample_use;

/* Where an offered sample went: one that was at that place is kept no longer. */
typedef struct qn_placing {
    bool is_held_out;
    int64_t place; /* -1: it is not kept */
} qn_placing;

/* Offers a sample: x (n_values of the input), prepared; label below n_classes. placing may be null.
 */
qn_status qn_learner_offer(qn_learner *learner, qn_origin origin, qn_sample_use use, const float *x,
                           int32_t label, qn_placing *placing);

/* What is kept of an origin, to train on or to judge by. */
qn_sample_memory *qn_learner_memory(qn_learner *learner, qn_origin origin, bool is_held_out);

/* Whether a round has yet to judge by the user's held-out sample at a place: it has by one that is
 * offered; of those that a caller fills in, it says so. */
void qn_learner_note_new(qn_learner *learner, int64_t place, bool is_new);

/* The work of a day's learning of the whole network, in floating point operations. */
double qn_learner_wanted_flops(const qn_learner *learner);

typedef struct qn_learned {
    bool has_tried; /* false: too few samples, or too little effort for a step */
    bool has_replaced, is_head;
    int64_t n_steps, version; /* the version that is in use afterwards, from 0 */
    double flops;
    double part; /* of the way from the model to what was trained, that the candidate is */
    qn_comparison recent, old;
    double chance; /* of recent */
    int64_t n_new,
        n_new_wrong; /* the user's held-out samples that were judged by for the first time,
                                   and those that the model before was wrong on */
} qn_learned;

/* Trains a candidate with at most so many operations, and judges it. Of effort that is too small
 * for a pass over what is kept, the head is trained alone. */
qn_status qn_learner_learn(qn_learner *learner, double flops, qn_learned *learned);

/* ---- rounds, step by step ----
 * Begin, steps until none is left, end: what learn does with effort enough. */

/* Whether there are samples enough. */
bool qn_learner_can_begin(const qn_learner *learner);

/* Begins a candidate from the model. */
void qn_learner_begin_round(qn_learner *learner);

/* Steps that the round still takes. */
int64_t qn_learner_steps_left(const qn_learner *learner);

/* One step; QN_ERROR_NUMERIC: it diverged, and the round is of no use. */
qn_status qn_learner_step(qn_learner *learner);

/* Judges the candidate. QN_ERROR_INTERRUPTED: it was stopped, and may be asked for again. */
qn_status qn_learner_end_round(qn_learner *learner, qn_learned *learned);

/* Ends a round without a candidate. */
void qn_learner_drop_round(qn_learner *learner);

/* What a learner knows besides samples and weights. */
typedef struct qn_learner_state {
    int64_t n_offered[2]; /* by origin */
    int64_t n_tried, best_old, version;
    int64_t step, n_steps; /* of the round; n_steps 0: there is none */
} qn_learner_state;

qn_learner_state qn_learner_get_state(const qn_learner *learner);

/* The candidate as it is between two steps. */
size_t qn_learner_round_bytes(const qn_learner *learner);
void qn_learner_save_round(const qn_learner *learner, void *to);

/* Goes on from what was kept: weights of the model (n of qn_learner_weights), and of the round,
 * where the state has one. The samples' memories are the caller's to fill. */
const float *qn_learner_weights(const qn_learner *learner, int64_t *n);
void qn_learner_resume(qn_learner *learner, const qn_learner_state *state, const float *weights,
                       const void *round);

int64_t qn_learner_version(const qn_learner *learner);

/* Evaluates the model on samples x (n, n_values): *n_right of the labels. */
qn_status qn_learner_test(qn_learner *learner, const float *x, const int32_t *labels, int64_t n,
                          int64_t *n_right);

/* The engine, which holds the model's weights between calls and rounds: to save a checkpoint. */
qn_engine *qn_learner_engine(qn_learner *learner);

#endif
