/* Runs a plan: calls every step's device in order. All pointers are worked out when the executor
 * is made; running allocates nothing and decides nothing. */
#ifndef QN_RUN_EXECUTOR_H
#define QN_RUN_EXECUTOR_H

#include "plan/plan.h"

typedef struct qn_executor qn_executor;

/* An executor of a plan over the arena (plan->arena_bytes, QN_ALIGNMENT), which several executors
 * may share in turn. Graph, plan, kernels and team must outlive it. */
qn_status qn_executor_create(const qn_allocator *allocator, const qn_graph *graph,
                             const qn_plan *plan, const qn_kernels *kernels, qn_team *team,
                             void *arena, qn_executor **executor);
void qn_executor_destroy(qn_executor *executor);

/* Says where a value given from outside (parameter, state, input, label) lies. */
void qn_executor_bind(qn_executor *executor, qn_value value, void *memory);

/* Where a value lies: a result after run. */
void *qn_executor_get(const qn_executor *executor, qn_value value);

/* Runs all steps. seed and step key the random streams. Every outside value is bound. */
void qn_executor_run(qn_executor *executor, uint64_t seed, uint64_t step);

#endif
