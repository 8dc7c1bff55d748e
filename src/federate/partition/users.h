/* A partition of samples by whose they are. */
#ifndef QN_FEDERATE_USERS_H
#define QN_FEDERATE_USERS_H

#include "federate/partition/partition.h"

/* path: a text of n lines, line i the name of the user whose training sample i is. Each user is a
 * client, the one with the most samples first; where there are more users than clients, they are
 * dealt out to them in that order. QN_ERROR_ARGUMENT: more clients than users. QN_ERROR_FORMAT:
 * another number of lines, or one that is empty. */
qn_status qn_partition_users(const qn_allocator *allocator, const char *path, int64_t n,
                             int64_t n_clients, qn_partition *partition);

#endif
