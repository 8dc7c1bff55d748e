/* The network of Q-learning: the value of every action in a state. For four frames of 84x84 pixels,
 * the convolutions of Mnih et al. 2015, figure 1; for environments with a few numbers ("--net
 * mlp"), two hidden layers of 128. Trained is the value of the chosen action, towards a given
 * target. */
#include "models/models.h"

enum { FRAMES = 4, SIDE = 84, HIDDEN = 512, NUMBERS = 4, MLP_HIDDEN = 128 };

qn_shape qn_dqn_input(const qn_network_sizes *sizes) {
    if (sizes->variant == QN_DQN_MLP)
        return QN_SHAPE(sizes->batch, sizes->n_inputs > 0 ? sizes->n_inputs : NUMBERS);
    return QN_SHAPE(sizes->batch, SIDE, SIDE, FRAMES);
}

static qn_value conv(qn_graph *graph, const char *name, const char *relu, qn_value x,
                     int64_t filters, int kernel, int stride) {
    const qn_window window = qn_window_square(kernel, stride, 0);
    return qn_relu(graph, relu, qn_conv2d_layer(graph, name, x, filters, window, 1, true));
}

static qn_value values_of(qn_graph *graph, const qn_network_sizes *sizes, qn_value x) {
    if (sizes->variant == QN_DQN_MLP) {
        x = qn_relu(graph, "relu1", qn_linear_layer(graph, "fc1", x, MLP_HIDDEN));
        x = qn_relu(graph, "relu2", qn_linear_layer(graph, "fc2", x, MLP_HIDDEN));
        return qn_linear_layer(graph, "fc3", x, sizes->n_outputs);
    }
    x = conv(graph, "conv1", "relu1", x, 32, 8, 4);
    x = conv(graph, "conv2", "relu2", x, 64, 4, 2);
    x = conv(graph, "conv3", "relu3", x, 64, 3, 1);
    x = qn_relu(graph, "relu4", qn_linear_layer(graph, "fc1", x, HIDDEN));
    return qn_linear_layer(graph, "fc2", x, sizes->n_outputs);
}

/* Inputs: state, action (N), target (N). Results: the loss, and the values (N) of the actions.
 * Bare: the values (N, n_outputs). */
static qn_value network(qn_graph *graph, void *user, const qn_network_sizes *sizes, int phase,
                        qn_value *kept) {
    (void)user;
    (void)phase;
    qn_value state =
        sizes->is_bare && kept[0].id >= 0 ? kept[0] : qn_input(graph, "state", qn_dqn_input(sizes));
    qn_value values = values_of(graph, sizes, state);
    if (!sizes->is_bare)
        return qn_control_loss(graph, values);
    qn_result(graph, values);
    return values;
}

const qn_model qn_model_dqn = {
    .name = "dqn",
    .domain = "control",
    .source = "Mnih et al. 2015",
    .recipe = {.optimizer = QN_ADAM, .rate = 0.00025, .batch = 32, .clip_norm = 10},
    .task = "control",
    .input_text = "84x84x4",
    .sizes = {.batch = 1, .n_outputs = 18},
    .network = network,
};
