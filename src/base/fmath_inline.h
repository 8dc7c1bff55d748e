/* The bodies of exp, tanh, log1p and erf, without branches, so that a loop over them becomes vector
 * code. They give the same bits everywhere, provided that contraction is off where they are
 * compiled.
 *
 * exp: x = k ln 2 + r with |r| <= ln 2 / 2, ln 2 in two parts; e^r by its Taylor series, cut where
 * the rest is below a tenth of an ulp; 2^k in two factors, so that results may be subnormal.
 * tanh: with m = e^(2 |x|) - 1, which keeps its relative accuracy near 0, it is m / (m + 2).
 * log1p: above sqrt(2) - 1 it is ln 2 + log1p((x - 1) / 2); with s = x / (2 + x) it is the odd
 * series 2 s + 2 s^3 / 3 + ..., s at most 0.172 in size. erf: x (1 + a polynomial of x^2) up to 1;
 * from there 1 - e^(-x^2) times a polynomial; from 6 on (float: 4) it is 1. The polynomials'
 * coefficients are least squares fits, weighted until the largest error is least: 1.3e-19
 * and 4.6e-19 (float: 1.2e-9 and 2.5e-9). */
#ifndef QN_BASE_FMATH_INLINE_H
#define QN_BASE_FMATH_INLINE_H

#include <stdint.h>
#include <string.h>

/* 1.5 * 2^52: adding it to a small x leaves round(x) in the low bits of the mantissa. */
#define QN_ROUND_F64 0x1.8p52
#define QN_ROUND_F32 0x1.8p23f

/* 2^k for an integral k in the exponent's range. */
static inline double qn_power_of_two_f64(double k) {
    double shifted = k + QN_ROUND_F64;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52;
    memcpy(&k, &bits, sizeof bits);
    return k;
}

static inline float qn_power_of_two_f32(float k) {
    float shifted = k + QN_ROUND_F32;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 127) << 23;
    memcpy(&k, &bits, sizeof bits);
    return k;
}

/* x = *k ln 2 + the result. */
static inline double qn_reduce_f64(double x, double *k) {
    *k = (x * 1.4426950408889634074 + QN_ROUND_F64) - QN_ROUND_F64;
    return (x - *k * 6.93147180369123816490e-01) - *k * 1.90821492927058770002e-10;
}

static inline float qn_reduce_f32(float x, float *k) {
    *k = (x * 1.44269504f + QN_ROUND_F32) - QN_ROUND_F32;
    return (x - *k * 0.693359375f) - *k * -2.12194440e-4f;
}

/* e^r - 1 for |r| <= ln 2 / 2. */
static inline double qn_expm1_near_zero_f64(double r) {
    double p = 1.0 / 6227020800;
    p = p * r + 1.0 / 479001600;
    p = p * r + 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    return r + r * r * p;
}

static inline float qn_expm1_near_zero_f32(float r) {
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    return r + r * r * p;
}

static inline double qn_exp_inline_f64(double x) {
    x = x > 710.0 ? 710.0 : x;
    x = x < -746.0 ? -746.0 : x;
    double k, r = qn_reduce_f64(x, &k);
    double half = (k * 0.5 + QN_ROUND_F64) - QN_ROUND_F64;
    double power = 1.0 + qn_expm1_near_zero_f64(r);
    return power * qn_power_of_two_f64(half) * qn_power_of_two_f64(k - half);
}

static inline float qn_exp_inline_f32(float x) {
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    float k, r = qn_reduce_f32(x, &k);
    float half = (k * 0.5f + QN_ROUND_F32) - QN_ROUND_F32;
    float power = 1.0f + qn_expm1_near_zero_f32(r);
    return power * qn_power_of_two_f32(half) * qn_power_of_two_f32(k - half);
}

/* e^x where it is neither subnormal nor infinite: |x| up to 700 (float: 87). */
static inline double qn_exp_normal_f64(double x) {
    double k, r = qn_reduce_f64(x, &k);
    return (1.0 + qn_expm1_near_zero_f64(r)) * qn_power_of_two_f64(k);
}

static inline float qn_exp_normal_f32(float x) {
    float k, r = qn_reduce_f32(x, &k);
    return (1.0f + qn_expm1_near_zero_f32(r)) * qn_power_of_two_f32(k);
}

static inline double qn_tanh_inline_f64(double x) {
    double twice = 2.0 * __builtin_fabs(x);
    twice = twice > 44.0 ? 44.0 : twice;
    double k, r = qn_reduce_f64(twice, &k), power = qn_power_of_two_f64(k);
    double m = power * qn_expm1_near_zero_f64(r) + (power - 1.0);
    return __builtin_copysign(m / (m + 2.0), x);
}

static inline float qn_tanh_inline_f32(float x) {
    float twice = 2.0f * __builtin_fabsf(x);
    twice = twice > 20.0f ? 20.0f : twice;
    float k, r = qn_reduce_f32(twice, &k), power = qn_power_of_two_f32(k);
    float m = power * qn_expm1_near_zero_f32(r) + (power - 1.0f);
    return __builtin_copysignf(m / (m + 2.0f), x);
}

/* log1p for -0.293 <= x <= 0.415. */
static inline double qn_log1p_near_zero_f64(double x) {
    const double s = x / (2.0 + x), z = s * s;
    double p = 2.0 / 23;
    p = p * z + 2.0 / 21;
    p = p * z + 2.0 / 19;
    p = p * z + 2.0 / 17;
    p = p * z + 2.0 / 15;
    p = p * z + 2.0 / 13;
    p = p * z + 2.0 / 11;
    p = p * z + 2.0 / 9;
    p = p * z + 2.0 / 7;
    p = p * z + 2.0 / 5;
    p = p * z + 2.0 / 3;
    /* 2 s = x - s x: the leading term keeps x's accuracy. */
    return x - s * (x - z * p);
}

static inline float qn_log1p_near_zero_f32(float x) {
    const float s = x / (2.0f + x), z = s * s;
    float p = 2.0f / 11;
    p = p * z + 2.0f / 9;
    p = p * z + 2.0f / 7;
    p = p * z + 2.0f / 5;
    p = p * z + 2.0f / 3;
    return x - s * (x - z * p);
}

static inline double qn_log1p_inline_f64(double x) {
    const int is_large = x > 0.41421356237309503;
    const double near = qn_log1p_near_zero_f64(is_large ? (x - 1.0) * 0.5 : x);
    return is_large ? near + 6.93147180559945286e-01 : near;
}

static inline float qn_log1p_inline_f32(float x) {
    const int is_large = x > 0.414213562f;
    const float near = qn_log1p_near_zero_f32(is_large ? (x - 1.0f) * 0.5f : x);
    return is_large ? near + 0.693147180f : near;
}

/* erf(x) / x - 1 for |x| <= 1, by the square of x. */
static inline double qn_erf_near_zero_f64(double s) {
    double p = 5.94524833564876035e-11;
    p = p * s - 1.13656572728616967e-9;
    p = p * s + 1.46578773193355315e-8;
    p = p * s - 1.63500247870358909e-7;
    p = p * s + 1.64609727669606637e-6;
    p = p * s - 0.0000149255935028370056;
    p = p * s + 0.000120553310366628232;
    p = p * s - 0.000854832697873229091;
    p = p * s + 0.00522397762478058169;
    p = p * s - 0.0268661706450728432;
    p = p * s + 0.112837916709548570;
    p = p * s - 0.376126389031837476;
    p = p * s + 0.128379167095512574;
    return p;
}

static inline float qn_erf_near_zero_f32(float s) {
    float p = 7.85389811e-5f;
    p = p * s - 0.000801020398f;
    p = p * s + 0.00518832873f;
    p = p * s - 0.0268538124f;
    p = p * s + 0.112835852f;
    p = p * s - 0.376126258f;
    p = p * s + 0.128379166f;
    return p;
}

/* (1 - erf(1 + u)) e^((1 + u)^2) for u from 0 to 5 (float: 3). */
static inline double qn_erf_rest_f64(double u) {
    double p = 3.86856704665356643e-14;
    p = p * u - 1.48248418398392256e-12;
    p = p * u + 2.68276622167963348e-11;
    p = p * u - 3.06614407527493677e-10;
    p = p * u + 2.50304657387643087e-9;
    p = p * u - 1.56987407533866640e-8;
    p = p * u + 7.97605098542140765e-8;
    p = p * u - 3.43155514553039020e-7;
    p = p * u + 1.30073526333850478e-6;
    p = p * u - 4.49687921134712113e-6;
    p = p * u + 0.0000145671766113232427;
    p = p * u - 0.0000449885051133458830;
    p = p * u + 0.000133559922566900917;
    p = p * u - 0.000381901042666884259;
    p = p * u + 0.00105024804931849726;
    p = p * u - 0.00276905836864098694;
    p = p * u + 0.00697014097254432011;
    p = p * u - 0.0166618688755819844;
    p = p * u + 0.0375722961935701882;
    p = p * u - 0.0792269689399999728;
    p = p * u + 0.154371561371866148;
    p = p * u - 0.273212014783898037;
    p = p * u + 0.427583576155807003;
    return p;
}

static inline float qn_erf_rest_f32(float u) {
    float p = 0.000108165829f;
    p = p * u - 0.00106587295f;
    p = p * u + 0.00493431704f;
    p = p * u - 0.0151402986f;
    p = p * u + 0.0368959472f;
    p = p * u - 0.0790609136f;
    p = p * u + 0.154351831f;
    p = p * u - 0.273211154f;
    p = p * u + 0.427583570f;
    return p;
}

/* erf(x), where bell is e^-x^2. */
static inline double qn_erf_given_f64(double x, double bell) {
    double size = __builtin_fabs(x);
    size = size > 6.0 ? 6.0 : size;
    const double near = size + size * qn_erf_near_zero_f64(size * size);
    const double far = 1.0 - bell * qn_erf_rest_f64(size - 1.0);
    return __builtin_copysign(size < 1.0 ? near : far, x);
}

static inline float qn_erf_given_f32(float x, float bell) {
    float size = __builtin_fabsf(x);
    size = size > 4.0f ? 4.0f : size;
    const float near = size + size * qn_erf_near_zero_f32(size * size);
    const float far = 1.0f - bell * qn_erf_rest_f32(size - 1.0f);
    return __builtin_copysignf(size < 1.0f ? near : far, x);
}

static inline double qn_erf_inline_f64(double x) {
    double size = __builtin_fabs(x);
    size = size > 6.0 ? 6.0 : size;
    return qn_erf_given_f64(x, qn_exp_normal_f64(-(size * size)));
}

static inline float qn_erf_inline_f32(float x) {
    float size = __builtin_fabsf(x);
    size = size > 4.0f ? 4.0f : size;
    return qn_erf_given_f32(x, qn_exp_normal_f32(-(size * size)));
}

/* ln of a positive number of ordinary size, at most 3 ulp off. x = 2^e m, m from sqrt(1/2) to
 * sqrt(2). */
static inline float qn_ln_inline_f32(float x) {
    int32_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    const int32_t e = (bits - 0x3f3504f3) >> 23;
    bits -= (int32_t)((uint32_t)e << 23);
    __builtin_memcpy(&x, &bits, sizeof x);
    return qn_log1p_near_zero_f32(x - 1.0f) + (float)e * 0.693147180559945f;
}

#endif
