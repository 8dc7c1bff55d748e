/* Which samples of a set are held out, for a test or for validation.
 *
 * By content: a sample is held out if the keyed hash of its content is below the part that is asked
 * for. So it stays where it is whatever is added to the set or taken out, equal samples are on one
 * side, and the part is met on average only. A class (or a set without classes) that is large
 * enough to have one and has none is given the sample with the smallest hash: a sample that is
 * added later can make it a training sample again, but never a training sample a held-out one.
 * Likewise the largest hash of a class goes to training where none would be left, unless most
 * classes have a single sample.
 *
 * By place, as sets were divided before: the set is cut into n_test stretches of equal length, and
 * one sample of each, drawn by seed, is held out. What is added moves all others.
 *
 * Both parts keep the set's order. Leaves out what a checkpoint keeps of it (held_out.h). */
#ifndef QN_DATA_SPLIT_HOLDOUT_H
#define QN_DATA_SPLIT_HOLDOUT_H

#include "base/memory.h"
#include "base/rng.h"
#include "quern/data.h"

/* 0 <= n_test < n, or n = 0 */
typedef struct qn_holdout {
    int64_t n, n_test;
    qn_rng rng;            /* by place */
    const uint64_t *held;  /* (n) bits, 1: held out; null: by place */
    const int64_t *before; /* by block of bits: how many are held out before it */
    int64_t n_copies;      /* samples whose content another one has too, which is counted instead */
    bool is_estimate;      /* n_copies is, of a set that is large */
} qn_holdout;

/* What is divided. */
typedef struct qn_holdout_samples {
    int64_t n;
    int n_classes; /* 0: there are none */
    void *context;
    /* A number that samples of equal content share, and the class; which is left alone where there
     * are none. */
    qn_status (*look)(void *context, int64_t index, uint64_t *content, int32_t *class);
} qn_holdout_samples;

typedef struct qn_holdout_options {
    const qn_allocator *allocator; /* for what is needed meanwhile */
    double part;                   /* 0: none */
    uint64_t seed;
    const char *purpose; /* sets that are divided for two of them are divided independently */
    const char *units;   /* what equal contents are, in the plural; null: copies */
} qn_holdout_options;

/* Lists are kept in the arena. A part that leaves one of the two empty is an error. */
qn_status qn_holdout_by_content(qn_arena *arena, const qn_holdout_samples *samples,
                                const qn_holdout_options *options, qn_holdout *holdout);
qn_status qn_holdout_by_place(int64_t n, double part, uint64_t seed, qn_holdout *holdout);

/* Number in the set of sample `index` of a split. */
int64_t qn_holdout_index(const qn_holdout *holdout, qn_split split, int64_t index);

#endif
