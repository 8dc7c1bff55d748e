/* See ops/round.h: numbers of other formats than those of types, and whole numbers whose width
 * follows what is lost by them (Zhang et al. 2020, "Fixed-point back-propagation training", CVPR).
 * No gradient. */
#include "ops/round.h"
#include "ops/quantise.h"
#include "ops/shared.h"

static const qn_attribute round_fields[] = {
    {"exponent_bits", QN_ATTRIBUTE_INT, offsetof(qn_round_attributes, format.exponent_bits)},
    {"fraction_bits", QN_ATTRIBUTE_INT, offsetof(qn_round_attributes, format.fraction_bits)},
    {"top_exponent", QN_ATTRIBUTE_INT, offsetof(qn_round_attributes, format.top_exponent)},
    {"limit", QN_ATTRIBUTE_DOUBLE, offsetof(qn_round_attributes, format.limit)},
    {"fine_bits", QN_ATTRIBUTE_INT, offsetof(qn_round_attributes, format.fine_bits)},
    {"group_axes", QN_ATTRIBUTE_INT, offsetof(qn_round_attributes, format.group_axes)},
    {"rounding", QN_ATTRIBUTE_INT, offsetof(qn_round_attributes, format.rounding)},
    QN_FIELD(qn_round_attributes, QN_ATTRIBUTE_INT, dtype),
    QN_FIELD(qn_round_attributes, QN_ATTRIBUTE_INT64, key),
    QN_FIELD(qn_round_attributes, QN_ATTRIBUTE_INT64, first),
    {0},
};

static const qn_attribute adapt_fields[] = {
    QN_FIELD(qn_adapt_attributes, QN_ATTRIBUTE_INT, dtype),
    QN_FIELD(qn_adapt_attributes, QN_ATTRIBUTE_INT, least_bits),
    QN_FIELD(qn_adapt_attributes, QN_ATTRIBUTE_DOUBLE, most_loss),
    QN_FIELD(qn_adapt_attributes, QN_ATTRIBUTE_DOUBLE, moving),
    QN_FIELD(qn_adapt_attributes, QN_ATTRIBUTE_INT, first_steps),
    QN_FIELD(qn_adapt_attributes, QN_ATTRIBUTE_INT, longest),
    {0},
};

/* ---- shapes ---- */

static qn_status check_format(const qn_format *f) {
    if (f->rounding < QN_ROUND_EVEN || f->rounding > QN_ROUND_STOCHASTIC)
        return qn_fail(QN_ERROR_ARGUMENT, "there is no rounding %d of fractions", f->rounding);
    if (f->exponent_bits < 0 || f->exponent_bits > 8 || f->fraction_bits < 0 ||
        f->fraction_bits > 30 || f->fine_bits < 0 || f->fine_bits > 8 || f->top_exponent > 126 ||
        f->top_exponent < -126)
        return qn_fail(QN_ERROR_ARGUMENT, "no format of %d and %d bits", f->exponent_bits,
                       f->fraction_bits);
    return QN_OK;
}

/* A scale is one for all, or one for each index of the first axis. */
static qn_status check_scale(const qn_infer *infer) {
    const qn_shape x = infer->inputs[0].shape, scale = infer->inputs[1].shape;
    if (infer->inputs[1].dtype == QN_NONE || scale.rank == 0)
        return QN_OK;
    return qn_infer_expect(infer, 1, "scale", qn_shape_make(x.rank > 0, x.dims));
}

static qn_status round_infer(qn_infer *infer) {
    const qn_round_attributes *a = infer->attributes;
    const qn_dtype x = infer->inputs[0].dtype;
    QN_TRY(check_format(&a->format));
    if (!qn_dtype_is_real(x) || qn_dtype_bytes((qn_dtype)a->dtype) == 0)
        return qn_fail(QN_ERROR_ARGUMENT, "%s is not rounded to %s", qn_dtype_name(x),
                       qn_dtype_name((qn_dtype)a->dtype));
    if (infer->n_inputs > 1)
        QN_TRY(check_scale(infer));
    infer->outputs[0] = (qn_tensor){(qn_dtype)a->dtype, infer->inputs[0].shape};
    return QN_OK;
}

static qn_status settle_infer(qn_infer *infer) {
    const qn_round_attributes *a = infer->attributes;
    QN_TRY(check_format(&a->format));
    if (infer->n_inputs > 1)
        QN_TRY(check_scale(infer));
    infer->outputs[0] = infer->inputs[0];
    return QN_OK;
}

static qn_status adapt_infer(qn_infer *infer) {
    const qn_adapt_attributes *a = infer->attributes;
    QN_TRY(qn_infer_expect(infer, 1, "what is kept", QN_SHAPE(QN_ADAPTED_COUNT)));
    if (a->dtype != QN_I16 || a->least_bits < 1 || a->least_bits > 15 || a->longest < 1 ||
        a->first_steps < 0)
        return qn_fail(QN_ERROR_ARGUMENT, "%d bits of %s do not adapt", a->least_bits,
                       qn_dtype_name((qn_dtype)a->dtype));
    infer->n_outputs = 3;
    infer->outputs[0] = (qn_tensor){QN_I16, infer->inputs[0].shape};
    infer->outputs[1] = (qn_tensor){QN_I32, {0}};
    infer->outputs[2] = infer->inputs[1];
    return QN_OK;
}

/* ---- costs, pieces ---- */

static qn_cost round_cost(const void *attributes, const qn_tensor *inputs,
                          const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(8, outputs);
}

static void round_split(const qn_graph *graph, const qn_node *node, int64_t piece, int64_t pieces,
                        void *attributes) {
    qn_round_attributes *a = attributes;
    a->key = a->key ? a->key : (int64_t)node->key;
    a->first = piece * (qn_shape_count(qn_graph_shape(graph, node->outputs[0])) / pieces);
}

/* ---- samples ---- */

static const qn_format sample_formats[] = {
    {.exponent_bits = 6, .fraction_bits = 9, .top_exponent = 31, .rounding = QN_ROUND_STOCHASTIC},
    {.exponent_bits = 2, .fraction_bits = 2, .top_exponent = -1, .group_axes = 5},
    {.limit = 127 * 128, .fine_bits = 7},
    {.fraction_bits = 5, .limit = 0.5, .rounding = QN_ROUND_AWAY},
};

static qn_value round_sample(qn_graph *graph, int variant) {
    static const qn_dtype types[] = {QN_F16, QN_BF16, QN_I16, QN_I32};
    const qn_value x = qn_input(graph, "x", QN_SHAPE(3, 5, 7));
    const qn_value scale =
        variant != 2
            ? QN_NO_VALUE
            : qn_op_broadcast(graph, "scale", qn_op_scalar(graph, "one", 1), QN_SHAPE(3), 0x1p-13);
    return qn_op_round(graph, "y", x, scale, types[variant], &sample_formats[variant]);
}

static qn_value settle_sample(qn_graph *graph, int variant) {
    return qn_op_settle(graph, "y", qn_sample_parameter(graph, "x", QN_SHAPE(7, 5), 1), QN_NO_VALUE,
                        &sample_formats[variant ? 3 : 0]);
}

static qn_value adapt_sample(qn_graph *graph, int variant) {
    const qn_adapt_attributes how = {QN_I16, variant ? 15 : 7, 0.03, 0.04, 4, 8};
    const qn_value kept = qn_graph_add_source(graph, QN_KIND_LABEL, "kept",
                                              (qn_tensor){graph->real, QN_SHAPE(QN_ADAPTED_COUNT)},
                                              (qn_initial){QN_INITIAL_ZERO, 0}, false);
    const qn_node *node = qn_op_adapt(graph, "y", qn_input(graph, "x", QN_SHAPE(5, 7)), kept, &how);
    return node ? node->outputs[0] : QN_NO_VALUE;
}

const qn_op qn_op_round_numbers = {
    .name = "round",
    .attributes_bytes = sizeof(qn_round_attributes),
    .attributes = round_fields,
    .min_inputs = 1,
    .max_inputs = 2,
    .optional_inputs = 1 << 1,
    .any_type_inputs = 3,
    .stops_gradient = true,
    .infer = round_infer,
    .cost = round_cost,
    .split = round_split,
    .n_samples = 4,
    .sample = round_sample,
};

const qn_op qn_op_settle_numbers = {
    .name = "settle",
    .attributes_bytes = sizeof(qn_round_attributes),
    .attributes = round_fields,
    .min_inputs = 1,
    .max_inputs = 2,
    .optional_inputs = 1 << 1,
    .infer = settle_infer,
    .cost = round_cost,
    .overwrites = {1},
    .n_samples = 2,
    .sample = settle_sample,
};

const qn_op qn_op_adapt_numbers = {
    .name = "adapt",
    .attributes_bytes = sizeof(qn_adapt_attributes),
    .attributes = adapt_fields,
    .min_inputs = 2,
    .max_inputs = 2,
    .output_names = {NULL, "exponent", "kept"},
    .stops_gradient = true,
    .looks_at_batch = true,
    .infer = adapt_infer,
    .cost = round_cost,
    .n_samples = 2,
    .sample = adapt_sample,
};

/* ---- builders ---- */

qn_value qn_op_round(qn_graph *graph, const char *name, qn_value x, qn_value scale, qn_dtype dtype,
                     const qn_format *format) {
    const qn_round_attributes attributes = {.format = *format, .dtype = (int)dtype};
    return qn_graph_add1(graph, &qn_op_round_numbers, name, (qn_value[]){x, scale},
                         scale.id < 0 ? 1 : 2, &attributes);
}

qn_value qn_op_settle(qn_graph *graph, const char *name, qn_value x, qn_value scale,
                      const qn_format *format) {
    const qn_round_attributes attributes = {.format = *format, .dtype = (int)graph->real};
    return qn_graph_add1(graph, &qn_op_settle_numbers, name, (qn_value[]){x, scale},
                         scale.id < 0 ? 1 : 2, &attributes);
}

const qn_node *qn_op_adapt(qn_graph *graph, const char *name, qn_value x, qn_value kept,
                           const qn_adapt_attributes *how) {
    return qn_graph_add(graph, &qn_op_adapt_numbers, name, (qn_value[]){x, kept}, 2, how);
}
