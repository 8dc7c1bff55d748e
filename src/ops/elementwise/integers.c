/* See ops/integers.h: rules element by element, and what an axis comes to. */
#include "ops/integers.h"

#include "ops/shared.h"

static const qn_attribute rule_fields[] = {
    QN_FIELD(qn_integer_attributes, QN_ATTRIBUTE_INT, rule),
    QN_FIELD(qn_integer_attributes, QN_ATTRIBUTE_INT, bits),
    QN_FIELD(qn_integer_attributes, QN_ATTRIBUTE_BOOL, is_signed),
    QN_FIELD(qn_integer_attributes, QN_ATTRIBUTE_INT, dtype),
    {0},
};

static qn_status check_operand(const qn_infer *infer, int i, bool may_be_real) {
    const qn_dtype dtype = infer->inputs[i].dtype;
    if (dtype == QN_I32 || dtype == QN_I64 || (may_be_real && qn_dtype_is_real(dtype)))
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT, "input %d is %s, not i32, i64%s", i, qn_dtype_name(dtype),
                   may_be_real ? ", f32 or f64" : "");
}

static qn_status rule_infer(qn_infer *infer) {
    const qn_integer_attributes *a = infer->attributes;
    qn_shape shape = infer->inputs[0].shape;
    for (int i = 0; i < infer->n_inputs; i++) {
        QN_TRY(check_operand(infer, i, true));
        if (i > 0 && !qn_shape_broadcast(shape, infer->inputs[i].shape, &shape))
            return qn_fail(QN_ERROR_ARGUMENT, "its operands do not go together");
    }
    const bool is_narrow = a->dtype == QN_I32 && a->bits <= (a->is_signed ? 32 : 16);
    if (a->dtype != QN_I64 && !is_narrow && !qn_dtype_is_real((qn_dtype)a->dtype))
        return qn_fail(QN_ERROR_ARGUMENT, "integers cannot be %s here",
                       qn_dtype_name((qn_dtype)a->dtype));
    infer->outputs[0] = (qn_tensor){(qn_dtype)a->dtype, shape};
    return QN_OK;
}

static qn_value rule_sample(qn_graph *graph, int variant) {
    const qn_value x = qn_label(graph, "x", QN_I32, QN_SHAPE(5, 7));
    const qn_value operands[] = {x, qn_label(graph, "row", QN_I64, QN_SHAPE(7)), x};
    const qn_integer_attributes a = {variant == 0   ? QN_INTEGER_MULTIPLY
                                     : variant == 1 ? QN_INTEGER_WHERE
                                                    : QN_INTEGER_CAST,
                                     variant ? 8 : 64, true,
                                     variant == 2 ? (int)graph->real : QN_I64};
    return qn_op_integer(graph, "y", &a, operands, variant == 0 ? 2 : variant == 1 ? 3 : 1);
}

const qn_op qn_op_integer_rule = {
    .name = "integer",
    .attributes_bytes = sizeof(qn_integer_attributes),
    .attributes = rule_fields,
    .min_inputs = 1,
    .max_inputs = 3,
    .any_type_inputs = 7,
    .stops_gradient = true,
    .infer = rule_infer,
    .n_samples = 3,
    .sample = rule_sample,
};

qn_value qn_op_integer(qn_graph *graph, const char *name, const qn_integer_attributes *attributes,
                       const qn_value *operands, int n) {
    return qn_graph_add1(graph, &qn_op_integer_rule, name, operands, n, attributes);
}

/* ---- axes ---- */

static const qn_attribute axis_fields[] = {
    QN_FIELD(qn_integer_axis_rule, QN_ATTRIBUTE_INT, how),
    QN_FIELD(qn_integer_axis_rule, QN_ATTRIBUTE_INT, bits),
    QN_FIELD(qn_integer_axis_rule, QN_ATTRIBUTE_BOOL, is_signed),
    QN_FIELD(qn_integer_axis_rule, QN_ATTRIBUTE_BOOL, is_last),
    QN_FIELD(qn_integer_axis_rule, QN_ATTRIBUTE_BOOL, is_running),
    QN_FIELD(qn_integer_axis_rule, QN_ATTRIBUTE_BOOL, is_exclusive),
    QN_FIELD(qn_integer_axis_rule, QN_ATTRIBUTE_BOOL, is_reverse),
    {0},
};

static qn_status axis_infer(qn_infer *infer) {
    const qn_integer_axis_rule *a = infer->attributes;
    const qn_shape x = infer->inputs[0].shape;
    QN_TRY(qn_infer_rank(infer, 0, 3, "(N, T, C)"));
    QN_TRY(check_operand(infer, 0, false));
    if (x.dims[1] < 1)
        return qn_fail(QN_ERROR_ARGUMENT, "an axis of nothing comes to nothing");
    infer->outputs[0] = (qn_tensor){QN_I64, a->is_running ? x : QN_SHAPE(x.dims[0], x.dims[2])};
    return QN_OK;
}

static qn_value axis_sample(qn_graph *graph, int variant) {
    const qn_value x = qn_label(graph, "x", QN_I32, QN_SHAPE(3, 5, 2));
    const qn_integer_axis_rule a = {.how =
                                        variant == 1 ? QN_INTEGER_PLACE_OF_MAXIMUM : QN_INTEGER_SUM,
                                    .bits = 64,
                                    .is_signed = true,
                                    .is_running = variant == 2};
    return qn_op_integer_reduce(graph, "y", x, &a);
}

const qn_op qn_op_integer_axis = {
    .name = "integer_reduce",
    .attributes_bytes = sizeof(qn_integer_axis_rule),
    .attributes = axis_fields,
    .min_inputs = 1,
    .max_inputs = 1,
    .any_type_inputs = 1,
    .stops_gradient = true,
    .looks_at_batch = true,
    .infer = axis_infer,
    .n_samples = 3,
    .sample = axis_sample,
};

qn_value qn_op_integer_reduce(qn_graph *graph, const char *name, qn_value x,
                              const qn_integer_axis_rule *rule) {
    return qn_graph_add1(graph, &qn_op_integer_axis, name, &x, 1, rule);
}
