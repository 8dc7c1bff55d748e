/* Consistency training, for comparison: a network that learns the labelled samples and, of the
 * stream, altered views of what it is sure of when it sees them unaltered (Sohn et al. 2020,
 * "FixMatch"). The network, its views and its steps are those of a labeller, without the
 * contrastive loss and what finds classes: it knows those that have labels alone. Samples of the
 * stream are those of a labeller's window. */
#ifndef QN_LABEL_CONSISTENCY_H
#define QN_LABEL_CONSISTENCY_H

#include "label/network/net.h"

typedef struct qn_consistency {
    const qn_allocator *allocator;
    qn_embedder *embedder;
    int n_known;
    size_t n_batch; /* numbers of x */
    float *x;
    int64_t n_drawn;
    uint64_t seed;
} qn_consistency;

/* For a labeller's samples; its classes are those that are known. */
qn_status qn_consistency_init(qn_consistency *consistency, const qn_label_net *net, int n_threads);
void qn_consistency_deinit(qn_consistency *consistency);

/* Learns n_steps from the labelled samples and the window of the net. */
qn_status qn_consistency_learn(qn_consistency *consistency, const qn_label_net *net, int n_steps);

/* Its answers for the labelled samples and the window, by their places. */
qn_status qn_consistency_answer(qn_consistency *consistency, const qn_label_net *net,
                                int32_t *answers);

#endif
