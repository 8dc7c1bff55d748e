/* A lesson of a labeller with a network, in pieces of a few milliseconds. It works on copies: until
 * its end the labeller answers by what it knew before, and what a lesson sees does not change, so
 * that all follows from the samples before it, whenever its pieces are done. */
#ifndef QN_LABEL_LESSON_H
#define QN_LABEL_LESSON_H

#include "label/labeller.h"
#include "label/network/groups.h"
#include "label/network/head.h"
#include "label/network/pose.h"

enum {
    QN_NET_EVERY = 600, /* samples between lessons */
    QN_NET_POSES = 3    /* of the window: one for each lesson in it */
};

/* What a lesson has made so far. */
typedef struct qn_lesson {
    int64_t begun_at; /* samples by then */
    bool is_under_way;
    bool is_loaded; /* the embedder has the lesson's weights, and the array weights those that
                       answer; else the other way round */
    int phase, at;  /* what is next, and which part of it */
    int n_steps, n_done;
    int64_t n_drawn;
    qn_pose pose[QN_NET_POSES];
    qn_pose_search search;
    int32_t order[QN_NET_EVERY];
    bool is_review;  /* what it finds is for the samples that are kept, not for answers */
    bool by_arrival; /* classes are found by arrivals of all samples, not by groups of the latest */
    uint8_t *period; /* (places) of samples of the stream */
    float *ratio;    /* (QN_ARRIVALS_PERIODS, outputs) of classes in a period to all periods */
    float *share;    /* (cells, outputs) parts that classes have of cells, of a review */
    qn_whitening whitening;
    qn_head head;
    uint8_t is_open[QN_HEAD_MOST_OUTPUTS];
    int32_t class[QN_GROUPS_CLUSTERS]; /* of groups */
    int32_t begun[QN_GROUPS_CLUSTERS]; /* places of found classes that begin with it */
    int n_begun;
    float *weights;
    int32_t *label;    /* (places) */
    float *confidence; /* (places) */
    float *is_new;     /* (places) */
} qn_lesson;

struct qn_label_net;

/* Samples after which the latest lesson until then began, below 0: none. */
int64_t qn_lesson_before(int64_t n_samples);

/* Begins one with n_steps of the embedder. None is under way. */
void qn_lesson_begin(qn_labeller *labeller, int64_t begun_at, int n_steps);

/* Does a piece; at the end nothing is left to do but to end it. */
qn_status qn_lesson_work(qn_labeller *labeller, bool *is_left);

/* Does what should be done n of the QN_NET_DELAY samples after it began, and ends it after the
 * last. */
qn_status qn_lesson_follow(qn_labeller *labeller, int64_t n);

/* Looks at all samples that are kept once more, and labels them by what is known by now. Later
 * lessons go on from there. Changes nothing where times tell nothing, or before the second lesson
 * has ended. */
qn_status qn_lesson_review(qn_labeller *labeller, int64_t *n_changed);

/* Makes sure that the embedder has the weights that answer, or those of the lesson. */
void qn_lesson_load(struct qn_label_net *net, bool is_lesson);

/* Teaching the classifier, and what is found for it (teaching.c). */
void qn_lesson_identify(qn_labeller *labeller);
bool qn_lesson_teach(struct qn_label_net *net, int piece); /* whether more pieces are left */
int qn_lesson_teachings(const struct qn_label_net *net);   /* pieces of it */

#endif
