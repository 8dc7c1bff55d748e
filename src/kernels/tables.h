/* The tables that kernels.c chooses from; each is whole: a set that lacks a kernel names the
 * reference's. Only those of the processor family that is built for exist. */
#ifndef QN_KERNELS_TABLES_H
#define QN_KERNELS_TABLES_H

#include "kernels/kernels.h"

extern const qn_kernels qn_kernels_ref_f32, qn_kernels_ref_f64;
extern const qn_kernels qn_kernels_avx2_f32, qn_kernels_avx512_f32, qn_kernels_neon_f32;

#endif
