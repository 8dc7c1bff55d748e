/* DCGAN for 32x32x3: the generator turns 100 random numbers into images by transposed convolutions
 * (1x1, 4x4x256, 8x8x128, 16x16x64, 32x32x3); the discriminator judges images by convolutions in
 * the reverse order. All are 4x4 without bias. A step first trains the discriminator on real and
 * generated images, with one loss for both, and then the generator, through the updated
 * discriminator on the same generated images. Filters are initialised from a normal distribution
 * with deviation 0.02, as in the paper's section 4. */
#include "models/models.h"

#include <stdio.h>

enum { SIDE = 32, CHANNELS = 3, NOISE = 100, WIDTH = 64 };

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
static qn_value generate(qn_graph *graph, void *user, qn_value noise) {
    (void)user;
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

/* images (N, 32, 32, 3) -> logits (N, 1) of being real. */
static qn_value judge(qn_graph *graph, void *user, qn_value x) {
    (void)user;
    const qn_window shrink = qn_window_square(4, 2, 1);
    qn_graph_enter(graph, "discriminator");
    x = qn_leaky_relu(graph, "leaky1", down(graph, "conv1", x, WIDTH, shrink), slope);
    x = qn_batch_norm_layer(graph, "norm2", down(graph, "conv2", x, 2 * WIDTH, shrink), epsilon);
    x = qn_leaky_relu(graph, "leaky2", x, slope);
    x = qn_batch_norm_layer(graph, "norm3", down(graph, "conv3", x, 4 * WIDTH, shrink), epsilon);
    x = qn_leaky_relu(graph, "leaky3", x, slope);
    x = qn_flatten(graph, "flatten", down(graph, "conv4", x, 1, qn_window_square(4, 1, 0)));
    qn_graph_leave(graph);
    return x;
}

static const qn_adversaries adversaries = {.generate = generate, .judge = judge};

static qn_value network(qn_graph *graph, void *user, const qn_network_sizes *sizes, int phase,
                        qn_value *kept) {
    const qn_shape images = QN_SHAPE(sizes->batch, SIDE, SIDE, CHANNELS);
    const qn_shape noise = QN_SHAPE(sizes->batch, NOISE);
    (void)user;
    if (sizes->is_bare)
        return qn_generation_bare(graph, &adversaries, images, noise);
    return qn_generation_loss(graph, &adversaries, images, noise, phase, kept);
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
