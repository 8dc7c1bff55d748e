/* Mean of all elements -> scalar; its gradient is a broadcast. */
#include "ops/shared.h"

#include <stdio.h>

static qn_status mean_infer(qn_infer *infer) {
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, (qn_shape){0}};
    return QN_OK;
}

static qn_cost mean_cost(const void *attributes, const qn_tensor *inputs,
                         const qn_tensor *outputs) {
    (void)attributes;
    (void)outputs;
    return qn_cost_elements(1, inputs);
}

static void mean_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_shape shape = qn_graph_shape(graph, gradient->node->inputs[0]);
    char name[1024];
    snprintf(name, sizeof name, "%s.backward", gradient->node->name);
    gradient->inputs[0] =
        qn_op_broadcast(graph, qn_graph_unique(graph, name, false), gradient->outputs[0], shape,
                        1.0 / (double)qn_shape_count(shape));
}

static qn_value mean_sample(qn_graph *graph, int variant) {
    const qn_shape shape = variant ? QN_SHAPE(13) : QN_SHAPE(3, 5, 7);
    return qn_mean(graph, "y", qn_sample_parameter(graph, "x", shape, 1));
}

const qn_op qn_op_mean = {
    .name = "mean",
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = mean_infer,
    .gradient = mean_gradient,
    .cost = mean_cost,
    .n_samples = 2,
    .sample = mean_sample,
};

qn_value qn_mean(qn_graph *graph, const char *name, qn_value x) {
    return qn_graph_add1(graph, &qn_op_mean, name, &x, 1, NULL);
}
