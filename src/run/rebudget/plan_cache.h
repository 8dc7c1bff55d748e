/* Plans for likely future budgets, found in advance on a separate thread while training continues:
 * for some fractions of a program's usual arena, down to the smallest one found. Of each plan its
 * sequence and offsets are kept, a few bytes for each operation; rebuilding the plan from them
 * takes milliseconds, where finding it takes up to seconds. Time and memory are bounded; a plan
 * that is not ready when it is needed is found then. */
#ifndef QN_RUN_REBUDGET_PLAN_CACHE_H
#define QN_RUN_REBUDGET_PLAN_CACHE_H

#include "plan/budget/budget.h"

typedef struct qn_plan_cache qn_plan_cache;

/* A program of which plans are to be ready. */
typedef struct qn_plan_cache_program {
    const qn_graph *graph;
    const double *node_ns; /* (n_nodes) */
} qn_plan_cache_program;

/* Begins, holding at most most_bytes at any time. What programs refer to must stay; programs (n) is
 * copied. */
qn_status qn_plan_cache_start(const qn_allocator *allocator, const qn_plan_cache_program *programs,
                              int n, const qn_machine *machine, size_t most_bytes,
                              qn_plan_cache **cache);

/* Waits for the plan that is being found, at most. */
void qn_plan_cache_stop(qn_plan_cache *cache);

/* Waits until all that is going to be ready is. */
void qn_plan_cache_wait(qn_plan_cache *cache);

/* Bytes held now. */
size_t qn_plan_cache_held(const qn_plan_cache *cache);

/* The fastest plan with an arena of at most limit bytes that is ready: made->plan is null where
 * there is none. *is_rough: one that is found for this limit may well be faster. From any thread.
 */
qn_status qn_plan_cache_make(qn_plan_cache *cache, const qn_allocator *allocator, int program,
                             size_t limit, qn_budget_plan *made, bool *is_rough);

/* As qn_budget_plan_find, with what is found kept ready; from any thread, one plan at a time. */
qn_status qn_plan_cache_find(qn_plan_cache *cache, const qn_allocator *allocator, int program,
                             size_t limit, qn_budget_plan *found, size_t *least);

#endif
