/* next-word: predicts the next word as a keyboard does, an embedding, one LSTM layer, and a
 * projection back to the embedding, whose table gives the logits, too (Press and Wolf 2017, "Using
 * the output embedding to improve language models", section 3). Its state is carried as in the
 * character models. */
#include "models/models.h"

enum { EMBEDDED = 128, HIDDEN = 256 };

/* Of the words' vectors: their products with a projection of like size are logits of about 1. */
static const double deviation = 0.1, drop_rate = 0.25;

static qn_value build(qn_graph *graph, void *user, const qn_network_sizes *s, int phase,
                      qn_value *kept) {
    (void)user;
    (void)phase;
    (void)kept;
    const int64_t hidden = s->hidden > 0 ? s->hidden : HIDDEN, n_words = s->n_inputs;
    const qn_initial normal = {QN_INITIAL_NORMAL, deviation}, zero = {QN_INITIAL_ZERO, 0};
    qn_value tokens = qn_index_input(graph, "tokens", QN_SHAPE(s->batch, s->length));
    qn_value h = qn_input(graph, "h", QN_SHAPE(s->batch, hidden));
    qn_value c = qn_input(graph, "c", QN_SHAPE(s->batch, hidden));
    qn_value table =
        qn_parameter(graph, "embedding.weight", QN_SHAPE(n_words, EMBEDDED), normal, true);
    qn_value bias = qn_parameter(graph, "output.bias", QN_SHAPE(n_words), zero, true);
    qn_value x =
        qn_dropout(graph, "drop1", qn_embedding(graph, "embedding", table, tokens), drop_rate);
    const qn_lstm_result layer = qn_lstm_layer(graph, "lstm1", x, hidden, h, c, QN_NO_VALUE);
    const qn_value states[] = {layer.h, layer.c};
    x = qn_dropout(graph, "drop2", layer.y, drop_rate);
    x = qn_reshape(graph, "rows", x, QN_SHAPE(s->batch * s->length, hidden));
    x = qn_linear_layer(graph, "projection", x, EMBEDDED);
    x = qn_linear(graph, "output", x, table, bias);
    x = qn_reshape(graph, "output.axes", x, QN_SHAPE(s->batch, s->length, n_words));
    if (!s->is_bare)
        return qn_language_loss(graph, x, states, 2);
    qn_result(graph, x);
    for (int i = 0; i < 2; i++)
        qn_result(graph, states[i]);
    return x;
}

const qn_model qn_model_next_word = {
    .name = "next-word",
    .domain = "language",
    .source = "Press and Wolf 2017",
    .recipe = {.optimizer = QN_ADAM,
               .rate = 0.003,
               .schedule = QN_COSINE,
               .epochs = 6,
               .batch = 32,
               .clip_norm = 5},
    .task = "language",
    .input_text = "20 of 8000 words",
    .sizes = {.batch = 1, .length = 20, .n_inputs = 8000, .n_outputs = 8000},
    .network = build,
    .has_words = true,
};
