/* Nodes whose data are integers: index arithmetic, masks, tables of numbers. They are computed
 * exactly, wrapping as their type does, in values of QN_I64 or QN_I32, or at import; no integer
 * goes through a float. The builder asks here before it asks a translator. */
#ifndef QN_ONNX_INTEGERS_H
#define QN_ONNX_INTEGERS_H

#include "onnx/translate.h"
#include "tensor/integer.h"

/* Builds the node if it computes with integers; *is_done says whether. */
qn_status qn_onnx_build_integers(qn_onnx_call *call, bool *is_done);

/* The same for those of whole arrays: TopK, OneHot, MatMul and Gemm (integers_arrays.c). */
qn_status qn_onnx_build_integer_arrays(qn_onnx_call *call, bool *is_done);

/* A rule of values, of a type: QN_I64. */
qn_value qn_onnx_integer_rule(qn_onnx_call *call, const char *suffix, qn_integer_rule rule,
                              qn_onnx_type type, const qn_value *operands, int n);

/* Integers made at import as a value. */
qn_value qn_onnx_integers_value(qn_onnx_call *call, qn_shape shape, const int64_t *numbers);

/* Gives a value of QN_I64 in a shape as a type, as narrow as that is. */
qn_status qn_onnx_give_integers(qn_onnx_call *call, int output, qn_value x, qn_shape shape,
                                qn_onnx_type type);

/* Of input 0, the k largest or least along an axis: their places along it, and among all elements,
 * both (outer, k, inner). */
qn_status qn_onnx_rank_axis(qn_onnx_call *call, int axis, int64_t k, bool is_largest,
                            qn_value *places, qn_value *elements);

/* If the node moves integers that are known only when it runs (Gather, Slice, Concat, ...): what
 * its translator does with the places of all elements says where each goes. */
qn_status qn_onnx_move_integers(qn_onnx_call *call, const qn_onnx_translator *translator,
                                bool *is_done);

bool qn_onnx_type_is_integer(qn_onnx_type type); /* not a bool */

/* Its bits, and whether it has a sign. */
qn_integer_type qn_onnx_integer_type_of(qn_onnx_type type);

/* An integer as a real of the graph, and a real as an integer of a type. */
qn_value qn_onnx_integer_as_real(qn_onnx_call *call, const char *name, qn_value x,
                                 qn_onnx_type type);
qn_value qn_onnx_real_as_integer(qn_onnx_call *call, const char *name, qn_value x,
                                 qn_onnx_type type);

/* An integer, or a real, as an index of QN_I32; one beyond 32 bits is none of any axis there
 * either. */
qn_value qn_onnx_as_index(qn_onnx_call *call, qn_value x);

#endif
