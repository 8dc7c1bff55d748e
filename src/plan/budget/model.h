/* A graph as the budget planner sees it. Nodes are turns in the order of the base sequence, each
 * with a time. Values are those that take memory in the arena; a view counts as the value it shows.
 * Values from outside take no memory here and only limit how late a turn may run again.
 *
 * Invariants:
 *     a turn reads values of earlier turns
 *     value v is output k of turn values[v].turn, whose outputs are neighbours in outputs */
#ifndef QN_PLAN_BUDGET_MODEL_H
#define QN_PLAN_BUDGET_MODEL_H

#include "plan/budget/budget.h"

/* How a turn reads a value. */
typedef struct qn_budget_read {
    int32_t value;
    bool may_be_strided; /* rows may lie apart */
    bool may_take_place; /* output 0 may lie in it if nothing reads it later */
    bool is_joined;      /* may lie in output 0 */
    bool is_slice;       /* output 0 may lie in it */
} qn_budget_read;

typedef struct qn_budget_value {
    int32_t turn, output;
    size_t bytes;        /* as it is */
    size_t room;         /* rounded up to QN_ALIGNMENT */
    bool may_be_strided; /* its writer can deal with rows that lie apart */
    bool is_result;      /* read in the end: its last copy, dense */
} qn_budget_value;

typedef struct qn_budget_turn {
    int32_t node;
    double ns;
    int32_t first_read, n_reads;
    int32_t first_output, n_outputs; /* values; 0 of an update */
    size_t workspace;                /* rounded up */
    int32_t latest; /* it may run again in front of this turn at the latest; -1: never */
} qn_budget_turn;

typedef struct qn_budget_model {
    qn_arena arena;
    const qn_graph *graph;
    int32_t n_turns, n_values, n_reads;
    qn_budget_turn *turns;   /* (n_turns) */
    qn_budget_value *values; /* (n_values) */
    qn_budget_read *reads;   /* (n_reads) */
    bool has_shared;         /* some read may be joined or a slice */
    double base_ns;          /* of all turns */
    size_t least_bytes;      /* what the largest turn touches: no arena is smaller */
} qn_budget_model;

/* Makes the model of a graph; node_ns as in qn_budget_options. */
qn_status qn_budget_model_init(const qn_allocator *allocator, const qn_graph *graph,
                               const qn_machine *machine, const qn_budget_options *options,
                               qn_budget_model *model);
void qn_budget_model_deinit(qn_budget_model *model);

#endif
