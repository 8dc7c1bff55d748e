/* The rule for held-out samples; see source.h. */
#include "base/status.h"
#include "data/source.h"

#include <math.h>

/* First sample of stretch j. */
static int64_t stretch_begin(const qn_holdout *holdout, int64_t j) {
    return (int64_t)((__int128)j * holdout->n / holdout->n_test);
}

static int64_t held_in_stretch(const qn_holdout *holdout, int64_t j) {
    int64_t begin = stretch_begin(holdout, j), length = stretch_begin(holdout, j + 1) - begin;
    return begin + (int64_t)qn_rng_below(holdout->rng, (uint64_t)j, (uint64_t)length);
}

qn_status qn_holdout_make(int64_t n, double part, uint64_t seed, qn_holdout *holdout) {
    *holdout = (qn_holdout){.n = n, .rng = qn_rng_make(seed, qn_hash_text("holdout"), 0)};
    if (part == 0)
        return QN_OK;
    if (!(part > 0 && part < 1))
        return qn_fail(QN_ERROR_ARGUMENT, "a held-out part of %g is not between 0 and 1", part);
    holdout->n_test = llround((double)n * part);
    if (holdout->n_test < 1)
        holdout->n_test = 1;
    if (holdout->n_test >= n)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "holding out a part of %g of %lld samples leaves none to train with", part,
                       (long long)n);
    return QN_OK;
}

int64_t qn_holdout_index(const qn_holdout *holdout, qn_split split, int64_t index) {
    if (holdout->n_test == 0)
        return index;
    if (split == QN_TEST)
        return held_in_stretch(holdout, index);
    /* Stretch j begins with training sample stretch_begin(j) - j: a guess, then a step or two. */
    int64_t n_train = holdout->n - holdout->n_test;
    int64_t j = (int64_t)((__int128)index * holdout->n_test / n_train);
    while (stretch_begin(holdout, j) - j > index)
        j--;
    while (j + 1 < holdout->n_test && stretch_begin(holdout, j + 1) - (j + 1) <= index)
        j++;
    int64_t number = index + j;
    return number < held_in_stretch(holdout, j) ? number : number + 1;
}
