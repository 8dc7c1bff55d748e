/* Choosing the next token by the logits of a language model: the likeliest, or one drawn after a
 * temperature, among so many likeliest, or among those that together are likely enough (Holtzman et
 * al. 2020); tokens that were there before may be made less likely (Keskar et al. 2019). */
#ifndef QN_TASKS_LANGUAGE_CHOOSE_H
#define QN_TASKS_LANGUAGE_CHOOSE_H

#include "base/memory.h"

typedef struct qn_choosing {
    double temperature; /* 0: the likeliest */
    int64_t top_k;      /* 0: all */
    double top_p;       /* 0 or 1: all */
    double penalty;     /* logits of tokens that were there are divided by it, those below 0
                           multiplied; 0 or 1: none */
} qn_choosing;

/* A token and its logit. */
typedef struct qn_candidate {
    float logit;
    int32_t token;
} qn_candidate;

/* The token that uniform, in [0, 1), chooses among n; before (n_before) were there. candidates (n)
 * is scratch. */
int32_t qn_choose_token(const qn_choosing *how, const float *logits, int64_t n,
                        const int32_t *before, size_t n_before, double uniform,
                        qn_candidate *candidates);

#endif
