/* The limits of the control groups that this process is in: what a container, a service or a batch
 * system lets it take. Versions 1 and 2, nested groups (the narrowest limit of all of them counts),
 * and containers that show their own group as the top. Reads files only; allocates nothing. */
#ifndef QN_OS_PROCESS_GROUP_H
#define QN_OS_PROCESS_GROUP_H

#include <stdint.h>

typedef struct qn_group {
    int64_t memory_bytes; /* the narrowest limit; -1: none */
    int64_t left_bytes;   /* of the limit with the least left, cached files that can go counted as
                             left; -1: no limit */
    double cpus;          /* processors that the narrowest quota pays for; 0: no quota */
} qn_group;

/* root: "", or the folder of a test that stands for "/". */
void qn_group_read(const char *root, qn_group *group);

#endif
