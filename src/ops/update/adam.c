/* A step of Adam, or of AdamW (decoupled), in the storage of w, m and v. Inputs: hyper, factor (or
 * none), gradient, w, m, v. */
#include "ops/shared.h"
#include "ops/update.h"

static const qn_attribute adam_fields[] = {
    QN_FIELD(qn_adam_attributes, QN_ATTRIBUTE_BOOL, decoupled),
    QN_FIELD(qn_adam_attributes, QN_ATTRIBUTE_DOUBLE, rate),
    {0},
};

static qn_status adam_infer(qn_infer *infer) {
    QN_TRY(qn_infer_expect(infer, 0, "hyper", QN_SHAPE(QN_HYPER_COUNT)));
    if (infer->inputs[1].dtype != QN_NONE)
        QN_TRY(qn_infer_expect(infer, 1, "factor", (qn_shape){0}));
    QN_TRY(qn_infer_expect(infer, 2, "gradient", infer->inputs[3].shape));
    QN_TRY(qn_infer_expect(infer, 4, "first moment", infer->inputs[3].shape));
    QN_TRY(qn_infer_expect(infer, 5, "second moment", infer->inputs[3].shape));
    infer->n_outputs = 3;
    infer->outputs[0] = infer->outputs[1] = infer->outputs[2] = infer->inputs[3];
    return QN_OK;
}

static qn_cost adam_cost(const void *attributes, const qn_tensor *inputs,
                         const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(14, outputs);
}

static qn_value adam_sample(qn_graph *graph, int variant) {
    const qn_tensor tensor = {graph->real, QN_SHAPE(7, 5)};
    qn_value factor = QN_NO_VALUE;
    qn_value hyper = qn_input(graph, "hyper", QN_SHAPE(QN_HYPER_COUNT));
    qn_value w = qn_sample_parameter(graph, "w", QN_SHAPE(7, 5), 1);
    qn_value gradient = qn_sample_parameter(graph, "gradient", QN_SHAPE(7, 5), 1);
    qn_value m = qn_graph_add_source(graph, QN_KIND_STATE, "m", tensor,
                                     (qn_initial){QN_INITIAL_UNIFORM, 1}, false);
    qn_value v = qn_graph_add_source(graph, QN_KIND_STATE, "v", tensor,
                                     (qn_initial){QN_INITIAL_ONE, 0}, false);
    if (variant > 0)
        factor = qn_sample_parameter(graph, "factor", (qn_shape){0}, 1);
    return qn_op_adam(graph, "y", hyper, factor, gradient, w, m, v, variant == 1,
                      variant < 2 ? 1 : 0.25);
}

const qn_op qn_op_adam_step = {
    .name = "adam",
    .attributes_bytes = sizeof(qn_adam_attributes),
    .attributes = adam_fields,
    .min_inputs = 6,
    .max_inputs = 6,
    .optional_inputs = 1 << 1,
    .output_names = {NULL, "m", "v"},
    .infer = adam_infer,
    .cost = adam_cost,
    .overwrites = {4, 5, 6},
    .finite_inputs = 1 << 1 | 1 << 2,
    .n_samples = 3,
    .sample = adam_sample,
};

qn_value qn_op_adam(qn_graph *graph, const char *name, qn_value hyper, qn_value factor,
                    qn_value gradient, qn_value w, qn_value m, qn_value v, bool decoupled,
                    double rate) {
    const qn_adam_attributes attributes = {decoupled, rate};
    const qn_value inputs[] = {hyper, factor, gradient, w, m, v};
    return qn_graph_add1(graph, &qn_op_adam_step, name, inputs, 6, &attributes);
}
