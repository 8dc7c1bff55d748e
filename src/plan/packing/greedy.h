/* A packing problem in the packer's form: times are compressed to sections, with some box beginning
 * or ending between any two; and greedy orders. Internal to the packer. */
#ifndef QN_PLAN_PACKING_GREEDY_H
#define QN_PLAN_PACKING_GREEDY_H

#include "plan/packing/packing.h"

/* A box of some bytes, alive in sections [lower, upper). */
typedef struct qn_packed_box {
    size_t bytes, offset;
    int32_t lower, upper;
    int32_t id; /* which of the problem's boxes */
} qn_packed_box;

/* What lies at offsets [offset, end) in sections [lower, upper). */
typedef struct qn_packed_range {
    size_t offset, end;
    int32_t lower, upper;
} qn_packed_range;

/* Invariants:
 *     boxes[i].id = i, and all have bytes
 *     load_bytes[s] = sum of the bytes of boxes alive in section s
 *     bound_bytes = max(load_bytes) <= proven_bytes <= best_bytes = max(best[i] + boxes[i].bytes)
 */
typedef struct qn_packing_problem {
    const qn_allocator *allocator;
    int32_t n, n_sections;
    size_t bound_bytes, best_bytes, target_bytes; /* at the target a search may stop */
    size_t proven_bytes;                          /* no packing is lower; at least bound_bytes */
    qn_packed_box *boxes;                         /* (n) */
    size_t *load_bytes;                           /* (n_sections) */
    size_t *best;                                 /* (n) offsets */
    qn_packed_box *sorted;                        /* (n) scratch of the orders below */
    qn_packed_range *ranges;                      /* (n) */
    int64_t work, most_work;                      /* placements tried, and how many may be */
    int64_t end_ns;                               /* 0: no limit of time */
    const qn_packing_options *options;
    bool was_stopped; /* by the caller */
} qn_packing_problem;

/* What is known so far. */
qn_packing qn_packing_so_far(const qn_packing_problem *problem);

/* Whether there is no more to gain or to spend; asks the caller whether to go on. */
bool qn_packing_is_done(qn_packing_problem *problem);

/* Puts all boxes in each of several orders until the target is reached. */
void qn_packing_greedy(qn_packing_problem *problem);

/* Lets the boxes of the best packing sink as far as they go, in the order of their offsets. */
void qn_packing_sink(qn_packing_problem *problem);

#endif
