/* See usual_sequence.h. */
#include "plan/usual_sequence.h"

#include "base/status.h"
#include "plan/plan.h"

qn_status qn_sequence_base(const qn_allocator *allocator, const qn_graph *graph,
                           qn_sequence *sequence) {
    qn_plan plan = {.allocator = allocator, .n_threads = 1};
    qn_sequence_init(sequence, allocator);
    qn_status status = qn_plan_order(&plan, graph);
    for (int32_t s = 0; status == QN_OK && s < plan.n_steps; s++)
        status = qn_sequence_add(sequence, QN_ACTION_RUN, plan.steps[s].node);
    qn_release(allocator, plan.steps, plan.step_capacity, sizeof *plan.steps);
    if (status != QN_OK)
        qn_sequence_deinit(sequence);
    return status;
}
