/* See fmath.h; the bodies are in fmath_inline.h. */
#include "base/fmath.h"

#include "base/fmath_inline.h"

#include <math.h>

float qn_exp_f32(float x) {
    return qn_exp_inline_f32(x);
}

double qn_exp_f64(double x) {
    return qn_exp_inline_f64(x);
}

float qn_tanh_f32(float x) {
    return qn_tanh_inline_f32(x);
}

double qn_tanh_f64(double x) {
    return qn_tanh_inline_f64(x);
}

float qn_log1p_f32(float x) {
    return qn_log1p_inline_f32(x);
}

double qn_log1p_f64(double x) {
    return qn_log1p_inline_f64(x);
}

double qn_log_f64(double x) {
    int exponent;
    const double part = frexp(x, &exponent); /* from 1/2 on, below 1 */
    return qn_log1p_inline_f64(2 * part - 1) + 0.693147180559945309 * (exponent - 1);
}

float qn_log_f32(float x) {
    return (float)qn_log_f64((double)x);
}

float qn_erf_f32(float x) {
    return qn_erf_inline_f32(x);
}

double qn_erf_f64(double x) {
    return qn_erf_inline_f64(x);
}
