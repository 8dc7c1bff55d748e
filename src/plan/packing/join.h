/* Joins boxes of a problem without waste before it is searched. Internal to the packer.
 *
 * Without waste, the boxes that end at a time and those that begin then meet along vertical lines,
 * with equal sums of bytes on either side. Boxes of one lifetime on the left of such a line and
 * boxes of one lifetime on its right are equivalent to one box with both lifetimes; so are five
 * that meet along two lines as a pinwheel. A rectangle that was cut into boxes becomes one box
 * again if all are joined as they were cut, and a problem with few boxes left is searched quickly.
 *
 * Which boxes meet is a guess: sums are equal by chance if many boxes begin and end, or if sums are
 * small. So the joins least likely to be chance come first. Most tries start from an earlier
 * result, undo a small part of it, mostly near a piece that found no partner, and join with some
 * noise. A result with as few boxes is kept, and now and then a worse one (Shaw, "Using constraint
 * programming and local search methods to solve vehicle routing problems", CP 1998: large
 * neighbourhoods; Kirkpatrick et al., "Optimization by simulated annealing", Science, 1983). The
 * joined problem may have no packing although the original has one: a try proves nothing. */
#ifndef QN_PLAN_PACKING_JOIN_H
#define QN_PLAN_PACKING_JOIN_H

#include "plan/packing/greedy.h"

/* A box, or several that were joined. */
typedef struct qn_joined_piece {
    size_t bytes, offset;
    int32_t lower, upper;
    int32_t next[2]; /* with the same begin, and with the same end; -1: none */
    int32_t whole;   /* which it is part of, at an offset within that; -1: none */
} qn_joined_piece;

struct qn_join;

/* Boxes [0, n_boxes) are those of the problem, what is joined of them follows. */
typedef struct qn_joining {
    qn_packing_problem *limits;        /* whose limits hold */
    const qn_packing_problem *problem; /* whose boxes are joined */
    int32_t n_pieces, n_kept;
    qn_joined_piece *pieces; /* (2 * n) */
    qn_joined_piece *kept;   /* (2 * n) those of the try from which the next one begins */
    int32_t *numbers;        /* (2 * n) scratch: of pieces that are kept */
    int32_t n_now, least;    /* boxes of the kept try's joined problem, fewest of any */
    int32_t n_since;         /* tries since there were fewest; all since it began anew */
    int32_t n_sums;          /* work that is not yet counted */
    unsigned char *reasons;  /* (n_sections + 1) why to look at a time */
    int32_t *first[2];       /* (n_sections + 1) pieces that begin, and that end, at a time; -1 */
    struct qn_join *joins;   /* (2, n_sections + 1) best line and best pinwheel at every time */
    uint64_t n_tries, random;
    double *log_factorials;       /* (n + 1) */
    double noise, pinwheel_score; /* of scores, and what is added to those of pinwheels */
    struct qn_pinwheel *pinwheel; /* scratch */
    qn_packing_problem joined;    /* its boxes' ids are numbers of pieces */
} qn_joining;

/* Memory for joining, from the arena. Joining ends early when the limits' problem is done. */
qn_status qn_joining_init(qn_packing_problem *limits, const qn_packing_problem *problem,
                          qn_arena *arena, qn_joining *joining);

/* Joins what can be, beginning with some of what was joined before; the result is in
 * joining->joined. Returns whether that is worth a search: it has fewer boxes than before, or is
 * one of many that have as few. */
bool qn_joining_try(qn_joining *joining);

/* Gives every piece an offset, where those of the joined problem's boxes have theirs. */
void qn_joining_place(qn_joining *joining);

#endif
