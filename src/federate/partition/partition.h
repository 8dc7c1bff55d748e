/* Which client has which training samples: a partition of a data set among clients, whose kinds are
 * those of the literature. The same specification, labels and seed give the same partition. */
#ifndef QN_FEDERATE_PARTITION_H
#define QN_FEDERATE_PARTITION_H

#include "quern/data.h"

typedef struct qn_partition {
    const qn_allocator *allocator;
    int64_t n_clients, n_samples;
    int64_t *first; /* (n_clients + 1): client i has samples[first[i]] up to samples[first[i + 1]],
                         at least one */
    int64_t *samples;     /* (n_samples): each index once */
    double largest_share; /* mean over clients of the part of its most frequent class */
} qn_partition;

/* What is divided. */
typedef struct qn_partition_classes {
    const int32_t *labels; /* (n), from 0 to n_classes - 1 */
    int64_t n;
    int n_classes;
    const char *const *names; /* (n_classes), or null: classes are numbers */
} qn_partition_classes;

/* Divides samples by a specification. Kinds have the names that the literature gives them:
 *
 *   iid           equal numbers, at random
 *   amount:S      at random; numbers of samples are log-normal with deviation S
 *   shards:N      sorted by class and cut into shards, of which a client gets N (McMahan et al.,
 *                 "Communication-efficient learning of deep networks from decentralized data",
 *                 AISTATS 2017, section 3)
 *   hsu:A         equal numbers; the classes of a client are drawn from its own mixture, which is
 *                 drawn from Dir(A p), p the classes' parts of the data (Hsu, Qi and Brown,
 *                 "Measuring the effects of non-identical data distribution", 2019, section 3);
 *                 a class that is used up is left out from there on
 *   lda:A[:N]     each class is divided among clients by parts drawn from the symmetric Dir(A); a
 *                 client that has more than the mean of samples gets no further class (Yurochkin et
 *                 al., "Bayesian nonparametric federated learning", ICML 2019, and its code). Drawn
 *                 again until everybody has N samples, usually 10
 *   pachinko:A:B:FILE  equal numbers; a client draws a superclass from its own Dir(A), and a class
 *                 of it from its own Dir(B) (Reddi et al., "Adaptive federated optimization",
 *                 ICLR 2021, appendix F). FILE: federate/partition/pachinko.c
 *   users:FILE    by whose they are (federate/partition/users.h)
 *
 * QN_ERROR_ARGUMENT: another specification, more clients (shards) than samples, or no draw of lda
 * with N samples for everybody. */
qn_status qn_partition_create(const qn_allocator *allocator, const char *specification,
                              const qn_partition_classes *classes, int64_t n_clients, uint64_t seed,
                              qn_partition *partition);

/* Divides the training samples of a data set with classes. */
qn_status qn_partition_data(const qn_allocator *allocator, const char *specification,
                            const qn_data_source *data, int64_t n_clients, uint64_t seed,
                            qn_partition *partition);

/* Test samples for each client, of the classes of its training samples: as many as those, at most
 * `most`, drawn at random from the whole test split; classes that are not in it are left out. first
 * and samples are as above, but a sample may be several clients', and a client may have none. */
qn_status qn_partition_tests(const qn_allocator *allocator, const qn_data_source *data,
                             const qn_partition *partition, int64_t most, uint64_t seed,
                             qn_partition *tests);
void qn_partition_destroy(qn_partition *partition);

#endif
