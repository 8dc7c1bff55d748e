/* The optimiser as nodes of the graph, and the learning rate over time. */
#ifndef QN_RUN_OPTIMIZER_H
#define QN_RUN_OPTIMIZER_H

#include "graph/graph.h"
#include "quern/engine.h"

/* Adds the update of every parameter that has a gradient, and the state it needs as values named
 * "optimizer.momentum.NAME", "optimizer.adam_m.NAME", "optimizer.adam_v.NAME". hyper is
 * the input of QN_HYPER_COUNT reals that every step is given; QN_NO_VALUE: it is added. Clipping by
 * norm makes every update wait for all gradients; otherwise each runs as soon as its gradient is
 * done. */
void qn_optimizer_add(qn_graph *graph, const qn_engine_options *options, const qn_value *parameters,
                      const qn_value *gradients, int n, qn_value *hyper);

/* What the rate of a parameter is multiplied by, as a tuning's list of rates says: 1 where it says
 * nothing. QN_ERROR_ARGUMENT: a part of the list is no rate. */
qn_status qn_optimizer_factor(const qn_engine_options *options, const char *parameter,
                              double *factor);

/* The learning rate of a step, counted from 0. */
double qn_optimizer_rate(const qn_update_options *options, int64_t step);

/* Fills the hyper parameters of a step, counted from 0. */
void qn_optimizer_fill(const qn_update_options *options, int64_t step,
                       double hyper[QN_HYPER_COUNT]);

#endif
