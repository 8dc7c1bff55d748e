/* Scaled dot-product attention: y (N, H, T, D) = dropout(softmax(scale * query key^T)) value for
 * query (N, H, T, D), key and value (N, H, U, D), of which the first lengths (N) keys take part.
 * Besides y it stores the logarithm of each row's sum (N, H, T). The weights (N, H, T, U) are
 * computed block by block, again in the backward pass, and never stored as a tensor. The dropout
 * mask is a function of seed, step, key and element, as in dropout.c over the weights. */
#include "ops/network/attention.h"
#include "base/status.h"
#include "ops/shared.h"

static const qn_attribute attention_fields[] = {
    QN_FIELD(qn_attention_attributes, QN_ATTRIBUTE_DOUBLE, scale),
    QN_FIELD(qn_attention_attributes, QN_ATTRIBUTE_DOUBLE, rate),
    QN_FIELD(qn_attention_attributes, QN_ATTRIBUTE_INT64, key),
    QN_FIELD(qn_attention_attributes, QN_ATTRIBUTE_INT64, first),
    {0},
};

qn_attention_shape qn_attention_of(const void *attributes, const qn_tensor *inputs) {
    const qn_attention_attributes *a = attributes;
    const int64_t *query = inputs[QN_ATTENTION_QUERY].shape.dims;
    return (qn_attention_shape){.n = query[0],
                                .h = query[1],
                                .t = query[2],
                                .u = inputs[QN_ATTENTION_KEY].shape.dims[2],
                                .d = query[3],
                                .scale = a->scale,
                                .rate = a->rate,
                                .first = a->first};
}

uint64_t qn_attention_key(const qn_node *node) {
    const qn_attention_attributes *a = node->attributes;
    return a->key ? (uint64_t)a->key : node->key;
}

static void attention_split(const qn_graph *graph, const qn_node *node, int64_t piece,
                            int64_t pieces, void *attributes) {
    qn_attention_attributes *a = attributes;
    a->key = (int64_t)qn_attention_key(node);
    a->first = piece * (qn_graph_shape(graph, node->inputs[QN_ATTENTION_QUERY]).dims[0] / pieces);
}

/* The inputs that both passes have; lengths is the number of its input. */
static qn_status expect_inputs(const qn_infer *infer, int lengths) {
    const qn_shape query = infer->inputs[QN_ATTENTION_QUERY].shape;
    qn_shape key = query;
    QN_TRY(qn_infer_rank(infer, QN_ATTENTION_QUERY, 4, "query (N, H, T, D)"));
    QN_TRY(qn_infer_rank(infer, QN_ATTENTION_KEY, 4, "key (N, H, U, D)"));
    key.dims[2] = infer->inputs[QN_ATTENTION_KEY].shape.dims[2];
    QN_TRY(qn_infer_expect(infer, QN_ATTENTION_KEY, "key", key));
    QN_TRY(qn_infer_expect(infer, QN_ATTENTION_VALUE, "value", key));
    if (infer->n_inputs <= lengths || infer->inputs[lengths].dtype == QN_NONE)
        return QN_OK;
    QN_TRY(qn_infer_dtype(infer, lengths, QN_I32));
    return qn_infer_expect(infer, lengths, "lengths", QN_SHAPE(query.dims[0]));
}

static qn_status attention_infer(qn_infer *infer) {
    const qn_attention_attributes *a = infer->attributes;
    const qn_tensor query = infer->inputs[QN_ATTENTION_QUERY];
    QN_TRY(expect_inputs(infer, QN_ATTENTION_LENGTHS));
    if (!(a->rate >= 0 && a->rate < 1))
        return qn_fail(QN_ERROR_ARGUMENT, "dropout rate %g is not in [0, 1)", a->rate);
    infer->n_outputs = 2;
    infer->outputs[0] = query;
    infer->outputs[1] = (qn_tensor){query.dtype, qn_shape_make(3, query.shape.dims)};
    return QN_OK;
}

/* So many products with D multiply-adds for each weight, and exp, sums and scaling. */
static qn_cost product_cost(const void *attributes, const qn_tensor *inputs, int64_t products,
                            int64_t others) {
    const qn_attention_shape d = qn_attention_of(attributes, inputs);
    return (qn_cost){.flops = d.n * d.h * d.t * d.u * (2 * products * d.d + others)};
}

static qn_cost attention_cost(const void *attributes, const qn_tensor *inputs,
                              const qn_tensor *outputs) {
    (void)outputs;
    return product_cost(attributes, inputs, 2, 5);
}

static void attention_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    qn_attention_attributes attributes = *(const qn_attention_attributes *)node->attributes;
    attributes.key = (int64_t)qn_attention_key(node);
    if (gradient->outputs[1].id >= 0) {
        qn_graph_fail(graph, QN_ERROR_UNSUPPORTED, "%s: no gradient flows through the sums of rows",
                      node->name);
        return;
    }
    const qn_value *in = node->inputs;
    const qn_value inputs[QN_ATTENTION_N_BACKWARD] = {
        in[QN_ATTENTION_QUERY],
        in[QN_ATTENTION_KEY],
        in[QN_ATTENTION_VALUE],
        node->outputs[0],
        node->outputs[1],
        gradient->outputs[0],
        node->n_inputs > QN_ATTENTION_LENGTHS ? in[QN_ATTENTION_LENGTHS] : QN_NO_VALUE};
    const qn_value first = qn_gradient_add(graph, node, "backward", &qn_op_attention_backward,
                                           inputs, QN_ATTENTION_N_BACKWARD, &attributes);
    const qn_value_info *info = qn_graph_value(graph, first);
    for (int i = 0; info && i < 3; i++)
        gradient->inputs[i] = graph->nodes[info->producer]->outputs[i];
}

/* All keys; some, and one sample with none; dropout; both. */
static qn_value attention_sample(qn_graph *graph, int variant) {
    const int64_t n = variant & 1 ? 3 : 2, h = 2, t = 5, u = variant < 2 ? 7 : 3, d = 4;
    qn_value query = qn_sample_parameter(graph, "query", QN_SHAPE(n, h, t, d), 2);
    qn_value key = qn_sample_parameter(graph, "key", QN_SHAPE(n, h, u, d), 2);
    qn_value value = qn_sample_parameter(graph, "value", QN_SHAPE(n, h, u, d), 1);
    qn_value lengths = QN_NO_VALUE;
    if (variant & 1)
        lengths = qn_label(graph, "lengths", QN_I32, QN_SHAPE(n));
    return qn_attention(graph, "y", query, key, value, lengths, 0.5, variant < 2 ? 0 : 0.3);
}

const qn_op qn_op_attention = {
    .name = "attention",
    .attributes_bytes = sizeof(qn_attention_attributes),
    .attributes = attention_fields,
    .min_inputs = 3,
    .max_inputs = QN_ATTENTION_N_FORWARD,
    .optional_inputs = 1 << QN_ATTENTION_LENGTHS,
    .any_type_inputs = 1 << QN_ATTENTION_LENGTHS,
    .output_names = {NULL, "log_sums"},
    .is_product = true,
    .infer = attention_infer,
    .gradient = attention_gradient,
    .cost = attention_cost,
    .split = attention_split,
    .n_samples = 4,
    .sample = attention_sample,
};

qn_value qn_attention(qn_graph *graph, const char *name, qn_value query, qn_value key,
                      qn_value value, qn_value lengths, double scale, double dropout) {
    QN_NEED_OR(graph, "graph", QN_NO_VALUE);
    const bool drops = graph->training && !graph->no_dropout;
    /* A rate that is none is refused by the shape rule. */
    const qn_attention_attributes attributes = {
        .scale = scale, .rate = drops || !(dropout >= 0 && dropout < 1) ? dropout : 0};
    return qn_graph_add1(graph, &qn_op_attention, name, (qn_value[]){query, key, value, lengths},
                         QN_ATTENTION_N_FORWARD, &attributes);
}

/* ---- gradient: dquery, dkey, dvalue ---- */

static qn_status backward_infer(qn_infer *infer) {
    const qn_shape query = infer->inputs[QN_ATTENTION_QUERY].shape;
    QN_TRY(expect_inputs(infer, QN_ATTENTION_BACKWARD_LENGTHS));
    QN_TRY(qn_infer_expect(infer, QN_ATTENTION_Y, "y", query));
    QN_TRY(qn_infer_expect(infer, QN_ATTENTION_LOG_SUMS, "sums", qn_shape_make(3, query.dims)));
    QN_TRY(qn_infer_expect(infer, QN_ATTENTION_DY, "gradient", query));
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

const qn_op qn_op_attention_backward = {
    .name = "attention_backward",
    .attributes_bytes = sizeof(qn_attention_attributes),
    .attributes = attention_fields,
    .min_inputs = QN_ATTENTION_N_BACKWARD,
    .max_inputs = QN_ATTENTION_N_BACKWARD,
    .optional_inputs = 1 << QN_ATTENTION_BACKWARD_LENGTHS,
    .any_type_inputs = 1 << QN_ATTENTION_BACKWARD_LENGTHS,
    .output_names = {NULL, "key", "value"},
    .infer = backward_infer,
    .cost = backward_cost,
    .split = attention_split,
};
