/* A point in a graph from which on a value exists, whichever lane computes it (op.h: is_wait).
 * After a copy to another memory space, the memory of the copy's source is free from here on. The
 * output has no content and no reader. */
#include "ops/ops.h"
#include "ops/shared.h"

static qn_status wait_infer(qn_infer *infer) {
    infer->outputs[0] = (qn_tensor){QN_I32, {1, {1}}};
    return QN_OK;
}

static qn_cost wait_cost(const void *attributes, const qn_tensor *inputs,
                         const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return (qn_cost){.bytes = (int64_t)qn_tensor_bytes(outputs[0])};
}

enum { ANY_TYPE = 0xff };

const qn_op qn_op_wait_value = {
    .name = "wait",
    .min_inputs = 1,
    .max_inputs = 1,
    .any_type_inputs = ANY_TYPE,
    .infer = wait_infer,
    .cost = wait_cost,
    .is_wait = true,
};

qn_value qn_op_wait(qn_graph *graph, const char *name, qn_value value) {
    return qn_graph_add1(graph, &qn_op_wait_value, name, &value, 1, NULL);
}
