/* Lanes and spaces for tests, and nodes given to them at random. */
#ifndef QN_TESTS_RANDOM_LANES_H
#define QN_TESTS_RANDOM_LANES_H

#include "base/rng.h"
#include "check.h"
#include "device/simulated.h"
#include "plan/lanes/partition.h"

#include <stdlib.h>

/* Lane 0; two more of the CPU; two queues of a device with a space of its own, which can be lost.
 */
enum { RANDOM_LANES = 5, RANDOM_SPACES = 2 };

static const qn_lane random_lanes[RANDOM_LANES] = {
    {.n_threads = 1},
    {.n_threads = 1},
    {.n_threads = 2},
    {.device = 1, .space = 1, .n_threads = 1, .can_be_lost = true},
    {.device = 1, .space = 1, .n_threads = 1, .can_be_lost = true},
};

/* The machine of these lanes: state is the simulated device's. */
static inline qn_machine random_machine(const qn_kernels *kernels, void *state) {
    qn_machine machine = qn_machine_cpu(kernels, 1);
    int row = 0;
    CHECK_OK(qn_machine_add(&machine, &qn_device_simulated, state, &row));
    CHECK(row == 1 && machine.n_spaces == RANDOM_SPACES);
    return machine;
}

/* A lane for every node, mostly that of the node before, so that lanes have some work in a row;
 * to be freed. */
static inline int16_t *random_lane_of(const qn_graph *graph, uint64_t seed) {
    const qn_rng rng = qn_rng_make(seed, 11, 0);
    const uint64_t stay = 1 + qn_rng_below(rng, UINT64_C(1) << 40, 4);
    int16_t *lane_of = calloc((size_t)graph->n_nodes + 1, sizeof *lane_of);
    if (!lane_of)
        abort();
    for (int n = 0; n < graph->n_nodes; n++) {
        const uint64_t at = 2 * (uint64_t)n;
        lane_of[n] = n > 0 && qn_rng_below(rng, at, stay) > 0
                         ? lane_of[n - 1]
                         : (int16_t)qn_rng_below(rng, at + 1, RANDOM_LANES);
    }
    return lane_of;
}

/* The graph with its copies, spread over the lanes above. */
static inline qn_partition random_spread(const qn_graph *graph, uint64_t seed) {
    int16_t *lane_of = random_lane_of(graph, seed);
    const qn_assignment wanted = {.n_lanes = RANDOM_LANES,
                                  .n_spaces = RANDOM_SPACES,
                                  .lanes = random_lanes,
                                  .lane_of = lane_of};
    qn_partition spread = {0};
    CHECK_OK(qn_partition_make(graph, &wanted, &spread));
    free(lane_of);
    return spread;
}

#endif
