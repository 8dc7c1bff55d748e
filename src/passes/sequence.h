/* The order in which a graph's nodes run, where some run more than once so that their results need
 * not be kept (recomputation), and values may move to a file and back (swapping). A sequence is
 * data: planners write it, qn_resequence turns it into a graph, and later stages see only that
 * graph.
 *
 * An item that runs a node makes new copies of its outputs. A reader reads the latest copy, and a
 * copy lives until its last reader before the next copy. So a sequence need not say when memory is
 * released.
 *
 * Invariants (qn_sequence_check):
 *     an item reads only values that come from outside or have a copy
 *     a node that updates in place runs once, after everything that reads what it overwrites
 *     views are not items
 *     every result of the graph and every update is computed
 *     STORE(v), STORED(v), LOAD(v), LOADED(v) follow one another in this order; between LOAD and
 *         LOADED nothing reads v, between STORE and STORED nothing computes it */
#ifndef QN_PASSES_SEQUENCE_H
#define QN_PASSES_SEQUENCE_H

#include "graph/graph.h"

typedef enum qn_action {
    QN_ACTION_RUN,    /* a node runs */
    QN_ACTION_STORE,  /* a value begins to be copied to the swap space */
    QN_ACTION_STORED, /* from here on it is there, and its memory is free */
    QN_ACTION_LOAD,   /* a new copy of it begins to come back */
    QN_ACTION_LOADED, /* from here on it is there */
    QN_ACTION_COUNT
} qn_action;

const char *qn_action_name(qn_action action);

typedef struct qn_item {
    qn_action action;
    int32_t id; /* node of RUN, value of the others */
} qn_item;

typedef struct qn_sequence {
    const qn_allocator *allocator;
    size_t n, capacity;
    qn_item *items; /* (n) */
} qn_sequence;

void qn_sequence_init(qn_sequence *sequence, const qn_allocator *allocator);
void qn_sequence_deinit(qn_sequence *sequence);
qn_status qn_sequence_add(qn_sequence *sequence, qn_action action, int32_t id);

/* The invariants at the top; a violation names the item and the node or value. */
qn_status qn_sequence_check(const qn_sequence *sequence, const qn_graph *graph);

/* Where what a graph is made of came from. All arrays are in the graph's memory. */
typedef struct qn_origins {
    int32_t *node_of;  /* (new n_nodes): the old node, or -1: a swap's */
    int32_t *value_of; /* (new n_values): the old value that this is a copy of, or -1: one in the
                          swap space, or a wait's */
    int32_t *item_of;  /* (new n_nodes): the item that it stands for, or -1: a view's */
    qn_value *first;   /* (old n_values): its first copy in the new graph, or QN_NO_VALUE */
    qn_value *last;    /* (old n_values): its last copy */
} qn_origins;

/* The graph that a sequence says, which is checked: a node an item, in its order (views are made
 * anew where they are read). Copies of a node have its key, so its random numbers, and the name
 * "NAME.again", "NAME.again2". Swapping is nodes that copy to the memory space swap_space (not
 * above 0: there is none) and back, and nodes that wait. Sources and kinds stay; a result is its
 * value's last copy. Equal bits as the graph it came from. */
qn_status qn_resequence(const qn_graph *graph, const qn_sequence *sequence, int swap_space,
                        qn_graph **made, qn_origins *origins);

#endif
