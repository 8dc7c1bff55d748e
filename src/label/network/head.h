/* Whitening of features, and a classifier over them: multinomial logistic regression with a
 * weight for each sample. Plain loops in a fixed order: equal input gives equal bits. */
#ifndef QN_LABEL_HEAD_H
#define QN_LABEL_HEAD_H

#include <stdbool.h>
#include <stdint.h>

enum { QN_HEAD_MOST_FEATURES = 64, QN_HEAD_MOST_OUTPUTS = 272 };

/* A linear map in which the features of one class have variance 1 and no correlation: row i of w
 * times (z - mean), for columns up to i. */
typedef struct qn_whitening {
    int d;
    float w[QN_HEAD_MOST_FEATURES + 1][QN_HEAD_MOST_FEATURES]; /* the last row is the mean */
} qn_whitening;

/* From n samples z (n, d) with classes label (n), from 0 to n_classes - 1; below 0: not counted.
 * The covariance within classes is drawn towards its mean diagonal by the part shrink.
 * room (n_classes * (d + 1)). */
void qn_whitening_measure(qn_whitening *whitening, int n, int d, const float *z,
                          const int32_t *label, int n_classes, float shrink, float *room);

/* Replaces z (n, d) by what the map makes of it. */
void qn_whitening_apply(const qn_whitening *whitening, int n, float *z);

/* weight (d + 1, n_outputs): the last row is the bias. */
typedef struct qn_head {
    int d, n_outputs;
    float *weight;
    const uint8_t *is_open; /* (n_outputs) only these classes are answers */
    int n_used;             /* outputs up to the last open one, in whole lanes; 0: all */
} qn_head;

/* Counts n_used; to be called when is_open has changed. Weights from there on are 0. */
void qn_head_count_used(qn_head *head);

/* What is known of samples without a label: ratio (periods, n_outputs), how often a class comes in
 * a period beside over all times; share (cells, n_outputs), the part that it has of a cell;
 * own: how much the classifier's own probabilities count beside these parts, from 0 to 1. */
typedef struct qn_head_clues {
    const uint8_t *period; /* of each sample */
    const float *ratio;
    const int32_t *cell; /* of each sample */
    const float *share;
    float own;
} qn_head_clues;

/* A step of fitting it to samples z (n, d) that have a weight above 0, in pieces: gathers what
 * samples `begin` to `end` - 1 say, from 0 on, and then moves, step `step` of n_steps. Samples with
 * a label below 0 are passed over without clues; with clues they count as of each class by its
 * probability, parts and own, times ratio (generalised expectation-maximisation: Neal and Hinton
 * 1998). A move takes a gradient relative to its size, if that is far above `least`.
 * room (2 * n_outputs * (d + 1) + 1), kept between pieces. */
void qn_head_gather(qn_head *head, int begin, int end, const float *z, const int32_t *label,
                    const float *weight, const qn_head_clues *clues, float *room);
void qn_head_move(qn_head *head, int step, int n_steps, float least, float *room);

/* All of it. It goes on from the weights as they are. */
void qn_head_fit(qn_head *head, int n, const float *z, const int32_t *label, const float *weight,
                 int n_steps, float *room);

/* Probabilities p (n_outputs) of the classes of a sample; 0 for those that are not open. */
void qn_head_look(const qn_head *head, const float *z, float *p);

#endif
