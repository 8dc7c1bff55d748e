/* Elements by their places, for values of any type: how integers are moved. No gradient flows. */
#include "ops/integers.h"
#include "ops/shared.h"

static qn_status pick_infer(qn_infer *infer) {
    const qn_dtype places = infer->inputs[1].dtype;
    if (places != QN_I32 && places != QN_I64)
        return qn_fail(QN_ERROR_ARGUMENT, "places are i32 or i64, not %s", qn_dtype_name(places));
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, infer->inputs[1].shape};
    return QN_OK;
}

static qn_value pick_sample(qn_graph *graph, int variant) {
    const qn_value x = qn_label(graph, "x", variant ? QN_I64 : QN_I32, QN_SHAPE(4, 3));
    return qn_op_pick(graph, "y", x, qn_label(graph, "places", QN_I32, QN_SHAPE(2, 5)));
}

const qn_op qn_op_pick_elements = {
    .name = "pick",
    .min_inputs = 2,
    .max_inputs = 2,
    .any_type_inputs = 3,
    .stops_gradient = true,
    .looks_at_batch = true,
    .infer = pick_infer,
    .n_samples = 2,
    .sample = pick_sample,
};

qn_value qn_op_pick(qn_graph *graph, const char *name, qn_value x, qn_value places) {
    return qn_graph_add1(graph, &qn_op_pick_elements, name, (qn_value[]){x, places}, 2, NULL);
}
