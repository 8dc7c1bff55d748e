/* The tables that kernels.c chooses from; each is whole: a set that lacks a kernel names the
 * reference's. Only those of the processor family that is built for exist. */
#ifndef QN_KERNELS_TABLES_H
#define QN_KERNELS_TABLES_H

#include "kernels/kernels.h"

extern const qn_kernels qn_kernels_ref_f32, qn_kernels_ref_f64;
extern const qn_kernels qn_kernels_avx2_f32, qn_kernels_avx512_f32, qn_kernels_neon_f32;

/* What all tables of a real type share (ref/formula.h, ref/seldom.h). */
#define QN_FORMULAS(REAL)                                                                          \
    void qn_function_forward_##REAL(qn_team *team, const qn_function *function, int64_t n,         \
                                    const void *x, void *y);                                       \
    void qn_function_backward_##REAL(qn_team *team, const qn_function *function, int64_t n,        \
                                     const void *x, const void *dy, void *dx);                     \
    void qn_combine_##REAL(qn_team *team, qn_combination kind, const qn_broadcast *shape,          \
                           const void *a, const void *b, const void *c, void *y);                  \
    void qn_smooth_l1_##REAL(qn_team *team, int64_t n, const void *x, const void *target,          \
                             void *y);                                                             \
    void qn_smooth_l1_backward_##REAL(qn_team *team, int64_t n, const void *x, const void *target, \
                                      const void *dy, void *dx);                                   \
    void qn_binary_cross_entropy_##REAL(qn_team *team, int64_t n, const void *x,                   \
                                        const void *targets, double target, void *y);              \
    void qn_binary_cross_entropy_backward_##REAL(qn_team *team, int64_t n, const void *x,          \
                                                 const void *targets, double target,               \
                                                 const void *dy, void *dx);                        \
    void qn_mean_valid_##REAL(int64_t n, const void *losses, const int32_t *labels, void *mean);   \
    void qn_mean_valid_backward_##REAL(int64_t n, const int32_t *labels, const void *dmean,        \
                                       void *dlosses);                                             \
    void qn_gather_##REAL(int64_t rows, int64_t c, const void *x, const int32_t *indices,          \
                          void *y_);                                                               \
    void qn_gather_backward_##REAL(int64_t rows, int64_t c, const void *dy_,                       \
                                   const int32_t *indices, void *dx_)
QN_FORMULAS(f32);
QN_FORMULAS(f64);

#endif
