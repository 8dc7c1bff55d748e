/* A training step by each of the built-in numerics moves weights where f32 moves them: in a network
 * of all that works on mantissas, convolution, ReLU, max pool and linear layer, whose activations
 * are one-sided. Left out: numerics that store whole weights, which begin with other ones
 * (test_torch_niti). */
#include "base/rng.h"
#include "check.h"
#include "numerics/numerics.h"
#include "quern/engine.h"
#include "quern/ops.h"

#include <math.h>
#include <stdlib.h>

enum { BATCH = 16, SIDE = 10, CHANNELS = 3, CLASSES = 5, N_X = BATCH * SIDE * SIDE * CHANNELS };

static qn_value build(qn_graph *graph, void *user, int phase, qn_value kept[QN_MAX_KEPT]) {
    (void)user;
    (void)phase;
    (void)kept;
    qn_value x = qn_input(graph, "x", QN_SHAPE(BATCH, SIDE, SIDE, CHANNELS));
    const qn_value label = qn_label(graph, "label", QN_I32, QN_SHAPE(BATCH));
    x = qn_conv2d_layer(graph, "conv0", x, 8, qn_window_square(3, 1, 1), 1, true);
    x = qn_relu(graph, "relu0", x);
    x = qn_relu(graph, "relu1",
                qn_conv2d_layer(graph, "conv1", x, 12, qn_window_square(3, 1, 1), 1, true));
    x = qn_max_pool(graph, "pool", x, qn_window_square(2, 2, 0));
    x = qn_relu(graph, "relu2", qn_linear_layer(graph, "fc1", x, 20));
    x = qn_linear_layer(graph, "fc2", x, CLASSES);
    return qn_mean(graph, "loss", qn_softmax_cross_entropy(graph, "losses", x, label, 0));
}

/* What a step adds to all weights and biases: (n), in memory of its own. */
static float *step(const qn_numerics *numerics, int64_t *n) {
    static float x[N_X];
    int32_t label[BATCH];
    const qn_program_options program = {QN_OPTIONS_INIT(qn_program_options), .training = true,
                                        .build = build};
    const qn_engine_options options = {QN_OPTIONS_INIT(qn_engine_options), .numerics = numerics,
                                       .seed = 5, .n_threads = 1,
                                       .update = {.optimizer = QN_SGD, .rate = 0.1}};
    qn_engine *engine;
    for (int i = 0; i < BATCH; i++)
        label[i] = i % CLASSES;
    for (int i = 0; i < N_X; i++)
        x[i] = qn_rng_uniform(qn_rng_word(qn_rng_make(1, 2, 0), (uint64_t)i)) +
               (float)(i / (N_X / BATCH) % CLASSES == i % CLASSES);
    CHECK_OK(qn_engine_create(&options, &program, 1, &engine));
    float *moved = calloc(100000, sizeof *moved);
    if (!moved)
        abort();
    for (int pass = 0; pass < 2; pass++) {
        *n = 0;
        for (int t = 0; t < qn_engine_tensor_count(engine); t++) {
            const qn_stored_tensor tensor = qn_engine_tensor_at(engine, t);
            const float *numbers = tensor.data;
            const bool is_layer = strstr(tensor.name, ".weight") || strstr(tensor.name, ".bias");
            if (tensor.is_state || !tensor.trainable || !is_layer)
                continue;
            for (size_t i = 0; i < tensor.bytes / sizeof(float); i++, (*n)++)
                moved[*n] = numbers[i] - moved[*n];
        }
        if (pass == 0)
            CHECK_OK(qn_engine_run(engine, 0, (const void *const[]){x, label}));
    }
    qn_engine_destroy(engine);
    return moved;
}

static double cosine(const float *a, const float *b, int64_t n) {
    double ab = 0, aa = 0, bb = 0;
    for (int64_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

int main(void) {
    int64_t n, n_other;
    float *right = step(NULL, &n);
    for (int i = 0; qn_numerics_built_in(i); i++) {
        qn_numerics *numerics;
        CHECK_OK(qn_numerics_create(NULL, qn_numerics_built_in(i), &numerics));
        if (!numerics->stores_weights && !numerics->trains_some) {
            float *moved = step(numerics, &n_other);
            const double same = cosine(right, moved, n);
            CHECK(n_other == n);
            CHECK(same > 0.8);
            printf("%s: cosine %.4f\n", numerics->name, same);
            free(moved);
        }
        qn_numerics_destroy(numerics);
    }
    free(right);
    return checks_finish();
}
