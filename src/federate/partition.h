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
    int64_t *samples; /* (n_samples): each index once */
} qn_partition;

/* Divides n samples with classes labels (n), from 0 to n_classes - 1. Specifications:
 *
 *   iid           equal numbers, at random
 *   amount:S      at random; numbers of samples are log-normal with deviation S
 *   classes:K     sorted by class and cut into shards, of which a client gets K (McMahan et al.,
 *                 "Communication-efficient learning of deep networks from decentralized data",
 *                 AISTATS 2017, section 3)
 *   dirichlet:A   equal numbers; the classes of a client are drawn from its own mixture, which is
 *                 drawn from a symmetric Dirichlet law with concentration A (Hsu, Qi and Brown,
 *                 "Measuring the effects of non-identical data distribution", 2019, section 3);
 *                 clients that come late get what classes are left
 *   users:FILE    by whose they are (federate/users.h)
 *
 * QN_ERROR_ARGUMENT: another specification, or more clients (shards) than samples. */
qn_status qn_partition_create(const qn_allocator *allocator, const char *specification,
                              const int32_t *labels, int64_t n, int n_classes, int64_t n_clients,
                              uint64_t seed, qn_partition *partition);

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
