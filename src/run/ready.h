/* Plans for budgets that are likely to come, found ahead on a thread of their own while training
 * goes on: for some shares of a program's usual arena, down to the least that is found. What is
 * kept of a plan is its sequence and its offsets, some bytes an operation; making the plan of them
 * takes milliseconds where finding it takes up to seconds. Time and memory are bounded; what is not
 * ready when it is wanted, is found then. */
#ifndef QN_RUN_READY_H
#define QN_RUN_READY_H

#include "plan/budget.h"

typedef struct qn_ready qn_ready;

/* A program of which plans are to be ready. */
typedef struct qn_ready_program {
    const qn_graph *graph;
    const double *node_ns; /* (n_nodes) */
} qn_ready_program;

/* Begins, holding at most most_bytes at any time. What programs refer to must stay; programs (n) is
 * copied. */
qn_status qn_ready_start(const qn_allocator *allocator, const qn_ready_program *programs, int n,
                         const qn_kernels *kernels, int n_threads, size_t most_bytes,
                         qn_ready **ready);

/* Waits for the plan that is being found, at most. */
void qn_ready_stop(qn_ready *ready);

/* Waits until all that is going to be ready is. */
void qn_ready_wait(qn_ready *ready);

/* Bytes held now. */
size_t qn_ready_held(const qn_ready *ready);

/* The fastest plan with an arena of at most limit bytes that is ready: made->plan is null where
 * there is none. *is_rough: one that is found for this limit may well be faster. From any thread.
 */
qn_status qn_ready_make(qn_ready *ready, const qn_allocator *allocator, int program, size_t limit,
                        qn_budget_plan *made, bool *is_rough);

/* As qn_budget_plan_find, with what is found kept ready; from any thread, one plan at a time. */
qn_status qn_ready_find(qn_ready *ready, const qn_allocator *allocator, int program, size_t limit,
                        qn_budget_plan *found, size_t *least);

#endif
