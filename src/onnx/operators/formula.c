/* See formula.h. */
#include "onnx/operators/formula.h"

#include <math.h>

static const char *name_of(qn_onnx_call *call, const char *suffix) {
    return suffix ? qn_onnx_side_name(call, suffix) : call->name;
}

qn_value qn_onnx_apply(qn_onnx_call *call, const char *suffix, qn_value x, qn_function f) {
    const char *name = name_of(call, suffix);
    return name ? qn_op_function(call->graph, name, x, f) : QN_NO_VALUE;
}

qn_value qn_onnx_apply_kind(qn_onnx_call *call, const char *suffix, qn_value x,
                            qn_function_kind kind) {
    return qn_onnx_apply(call, suffix, x, (qn_function){.kind = kind});
}

qn_value qn_onnx_line(qn_onnx_call *call, const char *suffix, qn_value x, double a, double b) {
    return qn_onnx_apply(call, suffix, x,
                         (qn_function){QN_FUNCTION_LINE, a, b, -INFINITY, INFINITY});
}

qn_value qn_onnx_cut(qn_onnx_call *call, const char *suffix, qn_value x, double least,
                     double most) {
    return qn_onnx_apply(call, suffix, x, (qn_function){QN_FUNCTION_LINE, 1, 0, least, most});
}

qn_value qn_onnx_combine(qn_onnx_call *call, const char *suffix, qn_combination kind, qn_value a,
                         qn_value b) {
    const char *name = name_of(call, suffix);
    return name ? qn_op_combine(call->graph, name, kind, a, b) : QN_NO_VALUE;
}

qn_value qn_onnx_where(qn_onnx_call *call, const char *suffix, qn_value condition, qn_value a,
                       qn_value b) {
    const char *name = name_of(call, suffix);
    return name ? qn_op_where(call->graph, name, condition, a, b) : QN_NO_VALUE;
}

qn_value qn_onnx_scalar(qn_onnx_call *call, const char *suffix, double x) {
    const char *name = qn_onnx_side_name(call, suffix);
    return name ? qn_op_scalar(call->graph, name, x) : QN_NO_VALUE;
}

qn_value qn_onnx_reshaped(qn_onnx_call *call, const char *suffix, qn_value x, qn_shape shape) {
    const char *name = name_of(call, suffix);
    return name ? qn_reshape(call->graph, name, x, shape) : QN_NO_VALUE;
}

qn_value qn_onnx_to_whole(qn_onnx_call *call, const char *suffix, qn_value x) {
    const char *name = name_of(call, suffix);
    return name ? qn_op_cast(call->graph, name, x, QN_I32) : QN_NO_VALUE;
}
