/* BERT, a text encoder, with a head for spans (Devlin et al. 2019, sections 3 and 4.2): learned
 * positions and two token types, layers of self-attention and GELU with layer norm after each sum,
 * and for every token how likely it is the first and the last of the answer. Query, key and value
 * are one linear layer. See the task "answering" for its inputs and results. Leaves out: the
 * pooler, and the heads of published weights. */
#include "graph/graph.h"
#include "models/models.h"

#include <math.h>

enum { MOST_POSITIONS = 512, N_TYPES = 2 };

static const double dropout_rate = 0.1, epsilon = 1e-12, deviation = 0.02;

typedef struct extents {
    int64_t hidden, heads, feed_forward;
    int layers;
} extents;

/* x (N, T, K) to query, key and value (N, heads, T, K / heads). */
static void split_heads(qn_graph *graph, const extents *e, qn_value x, qn_value parts[3]) {
    static const char *const names[] = {"query", "key", "value"};
    static const int order[] = {2, 0, 3, 1, 4};
    const qn_shape shape = qn_graph_shape(graph, x);
    const int64_t n = shape.dims[0], length = shape.dims[1], size = e->hidden / e->heads;
    x = qn_linear_last_layer(graph, "qkv", x, 3 * e->hidden);
    x = qn_reshape(graph, "heads", x, QN_SHAPE(n, length, 3, e->heads, size));
    x = qn_transpose(graph, "by_part", x, order);
    for (int i = 0; i < 3; i++) {
        parts[i] = qn_slice(graph, NULL, x, 0, i, i + 1);
        parts[i] = qn_reshape(graph, names[i], parts[i], QN_SHAPE(n, e->heads, length, size));
    }
}

static qn_value attend(qn_graph *graph, const extents *e, qn_value x, qn_value lengths) {
    static const int order[] = {0, 2, 1, 3};
    const qn_shape shape = qn_graph_shape(graph, x);
    qn_value parts[3];
    split_heads(graph, e, x, parts);
    x = qn_attention(graph, "weighted", parts[0], parts[1], parts[2], lengths,
                     1 / sqrt((double)e->hidden / (double)e->heads), dropout_rate);
    x = qn_reshape(graph, "context", qn_transpose(graph, "by_token", x, order), shape);
    x = qn_linear_last_layer(graph, "output", x, e->hidden);
    return qn_dropout(graph, "dropout", x, dropout_rate);
}

static qn_value feed_forward(qn_graph *graph, const extents *e, qn_value x) {
    x = qn_gelu(graph, "gelu", qn_linear_last_layer(graph, "wide", x, e->feed_forward));
    x = qn_linear_last_layer(graph, "output", x, e->hidden);
    return qn_dropout(graph, "dropout", x, dropout_rate);
}

/* x (N, T, K) to the same shape. */
static qn_value add_layer(qn_graph *graph, const extents *e, qn_value x, qn_value lengths) {
    qn_graph_enter(graph, "attention");
    qn_value y = attend(graph, e, x, lengths);
    qn_graph_leave(graph);
    x = qn_layer_norm_layer(graph, "attention_norm", qn_add(graph, "attended", x, y), epsilon);
    qn_graph_enter(graph, "feed_forward");
    y = feed_forward(graph, e, x);
    qn_graph_leave(graph);
    return qn_layer_norm_layer(graph, "output_norm", qn_add(graph, "sum", x, y), epsilon);
}

/* Tokens and types (N, T) to (N, T, K). */
static qn_value embed(qn_graph *graph, const extents *e, const qn_network_sizes *s, qn_value tokens,
                      qn_value types) {
    qn_value x = qn_embedding_layer(graph, "tokens", tokens, s->n_inputs, e->hidden, deviation);
    qn_value table = qn_parameter(graph, "positions.weight", QN_SHAPE(MOST_POSITIONS, e->hidden),
                                  (qn_initial){QN_INITIAL_NORMAL, deviation}, true);
    x = qn_add_rows(graph, "positions", x, qn_slice(graph, NULL, table, 0, 0, s->length));
    qn_value kinds = qn_embedding_layer(graph, "types", types, N_TYPES, e->hidden, deviation);
    x = qn_layer_norm_layer(graph, "norm", qn_add(graph, "embedded", x, kinds), epsilon);
    return qn_dropout(graph, "dropout", x, dropout_rate);
}

/* Logits (N, T) of both sides of the span; the loss, unless it is to be bare. */
static qn_value finish(qn_graph *graph, const qn_network_sizes *s, qn_value x) {
    static const char *const sides[] = {"start", "end"};
    qn_value logits[2];
    for (int i = 0; i < 2; i++) {
        qn_graph_enter(graph, "%s", sides[i]);
        logits[i] = qn_reshape(graph, "logits", qn_slice(graph, NULL, x, 2, i, i + 1),
                               QN_SHAPE(s->batch, s->length));
        qn_graph_leave(graph);
    }
    if (!s->is_bare)
        return qn_answering_loss(graph, logits);
    qn_result(graph, logits[0]);
    qn_result(graph, logits[1]);
    return logits[0];
}

static qn_value build(qn_graph *graph, const extents *e, const qn_network_sizes *s) {
    const qn_shape shape = QN_SHAPE(s->batch, s->length);
    qn_value tokens = qn_index_input(graph, "token_numbers", shape);
    qn_value types = qn_index_input(graph, "type_numbers", shape);
    qn_value lengths = QN_NO_VALUE;
    if (s->length > MOST_POSITIONS) {
        qn_graph_fail(graph, QN_ERROR_ARGUMENT, "a row of %lld tokens: BERT has %d positions",
                      (long long)s->length, MOST_POSITIONS);
        return QN_NO_VALUE;
    }
    if (s->variant == QN_ANSWER_PADDED)
        lengths = qn_index_input(graph, "lengths", QN_SHAPE(s->batch));
    qn_value x = embed(graph, e, s, tokens, types);
    for (int i = 0; i < e->layers; i++) {
        qn_graph_enter(graph, "layer%d", i + 1);
        x = add_layer(graph, e, x, lengths);
        qn_graph_leave(graph);
    }
    x = qn_linear_last_layer(graph, "span", x, 2);
    return finish(graph, s, x);
}

static qn_value build_base(qn_graph *graph, void *user, const qn_network_sizes *s, int phase,
                           qn_value *kept) {
    (void)user;
    (void)phase;
    (void)kept;
    return build(graph, &(extents){.hidden = 768, .heads = 12, .feed_forward = 3072, .layers = 12},
                 s);
}

static qn_value build_tiny(qn_graph *graph, void *user, const qn_network_sizes *s, int phase,
                           qn_value *kept) {
    (void)user;
    (void)phase;
    (void)kept;
    return build(graph, &(extents){.hidden = 128, .heads = 2, .feed_forward = 512, .layers = 2}, s);
}

const qn_model qn_model_bert_base = {
    .name = "bert-base",
    .domain = "question answering",
    .source = "Devlin et al. 2019",
    .recipe = {.optimizer = QN_ADAMW,
               .rate = 3e-5,
               .weight_decay = 0.01,
               .schedule = QN_COSINE,
               .warmup = 500,
               .epochs = 2,
               .batch = 32,
               .clip_norm = 1},
    .task = "answering",
    .input_text = "128 of 30522 words",
    .sizes = {.batch = 1, .length = 128, .n_inputs = 30522},
    .network = build_base,
    .has_fixed_length = true,
};

const qn_model qn_model_bert_tiny = {
    .name = "bert-tiny",
    .domain = "question answering",
    .source = "Devlin et al. 2019",
    .recipe = {.optimizer = QN_ADAMW,
               .rate = 1e-3,
               .weight_decay = 0.01,
               .schedule = QN_COSINE,
               .warmup = 50,
               .epochs = 40,
               .batch = 16,
               .clip_norm = 1},
    .task = "answering",
    .input_text = "64 of 8192 words",
    .sizes = {.batch = 1, .length = 64, .n_inputs = 8192},
    .network = build_tiny,
    .has_fixed_length = true,
};
