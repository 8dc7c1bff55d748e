/* Rotary positions (language.h): the gradient is the same operator with the angles turned back. */
#include "ops/language.h"
#include "ops/shared.h"

static const qn_attribute rotary_fields[] = {
    QN_FIELD(qn_rotary_attributes, QN_ATTRIBUTE_BOOL, neighbours),
    QN_FIELD(qn_rotary_attributes, QN_ATTRIBUTE_BOOL, backwards),
    {0},
};

static qn_status rotary_infer(qn_infer *infer) {
    const qn_shape x = infer->inputs[QN_ROTARY_X].shape;
    const qn_shape table = infer->inputs[QN_ROTARY_COSINES].shape;
    QN_TRY(qn_infer_rank(infer, QN_ROTARY_X, 4, "(N, T, H, D)"));
    QN_TRY(qn_infer_rank(infer, QN_ROTARY_COSINES, 2, "cosines (P, R / 2)"));
    QN_TRY(qn_infer_expect(infer, QN_ROTARY_SINES, "sines", table));
    if (2 * table.dims[1] > x.dims[3])
        return qn_fail(QN_ERROR_ARGUMENT, "%lld angles are too many for heads of %lld numbers",
                       (long long)table.dims[1], (long long)x.dims[3]);
    infer->outputs[0] = infer->inputs[QN_ROTARY_X];
    if (infer->n_inputs <= QN_ROTARY_POSITIONS ||
        infer->inputs[QN_ROTARY_POSITIONS].dtype == QN_NONE)
        return QN_OK;
    QN_TRY(qn_infer_dtype(infer, QN_ROTARY_POSITIONS, QN_I32));
    return qn_infer_expect(infer, QN_ROTARY_POSITIONS, "positions", QN_SHAPE(x.dims[0], x.dims[1]));
}

static qn_cost rotary_cost(const void *attributes, const qn_tensor *inputs,
                           const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(3, outputs);
}

static void rotary_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    qn_rotary_attributes attributes = *(const qn_rotary_attributes *)node->attributes;
    qn_value inputs[4] = {gradient->outputs[0], node->inputs[QN_ROTARY_COSINES],
                          node->inputs[QN_ROTARY_SINES], QN_NO_VALUE};
    if (gradient->wanted[QN_ROTARY_COSINES] || gradient->wanted[QN_ROTARY_SINES]) {
        qn_graph_fail(graph, QN_ERROR_UNSUPPORTED, "%s: no gradient flows to the tables of angles",
                      node->name);
        return;
    }
    if (node->n_inputs > QN_ROTARY_POSITIONS)
        inputs[QN_ROTARY_POSITIONS] = node->inputs[QN_ROTARY_POSITIONS];
    attributes.backwards = !attributes.backwards;
    gradient->inputs[QN_ROTARY_X] =
        qn_gradient_add(graph, node, "backward", &qn_op_rotary, inputs, 4, &attributes);
}

/* Halves, with a rest; neighbours; positions, some of them outside of the table. */
static qn_value rotary_sample(qn_graph *graph, int variant) {
    const int64_t n = 2, t = 5, h = 3, d = variant == 0 ? 7 : 6, half = variant == 0 ? 2 : 3;
    qn_value x = qn_sample_parameter(graph, "x", QN_SHAPE(n, t, h, d), 1);
    qn_value tables[2];
    for (int i = 0; i < 2; i++)
        tables[i] = qn_parameter(graph, i ? "sines" : "cosines", QN_SHAPE(t + 1, half),
                                 (qn_initial){QN_INITIAL_UNIFORM, 1}, false);
    const qn_value positions =
        variant == 2 ? qn_label(graph, "positions", QN_I32, QN_SHAPE(n, t)) : QN_NO_VALUE;
    return qn_rotary(graph, "y", x, tables[0], tables[1], positions, variant == 1);
}

const qn_op qn_op_rotary = {
    .name = "rotary",
    .attributes_bytes = sizeof(qn_rotary_attributes),
    .attributes = rotary_fields,
    .min_inputs = 3,
    .max_inputs = 4,
    .optional_inputs = 1 << QN_ROTARY_POSITIONS,
    .any_type_inputs = 1 << QN_ROTARY_POSITIONS,
    .infer = rotary_infer,
    .gradient = rotary_gradient,
    .cost = rotary_cost,
    .in_place = 1 << QN_ROTARY_X,
    .n_samples = 3,
    .sample = rotary_sample,
};

qn_value qn_rotary(qn_graph *graph, const char *name, qn_value x, qn_value cosines, qn_value sines,
                   qn_value positions, bool neighbours) {
    const qn_rotary_attributes attributes = {neighbours, false};
    return qn_graph_add1(graph, &qn_op_rotary, name, (qn_value[]){x, cosines, sines, positions}, 4,
                         &attributes);
}
