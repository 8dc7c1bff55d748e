/* Cutting a network in two at a value, for split learning (Gupta and Raskar, "Distributed learning
 * of deep neural network over multiple agents", 2018): the front makes the value of the input, the
 * back the output of the value. Each half is copied into a graph of its own, with the names of the
 * whole, so that both together train with its bits. */
#ifndef QN_PASSES_CUT_H
#define QN_PASSES_CUT_H

#include "graph/graph.h"

/* Whether everything behind the value is made of it, of parameters that nothing before it reads,
 * and of constants: so that one value, and its gradient, are all that both halves exchange. output:
 * of the whole network. */
bool qn_cut_is_possible(const qn_graph *graph, qn_value value, qn_value output);

/* Copies the front into another graph: the value there. After a failure, which that graph keeps, no
 * value. */
qn_value qn_cut_front(const qn_graph *from, qn_value value, qn_graph *to);

/* Copies the back into another graph, over an input there in the value's place: the output there.
 */
qn_value qn_cut_back(const qn_graph *from, qn_value value, qn_value output, qn_value input,
                     qn_graph *to);

#endif
