/* Element by element arithmetic of values, for operators that are put together of others. suffix is
 * of the name of the node that is added; null: it is the call's own. */
#ifndef QN_ONNX_FORMULA_H
#define QN_ONNX_FORMULA_H

#include "onnx/translate.h"
#include "ops/ops.h"

qn_value qn_onnx_apply(qn_onnx_call *call, const char *suffix, qn_value x, qn_function f);
qn_value qn_onnx_apply_kind(qn_onnx_call *call, const char *suffix, qn_value x,
                            qn_function_kind kind);

/* a * x + b, and the same cut to a range. */
qn_value qn_onnx_line(qn_onnx_call *call, const char *suffix, qn_value x, double a, double b);
qn_value qn_onnx_cut(qn_onnx_call *call, const char *suffix, qn_value x, double least, double most);

qn_value qn_onnx_combine(qn_onnx_call *call, const char *suffix, qn_combination kind, qn_value a,
                         qn_value b);
qn_value qn_onnx_where(qn_onnx_call *call, const char *suffix, qn_value condition, qn_value a,
                       qn_value b);
qn_value qn_onnx_scalar(qn_onnx_call *call, const char *suffix, double x);
qn_value qn_onnx_reshaped(qn_onnx_call *call, const char *suffix, qn_value x, qn_shape shape);
qn_value qn_onnx_to_whole(qn_onnx_call *call, const char *suffix, qn_value x);

#endif
