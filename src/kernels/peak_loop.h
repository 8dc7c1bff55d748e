/* The loops of kernels/peak.h in the compilers' vector extensions. A file defines PEAK (the name of
 * its set), VECTOR_BYTES and SUMS, as many registers as the set has room for beside two: more than
 * a multiply-add takes cycles times those begun in a cycle. Compiled with -ffp-contract=fast, as
 * tile.h, where the set has fused multiply-adds. */
#include "kernels/peak.h"

typedef float floats __attribute__((vector_size(VECTOR_BYTES)));
typedef double doubles __attribute__((vector_size(VECTOR_BYTES)));

enum { N_FLOATS = VECTOR_BYTES / 4, N_DOUBLES = VECTOR_BYTES / 8 };

/* What is multiplied must be in a register, where the compiler knows nothing of it. */
#define FMA_LOOP(NAME, SCALAR, VECTOR, N)                                                          \
    static double NAME(int64_t rounds, SCALAR factor, SCALAR term) {                               \
        VECTOR sums[SUMS], factors, terms;                                                         \
        double sum = 0;                                                                            \
        for (int i = 0; i < (N); i++) {                                                            \
            factors[i] = factor;                                                                   \
            terms[i] = term;                                                                       \
        }                                                                                          \
        _Pragma("GCC unroll 32") for (int i = 0; i < SUMS; i++) sums[i] = terms * (SCALAR)i;       \
        for (int64_t round = 0; round < rounds; round++) {                                         \
            _Pragma("GCC unroll 32") for (int i = 0; i < SUMS; i++) sums[i] =                      \
                sums[i] * factors + terms;                                                         \
        }                                                                                          \
        for (int i = 0; i < SUMS; i++)                                                             \
            for (int j = 0; j < (N); j++)                                                          \
                sum += (double)sums[i][j];                                                         \
        return sum;                                                                                \
    }

FMA_LOOP(peak_f32, float, floats, N_FLOATS)
FMA_LOOP(peak_f64, double, doubles, N_DOUBLES)

static void triad(int64_t n, float factor, const float *a, const float *b, float *y) {
    for (int64_t i = 0; i < n; i += QN_PEAK_STEP) {
#pragma GCC unroll 16
        for (int j = 0; j < QN_PEAK_STEP; j += N_FLOATS)
            *(floats *)(y + i + j) =
                *(const floats *)(a + i + j) + factor * *(const floats *)(b + i + j);
    }
}

const qn_peak_loops PEAK = {
    .f32_flops = 2 * SUMS * N_FLOATS,
    .f64_flops = 2 * SUMS * N_DOUBLES,
    .f32 = peak_f32,
    .f64 = peak_f64,
    .triad = triad,
};
