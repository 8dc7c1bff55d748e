/* Which steps of a plan happen before which, by the order of their lanes and by their waits. Each
 * step has a vector clock: how many steps of every lane are done before it begins (Fidge,
 * "Timestamps in message-passing systems that preserve the partial ordering", 1988; Mattern
 * likewise, 1989). */
#ifndef QN_PLAN_LANES_CLOCKS_H
#define QN_PLAN_LANES_CLOCKS_H

#include "plan/plan.h"

typedef struct qn_clocks {
    const qn_allocator *allocator;
    int n_lanes;
    int32_t n_steps;
    int32_t *position; /* (n_steps): of a step in its lane */
    int32_t *seen;     /* (n_steps + 1, n_lanes): steps done before it; n_steps: the end */
    int32_t *next;     /* (n_lanes): steps noted so far */
    int32_t *latest;   /* (n_lanes): the last of them, or -1 */
    int16_t *lane;     /* (n_steps) */
} qn_clocks;

/* Empty clocks for a plan with steps in lanes; steps are then noted in the plan's order. */
qn_status qn_clocks_init(qn_clocks *clocks, const qn_plan *plan);
void qn_clocks_deinit(qn_clocks *clocks);

/* Begins a step: what was before it in its lane is before it. */
void qn_clocks_begin(qn_clocks *clocks, int32_t step, int lane);

/* `before`, which was begun already, and all that is before it happen before the step begun last.
 */
void qn_clocks_wait(qn_clocks *clocks, int32_t step, int32_t before);

/* All of a plan's steps, with its waits, which must be of steps before. */
qn_status qn_clocks_of(qn_clocks *clocks, const qn_plan *plan);

static inline bool qn_clocks_is_before(const qn_clocks *c, int32_t step, int32_t other) {
    return c->position[step] < c->seen[(size_t)other * (size_t)c->n_lanes + (size_t)c->lane[step]];
}

/* The steps done before one, by lane. */
static inline const int32_t *qn_clocks_at(const qn_clocks *c, int32_t step) {
    return c->seen + (size_t)step * (size_t)c->n_lanes;
}

#endif
