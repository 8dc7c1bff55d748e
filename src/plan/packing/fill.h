/* Turns a problem into one without waste: the unused bytes of each section, up to a capacity, are
 * filled with additional boxes. Internal to the packer.
 *
 * A packing of the filled problem is also one of the problem. Not every packing within the capacity
 * can be found this way, since the unused bytes may be in smaller pieces. If few bytes are unused,
 * as if a few boxes had been removed from a perfect packing, the new boxes are mostly the removed
 * ones, and a search without waste has far fewer choices. */
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
