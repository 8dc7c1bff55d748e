/* Causal attention of grouped heads (Vaswani et al. 2017; Ainslie et al. 2023): y (N, T, H, D) =
 * softmax(scale * query key^T) value for query (N, T, H, D), key and value (N, U, G, D), where
 * heads of query share those of keys in their order, and each position has its own range of keys.
 * Scores are computed tile by tile, again in the backward pass, and never stored. */
#include "ops/language.h"
#include "ops/shared.h"

static const qn_attribute causal_fields[] = {
    QN_FIELD(qn_causal_attributes, QN_ATTRIBUTE_DOUBLE, scale),
    QN_FIELD(qn_causal_attributes, QN_ATTRIBUTE_DOUBLE, soft_cap),
    QN_FIELD(qn_causal_attributes, QN_ATTRIBUTE_INT64, window),
    {0},
};

qn_causal_shape qn_causal_of(const void *attributes, const qn_tensor *inputs) {
    const qn_causal_attributes *a = attributes;
    const int64_t *query = inputs[QN_CAUSAL_QUERY].shape.dims;
    const int64_t *key = inputs[QN_CAUSAL_KEY].shape.dims;
    return (qn_causal_shape){.n = query[0],
                             .t = query[1],
                             .u = key[1],
                             .heads = query[2],
                             .key_heads = key[2],
                             .d = query[3],
                             .window = a->window,
                             .scale = a->scale,
                             .soft_cap = a->soft_cap};
}

static bool has_input(const qn_infer *infer, int i) {
    return i < infer->n_inputs && infer->inputs[i].dtype != QN_NONE;
}

/* The inputs that both passes have; ranges is the number of the first of the two of ranges. */
static qn_status expect_inputs(const qn_infer *infer, int ranges) {
    const qn_causal_attributes *a = infer->attributes;
    const qn_shape query = infer->inputs[QN_CAUSAL_QUERY].shape;
    const qn_shape key = infer->inputs[QN_CAUSAL_KEY].shape;
    qn_shape wanted = query;
    QN_TRY(qn_infer_rank(infer, QN_CAUSAL_QUERY, 4, "query (N, T, H, D)"));
    QN_TRY(qn_infer_rank(infer, QN_CAUSAL_KEY, 4, "key (N, U, G, D)"));
    wanted.dims[1] = key.dims[1];
    wanted.dims[2] = key.dims[2];
    QN_TRY(qn_infer_expect(infer, QN_CAUSAL_KEY, "key", wanted));
    QN_TRY(qn_infer_expect(infer, QN_CAUSAL_VALUE, "value", wanted));
    if (query.dims[2] % key.dims[2] != 0)
        return qn_fail(QN_ERROR_ARGUMENT, "%lld heads of query are no multiple of %lld of keys",
                       (long long)query.dims[2], (long long)key.dims[2]);
    if (a->window < 0 || !(a->soft_cap >= 0))
        return qn_fail(QN_ERROR_ARGUMENT, "a window of %lld keys, or a cap of %g, is none",
                       (long long)a->window, a->soft_cap);
    if (query.dims[1] > key.dims[1] && !has_input(infer, ranges + 1))
        return qn_fail(QN_ERROR_ARGUMENT, "%lld positions have only %lld keys",
                       (long long)query.dims[1], (long long)key.dims[1]);
    for (int i = ranges; i < ranges + 2; i++) {
        if (!has_input(infer, i))
            continue;
        QN_TRY(qn_infer_dtype(infer, i, QN_I32));
        QN_TRY(qn_infer_expect(infer, i, "range of keys", QN_SHAPE(query.dims[0], query.dims[1])));
    }
    return QN_OK;
}

static qn_status causal_infer(qn_infer *infer) {
    const qn_tensor query = infer->inputs[QN_CAUSAL_QUERY];
    QN_TRY(expect_inputs(infer, QN_CAUSAL_FIRST));
    infer->n_outputs = 2;
    infer->outputs[0] = query;
    infer->outputs[1] = (qn_tensor){query.dtype, qn_shape_make(3, query.shape.dims)};
    return QN_OK;
}

/* So many products with D multiply-adds for each weight, and exp, sums and scaling. Half of the
 * scores of a position's own sequence lie ahead of it. */
static qn_cost product_cost(const void *attributes, const qn_tensor *inputs, int64_t products,
                            int64_t others) {
    const qn_causal_shape d = qn_causal_of(attributes, inputs);
    const int64_t behind = d.u > d.t ? d.u - d.t : 0;
    int64_t keys = behind + (d.u - behind + 1) / 2;
    if (d.window > 0 && d.window < keys)
        keys = d.window;
    return (qn_cost){.flops = d.n * d.heads * d.t * keys * (2 * products * d.d + others)};
}

static qn_cost causal_cost(const void *attributes, const qn_tensor *inputs,
                           const qn_tensor *outputs) {
    (void)outputs;
    return product_cost(attributes, inputs, 2, 5);
}

static void causal_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    if (gradient->outputs[1].id >= 0) {
        qn_graph_fail(graph, QN_ERROR_UNSUPPORTED, "%s: no gradient flows through the sums of rows",
                      node->name);
        return;
    }
    qn_value inputs[QN_CAUSAL_N_BACKWARD] = {[QN_CAUSAL_Y] = node->outputs[0],
                                             [QN_CAUSAL_LOG_SUMS] = node->outputs[1],
                                             [QN_CAUSAL_DY] = gradient->outputs[0]};
    for (int i = 0; i < 3; i++)
        inputs[i] = node->inputs[i];
    for (int i = 0; i < 2; i++)
        inputs[QN_CAUSAL_BACKWARD_FIRST + i] =
            QN_CAUSAL_FIRST + i < node->n_inputs ? node->inputs[QN_CAUSAL_FIRST + i] : QN_NO_VALUE;
    const qn_value first = qn_gradient_add(graph, node, "backward", &qn_op_causal_backward, inputs,
                                           QN_CAUSAL_N_BACKWARD, node->attributes);
    const qn_value_info *info = qn_graph_value(graph, first);
    for (int i = 0; info && i < 3; i++)
        gradient->inputs[i] = graph->nodes[info->producer]->outputs[i];
}

/* Groups of heads; keys from before and first keys, some positions with none; a window and a cap;
 * ranges whose both ends are given, and more than a block of rows and a tile of keys. */
static qn_value causal_sample(qn_graph *graph, int variant) {
    static const struct {
        int64_t n, t, u, heads, key_heads, d, window;
        double soft_cap;
        bool has_first, has_last;
    } all[] = {{2, 5, 5, 4, 2, 3, 0, 0, false, false},
               {2, 5, 7, 3, 1, 4, 0, 0, true, false},
               {1, 9, 9, 2, 2, 5, 4, 1.5, false, false},
               {2, 4, 3, 2, 1, 2, 0, 0, true, true},
               {1, 131, 133, 3, 1, 2, 0, 0, false, false}};
    const int64_t n = all[variant].n, t = all[variant].t, u = all[variant].u, d = all[variant].d;
    qn_value query = qn_sample_parameter(graph, "query", QN_SHAPE(n, t, all[variant].heads, d), 2);
    const qn_shape keys = QN_SHAPE(n, u, all[variant].key_heads, d);
    qn_value key = qn_sample_parameter(graph, "key", keys, 2);
    qn_value value = qn_sample_parameter(graph, "value", keys, 1);
    qn_causal_attention_options o = {.query = query,
                                     .key = key,
                                     .value = value,
                                     .first = QN_NO_VALUE,
                                     .last = QN_NO_VALUE,
                                     .scale = 0.5,
                                     .soft_cap = all[variant].soft_cap,
                                     .window = all[variant].window};
    if (all[variant].has_first)
        o.first = qn_label(graph, "first", QN_I32, QN_SHAPE(n, t));
    if (all[variant].has_last)
        o.last = qn_label(graph, "last", QN_I32, QN_SHAPE(n, t));
    return qn_causal_attention(graph, "y", &o);
}

const qn_op qn_op_causal = {
    .name = "causal_attention",
    .attributes_bytes = sizeof(qn_causal_attributes),
    .attributes = causal_fields,
    .min_inputs = 3,
    .max_inputs = QN_CAUSAL_N_FORWARD,
    .optional_inputs = 1 << QN_CAUSAL_FIRST | 1 << QN_CAUSAL_LAST,
    .any_type_inputs = 1 << QN_CAUSAL_FIRST | 1 << QN_CAUSAL_LAST,
    .output_names = {NULL, "log_sums"},
    .is_product = true,
    .infer = causal_infer,
    .gradient = causal_gradient,
    .cost = causal_cost,
    .n_samples = 5,
    .sample = causal_sample,
};

qn_value qn_causal_attention(qn_graph *graph, const char *name,
                             const qn_causal_attention_options *o) {
    QN_NEED_OR(graph, "graph", QN_NO_VALUE);
    const qn_causal_attributes attributes = {o->scale, o->soft_cap, o->window};
    const qn_value inputs[] = {o->query, o->key, o->value, o->first, o->last};
    return qn_graph_add1(graph, &qn_op_causal, name, inputs, QN_CAUSAL_N_FORWARD, &attributes);
}

/* ---- gradient: dquery, dkey, dvalue ---- */

static qn_status backward_infer(qn_infer *infer) {
    const qn_shape query = infer->inputs[QN_CAUSAL_QUERY].shape;
    QN_TRY(expect_inputs(infer, QN_CAUSAL_BACKWARD_FIRST));
    QN_TRY(qn_infer_expect(infer, QN_CAUSAL_Y, "y", query));
    QN_TRY(qn_infer_expect(infer, QN_CAUSAL_LOG_SUMS, "sums", qn_shape_make(3, query.dims)));
    QN_TRY(qn_infer_expect(infer, QN_CAUSAL_DY, "gradient", query));
    infer->n_outputs = 3;
    for (int i = 0; i < 3; i++)
        infer->outputs[i] = infer->inputs[i];
    return QN_OK;
}

static qn_cost backward_cost(const void *attributes, const qn_tensor *inputs,
                             const qn_tensor *outputs) {
    (void)outputs;
    return product_cost(attributes, inputs, 5, 8);
}

const qn_op qn_op_causal_backward = {
    .name = "causal_attention_backward",
    .attributes_bytes = sizeof(qn_causal_attributes),
    .attributes = causal_fields,
    .min_inputs = QN_CAUSAL_N_BACKWARD,
    .max_inputs = QN_CAUSAL_N_BACKWARD,
    .optional_inputs = 1 << QN_CAUSAL_BACKWARD_FIRST | 1 << QN_CAUSAL_BACKWARD_LAST,
    .any_type_inputs = 1 << QN_CAUSAL_BACKWARD_FIRST | 1 << QN_CAUSAL_BACKWARD_LAST,
    .output_names = {NULL, "key", "value"},
    .infer = backward_infer,
    .cost = backward_cost,
};
