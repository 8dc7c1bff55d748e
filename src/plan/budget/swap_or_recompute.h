/* Within a limit, some values swapped and others recomputed; see budget.h. */
#ifndef QN_PLAN_BUDGET_SWAP_OR_RECOMPUTE_H
#define QN_PLAN_BUDGET_SWAP_OR_RECOMPUTE_H

#include "plan/budget/budget.h"

/* Whether the file of a plan is not too large. */
bool qn_budget_may_swap(const qn_budget_options *options, const qn_machine *machine,
                        const qn_plan *plan);

/* Tries to plan the graph within the limit with swapping (options->swap) cheaper than `known`, the
 * plan that swaps nothing, or, where its plan is null, at all. What is found takes the place of
 * known. *least_bytes becomes the smallest arena that was found without success, if that is
 * smaller; *planner_bytes is what was held at most. */
qn_status qn_budget_swap_or_recompute(const qn_allocator *allocator, const qn_graph *graph,
                                      const qn_machine *machine, const qn_budget_options *options,
                                      qn_budget_plan *known, size_t *least_bytes,
                                      size_t *planner_bytes);

#endif
