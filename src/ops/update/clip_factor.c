/* The factor that clips gradients to a norm: min(1, limit / |hyper gradient * all of them|)
 * (Pascanu et al. 2013, algorithm 1). The squares are added in the order of the inputs. Of a norm
 * that is not finite it is NaN, so that no update is made: a factor of 0 would lose the step. */
#include "ops/shared.h"
#include "ops/update.h"

#include <math.h>

static const qn_attribute clip_fields[] = {
    QN_FIELD(qn_clip_attributes, QN_ATTRIBUTE_DOUBLE, limit),
    QN_FIELD(qn_clip_attributes, QN_ATTRIBUTE_INT, n_gradients),
    {0},
};

static qn_status clip_infer(qn_infer *infer) {
    QN_TRY(qn_infer_expect(infer, 0, "hyper", QN_SHAPE(QN_HYPER_COUNT)));
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, (qn_shape){0}};
    return QN_OK;
}

static qn_cost clip_cost(const void *attributes, const qn_tensor *inputs,
                         const qn_tensor *outputs) {
    (void)outputs;
    qn_cost cost = {0};
    for (int i = 1; i <= ((const qn_clip_attributes *)attributes)->n_gradients; i++)
        cost.flops += 2 * qn_shape_count(inputs[i].shape);
    return cost;
}

static qn_value clip_sample(qn_graph *graph, int variant) {
    qn_value hyper = qn_input(graph, "hyper", QN_SHAPE(QN_HYPER_COUNT));
    const qn_value gradients[] = {qn_sample_parameter(graph, "a", QN_SHAPE(3, 5), 1), QN_NO_VALUE,
                                  qn_sample_parameter(graph, "b", QN_SHAPE(7), 1)};
    return qn_op_clip_factor(graph, "y", hyper, gradients, 3, variant ? 1e6 : 0.1);
}

const qn_op qn_op_clip = {
    .name = "clip_factor",
    .attributes_bytes = sizeof(qn_clip_attributes),
    .attributes = clip_fields,
    .min_inputs = 1,
    .max_inputs = -1,
    .infer = clip_infer,
    .cost = clip_cost,
    .n_samples = 2,
    .sample = clip_sample,
};

qn_value qn_op_clip_factor(qn_graph *graph, const char *name, qn_value hyper,
                           const qn_value *gradients, int n_gradients, double limit) {
    if (graph->status != QN_OK)
        return QN_NO_VALUE;
    qn_value *inputs = qn_arena_allocate(&graph->arena, (size_t)n_gradients + 1, sizeof *inputs);
    if (!inputs) {
        qn_graph_fail(graph, QN_ERROR_MEMORY, "%s (clip_factor): %s", name, qn_error_message());
        return QN_NO_VALUE;
    }
    qn_clip_attributes attributes = {.limit = limit};
    inputs[0] = hyper;
    for (int i = 0; i < n_gradients; i++) {
        if (gradients[i].id >= 0)
            inputs[++attributes.n_gradients] = gradients[i];
    }
    return qn_graph_add1(graph, &qn_op_clip, name, inputs, attributes.n_gradients + 1, &attributes);
}
