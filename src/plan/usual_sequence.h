/* The sequence of a graph without a budget. */
#ifndef QN_PLAN_USUAL_SEQUENCE_H
#define QN_PLAN_USUAL_SEQUENCE_H

#include "passes/sequence.h"

/* Nodes that something needs, once each, in the order of qn_plan_order. The sequence is initialised
 * here; it is the caller's to deinit unless this fails. */
qn_status qn_sequence_base(const qn_allocator *allocator, const qn_graph *graph,
                           qn_sequence *sequence);

#endif
