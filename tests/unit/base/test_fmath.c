/* exp, tanh, log1p and erf of our own against the C library in a wider type, and their ends. */
#include "base/fmath.h"

#include "base/rng.h"
#include "check.h"

#include <float.h>

enum { SAMPLES = 100000 };

/* Units in the last place of `want` between it and got. */
static double ulps(double got, long double want, int digits) {
    int exponent;
    frexpl(want, &exponent);
    return (double)(fabsl((long double)got - want) / ldexpl(1, exponent - digits));
}

static double worst;

static void note(double error) {
    worst = error > worst || isnan(error) ? error : worst;
}

/* Arguments spread evenly, and tightly around zero. */
static double argument(int i, double limit) {
    double x = limit * (2 * (double)qn_rng_uniform(qn_rng_word((qn_rng){1, 2}, (uint64_t)i)) - 1);
    return i % 4 == 0 ? x * 0x1p-10 : i % 64 == 1 ? x * 0x1p-40 : x;
}

static void test_f64(void) {
    worst = 0;
    for (int i = 0; i < SAMPLES; i++) {
        double x = argument(i, 700);
        note(ulps(qn_exp_f64(x), expl((long double)x), DBL_MANT_DIG));
    }
    printf("exp in double: %.2f ulp\n", worst);
    CHECK(worst < 2);
    worst = 0;
    for (int i = 0; i < SAMPLES; i++) {
        double x = argument(i, i % 2 ? 22 : 1);
        note(x == 0 ? 0 : ulps(qn_tanh_f64(x), tanhl((long double)x), DBL_MANT_DIG));
    }
    printf("tanh in double: %.2f ulp\n", worst);
    CHECK(worst < 4);
    worst = 0;
    for (int i = 0; i < SAMPLES; i++) {
        double x = fabs(argument(i, 1));
        note(x == 0 ? 0 : ulps(qn_log1p_f64(x), log1pl((long double)x), DBL_MANT_DIG));
    }
    printf("log1p in double: %.2f ulp\n", worst);
    CHECK(worst < 2);
    worst = 0;
    for (int i = 0; i < SAMPLES; i++) { /* off by the last bits of 1, near it */
        const double x = exp(argument(i, i % 2 ? 300 : 1)), truth = log(x);
        const double off = fabs(qn_log_f64(x) - truth) / (fabs(truth) > 1 ? fabs(truth) : 1.0);
        worst = off > worst ? off : worst;
    }
    printf("log in double: %.2e of its size, or of 1\n", worst);
    CHECK(worst < 1e-15);
    worst = 0;
    for (int i = 0; i < SAMPLES; i++) {
        double x = argument(i, i % 2 ? 7 : 1.5);
        note(x == 0 ? 0 : ulps(qn_erf_f64(x), erfl((long double)x), DBL_MANT_DIG));
    }
    printf("erf in double: %.2f ulp\n", worst);
    CHECK(worst < 2);
}

static void test_f32(void) {
    worst = 0;
    for (int i = 0; i < SAMPLES; i++) {
        float x = (float)argument(i, 87);
        note(ulps((double)qn_exp_f32(x), expl((long double)x), FLT_MANT_DIG));
    }
    printf("exp in float: %.2f ulp\n", worst);
    CHECK(worst < 2);
    worst = 0;
    for (int i = 0; i < SAMPLES; i++) {
        float x = (float)argument(i, i % 2 ? 10 : 1);
        note(x == 0 ? 0 : ulps((double)qn_tanh_f32(x), tanhl((long double)x), FLT_MANT_DIG));
    }
    printf("tanh in float: %.2f ulp\n", worst);
    CHECK(worst < 4);
    worst = 0;
    for (int i = 0; i < SAMPLES; i++) {
        float x = (float)fabs(argument(i, 1));
        note(x == 0 ? 0 : ulps((double)qn_log1p_f32(x), log1pl((long double)x), FLT_MANT_DIG));
    }
    printf("log1p in float: %.2f ulp\n", worst);
    CHECK(worst < 2);
    worst = 0;
    for (int i = 0; i < SAMPLES; i++) {
        float x = (float)argument(i, i % 2 ? 5 : 1.5);
        note(x == 0 ? 0 : ulps((double)qn_erf_f32(x), erfl((long double)x), FLT_MANT_DIG));
    }
    printf("erf in float: %.2f ulp\n", worst);
    CHECK(worst < 2);
}

static void test_ends(void) {
    CHECK(qn_exp_f64(0) == 1 && qn_exp_f32(0) == 1);
    CHECK(qn_exp_f64(INFINITY) == INFINITY && qn_exp_f32(INFINITY) == INFINITY);
    CHECK(qn_exp_f64(-INFINITY) == 0 && qn_exp_f32(-INFINITY) == 0);
    CHECK(qn_exp_f64(709.9) == INFINITY && qn_exp_f32(89) == INFINITY);
    CHECK(isfinite(qn_exp_f64(709.7)) && isfinite(qn_exp_f32(88.7f)));
    CHECK(qn_exp_f64(-800) == 0 && qn_exp_f32(-120) == 0);
    CHECK(qn_exp_f64(-740) > 0 && qn_exp_f64(-740) < DBL_MIN);
    CHECK(qn_exp_f32(-100) > 0 && qn_exp_f32(-100) < FLT_MIN);
    CHECK(isnan(qn_exp_f64(NAN)) && isnan(qn_exp_f32(NAN)));
    CHECK(isnan(qn_tanh_f64(NAN)) && isnan(qn_tanh_f32(NAN)));
    CHECK(qn_tanh_f64(INFINITY) == 1 && qn_tanh_f64(-INFINITY) == -1);
    CHECK(qn_tanh_f32(INFINITY) == 1 && qn_tanh_f32(-INFINITY) == -1);
    CHECK(qn_tanh_f64(1000) == 1 && qn_tanh_f32(-1000) == -1);
    CHECK(qn_log1p_f64(0) == 0 && qn_log1p_f32(0) == 0);
    CHECK(qn_log1p_f64(1) == log(2) && qn_log1p_f32(1) == (float)log(2));
    CHECK(qn_log_f64(1) == 0 && qn_log_f32(1) == 0 && qn_log_f32(0.5f) == -(float)log(2));
    CHECK(isnan(qn_log1p_f64(NAN)) && isnan(qn_log1p_f32(NAN)));
    CHECK(isnan(qn_erf_f64(NAN)) && isnan(qn_erf_f32(NAN)));
    CHECK(qn_erf_f64(INFINITY) == 1 && qn_erf_f64(-INFINITY) == -1);
    CHECK(qn_erf_f32(INFINITY) == 1 && qn_erf_f32(-INFINITY) == -1 && qn_erf_f32(4.5f) == 1);
    CHECK(signbit(qn_erf_f64(-0.0)) && signbit(qn_erf_f32(-0.0f)) && qn_erf_f64(6.5) == 1);
    CHECK(qn_erf_f64(-0.3) == -qn_erf_f64(0.3) && qn_erf_f32(-1.3f) == -qn_erf_f32(1.3f));
    CHECK(qn_tanh_f64(0) == 0 && signbit(qn_tanh_f64(-0.0)) && signbit(qn_tanh_f32(-0.0f)));
    CHECK(qn_tanh_f64(-0.3) == -qn_tanh_f64(0.3) && qn_tanh_f32(-0.3f) == -qn_tanh_f32(0.3f));
}

int main(void) {
    test_f64();
    test_f32();
    test_ends();
    return checks_finish();
}
