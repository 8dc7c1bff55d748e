/* Switches from one plan of a program to another in the middle of a run. Both plans come from one
 * base graph and run its nodes for the first time in the same order, so the new plan has a step
 * that corresponds to the current one. Values that this step needs are kept if the old plan's
 * memory still holds them, and moved inside the arena to their place in the new plan. Missing ones
 * are recomputed in the base graph's order from those held. (This extends "on-the-fly budget
 * adapting" of Melon, Wang et al., MobiSys 2022: here values move within one memory, free memory
 * that has not been overwritten counts as held, and the memory may also grow.) Results are equal in
 * every bit.
 *
 * Guarantees: recomputation reads no parameter that the run has updated, and updates nothing; no
 * byte from limit_bytes on is touched; an impossible switch is reported before anything has
 * changed. Left out: values whose only copy is in a file or on its way there. */
#ifndef QN_RUN_REBUDGET_ADAPT_H
#define QN_RUN_REBUDGET_ADAPT_H

#include "device/call.h"
#include "passes/sequence.h"
#include "run/executor.h"
#include "run/rebudget/moves.h"

/* One way to run a program. */
typedef struct qn_variant {
    const qn_graph *graph;
    const qn_origins *origins; /* in the base graph */
    const qn_plan *plan;
} qn_variant;

typedef struct qn_adapt_options {
    const qn_allocator *allocator;
    const qn_graph *base;
    const qn_machine *machine;
    const double *node_ns; /* (base n_nodes): what a node costs */
    qn_variant from, to;
    int32_t step;       /* of from's plan: runs next */
    int32_t entered;    /* step of from's plan at which another switch came to it; 0: none did */
    size_t limit_bytes; /* of the arena, while it is rearranged: at least what either plan needs */
} qn_adapt_options;

/* An operand of a node that runs again: in the arena, or given from outside. */
typedef struct qn_again_operand {
    int32_t outside; /* value of from's graph, or -1 */
    size_t offset;   /* of the others, in the arena; SIZE_MAX: left out */
} qn_again_operand;

/* A switch as data: gather is run, then the nodes, then place; the new plan goes on at to_step. */
typedef struct qn_adapt {
    const qn_allocator *allocator;
    int32_t to_step;
    qn_moves gather, place;
    size_t n_again, n_operands;
    qn_call *calls;             /* (n_again) */
    size_t *workspaces;         /* (n_again): offsets, SIZE_MAX: none */
    qn_again_operand *operands; /* (n_operands): inputs and outputs of all calls, in order */
    void **pointers;            /* (n_operands) */
    qn_tensor *tensors;         /* (n_operands) */
    int64_t *strides;           /* (n_operands) */
    size_t kept_bytes;          /* needed and held */
    double again_ns;            /* of nodes that are made again, now and before the next new one */
    double rest_ns;             /* of what the new plan runs again after that, to its end */
    double stay_ns;             /* of what the old plan would still have run again */
    double move_ns;             /* of copying gather.bytes + place.bytes; once placed */
    double whole_ns; /* of all that the new plan runs up to to_step, from its beginning */
} qn_adapt;

/* Works the switch out. QN_ERROR_UNSUPPORTED: not at this step, and why; at the end of a run it
 * always is possible. */
qn_status qn_adapt_find(const qn_adapt_options *options, qn_adapt *found);
void qn_adapt_deinit(qn_adapt *adapt);

/* Its costs and to_step alone, without moves. */
qn_status qn_adapt_estimate(const qn_adapt_options *options, qn_adapt *found);

/* Whether to switch takes no longer than to stay: for those that need not. */
bool qn_adapt_is_worth_it(const qn_adapt *adapt);

/* Whether a step of a plan runs a node that has run before it. */
bool qn_adapt_runs_again(const qn_variant *variant, int32_t step);

/* Does it, in the arena of both executors; what is bound to from is then bound to `to`. seed and
 * step as of the run. */
void qn_adapt_run(qn_adapt *adapt, const qn_adapt_options *options, qn_executor *from,
                  qn_executor *to, void *arena, qn_team *team, uint64_t seed, uint64_t step);

#endif
