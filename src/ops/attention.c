/* Scaled dot-product attention: y (N, H, T, D) = dropout(softmax(scale * query key^T)) value for
 * query (N, H, T, D), key and value (N, H, U, D), of which lengths (N) keys are looked at. Beside y
 * it keeps the logarithm of each row's sum (N, H, T); weights (N, H, T, U) are made block by block,
 * again in the backward pass, and never are a tensor. The mask of dropout is a function of seed,
 * step, key and element, as in dropout.c over the weights. */
#include "ops/shared.h"

typedef struct attention_attributes {
    double scale, rate;
    int64_t key;   /* of the random stream; 0: the node's own */
    int64_t first; /* number of the first sample in the batch: of a piece of it */
} attention_attributes;

static const qn_attribute attention_fields[] = {
    QN_FIELD(attention_attributes, QN_ATTRIBUTE_DOUBLE, scale),
    QN_FIELD(attention_attributes, QN_ATTRIBUTE_DOUBLE, rate),
    QN_FIELD(attention_attributes, QN_ATTRIBUTE_INT64, key),
    QN_FIELD(attention_attributes, QN_ATTRIBUTE_INT64, first),
    {0},
};

enum { QUERY, KEY, VALUE, LENGTHS, N_FORWARD };
enum { Y = 3, LOG_SUMS, DY, BACKWARD_LENGTHS, N_BACKWARD };

static qn_attention_shape shape_of(const void *attributes, const qn_tensor *inputs) {
    const attention_attributes *a = attributes;
    const int64_t *query = inputs[QUERY].shape.dims;
    return (qn_attention_shape){.n = query[0],
                                .h = query[1],
                                .t = query[2],
                                .u = inputs[KEY].shape.dims[2],
                                .d = query[3],
                                .scale = a->scale,
                                .rate = a->rate,
                                .first = a->first};
}

static uint64_t stream_key(const qn_node *node) {
    const attention_attributes *a = node->attributes;
    return a->key ? (uint64_t)a->key : node->key;
}

static void attention_cut(const qn_graph *graph, const qn_node *node, int64_t piece, int64_t pieces,
                          void *attributes) {
    attention_attributes *a = attributes;
    a->key = (int64_t)stream_key(node);
    a->first = piece * (qn_graph_shape(graph, node->inputs[QUERY]).dims[0] / pieces);
}

static qn_rng stream_of(const qn_call *call) {
    return qn_rng_make(call->seed, stream_key(call->node), call->step);
}

/* The inputs that both passes have; lengths is the number of its input. */
static qn_status expect_inputs(const qn_infer *infer, int lengths) {
    const qn_shape query = infer->inputs[QUERY].shape;
    qn_shape key = query;
    QN_TRY(qn_infer_rank(infer, QUERY, 4, "query (N, H, T, D)"));
    QN_TRY(qn_infer_rank(infer, KEY, 4, "key (N, H, U, D)"));
    key.dims[2] = infer->inputs[KEY].shape.dims[2];
    QN_TRY(qn_infer_expect(infer, KEY, "key", key));
    QN_TRY(qn_infer_expect(infer, VALUE, "value", key));
    if (infer->n_inputs <= lengths || infer->inputs[lengths].dtype == QN_NONE)
        return QN_OK;
    QN_TRY(qn_infer_dtype(infer, lengths, QN_I32));
    return qn_infer_expect(infer, lengths, "lengths", QN_SHAPE(query.dims[0]));
}

static qn_status attention_infer(qn_infer *infer) {
    const attention_attributes *a = infer->attributes;
    const qn_tensor query = infer->inputs[QUERY];
    QN_TRY(expect_inputs(infer, LENGTHS));
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
    const qn_attention_shape d = shape_of(attributes, inputs);
    return (qn_cost){.flops = d.n * d.h * d.t * d.u * (2 * products * d.d + others)};
}

static qn_cost attention_cost(const void *attributes, const qn_tensor *inputs,
                              const qn_tensor *outputs) {
    (void)outputs;
    return product_cost(attributes, inputs, 2, 5);
}

static size_t attention_workspace(const qn_kernels *kernels, const void *attributes,
                                  const qn_tensor *inputs, const qn_tensor *outputs,
                                  int n_threads) {
    (void)outputs;
    const qn_attention_shape shape = shape_of(attributes, inputs);
    return kernels->attention_workspace(&shape, false, n_threads);
}

static void attention_run(const qn_call *call) {
    const qn_attention_shape shape = shape_of(call->attributes, call->inputs);
    const int32_t *lengths = call->node->n_inputs > LENGTHS ? call->in[LENGTHS] : NULL;
    call->kernels->attention_forward(call->team, &shape, stream_of(call), call->in[QUERY],
                                     call->in[KEY], call->in[VALUE], lengths, call->out[0],
                                     call->out[1], call->workspace);
}

static void attention_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    attention_attributes attributes = *(const attention_attributes *)node->attributes;
    attributes.key = (int64_t)stream_key(node);
    if (gradient->outputs[1].id >= 0) {
        qn_graph_fail(graph, QN_ERROR_UNSUPPORTED, "%s: no gradient flows through the sums of rows",
                      node->name);
        return;
    }
    const qn_value *in = node->inputs;
    const qn_value inputs[N_BACKWARD] = {in[QUERY],
                                         in[KEY],
                                         in[VALUE],
                                         node->outputs[0],
                                         node->outputs[1],
                                         gradient->outputs[0],
                                         node->n_inputs > LENGTHS ? in[LENGTHS] : QN_NO_VALUE};
    const qn_value first = qn_gradient_add(graph, node, "backward", &qn_op_attention_backward,
                                           inputs, N_BACKWARD, &attributes);
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
    .attributes_bytes = sizeof(attention_attributes),
    .attributes = attention_fields,
    .min_inputs = 3,
    .max_inputs = N_FORWARD,
    .optional_inputs = 1 << LENGTHS,
    .integer_inputs = 1 << LENGTHS,
    .output_names = {NULL, "log_sums"},
    .is_product = true,
    .infer = attention_infer,
    .gradient = attention_gradient,
    .cost = attention_cost,
    .workspace = attention_workspace,
    .run = attention_run,
    .cut = attention_cut,
    .n_samples = 4,
    .sample = attention_sample,
};

qn_value qn_attention(qn_graph *graph, const char *name, qn_value query, qn_value key,
                      qn_value value, qn_value lengths, double scale, double dropout) {
    const bool drops = graph->training && !graph->no_dropout;
    /* A rate that is none is refused by the shape rule. */
    const attention_attributes attributes = {
        .scale = scale, .rate = drops || !(dropout >= 0 && dropout < 1) ? dropout : 0};
    return qn_graph_add1(graph, &qn_op_attention, name, (qn_value[]){query, key, value, lengths},
                         N_FORWARD, &attributes);
}

/* ---- gradient: dquery, dkey, dvalue ---- */

static qn_status backward_infer(qn_infer *infer) {
    const qn_shape query = infer->inputs[QUERY].shape;
    QN_TRY(expect_inputs(infer, BACKWARD_LENGTHS));
    QN_TRY(qn_infer_expect(infer, Y, "y", query));
    QN_TRY(qn_infer_expect(infer, LOG_SUMS, "sums", qn_shape_make(3, query.dims)));
    QN_TRY(qn_infer_expect(infer, DY, "gradient", query));
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

static size_t backward_workspace(const qn_kernels *kernels, const void *attributes,
                                 const qn_tensor *inputs, const qn_tensor *outputs, int n_threads) {
    (void)outputs;
    const qn_attention_shape shape = shape_of(attributes, inputs);
    return kernels->attention_workspace(&shape, true, n_threads);
}

static void backward_run(const qn_call *call) {
    const qn_attention_shape shape = shape_of(call->attributes, call->inputs);
    call->kernels->attention_backward(call->team, &shape, stream_of(call), call->in[QUERY],
                                      call->in[KEY], call->in[VALUE], call->in[BACKWARD_LENGTHS],
                                      call->in[Y], call->in[LOG_SUMS], call->in[DY], call->out[0],
                                      call->out[1], call->out[2], call->workspace);
}

const qn_op qn_op_attention_backward = {
    .name = "attention_backward",
    .attributes_bytes = sizeof(attention_attributes),
    .attributes = attention_fields,
    .min_inputs = N_BACKWARD,
    .max_inputs = N_BACKWARD,
    .optional_inputs = 1 << BACKWARD_LENGTHS,
    .integer_inputs = 1 << BACKWARD_LENGTHS,
    .output_names = {NULL, "key", "value"},
    .infer = backward_infer,
    .cost = backward_cost,
    .workspace = backward_workspace,
    .run = backward_run,
    .cut = attention_cut,
};
