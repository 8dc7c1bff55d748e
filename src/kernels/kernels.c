/* See kernels.h. */
#include "kernels/kernels.h"

#include "kernels/tables.h"

const qn_kernels *qn_kernels_get(qn_dtype real, qn_isa isa) {
    if (real == QN_F64)
        return &qn_kernels_ref_f64;
    switch (isa) {
    case QN_ISA_REF:
        break;
#if defined(__x86_64__)
    case QN_ISA_AVX512:
        return &qn_kernels_avx512_f32;
    case QN_ISA_AVX2:
        return &qn_kernels_avx2_f32;
#elif defined(__aarch64__)
    case QN_ISA_NEON:
        return &qn_kernels_neon_f32;
#endif
    default: /* a set of another processor family */
        break;
    }
    return &qn_kernels_ref_f32;
}
