/* The smallest engine that policies work on: a program that trains and one that only evaluates, of
 * three nodes each before gradients: a linear layer, tanh, and the mean. */
#ifndef QN_TESTS_THREE_NODES_H
#define QN_TESTS_THREE_NODES_H

#include "check.h"
#include "run/policy.h"

#include <stdlib.h>

enum { THREE_BATCH = 4, THREE_INPUTS = 8, THREE_NUMBERS = THREE_BATCH * THREE_INPUTS };

static _Alignas(64) float three_x[THREE_NUMBERS];

static qn_value three_build(qn_graph *graph, void *user, int phase, qn_value kept[QN_MAX_KEPT]) {
    (void)user;
    (void)phase;
    (void)kept;
    const qn_value x = qn_input(graph, "x", QN_SHAPE(THREE_BATCH, THREE_INPUTS));
    const qn_value y = qn_tanh(graph, "tanh", qn_linear_layer(graph, "fc", x, 16));
    return qn_mean(graph, "mean", qn_reshape(graph, NULL, y, QN_SHAPE(THREE_BATCH * 16)));
}

static qn_engine_options three_options(void) {
    return (qn_engine_options){QN_OPTIONS_INIT(qn_engine_options), .n_threads = 1,
                               .update = {.rate = 0.1}};
}

static qn_status three_try(const qn_engine_options *options, qn_engine **engine) {
    const qn_program_options programs[2] = {
        {QN_OPTIONS_INIT(qn_program_options), .training = true, .build = three_build},
        {QN_OPTIONS_INIT(qn_program_options), .build = three_build}};
    for (int i = 0; i < THREE_NUMBERS; i++)
        three_x[i] = (float)(i * 37 % 101) / 50 - 1;
    *engine = NULL;
    return qn_engine_create(options, programs, 2, engine);
}

static inline qn_engine *three_make(const qn_engine_options *options) {
    qn_engine *engine;
    CHECK_OK(three_try(options, &engine));
    if (!engine)
        exit(checks_finish());
    return engine;
}

static void three_run(qn_engine *engine, int program) {
    const void *const inputs[] = {three_x};
    CHECK_OK(qn_engine_run(engine, program, inputs));
}

#endif
