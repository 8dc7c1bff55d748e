/* Plans that outlive the process: the order of nodes and the place of values, by name, so that a
 * saved plan can be read, edited, and compared with a newly built graph. Nothing in it is trusted:
 * restoring a plan proves all its invariants. */
#ifndef QN_PLAN_SAVED_H
#define QN_PLAN_SAVED_H

#include "plan/budget/budget.h"

/* A turn: name is of a node (RUN) or of a value. */
typedef struct qn_saved_item {
    qn_action action;
    const char *name;
} qn_saved_item;

/* Where something lies. value: the first that lies in it, or the node whose workspace it is. */
typedef struct qn_saved_storage {
    qn_storage place;
    const char *value;
} qn_saved_storage;

/* Of one program. All that is pointed to is somebody's arena. */
typedef struct qn_saved_program {
    const char *name;
    uint64_t graph;      /* qn_saved_fingerprint of the graph before */
    int64_t micro_batch; /* samples that this graph works on at a time (passes/split.h); 0: all */
    size_t arena_bytes;
    size_t n_items, n_storages;
    qn_saved_item *items;       /* (n_items) */
    qn_saved_storage *storages; /* (n_storages): those of the plan, in its order */
} qn_saved_program;

/* Of all of an engine's programs. */
typedef struct qn_saved_plan {
    int n_threads;
    const char *isa;
    int n_programs;
    qn_saved_program *programs; /* (n_programs) */
} qn_saved_plan;

/* Names, operators, types and shapes of a graph as one number: plans are of one graph. */
uint64_t qn_saved_fingerprint(const qn_graph *graph);

/* Takes down what runs (a sequence of nodes of base) and its plan, all in memory.
 * QN_ERROR_UNSUPPORTED: it has several lanes. */
qn_status qn_saved_take(qn_arena *memory, const char *name, const qn_graph *base,
                        const qn_budget_plan *planned, qn_saved_program *saved);

/* Makes the plan that was saved. QN_ERROR_FORMAT where it is of another graph or breaks a promise,
 * with the item or step and the values named. */
qn_status qn_saved_restore(const qn_allocator *allocator, const qn_saved_program *saved,
                           const qn_graph *base, const qn_machine *machine,
                           qn_budget_plan *restored);

/* The same where everything runs once and in the usual order, so that the graph is as it was built:
 * its plan; null where it is not so. */
qn_status qn_saved_restore_usual(const qn_allocator *allocator, const qn_saved_program *saved,
                                 const qn_graph *base, const qn_machine *machine, qn_plan **plan);

/* A program of a saved plan, if it is for this machine and this is its name; a failure says what
 * differs. */
qn_status qn_saved_find(const qn_saved_plan *plan, int index, const char *name, int n_threads,
                        const char *isa, const qn_saved_program **program);

#endif
