/* The state of a switch between plans while it is prepared, for the files adapt*.c only. */
#ifndef QN_RUN_REBUDGET_ADAPT_STATE_H
#define QN_RUN_REBUDGET_ADAPT_STATE_H

#include "run/rebudget/adapt.h"

/* When a plan makes and reads values: by value of its graph. */
typedef struct qn_uses {
    int32_t *made_at;  /* step that makes it, or -1 */
    int32_t *last_use; /* last step that reads it, n_steps: a result; -1: none */
} qn_uses;

/* Values and nodes are the base graph's, values what views show, unless said otherwise. */
typedef struct qn_adapt_state {
    const qn_adapt_options *options;
    const qn_graph *base;
    /* of what has run */
    int32_t n_done;
    int32_t *done;  /* (n_nodes): the nodes that have run, in the order of their first time */
    int32_t *turn;  /* (n_nodes): place in done, or -1 */
    bool *is_stale; /* (n_values): a node that has run overwrote it */
    int32_t *held;  /* (n_values): value of from's graph whose bytes are all there, or -1 */
    /* of what the new plan needs at to_step */
    int32_t to_step;
    qn_uses uses;    /* of to's values */
    int32_t *wanted; /* (n_values): value of to's graph, or -1 */
    bool *is_again;  /* (n_nodes): runs again */
    double again_ns;
} qn_adapt_state;

/* Where a value of a version lies, as rows. */
qn_move qn_adapt_rows(const qn_variant *version, int32_t value);
bool qn_adapt_is_bound(const qn_variant *version, int32_t value);

/* Whether node may read its input where from's plan holds it. */
bool qn_adapt_can_read(const qn_adapt_state *a, const qn_node *node, int input);

/* Fills places, calls and moves of *found. */
qn_status qn_adapting_place(qn_adapt_state *a, qn_adapt *found);

#endif
