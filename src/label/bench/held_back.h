/* The benchmark of labelling rows on a real data set: classes are drawn to be held back, samples of
 * the others are labelled, and the rest of the data set is the stream. No true density is known. */
#ifndef QN_LABEL_HELD_BACK_H
#define QN_LABEL_HELD_BACK_H

#include "label/bench/bench.h"
#include "label/bench/rules.h"

#include <stdbool.h>

typedef struct qn_held_back_options {
    uint64_t seed;    /* draws the known classes, the labelled samples and the order */
    bool nothing_new; /* the classes held back are left out of the stream too */
} qn_held_back_options;

/* Half of the classes (rounded up) are known; a third of their samples, at most QN_BENCH_LABELLED
 * and at least one per class, are labelled. The stream has at most QN_BENCH_STREAM samples. Fewer
 * than two classes or two labelled samples are QN_ERROR_ARGUMENT. trial: best_* and n_centroids are
 * 0. */
qn_status qn_label_try_held_back(const qn_allocator *allocator, const qn_label_known *all,
                                 const qn_held_back_options *options, qn_label_trial *trial);

#endif
