/* What can be counted in the samples of a data set before anything is trained on them: classes,
 * what knowing nothing would give, samples on both sides of the split, columns that say nothing.
 * One pass over the samples; memory is 16 bytes for each that is compared, and a few for each
 * class and column. */
#ifndef QN_DATA_LOOK_LOOK_H
#define QN_DATA_LOOK_LOOK_H

#include "base/memory.h"
#include "quern/data.h"

enum {
    QN_LOOK_FEW = 10,       /* a class of fewer training samples cannot be learned or judged */
    QN_LOOK_UNEVEN = 20,    /* the commonest class is so many times as common as the rarest */
    QN_LOOK_COLUMNS = 4096, /* samples of more numbers are no rows whose columns are looked at */
    QN_LOOK_NAMED = 8       /* columns that are named */
};

/* Columns of one kind: how many, and the first of them. */
typedef struct qn_look_columns {
    int64_t n;
    int64_t first[QN_LOOK_NAMED];
} qn_look_columns;

typedef struct qn_look_options {
    qn_shape delivered;    /* shape in which samples come, where their sizes differ */
    int64_t most_compared; /* samples of a split beyond these are only counted */
} qn_look_options;

typedef struct qn_look {
    const qn_allocator *allocator;
    int n_classes;         /* 0: targets are numbers, or labels */
    int n_labels;          /* 0: a sample has a class, or numbers */
    int64_t *counts;       /* (QN_SPLITS, n_classes or n_labels) */
    int commonest, rarest; /* by training samples, or by test samples where there are no others;
                                rarest of those that have any */
    int n_few;             /* classes of fewer than QN_LOOK_FEW training samples, but some */
    int n_absent;          /* classes without any */
    double by_commonest[QN_SPLITS]; /* accuracy of always answering it; NaN: no samples */
    /* numbers: the first target's, of the training samples */
    double mean, deviation, least, most;
    double by_mean[QN_SPLITS]; /* root mean square error of always answering the mean */
    int64_t n_compared;        /* samples */
    int64_t n_several, n_bare; /* samples of several labels, of none */
    bool is_part;              /* others were not compared */
    int64_t n_across;          /* test and validation samples that are training samples, too */
    int64_t n_contrary;        /* samples equal to one of another class */
    qn_look_columns constant, counting; /* columns that never change, that count rows */
} qn_look;

/* Looks at an open source. What fails leaves nothing to deinit. */
qn_status qn_look_at(const qn_allocator *allocator, const qn_data_source *source,
                     const qn_look_options *options, qn_look *look);
void qn_look_deinit(qn_look *look);

#endif
