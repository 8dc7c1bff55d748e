/* Values that are read back from the swap file instead of being recomputed; see
 * swap_or_recompute.h. */
#ifndef QN_PLAN_BUDGET_SWAP_RECOMPUTED_H
#define QN_PLAN_BUDGET_SWAP_RECOMPUTED_H

#include "plan/budget/budget.h"

/* Replaces, in a sequence that only runs nodes and whose plan holds the limit, runs of nodes
 * that ran before by intervals of what they make, each where that saves time and the plan still
 * holds the limit. node_ns (n_nodes) are the nodes' times. *to becomes a sequence (empty where
 * nothing was gained), *ns its time. */
qn_status qn_budget_swap_recomputed(const qn_allocator *allocator, const qn_graph *graph,
                                    const qn_machine *machine, const qn_budget_options *options,
                                    const double *node_ns, const qn_sequence *from, qn_sequence *to,
                                    double *ns);

#endif
