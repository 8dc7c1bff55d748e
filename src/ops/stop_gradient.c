/* x itself, treated by autodiff as a constant: a view, so nothing runs. */
#include "ops/shared.h"

static qn_value stop_sample(qn_graph *graph, int variant) {
    (void)variant;
    qn_value x = qn_sample_parameter(graph, "x", QN_SHAPE(3, 5), 1);
    return qn_stop_gradient(graph, "y", qn_tanh(graph, "tanh", x));
}

const qn_op qn_op_stop_gradient = {
    .name = "stop_gradient",
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = qn_infer_elementwise,
    .stops_gradient = true,
    .is_view = true,
    .n_samples = 1,
    .sample = stop_sample,
};

qn_value qn_stop_gradient(qn_graph *graph, const char *name, qn_value x) {
    return qn_graph_add1(graph, &qn_op_stop_gradient, name, &x, 1, NULL);
}
