/* The sum of shared exponents: that of a product of numbers that have one each. Inputs: scalars,
 * QN_I32. A sum beyond the type is its end. */
#include "ops/quantise.h"
#include "ops/shared.h"

static qn_status exponents_infer(qn_infer *infer) {
    for (int i = 0; i < infer->n_inputs; i++) {
        QN_TRY(qn_infer_dtype(infer, i, QN_I32));
        QN_TRY(qn_infer_expect(infer, i, "exponent", (qn_shape){0}));
    }
    infer->outputs[0] = (qn_tensor){QN_I32, {0}};
    return QN_OK;
}

static qn_value exponents_sample(qn_graph *graph, int variant) {
    const qn_value x = qn_label(graph, "x", QN_I32, (qn_shape){0});
    const qn_value inputs[] = {x, qn_label(graph, "y", QN_I32, (qn_shape){0}), x};
    return qn_op_add_exponents(graph, "z", inputs, variant + 2);
}

const qn_op qn_op_exponent_sum = {
    .name = "add_exponents",
    .min_inputs = 1,
    .max_inputs = 3,
    .any_type_inputs = 7,
    .stops_gradient = true,
    .infer = exponents_infer,
    .n_samples = 2,
    .sample = exponents_sample,
};

qn_value qn_op_add_exponents(qn_graph *graph, const char *name, const qn_value *exponents, int n) {
    return qn_graph_add1(graph, &qn_op_exponent_sum, name, exponents, n, NULL);
}
