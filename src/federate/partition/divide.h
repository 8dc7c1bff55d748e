/* What the kinds of partition share: the samples that are being divided, in a random order. For
 * this folder alone. */
#ifndef QN_FEDERATE_DIVIDE_H
#define QN_FEDERATE_DIVIDE_H

#include "base/memory.h"
#include "federate/partition/draws.h"
#include "federate/partition/partition.h"

enum { QN_PARTITION_NUMBERS = 2 };

typedef struct qn_division {
    qn_partition *p; /* samples: a random order at first */
    const qn_partition_classes *classes;
    const char *specification; /* for messages */
    int n_numbers;
    double numbers[QN_PARTITION_NUMBERS]; /* of the specification; 0 where there is none */
    const char *path;                     /* of the specification, or null */
    int64_t *order;                       /* (n_samples): by class, at random within each */
    int64_t *begins;                      /* (n_classes + 1): where a class begins in order */
    qn_draws draws;
    qn_arena arena; /* for the kinds */
} qn_division;

/* Clients' numbers of samples become equal, or differ by one. */
void qn_divide_equally(qn_partition *p);

/* Fills order and begins. */
void qn_divide_by_class(qn_division *d);

/* Kinds of partition, as partition.h describes them. They fill first and samples. */
qn_status qn_divide_hsu(qn_division *d);
qn_status qn_divide_lda(qn_division *d);
qn_status qn_divide_pachinko(qn_division *d);

#endif
