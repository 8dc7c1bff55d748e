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

/* y = f(x), elementwise. */
qn_value qn_op_function(qn_graph *graph, const char *name, qn_value x, qn_function function);

/* A rule of a and b (QN_COMBINE_ADD to QN_COMBINE_LESS), broadcast to one shape as NumPy does it;
 * comparisons are 1 or 0. a where the condition is not 0, else b, likewise. */
qn_value qn_op_combine(qn_graph *graph, const char *name, qn_combination kind, qn_value a,
                       qn_value b);
qn_value qn_op_where(qn_graph *graph, const char *name, qn_value condition, qn_value a, qn_value b);

/* The shape that a and b are broadcast to; false: they do not go together, and *y stays. */
bool qn_shape_broadcast(qn_shape a, qn_shape b, qn_shape *y);

/* How n operands, up to 3, lie beside a result y for the kernel. */
qn_broadcast qn_broadcast_of(const qn_tensor *operands, int n, qn_shape y);

/* Reals as QN_I32, cut towards 0, or QN_I32 as the graph's reals. No gradient flows. */
qn_value qn_op_cast(qn_graph *graph, const char *name, qn_value x, qn_dtype dtype);

/* The factor that clips gradients: min(1, limit / |factor0 * all gradients|), where factor0 is
 * hyper[QN_HYPER_GRADIENT] -> scalar. (Pascanu et al. 2013, algorithm 1.) */
qn_value qn_op_clip_factor(qn_graph *graph, const char *name, qn_value hyper,
                           const qn_value *gradients, int n_gradients, double limit);

/* sum (a source of kind gradient) + gradient, in the sum's storage. */
qn_value qn_op_accumulate(qn_graph *graph, const char *name, qn_value sum, qn_value gradient);

/* x (n, ...) as the rows from `first` on of a whole (rows, ...), which is made (QN_NO_VALUE) or, so
 * far, given; it goes on in the given one's storage. */
qn_value qn_op_join_rows(qn_graph *graph, const char *name, qn_value x, qn_value whole,
                         int64_t first, int64_t rows);

/* Optimiser steps in the storage of w and its state. hyper (QN_HYPER_COUNT); factor: scalar or
 * QN_NO_VALUE; momentum: QN_NO_VALUE for plain SGD; rate: factor of the learning rate. They return
 * the new w. */
qn_value qn_op_sgd(qn_graph *graph, const char *name, qn_value hyper, qn_value factor,
                   qn_value gradient, qn_value w, qn_value momentum, bool nesterov, double rate);
qn_value qn_op_adam(qn_graph *graph, const char *name, qn_value hyper, qn_value factor,
                    qn_value gradient, qn_value w, qn_value m, qn_value v, bool decoupled,
                    double rate);

/* A value goes to the swap file, whose work goes on while other nodes run: store begins to write
 * it, stored waits for that, after which its memory is free; load begins to read a copy of it,
 * which nothing may read but loaded, which waits and passes it on in place. Each gives what the
 * next one needs; the same stored value may be loaded several times. */
qn_value qn_op_swap_store(qn_graph *graph, const char *name, qn_value value);
qn_value qn_op_swap_stored(qn_graph *graph, const char *name, qn_value value, qn_value storing);
qn_value qn_op_swap_load(qn_graph *graph, const char *name, qn_tensor tensor, qn_value stored,
                         qn_value *loading);
qn_value qn_op_swap_loaded(qn_graph *graph, const char *name, qn_value copy, qn_value loading);

#endif
