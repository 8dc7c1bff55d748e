/* Character language models: char-lstm, an embedding, two LSTM layers and a linear layer; and
 * char-cnn, which adds a causal convolution over three characters in between. A block of text
 * continues the one before: its state comes in as inputs, which are zero at the beginning of a
 * text, and goes out as results. See the task "language" for their order. */
#include "models/models.h"

enum { N_LAYERS = 2, KERNEL = 3, EMBEDDED = 128, HIDDEN = 256 };

/* What is carried from block to block. */
typedef struct carried {
    qn_value before[2 * N_LAYERS + 1], after[2 * N_LAYERS + 1];
    int n;
} carried;

/* Declares one more, zero at first. */
static qn_value carry(qn_graph *graph, carried *c, const char *name, qn_shape shape) {
    c->before[c->n] = qn_input(graph, name, shape);
    return c->before[c->n++];
}

static void declare_layers(qn_graph *graph, carried *c, int64_t batch, int64_t hidden) {
    static const char *const names[] = {"h1", "c1", "h2", "c2"};
    for (int i = 0; i < 2 * N_LAYERS; i++)
        carry(graph, c, names[i], QN_SHAPE(batch, hidden));
}

/* The states before the layers are the first of c. */
static qn_value add_layers(qn_graph *graph, carried *c, qn_value x, int64_t hidden) {
    static const char *const names[] = {"lstm1", "lstm2"};
    for (int i = 0; i < N_LAYERS; i++) {
        const qn_lstm_result layer = qn_lstm_layer(graph, names[i], x, hidden, c->before[2 * i],
                                                   c->before[2 * i + 1], QN_NO_VALUE);
        c->after[2 * i] = layer.h;
        c->after[2 * i + 1] = layer.c;
        x = layer.y;
    }
    return x;
}

/* Logits (N, T, C), and the loss, unless it is to be bare, with the results. */
static qn_value finish(qn_graph *graph, const carried *c, qn_value x, const qn_network_sizes *s) {
    x = qn_linear_last_layer(graph, "output", x, s->n_outputs);
    if (!s->is_bare)
        return qn_language_loss(graph, x, c->after, c->n);
    qn_result(graph, x);
    for (int i = 0; i < c->n; i++)
        qn_result(graph, c->after[i]);
    return x;
}

static qn_value build_lstm(qn_graph *graph, void *user, const qn_network_sizes *s, int phase,
                           qn_value *kept) {
    (void)user;
    (void)phase;
    (void)kept;
    carried c = {.n = 0};
    const int64_t hidden = s->hidden > 0 ? s->hidden : HIDDEN;
    qn_value tokens = qn_index_input(graph, "tokens", QN_SHAPE(s->batch, s->length));
    declare_layers(graph, &c, s->batch, hidden);
    qn_value x = qn_embedding_layer(graph, "embedding", tokens, s->n_inputs, hidden, 1);
    return finish(graph, &c, add_layers(graph, &c, x, hidden), s);
}

/* Embedded characters (N, T, E) after the two before the block, convolved to (N, T, K). */
static qn_value convolve(qn_graph *graph, carried *c, qn_value x, int64_t hidden) {
    const qn_shape shape = qn_graph_shape(graph, x);
    const qn_shape before = QN_SHAPE(shape.dims[0], KERNEL - 1, EMBEDDED);
    const int index = c->n;
    qn_value context = carry(graph, c, "context", before);
    const qn_value parts[] = {context, x};
    x = qn_concat(graph, "joined", parts, 2, 1);
    c->after[index] =
        qn_slice(graph, "context_after", x, 1, shape.dims[1], shape.dims[1] + KERNEL - 1);
    return qn_relu(graph, "relu", qn_conv1d_layer(graph, "conv", x, hidden, KERNEL, 0, 0));
}

static qn_value build_cnn(qn_graph *graph, void *user, const qn_network_sizes *s, int phase,
                          qn_value *kept) {
    (void)user;
    (void)phase;
    (void)kept;
    carried c = {.n = 0};
    const int64_t hidden = s->hidden > 0 ? s->hidden : HIDDEN;
    qn_value tokens = qn_index_input(graph, "tokens", QN_SHAPE(s->batch, s->length));
    declare_layers(graph, &c, s->batch, hidden);
    qn_value x = qn_embedding_layer(graph, "embedding", tokens, s->n_inputs, EMBEDDED, 1);
    x = convolve(graph, &c, x, hidden);
    return finish(graph, &c, add_layers(graph, &c, x, hidden), s);
}

#define RECIPE                                                                                     \
    {                                                                                              \
        .optimizer = QN_ADAM, .rate = 0.002, .schedule = QN_COSINE, .epochs = 3, .batch = 32,      \
        .clip_norm = 5                                                                             \
    }

const qn_model qn_model_char_cnn = {
    .name = "char-cnn",
    .domain = "language",
    .source = "Liu et al. 2019",
    .recipe = RECIPE,
    .task = "language",
    .input_text = "100 of 96 characters",
    .sizes = {.batch = 1, .length = 100, .n_inputs = 96, .n_outputs = 96},
    .network = build_cnn,
};

const qn_model qn_model_char_lstm = {
    .name = "char-lstm",
    .domain = "language",
    .source = "Hochreiter and Schmidhuber 1997",
    .recipe = RECIPE,
    .task = "language",
    .input_text = "100 of 96 characters",
    .sizes = {.batch = 1, .length = 100, .n_inputs = 96, .n_outputs = 96},
    .network = build_lstm,
};
