/* A step of whole-number weights by whole-number gradients, w - gradient, cut to the symmetric
 * range, in the storage of w: the width of the gradient is the step size. Inputs: gradient, w. */
#include "ops/shared.h"
#include "ops/update.h"

static qn_status step_infer(qn_infer *infer) {
    QN_TRY(qn_infer_dtype(infer, 0, QN_I8));
    QN_TRY(qn_infer_dtype(infer, 1, QN_I8));
    QN_TRY(qn_infer_expect(infer, 0, "gradient", infer->inputs[1].shape));
    infer->outputs[0] = infer->inputs[1];
    return QN_OK;
}

static qn_cost step_cost(const void *attributes, const qn_tensor *inputs,
                         const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(2, outputs);
}

static qn_value step_sample(qn_graph *graph, int variant) {
    (void)variant;
    const qn_tensor w = {QN_I8, QN_SHAPE(7, 5)};
    return qn_op_integer_step(graph, "y",
                              qn_graph_add_source(graph, QN_KIND_LABEL, "gradient", w,
                                                  (qn_initial){QN_INITIAL_ZERO, 0}, false),
                              qn_graph_add_source(graph, QN_KIND_PARAMETER, "w", w,
                                                  (qn_initial){QN_INITIAL_UNIFORM, 127}, true));
}

const qn_op qn_op_integer_update = {
    .name = "integer_step",
    .min_inputs = 2,
    .max_inputs = 2,
    .any_type_inputs = 3,
    .infer = step_infer,
    .cost = step_cost,
    .overwrites = {2},
    .n_samples = 1,
    .sample = step_sample,
};

qn_value qn_op_integer_step(qn_graph *graph, const char *name, qn_value gradient, qn_value w) {
    const qn_value inputs[] = {gradient, w};
    return qn_graph_add1(graph, &qn_op_integer_update, name, inputs, 2, NULL);
}
