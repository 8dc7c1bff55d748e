/* What all data sets share: their row in the list of formats, memory that lives until they are
 * closed, the rule for held-out parts and the statistics of the training set. A new format is one
 * file and one row in source.c. */
#ifndef QN_DATA_SOURCE_H
#define QN_DATA_SOURCE_H

#include "base/memory.h"
#include "base/rng.h"
#include "data/facts.h"
#include "quern/data.h"
#include "tensor/tensor.h"

typedef struct qn_data_format qn_data_format;

/* First member of every source of this floor. */
typedef struct qn_source_base {
    const qn_data_format *format;
    qn_data_options options;   /* the allocator is never null */
    qn_arena arena;            /* names, lists and statistics, until close */
    const char *argument;      /* what followed the colon, in arena */
    const qn_samples *samples; /* instead of an argument, while it is opened (samples.c) */
    bool needs_no_training;    /* there may be no training samples */
    bool wants_statistics;     /* mean and deviation of the training set, per channel or column */
    qn_data_facts facts;       /* what is understood; the format fills it while it opens */
    const bool *are_marks;     /* (C) features that are 0 or 1 and stay so; null: none */
    struct qn_holdout *validation; /* of the format's training samples, in arena; null: none */
    qn_status (*read)(void *self, qn_split split, int64_t index, void *x, void *y); /* format's */
    qn_status (*read_class)(void *self, qn_split split, int64_t index, int32_t *class); /* too */
    qn_status (*read_weight)(void *self, qn_split split, int64_t index, float *weight); /* too */
} qn_source_base;

struct qn_data_format {
    const char *name;  /* what the specification starts with */
    const char *usage; /* what follows the colon; null: nothing */
    size_t self_bytes; /* of the structure that begins with qn_source_base */
    /* Opens; fills source but for self, name and close. On failure, release is called. */
    qn_status (*open)(qn_source_base *base, qn_data_source *source);
    void (*release)(qn_source_base *base); /* closes files; may be null */
};

/* Opens a source of a format. specification: its name; given->argument or samples: what it is of.
 */
qn_status qn_source_open(const qn_data_format *format, const qn_source_base *given,
                         const char *specification, const qn_data_options *options,
                         qn_data_source *source);

/* Tells the user's log, if there is one (level 0 notice, 1 warning). */
void qn_data_tell(const qn_source_base *base, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Which samples of a file are held out for testing: the file is cut into n_test stretches of equal
 * length, and one sample of each, drawn by seed, is held out. So a file sorted by class gives some
 * of each, both parts keep the file's order, and no list is kept.
 *     0 <= n_test < n, or n_test = 0 */
typedef struct qn_holdout {
    int64_t n, n_test;
    qn_rng rng;
} qn_holdout;

/* The rule for part of n samples (0: none). A part that leaves one of the two empty is an error. */
qn_status qn_holdout_make(int64_t n, double part, uint64_t seed, qn_holdout *holdout);

/* Number in the file of sample `index` of a split. */
int64_t qn_holdout_index(const qn_holdout *holdout, qn_split split, int64_t index);

/* Measures mean and deviation over the training samples, in the source's arena, and puts them into
 * source->preparation: one for each channel or column. */
qn_status qn_statistics_measure(qn_source_base *base, qn_data_source *source);

/* Likewise of numeric targets that have to be scaled; of others nothing is kept. */
qn_status qn_targets_measure(qn_source_base *base, qn_data_source *source);

#endif
