/* Batch norm over all axes of x (..., C) except the last (Ioffe and Szegedy 2015, algorithm 1). In
 * training one node computes y and the batch's statistics, and a second updates the running
 * statistics. The inference form is a separate operator, whose gradient treats the statistics as
 * constants. */
#include "base/status.h"
#include "ops/network/norm.h"
#include "ops/shared.h"

#include <stdio.h>
#include <string.h>

static const qn_attribute norm_fields[] = {
    QN_FIELD(qn_batch_norm_attributes, QN_ATTRIBUTE_DOUBLE, epsilon),
    QN_FIELD(qn_batch_norm_attributes, QN_ATTRIBUTE_ACTIVATION, activation),
    {0},
};

/* Inputs from the second on are (C); y is like x. */
static qn_status infer_channels(qn_infer *infer) {
    static const char *const names[] = {"input", "scale", "shift", "mean", "variance"};
    const qn_shape x = infer->inputs[0].shape;
    if (x.rank < 2)
        return qn_infer_rank(infer, 0, 2, "(..., C)");
    for (int i = 1; i < infer->n_inputs; i++)
        QN_TRY(qn_infer_expect(infer, i, names[i], QN_SHAPE(qn_shape_columns(x))));
    infer->outputs[0] = infer->inputs[0];
    return QN_OK;
}

static qn_status norm_infer(qn_infer *infer) {
    QN_TRY(infer_channels(infer));
    infer->n_outputs = 3;
    infer->outputs[1] = infer->outputs[2] = infer->inputs[1];
    return QN_OK;
}

static qn_cost norm_cost(const void *attributes, const qn_tensor *inputs,
                         const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(7, outputs);
}

/* One operator gives all three gradients: they share their sums. */
static void norm_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    const qn_batch_norm_attributes *a = node->attributes;
    if (gradient->outputs[1].id >= 0 || gradient->outputs[2].id >= 0) {
        qn_graph_fail(graph, QN_ERROR_UNSUPPORTED, "%s: the statistics have no gradient",
                      node->name);
        return;
    }
    const bool is_plain = a->activation.kind == QN_ACTIVATION_NONE;
    const qn_value inputs[] = {node->inputs[0],      is_plain ? QN_NO_VALUE : node->outputs[0],
                               gradient->outputs[0], node->inputs[1],
                               node->outputs[1],     node->outputs[2]};
    const qn_value dx =
        qn_gradient_add(graph, node, "backward", &qn_op_batch_norm_backward, inputs, 6, a);
    if (dx.id < 0)
        return;
    const qn_node *backward = graph->nodes[qn_graph_value(graph, dx)->producer];
    for (int i = 0; i < 3; i++)
        gradient->inputs[i] = backward->outputs[i];
}

static qn_value norm_sample(qn_graph *graph, int variant) {
    static const qn_activation_kind activations[] = {QN_ACTIVATION_NONE, QN_ACTIVATION_NONE,
                                                     QN_ACTIVATION_TANH};
    const qn_shape shapes[] = {QN_SHAPE(3, 5, 7, 3), QN_SHAPE(11, 5), QN_SHAPE(2, 3, 5, 9)};
    const qn_shape channels = QN_SHAPE(qn_shape_columns(shapes[variant]));
    const qn_value inputs[] = {qn_sample_parameter(graph, "x", shapes[variant], 2),
                               qn_sample_parameter(graph, "scale", channels, 1),
                               qn_sample_parameter(graph, "shift", channels, 1)};
    const qn_batch_norm_attributes attributes = {1e-5, {activations[variant], 0}};
    return qn_graph_add1(graph, &qn_op_batch_norm, "y", inputs, 3, &attributes);
}

const qn_op qn_op_batch_norm = {
    .name = "batch_norm",
    .attributes_bytes = sizeof(qn_batch_norm_attributes),
    .attributes = norm_fields,
    .min_inputs = 3,
    .max_inputs = 3,
    .halves = 1 << 0,
    .output_names = {NULL, "mean", "inv_std"},
    .is_norm = true,
    .infer = norm_infer,
    .gradient = norm_gradient,
    .cost = norm_cost,
    .strided_inputs = 1 << 0,
    .strided_outputs = 1 << 0,
    .n_samples = 3,
    .sample = norm_sample,
};

/* ---- gradient: dx, dscale, dshift from x, y (with an activation), dy, scale, mean, inv_std ----
 */

static qn_status backward_infer(qn_infer *infer) {
    const qn_shape x = infer->inputs[0].shape;
    const qn_shape channels = QN_SHAPE(qn_shape_columns(x));
    if (infer->inputs[1].dtype != QN_NONE)
        QN_TRY(qn_infer_expect(infer, 1, "output", x));
    QN_TRY(qn_infer_expect(infer, 2, "gradient", x));
    for (int i = 3; i < 6; i++)
        QN_TRY(qn_infer_expect(infer, i, "input", channels));
    infer->n_outputs = 3;
    infer->outputs[0] = infer->inputs[0];
    infer->outputs[1] = infer->outputs[2] = infer->inputs[3];
    return QN_OK;
}

static qn_cost backward_cost(const void *attributes, const qn_tensor *inputs,
                             const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(10, outputs);
}

const qn_op qn_op_batch_norm_backward = {
    .name = "batch_norm_backward",
    .attributes_bytes = sizeof(qn_batch_norm_attributes),
    .attributes = norm_fields,
    .min_inputs = 6,
    .max_inputs = 6,
    .halves = 1 << 0 | 1 << 1 | 1 << 2,
    .optional_inputs = 1 << 1,
    .output_names = {NULL, "scale", "shift"},
    .infer = backward_infer,
    .cost = backward_cost,
    .in_place = 1 << 2,
    .strided_inputs = 1 << 0 | 1 << 1 | 1 << 2,
};

/* ---- running statistics: moved towards the batch's, in place ---- */

static const qn_attribute running_fields[] = {
    QN_FIELD(qn_batch_norm_running_attributes, QN_ATTRIBUTE_DOUBLE, epsilon),
    QN_FIELD(qn_batch_norm_running_attributes, QN_ATTRIBUTE_DOUBLE, momentum),
    QN_FIELD(qn_batch_norm_running_attributes, QN_ATTRIBUTE_INT64, rows),
    {0},
};

/* Inputs: mean, inv_std, running mean, running variance. */
static qn_status running_infer(qn_infer *infer) {
    QN_TRY(qn_infer_elementwise(infer));
    infer->n_outputs = 2;
    infer->outputs[1] = infer->outputs[0];
    return QN_OK;
}

static qn_cost running_cost(const void *attributes, const qn_tensor *inputs,
                            const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(10, outputs);
}

static qn_value running_sample(qn_graph *graph, int variant) {
    (void)variant;
    qn_value running[2];
    for (int i = 0; i < 2; i++)
        running[i] = qn_parameter(graph, i ? "running_variance" : "running_mean", QN_SHAPE(5),
                                  (qn_initial){QN_INITIAL_ONE, 0}, false);
    qn_value y = qn_batch_norm(graph, "norm", qn_sample_parameter(graph, "x", QN_SHAPE(7, 5), 1),
                               qn_sample_parameter(graph, "scale", QN_SHAPE(5), 1),
                               qn_sample_parameter(graph, "shift", QN_SHAPE(5), 1), running[0],
                               running[1], 1e-5, 0.1);
    return y.id < 0 ? y : qn_graph_find(graph, "norm.running.variance");
}

const qn_op qn_op_batch_norm_running = {
    .name = "batch_norm_running",
    .attributes_bytes = sizeof(qn_batch_norm_running_attributes),
    .attributes = running_fields,
    .min_inputs = 4,
    .max_inputs = 4,
    .output_names = {NULL, "variance"},
    .moves_statistics = true,
    .infer = running_infer,
    .cost = running_cost,
    .overwrites = {3, 4},
    .finite_inputs = 1 << 0 | 1 << 1,
    .n_samples = 1,
    .sample = running_sample,
};

/* ---- inference: y from x and the running statistics ---- */

static qn_cost inference_cost(const void *attributes, const qn_tensor *inputs,
                              const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(3, outputs);
}

/* (C) numbers of one value. */
static qn_value add_vector(qn_graph *graph, const qn_node *node, const char *suffix, qn_value one,
                           double number) {
    char name[1024];
    const qn_shape channels = qn_graph_shape(graph, node->inputs[1]);
    snprintf(name, sizeof name, "%s.%s", node->name, suffix);
    return qn_op_broadcast(graph, qn_graph_unique(graph, name, false), one, channels, number);
}

/* dscale = sums of dy times x normalised, without scale and shift. */
static qn_value add_scale_gradient(qn_graph *graph, const qn_node *node, qn_value one,
                                   qn_value zeros, qn_value dy) {
    const qn_batch_norm_attributes plain = {
        .epsilon = ((const qn_batch_norm_attributes *)node->attributes)->epsilon};
    const qn_value normalise[] = {node->inputs[0], add_vector(graph, node, "ones", one, 1), zeros,
                                  node->inputs[3], node->inputs[4]};
    qn_value x = qn_gradient_add(graph, node, "normalised", &qn_op_batch_norm_inference, normalise,
                                 5, &plain);
    qn_value product = qn_gradient_add(graph, node, "backward_product", &qn_op_multiply,
                                       (qn_value[]){dy, x}, 2, NULL);
    return qn_gradient_columns(graph, node, "backward_scale", product);
}

/* dx is dy under the same scale, with neither mean nor shift. */
static void inference_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    const qn_batch_norm_attributes *a = node->attributes;
    const qn_batch_norm_attributes plain = {.epsilon = a->epsilon};
    char name[1024];
    const qn_value dy =
        qn_gradient_activation(graph, node, a->activation, node->outputs[0], gradient->outputs[0]);
    if (gradient->wanted[2])
        gradient->inputs[2] = qn_gradient_columns(graph, node, "backward_shift", dy);
    if (!gradient->wanted[0] && !gradient->wanted[1])
        return;
    snprintf(name, sizeof name, "%s.one", node->name);
    const qn_value one = qn_op_scalar_of(graph, qn_graph_unique(graph, name, false), 1,
                                         qn_graph_tensor(graph, gradient->outputs[0]).dtype);
    const qn_value zeros = add_vector(graph, node, "zeros", one, 0);
    if (gradient->wanted[1])
        gradient->inputs[1] = add_scale_gradient(graph, node, one, zeros, dy);
    const qn_value inputs[] = {dy, node->inputs[1], zeros, zeros, node->inputs[4]};
    if (gradient->wanted[0])
        gradient->inputs[0] = qn_gradient_add(graph, node, "backward", &qn_op_batch_norm_inference,
                                              inputs, 5, &plain);
}

static qn_value inference_sample(qn_graph *graph, int variant) {
    static const qn_activation_kind activations[] = {QN_ACTIVATION_NONE, QN_ACTIVATION_TANH};
    const qn_shape channels = QN_SHAPE(3);
    const qn_value inputs[] = {
        qn_sample_parameter(graph, "x", QN_SHAPE(2, 5, 7, 3), 2),
        qn_sample_parameter(graph, "scale", channels, 1),
        qn_sample_parameter(graph, "shift", channels, 1),
        qn_parameter(graph, "mean", channels, (qn_initial){QN_INITIAL_UNIFORM, 1}, false),
        qn_parameter(graph, "variance", channels, (qn_initial){QN_INITIAL_ONE, 0}, false)};
    const qn_batch_norm_attributes attributes = {1e-3, {activations[variant], 0}};
    return qn_graph_add1(graph, &qn_op_batch_norm_inference, "y", inputs, 5, &attributes);
}

const qn_op qn_op_batch_norm_inference = {
    .name = "batch_norm_inference",
    .attributes_bytes = sizeof(qn_batch_norm_attributes),
    .attributes = norm_fields,
    .min_inputs = 5,
    .max_inputs = 5,
    .halves = 1 << 0,
    .is_norm = true,
    .infer = infer_channels,
    .gradient = inference_gradient,
    .cost = inference_cost,
    .in_place = 1 << 0,
    .strided_inputs = 1 << 0,
    .strided_outputs = 1 << 0,
    .n_samples = 2,
    .sample = inference_sample,
};

qn_value qn_batch_norm(qn_graph *graph, const char *name, qn_value x, qn_value scale,
                       qn_value shift, qn_value running_mean, qn_value running_variance,
                       double epsilon, double momentum) {
    QN_NEED_OR(graph, "graph", QN_NO_VALUE);
    const qn_batch_norm_attributes attributes = {.epsilon = epsilon};
    const qn_value inputs[] = {x, scale, shift, running_mean, running_variance};
    if (!graph->training)
        return qn_graph_add1(graph, &qn_op_batch_norm_inference, name, inputs, 5, &attributes);
    const qn_node *node = qn_graph_add(graph, &qn_op_batch_norm, name, inputs, 3, &attributes);
    if (!node)
        return QN_NO_VALUE;
    const qn_batch_norm_running_attributes running = {epsilon, momentum,
                                                      qn_shape_rows(qn_graph_shape(graph, x))};
    const qn_value statistics[] = {node->outputs[1], node->outputs[2], running_mean,
                                   running_variance};
    const char *running_name =
        qn_arena_format(&graph->arena, "%s.running", node->name + strlen(graph->scope));
    if (!running_name)
        qn_graph_fail(graph, QN_ERROR_MEMORY, "%s: %s", node->name, qn_error_message());
    else
        qn_graph_add(graph, &qn_op_batch_norm_running, running_name, statistics, 4, &running);
    return node->outputs[0];
}
