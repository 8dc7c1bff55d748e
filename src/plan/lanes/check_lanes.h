/* The part of qn_plan_check for several lanes: everything that the check proves for the order of
 * the plan is proven for every order in which the lanes may run, by happens-before alone. The
 * plan's lifetimes are not used.
 *
 * A null check means a plan of one lane, for which there is nothing to prove. */
#ifndef QN_PLAN_LANES_CHECK_LANES_H
#define QN_PLAN_LANES_CHECK_LANES_H

#include "plan/plan.h"

typedef struct qn_lane_check qn_lane_check;

/* Proves that waits are of steps before and in other lanes, and that storages of one space which
 * share bytes are used one after the other. Null for a plan of one lane. */
qn_status qn_lane_check_create(const qn_plan *plan, const qn_graph *graph, qn_lane_check **check);
void qn_lane_check_destroy(qn_lane_check *check);

/* A step begins: what it reads and writes lies in its lane's space, unless it copies; an update
 * happens after all that can be lost. */
qn_status qn_lane_check_step(qn_lane_check *check, int32_t step);

/* It reads a value, which was written before; it writes over one, which nobody reads any more. */
qn_status qn_lane_check_read(qn_lane_check *check, int32_t step, int32_t value);
qn_status qn_lane_check_overwrite(qn_lane_check *check, int32_t step, int32_t value);

#endif
