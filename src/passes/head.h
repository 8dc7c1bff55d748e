/* A network with another number of outputs than it was built with: its last layer, or a named one,
 * is replaced by a new one. For networks whose build function does not choose the number, such as
 * those of files. */
#ifndef QN_PASSES_HEAD_H
#define QN_PASSES_HEAD_H

#include "graph/graph.h"
#include "quern/model.h"

/* The last node that makes a value out of weights, on the way to it, whose name, or its weight's,
 * fits the patterns (null: any). Null: there is none, or memory is out, which the graph keeps. */
const qn_node *qn_find_head(qn_graph *graph, qn_value value, const char *patterns);

/* The same with those beside it: heads as wide, whose outputs come together with its without
 * further weights, as those of networks that average two classifiers. How many. */
enum { QN_MOST_HEADS = 4 };
int qn_find_heads(qn_graph *graph, qn_value value, const char *patterns,
                  const qn_node *heads[QN_MOST_HEADS]);

/* The parameter that is added to what a head makes, one number for each output, where a node of its
 * own does it (a product of matrices and a sum); no value: there is none. */
qn_value qn_find_head_bias(const qn_graph *graph, const qn_node *head);

/* Builds a classifier over x into the graph: logits (N, n_outputs). head: patterns of the layer
 * that is made anew where the model's outputs are fixed; null: none is, and the number must be its
 * own. */
qn_value qn_build_outputs(qn_graph *graph, const qn_model *model, qn_value x, int n_outputs,
                          const char *head);

#endif
