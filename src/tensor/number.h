/* Numbers of every element type, and the one place that converts between them.
 *
 * Every number of every type is a double without loss. Into a type of reals a number goes to the
 * nearest, of two as near to the one whose last bit is 0 (IEEE 754, roundTiesToEven), in one
 * rounding; what is beyond the largest number becomes an infinity in QN_F32, QN_F16 and QN_BF16,
 * and the largest number of its sign in both 8-bit types, infinities too (OCP OFP8 1.0,
 * saturating). A NaN stays one, with its sign. Into a whole type a number is cut towards 0, and
 * goes to the nearest end of the type's range where it is beyond that; a NaN becomes 0. */
#ifndef QN_TENSOR_NUMBER_H
#define QN_TENSOR_NUMBER_H

#include "tensor/tensor.h"

/* Number i of an array of a type other than QN_NONE. */
double qn_number_get(qn_dtype dtype, const void *data, int64_t i);
void qn_number_set(qn_dtype dtype, void *data, int64_t i, double number);

/* Numbers [begin, end) of x as those of y, which does not overlap x, or is x, with elements of the
 * same size. */
void qn_numbers_convert(qn_dtype from, const void *x, qn_dtype to, void *y, int64_t begin,
                        int64_t end);

#endif
