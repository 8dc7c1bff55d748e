/* See half.h. */
#include "kernels/half.h"

#include "kernels/peak.h"

#include <stdatomic.h>

enum {
    ROUNDS = 1 << 12, /* some 50 microseconds */
    TRIES = 6,
};

/* An instruction that is so much faster than f32 gains though it cannot be as well prepared for. */
#define LEAST_GAIN 1.4

#ifdef QN_WITH_HALF_AVX512
static volatile float sink;

static double least(double a, double b) {
    return a < b ? a : b;
}

/* Operations in the time of one of f32, by the shortest of some rounds in turn, which other
 * programs and a rising clock disturb least. */
static double measure_gain(const qn_half_kernels *table, qn_isa isa) {
    const qn_peak_loops *loops = qn_peak_get(isa);
    double half = 1e30, real = 1e30;
    for (int i = 0; i < TRIES; i++) {
        const int64_t start = qn_clock_ns();
        sink = (float)loops->f32(ROUNDS, 0.5f, 1);
        const int64_t between = qn_clock_ns();
        sink = table->peak(ROUNDS);
        half = least(half, (double)(qn_clock_ns() - between) + 1);
        real = least(real, (double)(between - start) + 1);
    }
    return (double)table->peak_operations / half * real / (double)loops->f32_flops;
}

static bool gains(const qn_half_kernels *table, qn_isa isa) {
    static _Atomic int known; /* 1 + whether it gains */
    if (known == 0)
        known = 1 + (measure_gain(table, isa) >= LEAST_GAIN);
    return known == 2;
}

static bool has_pairs(const qn_halves *how) {
    return how->dtype == QN_BF16 && how->wide->isa == QN_ISA_AVX512 &&
           qn_cpu_has(QN_ISA_AVX512, QN_CPU_AVX512_BF16);
}
#endif

const qn_half_kernels *qn_half_kernels_get(const qn_halves *how) {
    (void)how;
#ifdef QN_WITH_HALF_AVX512
    if (has_pairs(how) && gains(&qn_half_avx512bf16, QN_ISA_AVX512))
        return &qn_half_avx512bf16;
#endif
    return &qn_half_wide;
}

const qn_half_kernels *qn_half_kernels_row(const qn_halves *how, int i) {
    (void)how;
#ifdef QN_WITH_HALF_AVX512
    if (i == 1 && has_pairs(how))
        return &qn_half_avx512bf16;
#endif
    return i == 0 ? &qn_half_wide : NULL;
}
