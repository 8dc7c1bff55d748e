/* Numbers of every element type, and the only place that converts between them.
 *
 * Every number of every type but QN_I64 is exactly representable as a double; numbers of QN_I64 are
 * converted here only to be shown, and exactly by ops/integers.h. Conversion to a type of reals
 * rounds once, to nearest, ties to even (IEEE 754). Overflow gives infinity in QN_F32, QN_F16 and
 * QN_BF16, and the largest number of the same sign in both 8-bit types, also for infinities (OCP
 * OFP8 1.0, saturating). NaN stays NaN, with its sign. Conversion to an integer type truncates
 * towards 0 and saturates at the ends of the range; NaN becomes 0. */
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

/* The first of n numbers that is NaN or, unless they are allowed, infinite; n: there is none. As
 * fast as memory for QN_F32 and QN_F64. */
int64_t qn_numbers_find_bad(qn_dtype dtype, const void *data, int64_t n, bool allows_infinite);

/* Whether all of n reals are of at most this magnitude; NaN is not. As fast as memory for QN_F32
 * and QN_F64. */
#define QN_MODERATE 0x1p60
bool qn_numbers_are_moderate(qn_dtype dtype, const void *data, int64_t n);

#endif
