/* The tables that kernels.c chooses from; each is whole: a set that lacks a kernel names the
 * reference's. Only those of the processor family that is built for exist. */
#ifndef QN_KERNELS_TABLES_H
#define QN_KERNELS_TABLES_H

#include "kernels/kernels.h"

extern const qn_kernels qn_kernels_ref_f32, qn_kernels_ref_f64;
extern const qn_kernels qn_kernels_avx2_f32, qn_kernels_avx512_f32, qn_kernels_neon_f32;

/* What all tables of a real type share (ref/formula.h). */
#define QN_FORMULAS(REAL)                                                                          \
    void qn_function_forward_##REAL(qn_team *team, const qn_function *function, int64_t n,         \
                                    const void *x, void *y);                                       \
    void qn_function_backward_##REAL(qn_team *team, const qn_function *function, int64_t n,        \
                                     const void *x, const void *dy, void *dx);                     \
    void qn_combine_##REAL(qn_team *team, qn_combination kind, const qn_broadcast *shape,          \
                           const void *a, const void *b, const void *c, void *y);                  \
    void qn_cast_##REAL(qn_team *team, int64_t n, bool is_whole, const void *x, void *y)
QN_FORMULAS(f32);
QN_FORMULAS(f64);

#endif
