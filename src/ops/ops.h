/* The list of operators, and those that only passes and optimisers add. */
#ifndef QN_OPS_OPS_H
#define QN_OPS_OPS_H

#include "graph/graph.h"
#include "quern/ops.h"

/* All operators; a null pointer ends the list. */
extern const qn_op *const qn_ops[];

const qn_op *qn_op_find(const char *name);

/* The work of a node by its operator's rule. */
qn_cost qn_node_cost(const qn_graph *graph, const qn_node *node);

/* A scalar constant. */
qn_value qn_op_scalar(qn_graph *graph, const char *name, double value);

/* A tensor with factor * scalar in every element. */
qn_value qn_op_broadcast(qn_graph *graph, const char *name, qn_value scalar, qn_shape shape,
                         double factor);

/* The factor that clips gradients: min(1, limit / |factor0 * all gradients|), where factor0 is
 * hyper[QN_HYPER_GRADIENT] -> scalar. (Pascanu et al. 2013, algorithm 1.) */
qn_value qn_op_clip_factor(qn_graph *graph, const char *name, qn_value hyper,
                           const qn_value *gradients, int n_gradients, double limit);

/* sum (a source of kind gradient) + gradient, in the sum's storage. */
qn_value qn_op_accumulate(qn_graph *graph, const char *name, qn_value sum, qn_value gradient);

/* Optimiser steps in the storage of w and its state. hyper (QN_HYPER_COUNT); factor: scalar or
 * QN_NO_VALUE; momentum: QN_NO_VALUE for plain SGD. They return the new w. */
qn_value qn_op_sgd(qn_graph *graph, const char *name, qn_value hyper, qn_value factor,
                   qn_value gradient, qn_value w, qn_value momentum, bool nesterov);
qn_value qn_op_adam(qn_graph *graph, const char *name, qn_value hyper, qn_value factor,
                    qn_value gradient, qn_value w, qn_value m, qn_value v, bool decoupled);

#endif
