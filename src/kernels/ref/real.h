/* What the reference's sources are written in: a `real`, which is float unless QN_REAL_F64 is
 * defined, and the small things that all of them use. The sources hold static functions only, so
 * that any kernel file can include those it wants and compile them for its instruction set. */
#ifndef QN_KERNELS_REF_REAL_H
#define QN_KERNELS_REF_REAL_H

#include "base/fmath_inline.h"
#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

#if defined(QN_REAL_F64)
typedef double real;
typedef int64_t real_int;
#define REAL_MAGNITUDE INT64_MAX /* bits of a real but its sign */
#define QN_REAL_DTYPE  QN_F64
#define REAL_EXP       qn_exp_inline_f64
#define REAL_TANH      qn_tanh_inline_f64
#define REAL_LOG1P     qn_log1p_inline_f64
#define REAL_ERF       qn_erf_given_f64
#define REAL_BELL      qn_exp_normal_f64
#define BELL_END       37
#define REAL_LOG       log
#define REAL_SQRT      __builtin_sqrt
#else
typedef float real;
typedef int32_t real_int;
#define REAL_MAGNITUDE INT32_MAX
#define QN_REAL_DTYPE  QN_F32
#define REAL_EXP       qn_exp_inline_f32
#define REAL_TANH      qn_tanh_inline_f32
#define REAL_LOG1P     qn_log1p_inline_f32
#define REAL_ERF       qn_erf_given_f32
#define REAL_BELL      qn_exp_normal_f32
#define BELL_END       13
#define REAL_LOG       logf
#define REAL_SQRT      __builtin_sqrtf
#endif

static inline int64_t min_int(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t max_int(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static inline int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static inline int64_t round_up(int64_t a, int64_t b) {
    return ceil_div(a, b) * b;
}

/* The largest power of two that is at most n, n >= 1; the least that is at least n. */
static inline int64_t power_below(int64_t n) {
    return (int64_t)1 << (63 - __builtin_clzll((unsigned long long)n));
}

static inline int64_t power_above(int64_t n) {
    return n <= 1 ? 1 : 2 * power_below(n - 1);
}

/* Samples of the whole batch, by which the way of a convolution is chosen. */
static inline int64_t batch_of(const qn_conv2d_shape *d) {
    return d->batch ? d->batch : d->n;
}

/* Elements from one pixel of y or dy to the next, or from one row of a tensor. */
static inline int64_t y_stride_of(const qn_conv2d_shape *d) {
    return d->y_stride ? d->y_stride : d->k;
}

static inline int64_t row_stride(const qn_rows *shape, int tensor) {
    return shape->strides[tensor] ? shape->strides[tensor] : shape->c;
}

/* What n elements are split into for tasks. */
enum { ELEMENTS_PER_TASK = 8192 };

#endif
