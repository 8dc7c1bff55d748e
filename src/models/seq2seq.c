/* Translation with attention (Luong et al. 2015, the dot score without input feeding): on each side
 * an embedding and two LSTM layers. The decoder starts with the encoder's last state, and its
 * output at each step attends to all outputs of the encoder. Three networks share one set of
 * parameters, selected by qn_network_sizes.variant: the whole one, and for translating word by word
 * the encoder alone and one step of the decoder. See the task "translation" for their inputs and
 * results. */
#include "models/models.h"

enum { N_LAYERS = 2, N_STATES = 2 * N_LAYERS, HIDDEN = 512 };

static const char *const state_names[N_STATES] = {"h1", "c1", "h2", "c2"};

static int64_t hidden_of(const qn_network_sizes *s) {
    return s->hidden > 0 ? s->hidden : HIDDEN;
}

/* Two layers from the states, which they replace; side: "encoder". */
static qn_value add_layers(qn_graph *graph, const char *side, qn_value x, int64_t hidden,
                           qn_value lengths, qn_value states[N_STATES]) {
    static const char *const names[] = {"lstm1", "lstm2"};
    qn_graph_enter(graph, "%s", side);
    for (int i = 0; i < N_LAYERS; i++) {
        const qn_lstm_result layer =
            qn_lstm_layer(graph, names[i], x, hidden, states[2 * i], states[2 * i + 1], lengths);
        states[2 * i] = layer.h;
        states[2 * i + 1] = layer.c;
        x = layer.y;
    }
    qn_graph_leave(graph);
    return x;
}

/* Source (N, S) with its lengths to what the encoder gives (N, S, K), and its last states. */
static qn_value encode(qn_graph *graph, const qn_network_sizes *s, qn_value lengths,
                       qn_value source, qn_value states[N_STATES]) {
    const int64_t hidden = hidden_of(s);
    for (int i = 0; i < N_STATES; i++)
        states[i] = QN_NO_VALUE;
    qn_value x = qn_embedding_layer(graph, "source_embedding", source, s->n_inputs, hidden, 1);
    return add_layers(graph, "encoder", x, hidden, lengths, states);
}

/* Words (N, T) from the states on to logits (N, T, C). */
static qn_value decode(qn_graph *graph, const qn_network_sizes *s, qn_value target,
                       qn_value encoded, qn_value lengths, qn_value states[N_STATES]) {
    const int64_t hidden = hidden_of(s), n = s->batch;
    const int64_t n_source = qn_graph_shape(graph, encoded).dims[1];
    const int64_t n_target = qn_graph_shape(graph, target).dims[1];
    qn_value x = qn_embedding_layer(graph, "target_embedding", target, s->n_outputs, hidden, 1);
    x = add_layers(graph, "decoder", x, hidden, QN_NO_VALUE, states);
    qn_value keys = qn_reshape(graph, "keys", encoded, QN_SHAPE(n, 1, n_source, hidden));
    qn_value query = qn_reshape(graph, "query", x, QN_SHAPE(n, 1, n_target, hidden));
    qn_value context = qn_attention(graph, "attention", query, keys, keys, lengths, 1, 0);
    context = qn_reshape(graph, "context", context, QN_SHAPE(n, n_target, hidden));
    const qn_value parts[] = {context, x};
    x = qn_concat(graph, "joined", parts, 2, 2);
    x = qn_tanh(graph, "attended", qn_linear_last_layer(graph, "combine", x, hidden));
    return qn_linear_last_layer(graph, "output", x, s->n_outputs);
}

static qn_value build_whole(qn_graph *graph, const qn_network_sizes *s) {
    qn_value states[N_STATES];
    qn_value source = qn_index_input(graph, "source", QN_SHAPE(s->batch, s->length));
    qn_value lengths = qn_index_input(graph, "source_lengths", QN_SHAPE(s->batch));
    qn_value target = qn_index_input(graph, "target", QN_SHAPE(s->batch, s->target_length));
    qn_value encoded = encode(graph, s, lengths, source, states);
    qn_value x = decode(graph, s, target, encoded, lengths, states);
    if (!s->is_bare)
        return qn_translation_loss(graph, x);
    qn_result(graph, x);
    return x;
}

static qn_value build_encoder(qn_graph *graph, const qn_network_sizes *s) {
    qn_value states[N_STATES];
    qn_value source = qn_index_input(graph, "source", QN_SHAPE(s->batch, s->length));
    qn_value lengths = qn_index_input(graph, "source_lengths", QN_SHAPE(s->batch));
    qn_result(graph, encode(graph, s, lengths, source, states));
    for (int i = 0; i < N_STATES; i++)
        qn_result(graph, states[i]);
    return QN_NO_VALUE;
}

static qn_value build_step(qn_graph *graph, const qn_network_sizes *s) {
    const int64_t hidden = hidden_of(s);
    qn_value states[N_STATES];
    qn_value encoded = qn_input(graph, "encoded", QN_SHAPE(s->batch, s->length, hidden));
    qn_value lengths = qn_index_input(graph, "source_lengths", QN_SHAPE(s->batch));
    for (int i = 0; i < N_STATES; i++)
        states[i] = qn_input(graph, state_names[i], QN_SHAPE(s->batch, hidden));
    qn_value word = qn_index_input(graph, "word", QN_SHAPE(s->batch, 1));
    qn_value logits = decode(graph, s, word, encoded, lengths, states);
    qn_result(graph, qn_reshape(graph, "logits", logits, QN_SHAPE(s->batch, s->n_outputs)));
    for (int i = 0; i < N_STATES; i++)
        qn_result(graph, states[i]);
    return QN_NO_VALUE;
}

static qn_value build(qn_graph *graph, void *user, const qn_network_sizes *s, int phase,
                      qn_value *kept) {
    (void)user;
    (void)phase;
    (void)kept;
    switch (s->variant) {
    case QN_TRANSLATE_ENCODER:
        return build_encoder(graph, s);
    case QN_TRANSLATE_STEP:
        return build_step(graph, s);
    default:
        return build_whole(graph, s);
    }
}

const qn_model qn_model_seq2seq = {
    .name = "seq2seq",
    .domain = "translation",
    .source = "Luong et al. 2015",
    .recipe = {.optimizer = QN_ADAM,
               .rate = 0.001,
               .schedule = QN_COSINE,
               .epochs = 10,
               .batch = 32,
               .clip_norm = 5},
    .task = "translation",
    .input_text = "30+30 of 8000 words",
    .sizes = {.batch = 1, .length = 30, .target_length = 30, .n_inputs = 8000, .n_outputs = 8000},
    .network = build,
};
