/* A problem without waste: where a capacity leaves bytes of sections over, boxes are made that fill
 * them. Internal to the packer.
 *
 * A packing of the filled problem is one of the problem itself; not every packing within the
 * capacity is found so, since what is left over may lie in smaller pieces. Where little is left
 * over, as if a few boxes had been taken out of a perfect packing, those very boxes are mostly what
 * comes out, and a search without waste has far fewer choices. */
#ifndef QN_PLAN_PACKING_FILL_H
#define QN_PLAN_PACKING_FILL_H

#include "plan/packing/greedy.h"

/* The boxes, sections and loads of *filled are of a problem's boxes, which keep their ids, and
 * those that fill; no boxes where these would be more than twice as many. Its memory is the
 * arena's. The capacity is not below the problem's bound. is_cut: what fills ends wherever
 * something else of it begins or ends, which leaves more ways to place it. */
qn_status qn_packing_fill(const qn_packing_problem *problem, size_t capacity, bool is_sliced,
                          qn_arena *arena, qn_packing_problem *filled);

#endif
