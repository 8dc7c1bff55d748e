/* Questions of a labeller with a network, and what answers change. All samples that it keeps are
 * divided into small clusters by their features. A sample in the middle of a cluster is asked for:
 * of that cluster which holds, together with those near it, most samples that no labelled ones
 * speak for. Answers and labelled samples then spread over a graph of nearest neighbours (Zhou et
 * al. 2004, "Learning with local and global consistency"). */
#ifndef QN_LABEL_ASKING_H
#define QN_LABEL_ASKING_H

#include "label/network/net.h"

/* Places of a net in use, by the weights that answer. */
typedef struct qn_overview {
    int n;
    float *z;         /* (n, QN_EMBEDDER_WIDTH) whitened */
    qn_groups groups; /* of all of them */
    float doubt[QN_GROUPS_MOST];
    float joining;
} qn_overview;

qn_status qn_overview_make(const qn_labeller *labeller, qn_arena *arena, qn_overview *overview);

/* The place of the sample so many before the last one, and the reverse; the sample came before the
 * lesson that is under way. */
int qn_net_place_of(const qn_labeller *labeller, int64_t age);
int64_t qn_net_age_of(const qn_labeller *labeller, int place);

qn_status qn_net_ask(const qn_labeller *labeller, int most, qn_label_question *questions, int *n);

/* Takes the user's answers, which are names that classes may have, of samples that are kept; labels
 * all samples of the stream anew by them, and teaches the classifier. */
qn_status qn_net_tell(qn_labeller *labeller, int n, const int64_t *ages, const char *const *names);

#endif
