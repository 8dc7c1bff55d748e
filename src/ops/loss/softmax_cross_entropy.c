/* Cross entropy of softmax(logits (..., C)) with labels (...) -> loss (...), and the probabilities
 * (..., C), which its gradient needs. A negative label makes a loss and its gradient 0. */
#include "ops/loss.h"
#include "ops/shared.h"

static const qn_attribute entropy_fields[] = {
    QN_FIELD(qn_softmax_cross_entropy_attributes, QN_ATTRIBUTE_DOUBLE, smoothing),
    {0},
};

/* The shape without its last axis. */
static qn_shape rows_of(qn_shape shape) {
    if (shape.rank > 0)
        shape.dims[--shape.rank] = 0;
    return shape;
}

static qn_status entropy_infer(qn_infer *infer) {
    const qn_shape logits = infer->inputs[0].shape;
    if (logits.rank < 2)
        QN_TRY(qn_infer_rank(infer, 0, 2, "logits (N, C) or with more axes before C"));
    QN_TRY(qn_infer_dtype(infer, 1, QN_I32));
    QN_TRY(qn_infer_expect(infer, 1, "labels", rows_of(logits)));
    infer->n_outputs = 2;
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, rows_of(logits)};
    infer->outputs[1] = infer->inputs[0];
    return QN_OK;
}

static qn_cost entropy_cost(const void *attributes, const qn_tensor *inputs,
                            const qn_tensor *outputs) {
    (void)attributes;
    (void)outputs;
    return qn_cost_elements(4, inputs);
}

static void entropy_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    if (gradient->outputs[1].id >= 0) {
        qn_graph_fail(graph, QN_ERROR_UNSUPPORTED,
                      "%s: no gradient flows through the probabilities; use softmax", node->name);
        return;
    }
    const qn_value inputs[] = {node->outputs[1], node->inputs[1], gradient->outputs[0]};
    gradient->inputs[0] =
        qn_gradient_add(graph, node, "backward", &qn_op_softmax_cross_entropy_backward, inputs, 3,
                        node->attributes);
}

static qn_value entropy_sample(qn_graph *graph, int variant) {
    const qn_shape shape = variant == 2 ? QN_SHAPE(3, 2, 4) : QN_SHAPE(7, 5);
    qn_value logits = qn_sample_parameter(graph, "logits", shape, 3);
    qn_value labels = qn_label(graph, "labels", QN_I32, rows_of(shape));
    return qn_softmax_cross_entropy(graph, "y", logits, labels, variant ? 0.1 : 0);
}

const qn_op qn_op_softmax_cross_entropy = {
    .name = "softmax_cross_entropy",
    .attributes_bytes = sizeof(qn_softmax_cross_entropy_attributes),
    .attributes = entropy_fields,
    .min_inputs = 2,
    .max_inputs = 2,
    .any_type_inputs = 1 << 1,
    .output_names = {NULL, "probabilities"},
    .infer = entropy_infer,
    .gradient = entropy_gradient,
    .cost = entropy_cost,
    .n_samples = 3,
    .sample = entropy_sample,
};

qn_value qn_softmax_cross_entropy(qn_graph *graph, const char *name, qn_value logits,
                                  qn_value labels, double label_smoothing) {
    const qn_softmax_cross_entropy_attributes attributes = {label_smoothing};
    if (!(label_smoothing >= 0 && label_smoothing <= 1)) {
        qn_graph_fail(graph, QN_ERROR_ARGUMENT,
                      "%s (softmax_cross_entropy): label smoothing %g is not in [0, 1]",
                      name ? name : "unnamed", label_smoothing);
        return QN_NO_VALUE;
    }
    return qn_graph_add1(graph, &qn_op_softmax_cross_entropy, name, (qn_value[]){logits, labels}, 2,
                         &attributes);
}

/* ---- gradient: dlogits from probabilities, labels, dloss ---- */

static qn_status backward_infer(qn_infer *infer) {
    const qn_shape shape = infer->inputs[0].shape;
    QN_TRY(qn_infer_dtype(infer, 1, QN_I32));
    QN_TRY(qn_infer_expect(infer, 1, "labels", rows_of(shape)));
    QN_TRY(qn_infer_expect(infer, 2, "gradient", rows_of(shape)));
    infer->outputs[0] = infer->inputs[0];
    return QN_OK;
}

static qn_cost backward_cost(const void *attributes, const qn_tensor *inputs,
                             const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(2, outputs);
}

const qn_op qn_op_softmax_cross_entropy_backward = {
    .name = "softmax_cross_entropy_backward",
    .attributes_bytes = sizeof(qn_softmax_cross_entropy_attributes),
    .attributes = entropy_fields,
    .min_inputs = 3,
    .max_inputs = 3,
    .any_type_inputs = 1 << 1,
    .infer = backward_infer,
    .cost = backward_cost,
    .in_place = 1 << 0,
};
