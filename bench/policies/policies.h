/* Rivals of our memory planner, written after what was published of them: each makes a sequence
 * (passes/sequence.h) that keeps to a limit by the rival's own accounts, so that the same executor
 * runs them all. qn_policies lists them.
 *
 * They share the facts of a graph (facts.h) and the replay of a step (replay.h), and all get what
 * our executor gives anyone: early updates, results in place, parts that lie in their
 * concatenation, and our packer. So they are better than they were published. */
#ifndef QN_BENCH_POLICIES_H
#define QN_BENCH_POLICIES_H

#include "plan/budget/budget.h"

typedef struct qn_policy_problem {
    const qn_allocator *allocator;
    const qn_graph *graph;
    const qn_sequence *base;   /* every needed node once */
    const double *node_ns;     /* (n_nodes) */
    const size_t *workspace;   /* (n_nodes) bytes that a node needs beside its outputs */
    const qn_swap_speed *swap; /* null: nothing may be swapped */
    size_t limit_bytes;        /* of all values but those given from outside */
} qn_policy_problem;

typedef struct qn_policy {
    const char *name;
    const char *source; /* who published it */
    bool swaps;         /* has nothing to offer without a swap file */
    bool has_limit;     /* looks at limit_bytes */
    /* Adds items to an empty sequence. A limit that cannot be kept is no failure: the sequence then
     * needs more. *own_top_bytes is filled by those that place values themselves: the end of their
     * pool. */
    qn_status (*make)(const qn_policy_problem *problem, qn_sequence *sequence,
                      size_t *own_top_bytes);
} qn_policy;

/* In a fixed order; a null pointer ends it. */
extern const qn_policy *const qn_policies[];

extern const qn_policy qn_policy_none, qn_policy_sublinear, qn_policy_sqrt, qn_policy_capuchin,
    qn_policy_capuchin_recompute, qn_policy_vdnn, qn_policy_dtr, qn_policy_dtr_eq,
    qn_policy_dtr_local, qn_policy_melon;

/* A policy by name, or null. */
const qn_policy *qn_policy_find(const char *name);

/* Time of a step that runs a sequence: its nodes one after the other, beside a channel that stores
 * and loads in turn. */
double qn_policy_predict_ns(const qn_policy_problem *problem, const qn_sequence *sequence);

/* What a policy did for an arena. */
typedef struct qn_policy_fit {
    bool is_feasible;
    double extra_ns;      /* lost against the base sequence, by qn_policy_predict_ns */
    size_t own_top_bytes; /* of a policy that has a pool of its own, else 0 */
    size_t limit_bytes;   /* that the policy was told */
    size_t least_bytes;   /* the smallest arena of all tries */
    qn_budget_plan plan;  /* where feasible */
    int n_tries;
} qn_policy_fit;

/* Tries limits until the plan of the policy's sequence fits an arena, and keeps the fastest that
 * does: a policy's accounts know nothing of what lies in what, so the limit that it has to be told
 * is above or below the arena. problem->limit_bytes is not looked at. */
qn_status qn_policy_fit_arena(const qn_policy *policy, const qn_policy_problem *problem,
                              const qn_machine *machine, size_t arena_bytes, qn_policy_fit *fit);

#endif
