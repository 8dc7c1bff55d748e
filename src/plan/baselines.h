/* Baselines that a plan is compared with: the memory of training the same network without a plan.
 */
#ifndef QN_PLAN_BASELINES_H
#define QN_PLAN_BASELINES_H

#include "plan/plan.h"

/* The largest sums of bytes alive at once where nothing is planned: nodes in the graph's order,
 * every value allocated at its producer and freed after its last reader, results never. Values from
 * outside and scratch memory of kernels are not counted, views and updates in place take nothing.
 */
typedef struct qn_unplanned {
    size_t bytes;       /* with all gradients, of feature maps too, kept until after the update */
    size_t freed_bytes; /* with gradients freed after their last readers, as other values are */
} qn_unplanned;

/* For a graph as it is before fusion. */
qn_status qn_baseline_unplanned(const qn_allocator *allocator, const qn_graph *graph,
                                qn_unplanned *unplanned);

/* The plan that qn_plan_create makes, but with every update in its place in the graph: behind all
 * gradients, which are therefore all kept until then. */
qn_status qn_baseline_plan_late(const qn_allocator *allocator, const qn_graph *graph,
                                const qn_machine *machine, qn_plan **plan);

/* The step in which most arena bytes are alive, and that many. */
int32_t qn_plan_peak_step(const qn_plan *plan, size_t *bytes);

#endif
