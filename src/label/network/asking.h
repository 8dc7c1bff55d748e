/* Questions of a labeller with a network, and what answers change. All samples that it keeps are
 * divided into small cells by their features. Asked for are a sample of each found class without a
 * name, the largest first, and then samples in the middle of cells which hold, together with those
 * near them, most samples that no labelled ones speak for and that came late. Answers and labelled
 * samples then spread over a graph of nearest neighbours (Zhou et al. 2004, "Learning with local
 * and global consistency"); a found class has nothing of what came before it began. */
#ifndef QN_LABEL_ASKING_H
#define QN_LABEL_ASKING_H

#include "label/network/net.h"

/* Places of a net in use, by the weights that answer. */
typedef struct qn_overview {
    int n;
    float *z;         /* (n, QN_EMBEDDER_WIDTH) whitened */
    qn_groups groups; /* of all of them */
    float doubt[QN_GROUPS_MOST];
    int n_periods;   /* with equal numbers of the samples that are kept; 1 under drift */
    uint8_t *period; /* (n) of samples of the stream */
    float *count;    /* (QN_GROUPS_MOST, QN_ARRIVALS_PERIODS) samples of the stream */
    float total[QN_ARRIVALS_PERIODS];
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
