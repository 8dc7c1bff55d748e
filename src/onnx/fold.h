/* Arithmetic of what is known at import, and operands of what is not. Constants are worked out in
 * double by the reference's kernels. Arithmetic of integers is in integers.h; what is here takes
 * those up to 2^53, and refuses others. */
#ifndef QN_ONNX_FOLD_H
#define QN_ONNX_FOLD_H

#include "onnx/translate.h"
#include "ops/ops.h"

/* A constant of a type with the elements of numbers (count of shape); null when memory is out. */
const qn_onnx_constant *qn_onnx_make_constant(qn_onnx_call *call, qn_onnx_type type, qn_shape shape,
                                              const double *numbers);

/* A constant's elements as doubles; null when memory is out, or an integer is none exactly. */
#define QN_ONNX_MOST_EXACT (INT64_C(1) << 53)
const double *qn_onnx_numbers(qn_onnx_call *call, const qn_onnx_constant *constant);

/* f(x), and a rule of two or three constants (c null: two), of a type. Null: memory is out, or the
 * shapes do not go together, with the reason. */
const qn_onnx_constant *qn_onnx_fold_function(qn_onnx_call *call, const qn_function *function,
                                              const qn_onnx_constant *x);
const qn_onnx_constant *qn_onnx_fold_rule(qn_onnx_call *call, qn_combination kind,
                                          qn_onnx_type type, const qn_onnx_constant *a,
                                          const qn_onnx_constant *b, const qn_onnx_constant *c);

/* Gives a constant for output 0; null: the failure that made it. */
qn_status qn_onnx_give_constant(qn_onnx_call *call, const qn_onnx_constant *constant);

/* The axes that a reduction's node takes away, as a mask over a rank (operators/reduce.c). */
qn_status qn_onnx_reduced_axes(qn_onnx_call *call, int rank, unsigned *mask);

/* Elements of a constant that is made here. */
enum { QN_ONNX_MOST_MADE = 1 << 24 };

/* Whether so many numbers may be made at import; the failure that they may not. */
qn_status qn_onnx_check_made(int64_t n);

/* Reals made at import as a value that does not train. */
qn_value qn_onnx_made_value(qn_onnx_call *call, const char *suffix, qn_shape shape,
                            const double *reals);

/* A constant input and its numbers, and of one that is one whole number, that; the failure that
 * it is known only when it runs. */
qn_status qn_onnx_numbers_of(qn_onnx_call *call, int input, const qn_onnx_constant **c,
                             const double **numbers);
qn_status qn_onnx_number_of(qn_onnx_call *call, int input, int64_t *number);

/* Rounds an item that a node "Cast" gave to the 16-bit floats that it says; of another type it
 * stays. */
qn_status qn_onnx_round_cast(qn_onnx_call *call, qn_onnx_item *item, qn_onnx_type to);

/* x rounded to 256 steps of its range, which its gradient passes by (operators/quantise.c). */
qn_value qn_onnx_rounded_to_bytes(qn_onnx_call *call, qn_value x);

/* (input - zero) * scale, which do not train: scales and zero points, inputs of these numbers, are
 * one for each index of the first axis, or of the first and last. */
qn_value qn_onnx_dequantised(qn_onnx_call *call, int input, int scale, int zero);

/* x as reals: whole numbers are cast. */
qn_value qn_onnx_as_reals(qn_onnx_call *call, qn_value x);

/* Gives reals for output 0 as what a type says: whole numbers are cast back. */
void qn_onnx_give_as(qn_onnx_call *call, qn_value value, bool is_image, qn_onnx_type type);

/* Inputs [0, n), n at most 3, as reals beside one another: with channels last where one of them is
 * an image and none has more axes, else in the file's order. *is_image: which of the two. */
void qn_onnx_operands(qn_onnx_call *call, int n, qn_value *values, bool *is_image);

#endif
