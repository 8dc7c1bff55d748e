/* Training steps of small random networks, for tests that hold for any graph: branches, sums,
 * concatenations, slices, views, values of several outputs and readers, one or two phases. */
#ifndef QN_TESTS_RANDOM_GRAPHS_H
#define QN_TESTS_RANDOM_GRAPHS_H

#include "base/rng.h"
#include "check.h"
#include "os/heap.h"
#include "quern/quern.h"
#include "run/program.h"

#include <stdio.h>

enum { RANDOM_CHANNELS = 4, RANDOM_MOST_VALUES = 40 };

/* A network in the making; all values are (3, 8, 8, RANDOM_CHANNELS). */
typedef struct random_network {
    qn_graph *graph;
    qn_rng rng;
    uint64_t n_drawn;
    int n_values;
    qn_value values[RANDOM_MOST_VALUES];
} random_network;

static inline int random_below(random_network *r, int n) {
    return (int)qn_rng_below(r->rng, r->n_drawn++, (uint64_t)n);
}

/* Mostly one of the latest values. */
static inline qn_value random_value(random_network *r) {
    const int recent = r->n_values < 3 ? r->n_values : 3;
    if (random_below(r, 3) == 0)
        return r->values[random_below(r, r->n_values)];
    return r->values[r->n_values - 1 - random_below(r, recent)];
}

static inline qn_value random_concat(random_network *r, const char *name) {
    char inner[64];
    const qn_value parts[] = {random_value(r), random_value(r), random_value(r)};
    const qn_value all = qn_concat(r->graph, NULL, parts, 2 + random_below(r, 2), -1);
    snprintf(inner, sizeof inner, "%s.squeeze", name);
    return qn_conv2d_layer(r->graph, inner, all, RANDOM_CHANNELS, qn_window_square(1, 1, 0), 1,
                           true);
}

static inline qn_value random_slices(random_network *r) {
    const qn_value x = random_value(r);
    const qn_value parts[] = {qn_slice(r->graph, NULL, x, -1, 2, 4),
                              qn_slice(r->graph, NULL, x, -1, 0, 2)};
    return qn_concat(r->graph, NULL, parts, 2, -1);
}

static inline qn_value random_view(random_network *r) {
    const qn_shape rows = {3, {3, 64, RANDOM_CHANNELS}}, image = {4, {3, 8, 8, RANDOM_CHANNELS}};
    return qn_reshape(r->graph, NULL,
                      qn_tanh(r->graph, NULL, qn_reshape(r->graph, NULL, random_value(r), rows)),
                      image);
}

static inline qn_value random_layer(random_network *r, const char *name) {
    const qn_value x = random_value(r);
    switch (random_below(r, 12)) {
    case 0:
    case 1:
        return qn_conv2d_layer(r->graph, name, x, RANDOM_CHANNELS, qn_window_square(3, 1, 1), 1,
                               random_below(r, 2));
    case 2:
    case 3:
        return qn_batch_norm_layer(r->graph, name, x, 1e-5);
    case 4:
        return qn_relu(r->graph, NULL, x);
    case 5:
        return qn_gelu(r->graph, NULL, x);
    case 6:
        return qn_dropout(r->graph, NULL, x, 0.3);
    case 7:
        return qn_max_pool(r->graph, NULL, x, qn_window_square(3, 1, 1));
    case 8:
        return random_concat(r, name);
    case 9:
        return random_slices(r);
    case 10:
        return random_view(r);
    default:
        return random_below(r, 3) == 0 ? qn_multiply(r->graph, NULL, x, random_value(r))
                                       : qn_add(r->graph, NULL, x, random_value(r));
    }
}

/* The loss of what a phase adds to what there is. */
static inline qn_value random_build(qn_graph *graph, void *user, int phase, qn_value *kept) {
    const uint64_t seed = *(const uint64_t *)user;
    random_network r = {.graph = graph, .rng = qn_rng_make(seed, 7, (uint64_t)phase)};
    const qn_shape shape = {4, {3, 8, 8, RANDOM_CHANNELS}};
    r.values[r.n_values++] = phase == 0 ? qn_input(graph, "x", shape) : kept[0];
    const int n_layers = 3 + random_below(&r, RANDOM_MOST_VALUES - 8);
    for (int i = 0; i < n_layers; i++) {
        char name[32];
        snprintf(name, sizeof name, "phase%d.layer%d", phase, i);
        r.values[r.n_values++] = random_layer(&r, name);
    }
    const qn_value first =
        qn_conv2d_layer(graph, phase == 0 ? "phase0.end" : "phase1.end", r.values[r.n_values - 1],
                        RANDOM_CHANNELS, qn_window_square(1, 1, 0), 1, true);
    kept[0] = qn_add(graph, NULL, first, random_value(&r));
    return qn_mean(graph, NULL, qn_multiply(graph, NULL, kept[0], kept[0]));
}

/* The training step number `seed`. */
static inline qn_program random_program(uint64_t seed) {
    const qn_engine_options engine = {QN_OPTIONS_INIT(qn_engine_options),
                                      .allocator = qn_allocator_default(), .real = QN_F32,
                                      .update = {.optimizer = seed % 3 == 0 ? QN_ADAM : QN_SGD,
                                                 .momentum = 0.9,
                                                 .beta1 = 0.9,
                                                 .beta2 = 0.999,
                                                 .epsilon = 1e-8,
                                                 .clip_norm = seed % 7 == 0 ? 1 : 0,
                                                 .accumulate = 1}};
    const qn_program_options options = {
        QN_OPTIONS_INIT(qn_program_options), .training = true, .n_phases = seed % 5 == 0 ? 2 : 1,
        .trained = {"phase0", "phase1"},     .user = &seed,    .build = random_build};
    qn_program p;
    CHECK_OK(qn_program_build(&p, &options, &engine));
    return p;
}

#endif
