/* The last uses of each value in a plan with several lanes, which say when memory can be reused. In
 * a plan with one lane this is empty: a later step happens after an earlier one. */
#ifndef QN_PLAN_LANES_USES_H
#define QN_PLAN_LANES_USES_H

#include "plan/lanes/clocks.h"

typedef struct qn_uses {
    int32_t n_values; /* 0: one lane */
    qn_clocks clocks;
    int32_t *last; /* (n_values, n_lanes): last step of the lane that uses it, or -1 */
} qn_uses;

/* For a plan whose steps, lanes and waits are known. */
qn_status qn_uses_init(qn_uses *uses, const qn_plan *plan, int32_t n_values);
void qn_uses_deinit(qn_uses *uses);

void qn_uses_note(qn_uses *uses, int32_t value, int32_t step);

/* Whether all uses of a value but the step's own happen before the step. */
bool qn_uses_end_before(const qn_uses *uses, int32_t value, int32_t step);

/* Lengthens the lifetimes of storages: `last` becomes the last step in the order of the plan that
 * does not happen after all uses. storage_of (n_values): of values, or -1. */
qn_status qn_uses_lengthen(const qn_uses *uses, qn_plan *plan, const int32_t *storage_of);

#endif
