/* sum + gradient in the sum's storage: gradients accumulated over several batches. */
#include "ops/shared.h"

static qn_cost accumulate_cost(const void *attributes, const qn_tensor *inputs,
                               const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(1, outputs);
}

static qn_value accumulate_sample(qn_graph *graph, int variant) {
    (void)variant;
    qn_value gradient = qn_sample_parameter(graph, "gradient", QN_SHAPE(5, 7), 1);
    qn_value sum = qn_graph_add_source(graph, QN_KIND_GRADIENT, "sum",
                                       (qn_tensor){graph->real, QN_SHAPE(5, 7)},
                                       (qn_initial){QN_INITIAL_UNIFORM, 1}, false);
    return qn_op_accumulate(graph, "y", sum, gradient);
}

const qn_op qn_op_accumulation = {
    .name = "accumulate",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = qn_infer_elementwise,
    .cost = accumulate_cost,
    .overwrites = {1},
    .finite_inputs = 1 << 1,
    .n_samples = 1,
    .sample = accumulate_sample,
};

qn_value qn_op_accumulate(qn_graph *graph, const char *name, qn_value sum, qn_value gradient) {
    return qn_graph_add1(graph, &qn_op_accumulation, name, (qn_value[]){sum, gradient}, 2, NULL);
}
