/* DCGAN for 32x32x3: the generator makes images of 100 random numbers by transposed convolutions
 * (1x1, 4x4x256, 8x8x128, 16x16x64, 32x32x3), the discriminator judges images by convolutions in
 * the reverse order. All are 4x4 without bias. A step first teaches the discriminator on real
 * images and on generated ones, one loss for both, and then the generator, by what the
 * discriminator thinks of the same generated images after its update. Filters start normal with
 * deviation 0.02, as in the paper's section 4. */
#include "models/models.h"

#include <stdio.h>

enum { SIDE = 32, CHANNELS = 3, NOISE = 100, WIDTH = 64 };

/* Values that the second phase needs of the first. */
enum { KEPT_FAKE, KEPT_OF_REAL, KEPT_OF_FAKE };

static const double slope = 0.2, epsilon = 1e-5;

static qn_value weight(qn_graph *graph, const char *name, int64_t k, int64_t c) {
    char full[32];
    snprintf(full, sizeof full, "%s.weight", name);
    return qn_parameter(graph, full, QN_SHAPE(k, 4, 4, c), (qn_initial){QN_INITIAL_NORMAL, 0.02},
                        true);
}

/* x (N, P, Q, C) -> (N, H, W, outputs). */
static qn_value up(qn_graph *graph, const char *name, qn_value x, int64_t outputs,
                   qn_window window) {
    const int64_t inputs = qn_graph_shape(graph, x).dims[3];
    return qn_conv2d_transpose(graph, name, x, weight(graph, name, inputs, outputs), QN_NO_VALUE,
                               window);
}

/* noise (N, 100) -> images (N, 32, 32, 3) in -1 to 1. */
static qn_value generate(qn_graph *graph, qn_value noise) {
    const qn_window grow = qn_window_square(4, 2, 1);
    const int64_t n = qn_graph_shape(graph, noise).dims[0];
    qn_graph_enter(graph, "generator");
    qn_value x = qn_reshape(graph, "pixel", noise, QN_SHAPE(n, 1, 1, NOISE));
    x = up(graph, "conv1", x, 4 * WIDTH, qn_window_square(4, 1, 0));
    x = qn_relu(graph, "relu1", qn_batch_norm_layer(graph, "norm1", x, epsilon));
    x = up(graph, "conv2", x, 2 * WIDTH, grow);
    x = qn_relu(graph, "relu2", qn_batch_norm_layer(graph, "norm2", x, epsilon));
    x = up(graph, "conv3", x, WIDTH, grow);
    x = qn_relu(graph, "relu3", qn_batch_norm_layer(graph, "norm3", x, epsilon));
    x = qn_tanh(graph, "tanh", up(graph, "conv4", x, CHANNELS, grow));
    qn_graph_leave(graph);
    return x;
}

static qn_value down(qn_graph *graph, const char *name, qn_value x, int64_t outputs,
                     qn_window window) {
    const int64_t inputs = qn_graph_shape(graph, x).dims[3];
    return qn_conv2d(graph, name, x, weight(graph, name, outputs, inputs), QN_NO_VALUE, window, 0);
}

/* images (N, 32, 32, 3) -> logits (N, 1) of being real. Called several times, each under a name. */
static qn_value judge(qn_graph *graph, const char *call, qn_value x) {
    const qn_window shrink = qn_window_square(4, 2, 1);
    qn_graph_call(graph, "%s", call);
    qn_graph_enter(graph, "discriminator");
    x = qn_leaky_relu(graph, "leaky1", down(graph, "conv1", x, WIDTH, shrink), slope);
    x = qn_batch_norm_layer(graph, "norm2", down(graph, "conv2", x, 2 * WIDTH, shrink), epsilon);
    x = qn_leaky_relu(graph, "leaky2", x, slope);
    x = qn_batch_norm_layer(graph, "norm3", down(graph, "conv3", x, 4 * WIDTH, shrink), epsilon);
    x = qn_leaky_relu(graph, "leaky3", x, slope);
    x = qn_flatten(graph, "flatten", down(graph, "conv4", x, 1, qn_window_square(4, 1, 0)));
    qn_graph_leave(graph);
    qn_graph_leave(graph);
    return x;
}

/* Mean loss of judging all of them as the target says. */
static qn_value loss_of(qn_graph *graph, const char *name, qn_value logits, double target) {
    qn_graph_enter(graph, "%s", name);
    qn_value loss =
        qn_mean(graph, "mean", qn_binary_cross_entropy_with(graph, "entropy", logits, target));
    qn_graph_leave(graph);
    return loss;
}

static qn_value teach_discriminator(qn_graph *graph, int64_t batch, qn_value *kept) {
    qn_value real = qn_input(graph, "real", QN_SHAPE(batch, SIDE, SIDE, CHANNELS));
    qn_value fake = generate(graph, qn_input(graph, "noise", QN_SHAPE(batch, NOISE)));
    qn_value of_real = judge(graph, "real", real), of_fake = judge(graph, "fake", fake);
    kept[KEPT_FAKE] = fake;
    kept[KEPT_OF_REAL] = of_real;
    kept[KEPT_OF_FAKE] = of_fake;
    qn_value loss = qn_add(graph, "discriminator_loss", loss_of(graph, "real_loss", of_real, 1),
                           loss_of(graph, "fake_loss", of_fake, 0));
    qn_result(graph, loss);
    return loss;
}

static qn_value teach_generator(qn_graph *graph, qn_value *kept) {
    qn_value loss = loss_of(graph, "generator_loss", judge(graph, "again", kept[KEPT_FAKE]), 1);
    qn_result(graph, loss);
    qn_result(graph, kept[KEPT_OF_REAL]);
    qn_result(graph, kept[KEPT_OF_FAKE]);
    if (!qn_graph_is_training(graph))
        qn_result(graph, kept[KEPT_FAKE]);
    return loss;
}

static qn_value network(qn_graph *graph, const qn_network_sizes *sizes, int phase, qn_value *kept) {
    return phase == 0 ? teach_discriminator(graph, sizes->batch, kept)
                      : teach_generator(graph, kept);
}

const qn_model qn_model_dcgan = {
    .name = "dcgan",
    .domain = "image generation",
    .source = "Radford et al. 2016",
    .input = {3, {SIDE, SIDE, CHANNELS}},
    .recipe = {.optimizer = QN_ADAM, .rate = 2e-4, .beta1 = 0.5, .epochs = 5, .batch = 64},
    .task = "generation",
    .input_text = "100 random numbers",
    .sizes = {.batch = 1, .n_inputs = NOISE},
    .network = network,
    .n_phases = 2,
    .trained = {"discriminator.", "generator."},
};
