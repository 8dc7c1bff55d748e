/* Binary cross entropy of sigmoid(x) with one target for each element, or one for all. */
#include "base/status.h"
#include "ops/loss.h"
#include "ops/shared.h"

#include <stdio.h>

static const qn_attribute entropy_fields[] = {
    QN_FIELD(qn_binary_cross_entropy_attributes, QN_ATTRIBUTE_DOUBLE, target),
    {0},
};

/* An exponential, a logarithm and what is around them. */
static qn_cost entropy_cost(const void *attributes, const qn_tensor *inputs,
                            const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(40, outputs);
}

/* d target = -x * dy. */
static qn_value target_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_value inputs[] = {gradient->node->inputs[0], gradient->outputs[0]};
    const qn_value product = qn_gradient_add(graph, gradient->node, "backward_product",
                                             &qn_op_multiply, inputs, 2, NULL);
    char name[1024];
    snprintf(name, sizeof name, "%s.backward_target", gradient->node->name);
    return qn_scale(graph, qn_graph_unique(graph, name, false), product, -1);
}

static void entropy_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    const qn_value inputs[] = {node->inputs[0], node->inputs[1], gradient->outputs[0]};
    if (gradient->wanted[0])
        gradient->inputs[0] =
            qn_gradient_add(graph, node, "backward", &qn_op_binary_cross_entropy_backward, inputs,
                            3, node->attributes);
    if (gradient->wanted[1])
        gradient->inputs[1] = target_gradient(graph, gradient);
}

static qn_value entropy_sample(qn_graph *graph, int variant) {
    const qn_shape shape = variant ? QN_SHAPE(13) : QN_SHAPE(3, 5, 7);
    qn_value x = qn_sample_parameter(graph, "x", shape, 4);
    if (variant > 0)
        return qn_binary_cross_entropy_with(graph, "y", x, 0.75);
    return qn_binary_cross_entropy(graph, "y", x, qn_sample_parameter(graph, "target", shape, 1));
}

const qn_op qn_op_binary_cross_entropy = {
    .name = "binary_cross_entropy",
    .attributes_bytes = sizeof(qn_binary_cross_entropy_attributes),
    .attributes = entropy_fields,
    .min_inputs = 2,
    .max_inputs = 2,
    .optional_inputs = 1 << 1,
    .infer = qn_infer_elementwise,
    .gradient = entropy_gradient,
    .cost = entropy_cost,
    .in_place = 1 << 0 | 1 << 1,
    .n_samples = 2,
    .sample = entropy_sample,
};

qn_value qn_binary_cross_entropy(qn_graph *graph, const char *name, qn_value x, qn_value target) {
    QN_NEED_OR(graph, "graph", QN_NO_VALUE);
    const qn_binary_cross_entropy_attributes none = {0};
    if (target.id < 0) {
        qn_graph_fail(graph, QN_ERROR_ARGUMENT, "%s%s (binary_cross_entropy): it has no target",
                      graph->scope, name ? name : "unnamed");
        return QN_NO_VALUE;
    }
    return qn_graph_add1(graph, &qn_op_binary_cross_entropy, name, (qn_value[]){x, target}, 2,
                         &none);
}

qn_value qn_binary_cross_entropy_with(qn_graph *graph, const char *name, qn_value x,
                                      double target) {
    QN_NEED_OR(graph, "graph", QN_NO_VALUE);
    const qn_binary_cross_entropy_attributes attributes = {target};
    if (!(target >= 0 && target <= 1)) {
        qn_graph_fail(graph, QN_ERROR_ARGUMENT,
                      "%s%s (binary_cross_entropy): the target %g does not lie in 0 to 1",
                      graph->scope, name ? name : "unnamed", target);
        return QN_NO_VALUE;
    }
    return qn_graph_add1(graph, &qn_op_binary_cross_entropy, name, (qn_value[]){x, QN_NO_VALUE}, 2,
                         &attributes);
}

/* ---- gradient: dx from x, target, dy ---- */

const qn_op qn_op_binary_cross_entropy_backward = {
    .name = "binary_cross_entropy_backward",
    .attributes_bytes = sizeof(qn_binary_cross_entropy_attributes),
    .attributes = entropy_fields,
    .min_inputs = 3,
    .max_inputs = 3,
    .optional_inputs = 1 << 1,
    .infer = qn_infer_elementwise,
    .cost = entropy_cost,
    .in_place = 1 << 0 | 1 << 1 | 1 << 2,
};
