/* y = f(gate) * up, elementwise (Shazeer 2020), where f is x / (1 + e^-x) or GELU by tanh; without
 * up, f alone. Kept for the gradient are the two operands alone. */
#include "ops/language.h"
#include "ops/shared.h"

static const qn_attribute gated_fields[] = {
    QN_FIELD(qn_gated_attributes, QN_ATTRIBUTE_INT, kind),
    {0},
};

static qn_status gated_infer(qn_infer *infer) {
    const qn_gated_attributes *a = infer->attributes;
    if (a->kind < 0 || a->kind >= QN_GATE_COUNT)
        return qn_fail(QN_ERROR_ARGUMENT, "%d is no kind of gate", a->kind);
    return qn_infer_elementwise(infer);
}

static qn_cost gated_cost(const void *attributes, const qn_tensor *inputs,
                          const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(5, outputs);
}

static void gated_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    const bool has_up = node->n_inputs > 1 && node->inputs[1].id >= 0;
    const qn_value inputs[] = {node->inputs[0], gradient->outputs[0],
                               has_up ? node->inputs[1] : QN_NO_VALUE};
    const qn_value first = qn_gradient_add(graph, node, "backward", &qn_op_gated_backward, inputs,
                                           3, node->attributes);
    const qn_value_info *info = qn_graph_value(graph, first);
    for (int i = 0; info && i < 1 + has_up; i++)
        gradient->inputs[i] = graph->nodes[info->producer]->outputs[i];
}

static qn_value gated_sample(qn_graph *graph, int variant) {
    const qn_shape shape = variant ? QN_SHAPE(3, 5, 7) : QN_SHAPE(37);
    qn_value gate = qn_sample_parameter(graph, "gate", shape, 4);
    const qn_value up = variant == 2 ? QN_NO_VALUE : qn_sample_parameter(graph, "up", shape, 2);
    return qn_gated(graph, "y", variant ? QN_GATE_GELU : QN_GATE_SILU, gate, up);
}

const qn_op qn_op_gated = {
    .name = "gated",
    .attributes_bytes = sizeof(qn_gated_attributes),
    .attributes = gated_fields,
    .min_inputs = 1,
    .max_inputs = 2,
    .optional_inputs = 1 << 1,
    .infer = gated_infer,
    .gradient = gated_gradient,
    .cost = gated_cost,
    .in_place = 1 << 0 | 1 << 1,
    .n_samples = 3,
    .sample = gated_sample,
};

qn_value qn_gated(qn_graph *graph, const char *name, qn_gate kind, qn_value gate, qn_value up) {
    const qn_gated_attributes attributes = {(int)kind};
    return qn_graph_add1(graph, &qn_op_gated, name, (qn_value[]){gate, up}, 2, &attributes);
}

/* ---- gradient: dgate, and dup where there is one, from gate, dy, up ---- */

static qn_status backward_infer(qn_infer *infer) {
    QN_TRY(gated_infer(infer));
    infer->n_outputs = infer->n_inputs > 2 && infer->inputs[2].dtype != QN_NONE ? 2 : 1;
    infer->outputs[1] = infer->inputs[0];
    return QN_OK;
}

static qn_cost backward_cost(const void *attributes, const qn_tensor *inputs,
                             const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(12, outputs);
}

const qn_op qn_op_gated_backward = {
    .name = "gated_backward",
    .attributes_bytes = sizeof(qn_gated_attributes),
    .attributes = gated_fields,
    .min_inputs = 2,
    .max_inputs = 3,
    .optional_inputs = 1 << 2,
    .output_names = {NULL, "up"},
    .infer = backward_infer,
    .cost = backward_cost,
    .in_place = 1 << 0 | 1 << 1,
};
