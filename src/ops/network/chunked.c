/* See ops/round.h: products whose sums, of chunks and of those, are rounded as they grow. Each
 * is the twin of a product of reals, with that one's attributes and, behind them, how sums are
 * made. No gradient, and no bias: a translated graph has neither. */
#include "ops/network/convolution.h"
#include "ops/round.h"
#include "ops/shared.h"

#include <string.h>

typedef struct linear_attributes {
    qn_activation_attributes product;
    qn_chunked how;
} linear_attributes;

typedef struct plain_attributes {
    qn_chunked how;
} plain_attributes;

typedef struct conv2d_attributes {
    qn_conv2d_attributes product;
    qn_chunked how;
} conv2d_attributes;

typedef struct backward_attributes {
    qn_conv2d_backward_attributes product;
    qn_chunked how;
} backward_attributes;

#define CHUNKED_FIELDS(type)                                                                       \
    {"chunk", QN_ATTRIBUTE_INT, offsetof(type, how.chunk)},                                        \
        {"fraction_bits", QN_ATTRIBUTE_INT, offsetof(type, how.fraction_bits)},                    \
        {"least", QN_ATTRIBUTE_INT, offsetof(type, how.least)},                                    \
        {"top", QN_ATTRIBUTE_INT, offsetof(type, how.top)}, {                                      \
        0                                                                                          \
    }

static const qn_attribute linear_fields[] = {
    {"activation", QN_ATTRIBUTE_ACTIVATION, offsetof(linear_attributes, product.activation)},
    CHUNKED_FIELDS(linear_attributes),
};

static const qn_attribute plain_fields[] = {
    CHUNKED_FIELDS(plain_attributes),
};

static const qn_attribute conv2d_fields[] = {
    {"window", QN_ATTRIBUTE_WINDOW, offsetof(conv2d_attributes, product.window)},
    {"groups", QN_ATTRIBUTE_INT, offsetof(conv2d_attributes, product.groups)},
    {"activation", QN_ATTRIBUTE_ACTIVATION, offsetof(conv2d_attributes, product.activation)},
    {"batch", QN_ATTRIBUTE_INT64, offsetof(conv2d_attributes, product.batch)},
    CHUNKED_FIELDS(conv2d_attributes),
};

static const qn_attribute backward_fields[] = {
    {"shape", QN_ATTRIBUTE_CONV2D, offsetof(backward_attributes, product.shape)},
    CHUNKED_FIELDS(backward_attributes),
};

const qn_chunked *qn_chunked_of(const qn_op *op, const void *attributes) {
    return (const void *)((const char *)attributes + op->attributes_bytes - sizeof(qn_chunked));
}

static qn_status infer_as(const qn_op *product, const qn_op *twin, qn_infer *infer) {
    const qn_chunked *how = qn_chunked_of(twin, infer->attributes);
    QN_TRY(product->infer(infer));
    if (!qn_dtype_is_real(infer->outputs[0].dtype))
        return qn_fail(QN_ERROR_ARGUMENT, "sums of whole numbers are not rounded");
    if (how->chunk < 1 || how->fraction_bits < 1 || how->fraction_bits > 23 || how->least < -126 ||
        how->top > 127 || how->top <= how->least)
        return qn_fail(QN_ERROR_ARGUMENT, "chunks of %d, %d bits", how->chunk, how->fraction_bits);
    return QN_OK;
}

/* ---- samples ---- */

static qn_value add_sample(qn_graph *graph, const qn_op *product, const void *attributes,
                           qn_shape a, qn_shape b, int variant) {
    const qn_value operands[] = {qn_input(graph, "a", a), qn_input(graph, "b", b)};
    const qn_chunked how = {variant ? 3 : 64, variant ? 23 : 9, -31, 31};
    return qn_op_chunked(graph, "y", product, attributes, operands, &how);
}

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
                                  .groups = 2};
    const qn_conv2d_attributes forward = {
        .window = {.stride_h = 2, .stride_w = 2, .pad_top = 1, .pad_bottom = 1}, .groups = 2};
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
    const qn_shape x = QN_SHAPE(3, 5), y = QN_SHAPE(3, 7), w = QN_SHAPE(7, 5);
    if (product == &qn_op_linear)
        return add_sample(graph, product, &none, x, w, variant);
    if (product == &qn_op_linear_backward_data)
        return add_sample(graph, product, NULL, y, w, variant);
    return add_sample(graph, product, NULL, x, y, variant);
}

/* ---- the twins ---- */

#define TWIN(WORD, FAMILY, FIELDS)                                                                 \
    static qn_status WORD##_infer(qn_infer *infer) {                                               \
        return infer_as(&qn_op_##WORD, &qn_op_chunked_##WORD, infer);                              \
    }                                                                                              \
    static qn_cost WORD##_cost(const void *attributes, const qn_tensor *inputs,                    \
                               const qn_tensor *outputs) {                                         \
        return qn_op_##WORD.cost(attributes, inputs, outputs);                                     \
    }                                                                                              \
    static qn_value WORD##_sample(qn_graph *graph, int variant) {                                  \
        return FAMILY##_sample_of(graph, &qn_op_##WORD, variant);                                  \
    }                                                                                              \
    const qn_op qn_op_chunked_##WORD = {                                                           \
        .name = "chunked_" #WORD,                                                                  \
        .attributes_bytes = sizeof(FIELDS##_attributes),                                           \
        .attributes = FIELDS##_fields,                                                             \
        .min_inputs = 2,                                                                           \
        .max_inputs = 2,                                                                           \
        .any_type_inputs = 3,                                                                      \
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

qn_value qn_op_chunked(qn_graph *graph, const char *name, const qn_op *product,
                       const void *attributes, const qn_value operands[2],
                       const qn_chunked *chunked) {
    union {
        linear_attributes linear;
        conv2d_attributes conv2d;
        backward_attributes backward;
    } all;
    const qn_op *twin = qn_op_twin(product, QN_TWIN_LOW_PRECISION);
    memset(&all, 0, sizeof all);
    if (product->attributes_bytes > 0)
        memcpy(&all, attributes, product->attributes_bytes);
    memcpy((char *)&all + twin->attributes_bytes - sizeof *chunked, chunked, sizeof *chunked);
    return qn_graph_add1(graph, twin, name, operands, 2, &all);
}
