/* The halves of a network as graphs, and the engines that train them; see halves.h. */
#ifndef QN_FEDERATE_HALVES_BUILD_H
#define QN_FEDERATE_HALVES_BUILD_H

#include "federate/halves.h"

enum {
    QN_HALVES_PATIENCE = 60, /* seconds that the other side may stay silent */
    QN_HALVES_PATH = 4096,
};

/* Whether the network can be cut there and trained so. */
qn_status qn_halves_check(const qn_halves_options *options);

qn_engine_options qn_halves_engine(const qn_halves_options *options, int n_threads);

/* Adds the front over an input of its own: the value of the cut. */
qn_value qn_halves_front(qn_graph *graph, const qn_halves_options *options, int64_t batch);

/* Adds the back over an input in the cut's place, which wants a gradient in training, and labels:
 * the network's outputs. */
qn_value qn_halves_back(qn_graph *graph, const qn_halves_options *options, int64_t batch,
                        bool is_trained, qn_value *labels);

/* Where the checkpoint before the one at path is kept. */
qn_status qn_halves_before(const char *path, char before[QN_HALVES_PATH]);

/* Copies the checkpoint at path there, where there is one. */
qn_status qn_halves_keep(const char *path);

#endif
