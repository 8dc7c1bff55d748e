/* exp, tanh, log, log1p and erf of our own, so that results do not depend on the C library. The
 * vector kernels evaluate the same polynomials in the same order. */
#ifndef QN_BASE_FMATH_H
#define QN_BASE_FMATH_H

/* e^x, at most 2 ulp off; 0 and infinity where it leaves the range, NaN for NaN. */
float qn_exp_f32(float x);
double qn_exp_f64(double x);

/* Hyperbolic tangent, at most 4 ulp off; NaN for NaN. */
float qn_tanh_f32(float x);
double qn_tanh_f64(double x);

/* log(1 + x) for x from 0 to 1, at most 2 ulp off; NaN for NaN. */
float qn_log1p_f32(float x);
double qn_log1p_f64(double x);

/* The natural logarithm of normal x above 0, at most 1e-15 of its size off, or of 1 where it is
 * smaller. */
float qn_log_f32(float x);
double qn_log_f64(double x);

/* The error function, at most 2 ulp off; NaN for NaN. */
float qn_erf_f32(float x);
double qn_erf_f64(double x);

#endif
