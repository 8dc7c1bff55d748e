/* See ops/rescaled.h. The shape rules and costs are those of the products. */
#include "ops/rescaled.h"
#include "ops/network/convolution.h"
#include "ops/shared.h"

#include <string.h>

typedef struct linear_attributes {
    qn_activation_attributes product;
    qn_rescaling how;
} linear_attributes;

typedef struct plain_attributes {
    qn_rescaling how;
} plain_attributes;

typedef struct conv2d_attributes {
    qn_conv2d_attributes product;
    qn_rescaling how;
} conv2d_attributes;

typedef struct backward_attributes {
    qn_conv2d_backward_attributes product;
    qn_rescaling how;
} backward_attributes;

#define RESCALING_FIELDS(type)                                                                     \
    {"bits", QN_ATTRIBUTE_INT, offsetof(type, how.bits)},                                          \
        {"rounding", QN_ATTRIBUTE_INT, offsetof(type, how.rounding)},                              \
        {"adapts", QN_ATTRIBUTE_INT, offsetof(type, how.adapts)},                                  \
        {"period", QN_ATTRIBUTE_INT, offsetof(type, how.period)},                                  \
        {"first_drop", QN_ATTRIBUTE_INT64, offsetof(type, how.first_drop)},                        \
        {"second_drop", QN_ATTRIBUTE_INT64, offsetof(type, how.second_drop)},                      \
        {"third_drop", QN_ATTRIBUTE_INT64, offsetof(type, how.third_drop)}, {                      \
        0                                                                                          \
    }

static const qn_attribute linear_fields[] = {
    {"activation", QN_ATTRIBUTE_ACTIVATION, offsetof(linear_attributes, product.activation)},
    RESCALING_FIELDS(linear_attributes),
};

static const qn_attribute plain_fields[] = {
    RESCALING_FIELDS(plain_attributes),
};

static const qn_attribute conv2d_fields[] = {
    {"window", QN_ATTRIBUTE_WINDOW, offsetof(conv2d_attributes, product.window)},
    {"groups", QN_ATTRIBUTE_INT, offsetof(conv2d_attributes, product.groups)},
    {"activation", QN_ATTRIBUTE_ACTIVATION, offsetof(conv2d_attributes, product.activation)},
    {"batch", QN_ATTRIBUTE_INT64, offsetof(conv2d_attributes, product.batch)},
    RESCALING_FIELDS(conv2d_attributes),
};

static const qn_attribute backward_fields[] = {
    {"shape", QN_ATTRIBUTE_CONV2D, offsetof(backward_attributes, product.shape)},
    RESCALING_FIELDS(backward_attributes),
};

const qn_rescaling *qn_rescaling_of(const qn_op *op, const void *attributes) {
    return (const void *)((const char *)attributes + op->attributes_bytes - sizeof(qn_rescaling));
}

int qn_rescaling_bits(const qn_rescaling *rescaling, uint64_t step) {
    const int64_t drops[] = {rescaling->first_drop, rescaling->second_drop, rescaling->third_drop};
    int bits = rescaling->bits;
    for (int i = 0; i < QN_MOST_DROPS; i++)
        bits -= drops[i] > 0 && step >= (uint64_t)drops[i];
    return bits;
}

/* ---- shapes ---- */

static qn_status infer_as(const qn_op *product, const qn_op *twin, qn_infer *infer) {
    const qn_rescaling *how = qn_rescaling_of(twin, infer->attributes);
    qn_infer sums = {infer->attributes, 2, infer->inputs, 1, {{0}}};
    QN_TRY(product->infer(&sums));
    QN_TRY(qn_infer_dtype(infer, 0, QN_I8));
    QN_TRY(qn_infer_dtype(infer, 2, QN_I32));
    QN_TRY(qn_infer_expect(infer, 2, "what is kept", QN_SHAPE(QN_KEPT_COUNT)));
    if (how->bits < 1 || how->bits > 7)
        return qn_fail(QN_ERROR_ARGUMENT, "%d bits; i8 has 1 to 7", how->bits);
    if (how->rounding != QN_ROUND_AWAY && how->rounding != QN_ROUND_PSEUDO_STOCHASTIC)
        return qn_fail(QN_ERROR_ARGUMENT, "there is no rounding %d of sums", how->rounding);
    infer->n_outputs = 3;
    infer->outputs[0] = (qn_tensor){QN_I8, sums.outputs[0].shape};
    infer->outputs[1] = (qn_tensor){QN_I32, {0}};
    infer->outputs[2] = infer->inputs[2];
    return QN_OK;
}

/* ---- samples ---- */

static qn_value whole(qn_graph *graph, const char *name, qn_dtype dtype, qn_shape shape) {
    return qn_graph_add_source(graph, QN_KIND_LABEL, name, (qn_tensor){dtype, shape},
                               (qn_initial){QN_INITIAL_ZERO, 0}, false);
}

static qn_value add_sample(qn_graph *graph, const qn_op *product, const void *attributes,
                           qn_shape a, qn_shape b, int variant) {
    const qn_value operands[] = {whole(graph, "a", QN_I8, a), whole(graph, "b", QN_I8, b)};
    const qn_rescaling how = {.bits = variant ? 4 : 7,
                              .rounding = variant ? QN_ROUND_PSEUDO_STOCHASTIC : QN_ROUND_AWAY};
    const qn_node *node =
        qn_op_rescaled(graph, "y", product, attributes, operands,
                       whole(graph, "kept", QN_I32, QN_SHAPE(QN_KEPT_COUNT)), &how);
    return node ? node->outputs[0] : QN_NO_VALUE;
}

enum { SAMPLE_N = 3, SAMPLE_C = 5, SAMPLE_K = 7 };

static qn_value conv2d_sample_of(qn_graph *graph, const qn_op *product, int variant) {
    const qn_convolution shape = {.n = 2,
                                  .h = 7,
                                  .w = 6,
                                  .c = 4,
                                  .k = 6,
                                  .p = 4,
                                  .q = 3,
                                  .r = 3,
                                  .s = 2,
                                  .stride_h = 2,
                                  .stride_w = 2,
                                  .pad_top = 1,
                                  .dilation_h = 1,
                                  .dilation_w = 1,
                                  .groups = 1};
    const qn_conv2d_attributes forward = {
        .window = {.stride_h = 2, .stride_w = 2, .pad_top = 1, .pad_bottom = 1},
        .groups = 1,
        .activation = {variant ? QN_ACTIVATION_RELU : QN_ACTIVATION_NONE, 0}};
    const qn_conv2d_backward_attributes backward = {shape};
    const qn_shape x = qn_conv2d_input(&shape), y = qn_conv2d_output(&shape);
    const qn_shape w = qn_conv2d_filter(&shape);
    if (product == &qn_op_conv2d)
        return add_sample(graph, product, &forward, x, w, variant);
    if (product == &qn_op_conv2d_backward_data)
        return add_sample(graph, product, &backward, y, w, variant);
    return add_sample(graph, product, &backward, x, y, variant);
}

static qn_value linear_sample_of(qn_graph *graph, const qn_op *product, int variant) {
    const qn_activation_attributes none = {{QN_ACTIVATION_NONE, 0}};
    const qn_shape x = QN_SHAPE(SAMPLE_N, SAMPLE_C), y = QN_SHAPE(SAMPLE_N, SAMPLE_K);
    const qn_shape w = QN_SHAPE(SAMPLE_K, SAMPLE_C);
    if (product == &qn_op_linear)
        return add_sample(graph, product, &none, x, w, variant);
    if (product == &qn_op_linear_backward_data)
        return add_sample(graph, product, NULL, y, w, variant);
    return add_sample(graph, product, NULL, x, y, variant);
}

/* ---- the twins ---- */

#define TWIN(WORD, FAMILY, FIELDS)                                                                 \
    static qn_status WORD##_infer(qn_infer *infer) {                                               \
        return infer_as(&qn_op_##WORD, &qn_op_rescaled_##WORD, infer);                             \
    }                                                                                              \
    static qn_cost WORD##_cost(const void *attributes, const qn_tensor *inputs,                    \
                               const qn_tensor *outputs) {                                         \
        return qn_op_##WORD.cost(attributes, inputs, outputs);                                     \
    }                                                                                              \
    static qn_value WORD##_sample(qn_graph *graph, int variant) {                                  \
        return FAMILY##_sample_of(graph, &qn_op_##WORD, variant);                                  \
    }                                                                                              \
    const qn_op qn_op_rescaled_##WORD = {                                                          \
        .name = "rescaled_" #WORD,                                                                 \
        .attributes_bytes = sizeof(FIELDS##_attributes),                                           \
        .attributes = FIELDS##_fields,                                                             \
        .min_inputs = 3,                                                                           \
        .max_inputs = 3,                                                                           \
        .any_type_inputs = 7,                                                                      \
        .output_names = {NULL, "shift", "kept"},                                                   \
        .stops_gradient = true,                                                                    \
        .is_product = true,                                                                        \
        .looks_at_batch = true,                                                                    \
        .infer = WORD##_infer,                                                                     \
        .cost = WORD##_cost,                                                                       \
        .n_samples = 2,                                                                            \
        .sample = WORD##_sample,                                                                   \
    };

TWIN(linear, linear, linear)
TWIN(linear_backward_data, linear, plain)
TWIN(linear_backward_weight, linear, plain)
TWIN(conv2d, conv2d, conv2d)
TWIN(conv2d_backward_data, conv2d, backward)
TWIN(conv2d_backward_filter, conv2d, backward)

/* ---- what is kept ---- */

static qn_status keep_infer(qn_infer *infer) {
    if (infer->inputs[0].dtype != infer->inputs[1].dtype)
        return qn_fail(QN_ERROR_ARGUMENT, "input 0 is %s where what is kept is %s",
                       qn_dtype_name(infer->inputs[0].dtype),
                       qn_dtype_name(infer->inputs[1].dtype));
    QN_TRY(qn_infer_expect(infer, 0, "input", infer->inputs[1].shape));
    infer->outputs[0] = infer->inputs[1];
    return QN_OK;
}

static qn_value keep_sample(qn_graph *graph, int variant) {
    const qn_shape shape = QN_SHAPE(QN_KEPT_COUNT);
    (void)variant;
    return qn_op_keep(graph, "y", whole(graph, "numbers", QN_I32, shape),
                      qn_graph_add_source(graph, QN_KIND_PARAMETER, "kept",
                                          (qn_tensor){QN_I32, shape},
                                          (qn_initial){QN_INITIAL_ZERO, 0}, false));
}

const qn_op qn_op_keep_numbers = {
    .name = "keep",
    .min_inputs = 2,
    .max_inputs = 2,
    .any_type_inputs = 3,
    .infer = keep_infer,
    .overwrites = {2},
    .n_samples = 1,
    .sample = keep_sample,
};

qn_value qn_op_keep(qn_graph *graph, const char *name, qn_value numbers, qn_value kept) {
    const qn_value inputs[] = {numbers, kept};
    return qn_graph_add1(graph, &qn_op_keep_numbers, name, inputs, 2, NULL);
}

const qn_node *qn_op_rescaled(qn_graph *graph, const char *name, const qn_op *product,
                              const void *attributes, const qn_value operands[2], qn_value kept,
                              const qn_rescaling *rescaling) {
    union {
        linear_attributes linear;
        conv2d_attributes conv2d;
        backward_attributes backward;
    } all;
    const qn_op *twin = qn_op_twin(product, QN_TWIN_REQUANTISED);
    const qn_value inputs[] = {operands[0], operands[1], kept};
    memset(&all, 0, sizeof all);
    if (product->attributes_bytes > 0)
        memcpy(&all, attributes, product->attributes_bytes);
    memcpy((char *)&all + twin->attributes_bytes - sizeof *rescaling, rescaling, sizeof *rescaling);
    return qn_graph_add(graph, twin, name, inputs, 3, &all);
}
