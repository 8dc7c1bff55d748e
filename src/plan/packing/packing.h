/* Dynamic storage allocation: boxes with known lifetimes get addresses, so that boxes alive at the
 * same time do not overlap and the top is low. Knows nothing of graphs. */
#ifndef QN_PLAN_PACKING_PACKING_H
#define QN_PLAN_PACKING_PACKING_H

#include "base/memory.h"

struct qn_packing;

/* Alive in [lower, upper); lower < upper. */
typedef struct qn_box {
    int64_t lower, upper;
    size_t bytes;
    size_t offset; /* filled */
} qn_box;

typedef struct qn_packing_options {
    size_t capacity; /* stop as soon as the top is not above it; 0: as low as possible */
    /* Of the search, in placements tried; 0: greedy orders alone. Equal work gives equal offsets on
     * every machine. */
    int64_t most_work;
    int64_t most_ns; /* 0: no limit of time */
    /* Called now and then while it searches; false: it stops. May be null. */
    bool (*go_on)(void *user, const struct qn_packing *so_far);
    void *user;
} qn_packing_options;

typedef struct qn_packing {
    size_t top_bytes;
    size_t lower_bound_bytes; /* largest sum of bytes alive at once: no packing is lower */
    size_t proven_bytes;      /* at least that: no packing is lower */
    bool is_optimal;          /* proven: no packing is lower than top_bytes */
    bool is_impossible;       /* proven: none is within the capacity */
    int64_t work;
} qn_packing;

/* Places all boxes: always a valid packing, the best that was found. */
qn_status qn_pack(const qn_allocator *allocator, qn_box *boxes, int32_t n,
                  const qn_packing_options *options, qn_packing *packing);

/* Every two boxes alive at once share no byte, and all lie below the top; a violation names them.
 */
qn_status qn_packing_check(const qn_box *boxes, int32_t n, size_t top_bytes);

#endif
