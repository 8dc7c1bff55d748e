/* What the policies know of a graph: when each value is made and read. Views count as what they are
 * views of. A turn is a place in the base sequence. */
#ifndef QN_BENCH_FACTS_H
#define QN_BENCH_FACTS_H

#include "policies.h"

typedef struct qn_facts {
    const qn_policy_problem *problem;
    const qn_graph *graph;
    qn_arena arena;
    int32_t n_turns;
    int32_t *nodes; /* (n_turns): node whose turn it is */
    int32_t *root;  /* (n_values): the value that one is a view of, or itself */
    size_t
        *bytes; /* (n_values): of memory that it takes in a step; 0: views, updates, from outside */
    int32_t *made;  /* (n_values): turn, or -1 */
    int32_t *last;  /* (n_values): turn of the last reader; n_turns: a result; -1: none */
    int32_t *reads; /* turns that read a value, in order, those of value v at first_read[v] on */
    int32_t *first_read; /* (n_values + 1) */
    bool *is_movable;  /* (n_values): may be evicted: made in a step by a node that may run again */
    bool *is_backward; /* (n_nodes): makes gradients, or updates */
    bool *is_update;   /* (n_nodes) */
    int32_t *turn_of;  /* (n_nodes), or -1 */
} qn_facts;

qn_status qn_facts_init(qn_facts *facts, const qn_policy_problem *problem);
void qn_facts_deinit(qn_facts *facts);

/* The first turn from `turn` on that reads a value; n_turns: it is a result; -1: nothing reads it.
 */
int32_t qn_facts_next_read(const qn_facts *facts, int32_t value, int32_t turn);

/* Largest sum of bytes alive at once when nothing is evicted, workspaces included. */
size_t qn_facts_peak(const qn_facts *facts);

#endif
