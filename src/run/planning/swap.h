/* The policy of swapping: a disk among the machine's devices, and the file in a folder that plans
 * within a budget swap to. One file for all programs, since they run in turn. Its speed is measured
 * before planning, its size follows from the plans. */
#ifndef QN_RUN_PLANNING_SWAP_H
#define QN_RUN_PLANNING_SWAP_H

#include "run/engine.h"

typedef struct qn_swap {
    char *folder; /* (folder_bytes) */
    size_t folder_bytes;
    qn_swap_speed speed; /* of the folder */
} qn_swap;

/* Of an engine that has a folder; null: it has none. */
static inline qn_swap *qn_swap_of(const qn_engine *engine) {
    return engine->policies[QN_POLICY_SWAP];
}

#endif
