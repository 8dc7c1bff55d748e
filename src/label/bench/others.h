/* Other methods of labelling samples by their features, for comparison: usual ones that know only
 * the classes that have labels, and one that finds new ones and is told how many there are. Each
 * is given the features of the labelled samples and of the window, and labels the window. */
#ifndef QN_LABEL_OTHERS_H
#define QN_LABEL_OTHERS_H

#include "base/memory.h"

#include <stdbool.h>
#include <stdint.h>

/* Samples: the first n_labelled have a label, below n_known. */
typedef struct qn_others {
    const qn_allocator *allocator;
    int n, n_labelled, d, n_known;
    int n_new; /* classes that are new, for a method that is told */
    uint64_t seed;
    const float *z;       /* (n, d) */
    const int32_t *label; /* (n_labelled) */
} qn_others;

typedef struct qn_other {
    const char *name;
    bool is_told; /* how many classes are new */
    /* Fills answers (n), from n_labelled on: below n_known, or n_known and above for new ones. */
    qn_status (*answer)(const qn_others *others, int32_t *answers);
} qn_other;

/* Those that learn what labels have. */
qn_status qn_other_transfer(const qn_others *others, int32_t *answers);
qn_status qn_other_self_training(const qn_others *others, int32_t *answers);
qn_status qn_other_machines(const qn_others *others, int32_t *answers);
qn_status qn_other_boosting(const qn_others *others, int32_t *answers);

/* The methods in a fixed order; null beyond the last. */
const qn_other *qn_other_at(int index);

#endif
