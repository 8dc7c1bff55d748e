/* The benchmark of labelling rows: one stream of known density (rbf.h), labelled by quern, by other
 * rules, and by the true density. */
#ifndef QN_LABEL_BENCH_H
#define QN_LABEL_BENCH_H

#include "label/bench/naming.h"
#include "label/bench/rbf.h"
#include "label/bench/score.h"
#include "quern/label.h"

enum { QN_BENCH_LABELLED = 1000, QN_BENCH_STREAM = 5000, QN_BENCH_MOST_RULES = 12 };

typedef struct qn_label_trial {
    int n_features, n_classes, n_centroids, n_found;
    double new_share;
    size_t bytes;      /* that the labeller held */
    double add_ns;     /* processor time of a sample, in the mean */
    double largest_ns; /* of one call */
    /* The true density: by the threshold that is best for the mean of both shares, found with the
     * true classes; by the likelier of new and the best known class, which makes the fewest
     * mistakes. */
    double best_balanced, best_error;
    qn_naming_score naming;
    qn_label_score ours, rules[QN_BENCH_MOST_RULES]; /* in the order of rules.h */
} qn_label_trial;

qn_status qn_label_try(const qn_allocator *allocator, const qn_rbf_options *options,
                       qn_label_trial *trial);

#endif
