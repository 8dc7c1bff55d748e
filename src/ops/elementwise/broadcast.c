/* factor * scalar in every element of a shape. */
#include "ops/elementwise.h"
#include "ops/shared.h"

#include <stdio.h>

static const qn_attribute broadcast_fields[] = {
    QN_FIELD(qn_broadcast_attributes, QN_ATTRIBUTE_DOUBLE, factor),
    QN_FIELD(qn_broadcast_attributes, QN_ATTRIBUTE_SHAPE, shape),
    {0},
};

static qn_status broadcast_infer(qn_infer *infer) {
    const qn_broadcast_attributes *a = infer->attributes;
    QN_TRY(qn_infer_rank(infer, 0, 0, "a scalar"));
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, a->shape};
    return QN_OK;
}

/* factor * sum(dy), as factor * count * mean(dy). */
static void broadcast_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_broadcast_attributes *a = gradient->node->attributes;
    char name[1024];
    qn_value mean = qn_gradient_add(graph, gradient->node, "backward_mean", &qn_op_mean,
                                    &gradient->outputs[0], 1, NULL);
    snprintf(name, sizeof name, "%s.backward", gradient->node->name);
    gradient->inputs[0] =
        qn_op_broadcast(graph, qn_graph_unique(graph, name, false), mean, (qn_shape){0},
                        a->factor * (double)qn_shape_count(a->shape));
}

static qn_value broadcast_sample(qn_graph *graph, int variant) {
    (void)variant;
    qn_value x = qn_sample_parameter(graph, "x", (qn_shape){0}, 1);
    return qn_op_broadcast(graph, "y", x, QN_SHAPE(3, 7), 0.7);
}

const qn_op qn_op_broadcast_scalar = {
    .name = "broadcast",
    .attributes_bytes = sizeof(qn_broadcast_attributes),
    .attributes = broadcast_fields,
    .min_inputs = 1,
    .max_inputs = 1,
    .is_broadcast = true,
    .infer = broadcast_infer,
    .gradient = broadcast_gradient,
    .n_samples = 1,
    .sample = broadcast_sample,
};

qn_value qn_op_broadcast(qn_graph *graph, const char *name, qn_value scalar, qn_shape shape,
                         double factor) {
    const qn_broadcast_attributes attributes = {factor, shape};
    return qn_graph_add1(graph, &qn_op_broadcast_scalar, name, &scalar, 1, &attributes);
}
