/* Sums, products and the largest of one row, in lanes that are folded in a fixed order: vector code
 * that the compiler must not make by itself, as it would change the result. Sums are in double. */
#ifndef QN_KERNELS_REF_LANES_H
#define QN_KERNELS_REF_LANES_H

#include "kernels/ref/real.h"

#if defined(__AVX512F__)
enum { ROW_BYTES = 64 };
#elif defined(__AVX__)
enum { ROW_BYTES = 32 };
#else
enum { ROW_BYTES = 16 };
#endif
enum { ROW_LANES = ROW_BYTES / sizeof(real) };
typedef real row_lanes __attribute__((vector_size(ROW_BYTES), aligned(sizeof(real)), may_alias));
typedef real_int row_choice __attribute__((vector_size(ROW_BYTES)));

/* As many reals as there are doubles in a vector, and DOUBLE_CHAINS such sums side by side. */
enum {
    DOUBLE_LANES = ROW_BYTES / sizeof(double),
    DOUBLE_CHAINS = 4,
    DOUBLE_STEP = DOUBLE_CHAINS * DOUBLE_LANES
};
typedef real half_lanes
    __attribute__((vector_size(DOUBLE_LANES * sizeof(real)), aligned(sizeof(real)), may_alias));
typedef double double_lanes __attribute__((vector_size(ROW_BYTES)));
#define DOUBLES_AT(x) __builtin_convertvector(*(const half_lanes *)(x), double_lanes)

static inline double fold_sums(const double_lanes *chains) {
    double sums[DOUBLE_STEP];
    memcpy(sums, chains, sizeof sums);
    for (int half = DOUBLE_STEP / 2; half > 0; half /= 2) {
        for (int l = 0; l < half; l++)
            sums[l] += sums[l + half];
    }
    return sums[0];
}

static double sum_of_row(int64_t n, const real *x) {
    double_lanes chains[DOUBLE_CHAINS] = {{0}};
    int64_t j = 0;
    for (; j + DOUBLE_STEP <= n; j += DOUBLE_STEP) {
#pragma GCC unroll 4
        for (int i = 0; i < DOUBLE_CHAINS; i++)
            chains[i] += DOUBLES_AT(x + j + i * DOUBLE_LANES);
    }
    double rest = 0;
    for (; j < n; j++)
        rest += (double)x[j];
    return fold_sums(chains) + rest;
}

/* The sum of the products of two rows. */
static double dot_of_rows(int64_t n, const real *x, const real *y) {
    double_lanes chains[DOUBLE_CHAINS] = {{0}};
    int64_t j = 0;
    for (; j + DOUBLE_STEP <= n; j += DOUBLE_STEP) {
#pragma GCC unroll 4
        for (int i = 0; i < DOUBLE_CHAINS; i++)
            chains[i] +=
                DOUBLES_AT(x + j + i * DOUBLE_LANES) * DOUBLES_AT(y + j + i * DOUBLE_LANES);
    }
    double rest = 0;
    for (; j < n; j++)
        rest += (double)x[j] * (double)y[j];
    return fold_sums(chains) + rest;
}

/* A NaN may be passed over. */
static real largest_of_row(int64_t n, const real *x) {
    real largest = x[0];
    int64_t j = 0;
    if (n >= ROW_LANES) {
        row_lanes best = *(const row_lanes *)x;
        for (j = ROW_LANES; j + ROW_LANES <= n; j += ROW_LANES) {
            const row_lanes next = *(const row_lanes *)(x + j);
            const row_choice better = next > best;
            best = (row_lanes)(((row_choice)next & better) | ((row_choice)best & ~better));
        }
        for (int l = 0; l < ROW_LANES; l++)
            largest = best[l] > largest ? best[l] : largest;
    }
    for (; j < n; j++)
        largest = x[j] > largest ? x[j] : largest;
    return largest;
}

#endif
