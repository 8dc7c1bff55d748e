/* Passes: graph in, graph out. */
#ifndef QN_PASSES_PASSES_H
#define QN_PASSES_PASSES_H

#include "graph/graph.h"

/* Adds nodes for the gradient of the scalar loss with respect to every trainable parameter it
 * depends on whose name begins with prefix, null: any (reverse accumulation: Griewank and Walther
 * 2008, section 3.2). Only what is needed is added: nothing flows towards inputs, but for
 * those that want a gradient, which stand among the parameters. gradients[i]
 * belongs to parameters[i], in the order in which the parameters were added; a parameter that the
 * loss does not depend on gets QN_NO_VALUE. Both arrays are in the graph's memory. */
qn_status qn_autodiff(qn_graph *graph, qn_value loss, const char *prefix,
                      const qn_value **parameters, const qn_value **gradients, int *n_parameters);

/* The same for chosen values, inputs included (tests, adapters). gradients (n) is the caller's. */
qn_status qn_autodiff_for(qn_graph *graph, qn_value loss, const qn_value *wanted, int n,
                          qn_value *gradients);

/* A graph that does the same with fewer nodes: from first_node on, activations are taken into the
 * convolution, linear layer, batch norm or sum before them where nothing else reads their input.
 * Names, and so random streams, stay; outputs are equal in every bit. values[v] is the value v of
 * the old graph in the new one (QN_NO_VALUE for one that is no longer made), in the new graph's
 * memory. For nodes that no gradient nodes read yet. keeps_products: products take in nothing. */
qn_status qn_fuse(const qn_graph *graph, int first_node, bool keeps_products, qn_graph **fused,
                  const qn_value **values);

#endif
