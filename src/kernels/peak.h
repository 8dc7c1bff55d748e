/* Loops that do nothing but what a processor can do at most: for the roofline, no kernel of a
 * graph. One set for each instruction set that kernels are compiled for. */
#ifndef QN_KERNELS_PEAK_H
#define QN_KERNELS_PEAK_H

#include "os/os.h"

typedef struct qn_peak_loops {
    /* FLOPs of one round of each. */
    int64_t f32_flops, f64_flops;
    /* So many rounds of x = x * factor + term on independent registers; returns their sum. */
    double (*f32)(int64_t rounds, float factor, float term);
    double (*f64)(int64_t rounds, double factor, double term);
    /* y[i] = a[i] + factor * b[i] (McCalpin's triad): moves 12 bytes for each of n, a multiple of
     * QN_PEAK_STEP; aligned to QN_ALIGNMENT. */
    void (*triad)(int64_t n, float factor, const float *a, const float *b, float *y);
} qn_peak_loops;

enum { QN_PEAK_STEP = 64 };

extern const qn_peak_loops qn_peak_ref, qn_peak_avx2, qn_peak_avx512, qn_peak_neon;

/* Those of a set; of one that is not for this family of processors, the reference's. */
const qn_peak_loops *qn_peak_get(qn_isa isa);

#endif
