/* A step of stochastic gradient descent with momentum, in the storage of w and momentum. Inputs:
 * hyper, factor (or none), gradient, w, momentum (or none). */
#include "ops/shared.h"
#include "ops/update.h"

static const qn_attribute sgd_fields[] = {
    QN_FIELD(qn_sgd_attributes, QN_ATTRIBUTE_BOOL, nesterov),
    QN_FIELD(qn_sgd_attributes, QN_ATTRIBUTE_DOUBLE, rate),
    {0},
};

static qn_status sgd_infer(qn_infer *infer) {
    const bool has_momentum = infer->inputs[4].dtype != QN_NONE;
    QN_TRY(qn_infer_expect(infer, 0, "hyper", QN_SHAPE(QN_HYPER_COUNT)));
    if (infer->inputs[1].dtype != QN_NONE)
        QN_TRY(qn_infer_expect(infer, 1, "factor", (qn_shape){0}));
    QN_TRY(qn_infer_expect(infer, 2, "gradient", infer->inputs[3].shape));
    if (has_momentum)
        QN_TRY(qn_infer_expect(infer, 4, "momentum", infer->inputs[3].shape));
    infer->n_outputs = has_momentum ? 2 : 1;
    infer->outputs[0] = infer->outputs[1] = infer->inputs[3];
    return QN_OK;
}

static qn_cost sgd_cost(const void *attributes, const qn_tensor *inputs, const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(6, outputs);
}

static qn_value sgd_sample(qn_graph *graph, int variant) {
    qn_value factor = QN_NO_VALUE, momentum = QN_NO_VALUE;
    qn_value hyper = qn_input(graph, "hyper", QN_SHAPE(QN_HYPER_COUNT));
    qn_value w = qn_sample_parameter(graph, "w", QN_SHAPE(7, 5), 1);
    qn_value gradient = qn_sample_parameter(graph, "gradient", QN_SHAPE(7, 5), 1);
    if (variant > 0)
        factor = qn_sample_parameter(graph, "factor", (qn_shape){0}, 1);
    if (variant > 0)
        momentum = qn_graph_add_source(graph, QN_KIND_STATE, "momentum",
                                       (qn_tensor){graph->real, QN_SHAPE(7, 5)},
                                       (qn_initial){QN_INITIAL_UNIFORM, 1}, false);
    return qn_op_sgd(graph, "y", hyper, factor, gradient, w, momentum, variant == 2,
                     variant < 3 ? 1 : 0.25);
}

const qn_op qn_op_sgd_step = {
    .name = "sgd",
    .attributes_bytes = sizeof(qn_sgd_attributes),
    .attributes = sgd_fields,
    .min_inputs = 5,
    .max_inputs = 5,
    .optional_inputs = 1 << 1 | 1 << 4,
    .output_names = {NULL, "momentum"},
    .infer = sgd_infer,
    .cost = sgd_cost,
    .overwrites = {4, 5},
    .finite_inputs = 1 << 1 | 1 << 2,
    .n_samples = 4,
    .sample = sgd_sample,
};

qn_value qn_op_sgd(qn_graph *graph, const char *name, qn_value hyper, qn_value factor,
                   qn_value gradient, qn_value w, qn_value momentum, bool nesterov, double rate) {
    const qn_sgd_attributes attributes = {nesterov, rate};
    const qn_value inputs[] = {hyper, factor, gradient, w, momentum};
    return qn_graph_add1(graph, &qn_op_sgd_step, name, inputs, 5, &attributes);
}
