/* What the looks at samples say of data: labels that are probably wrong, mistakes, doubtful
 * samples, duplicates, and what of a class is typical. By two witnesses: the nearest neighbours of
 * each sample among the features (k nearest, weighted by distance on the scale of the
 * neighbourhood), and the answers of layers that were fitted without it (confident learning,
 * Northcutt et al. 2021, by self-confidence). Deterministic; by one thread. Leaves out: samples
 * beyond QN_FINDINGS_MOST, since all are compared with each other. */
#ifndef QN_TASKS_FEATURES_FINDINGS_H
#define QN_TASKS_FEATURES_FINDINGS_H

#include "tasks/features/looking.h"

enum {
    QN_FINDINGS_MOST = 10000, /* samples that are compared */
    QN_FINDINGS_NEAREST = 10  /* neighbours that have a vote */
};

typedef struct qn_sample_finding {
    qn_split split;
    int64_t index;    /* within the split */
    int32_t label;    /* its class in the data */
    int32_t answer;   /* of the network, or of a layer that was fitted without the sample */
    float chance;     /* of the answer */
    float trust;      /* in the label: votes and answers for it, 0 to 1 */
    int32_t suggest;  /* the class that has more of both; label: there is none */
    float suggestion; /* its votes and answers */
    float votes;      /* part of the neighbours' that it has */
    int64_t nearest;  /* the nearest other sample; -1: none */
    float distance;   /* to it: 0 to about 2, of features of length 1 */
    float from_mean;  /* to the mean of its class */
    bool is_judged;   /* the answer is of one that did not learn from it */
} qn_sample_finding;

typedef struct qn_class_finding {
    int64_t n, n_judged, n_right, n_unsure;
    int64_t n_suspect; /* labels that are probably wrong */
    int32_t taken_for; /* the class that mistakes name most; -1: there are none */
    int64_t n_taken;
    float need; /* how much more pictures of it would help: 0 none, 1 much */
} qn_class_finding;

typedef struct qn_findings {
    const qn_allocator *allocator;
    int64_t n, n_left_out; /* compared; beyond QN_FINDINGS_MOST */
    int n_classes;
    qn_sample_finding *samples; /* (n), as the looks */
    qn_class_finding *classes;  /* (n_classes) */
    int64_t *by_need;           /* (n_classes) numbers of classes, those that need most first */
    /* Numbers of samples, each list the strongest first. Mistakes: wrong answers where the label is
     * no suspect. */
    int64_t *suspects, *mistakes, *doubtful, *duplicates;
    int64_t n_suspects, n_mistakes, n_doubtful, n_duplicates; /* duplicate: with its nearest, the
                                                                 lower number of a pair */
    float unsure;                                             /* an answer of less chance is */
    double accuracy, calibration; /* of those that are judged; NaN: none are */
} qn_findings;

/* unsure: the chance that the network's settings have; 0: that of the fit. Copes with deinit after
 * a failure, too. */
qn_status qn_findings_make(const qn_sample_looks *looks, double unsure,
                           bool (*should_stop)(void *user), void *user, qn_findings *findings);
void qn_findings_deinit(qn_findings *findings);

#endif
