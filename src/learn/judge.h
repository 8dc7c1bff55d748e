/* Whether a candidate replaces the model: a paired test on held-out samples. Only those on which
 * the two differ count (the sign test, which is McNemar's exact one). */
#ifndef QN_LEARN_JUDGE_H
#define QN_LEARN_JUDGE_H

#include "quern/base.h"

/*     n_better + n_worse <= n */
typedef struct qn_comparison {
    int64_t n;        /* samples */
    int64_t n_right;  /* of the candidate */
    int64_t n_better; /* that became right */
    int64_t n_worse;  /* that became wrong */
} qn_comparison;

/* The chance that a fair coin gives at least n_better heads in n_better + n_worse throws: of seeing
 * such a gain where there is none. */
double qn_comparison_chance(const qn_comparison *comparison);

/* Counts samples by whether the model and the candidate are right. */
qn_comparison qn_comparison_make(const bool *model, const bool *candidate, int64_t n);

/* On recent samples the candidate must be better, by chance in at most `most` of cases; on old
 * samples it may be wrong on at most n_forgotten more than any version so far, of which the best
 * was right on best_old. */
bool qn_judge(const qn_comparison *recent, const qn_comparison *old, double most, int64_t best_old,
              int64_t n_forgotten);

#endif
