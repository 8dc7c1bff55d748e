/* Copies a value from one memory space to another. Copies are added to complete graphs when nodes
 * are assigned to devices, so there are no gradients. */
#include "ops/shared.h"

typedef struct copy_attributes {
    int space; /* that it goes to; 0: the host's */
} copy_attributes;

static const qn_attribute copy_fields[] = {
    QN_FIELD(copy_attributes, QN_ATTRIBUTE_INT, space),
    {0},
};

static qn_status copy_infer(qn_infer *infer) {
    infer->outputs[0] = infer->inputs[0];
    return QN_OK;
}

static int copy_space(const void *attributes) {
    return ((const copy_attributes *)attributes)->space;
}

enum { ANY_TYPE = 0xff };

const qn_op qn_op_copy_value = {
    .name = "copy",
    .attributes_bytes = sizeof(copy_attributes),
    .attributes = copy_fields,
    .min_inputs = 1,
    .max_inputs = 1,
    .any_type_inputs = ANY_TYPE,
    .infer = copy_infer,
    .output_space = copy_space,
};

qn_value qn_op_copy(qn_graph *graph, const char *name, qn_value value, int space) {
    const copy_attributes attributes = {space};
    return qn_graph_add1(graph, &qn_op_copy_value, name, &value, 1, &attributes);
}
