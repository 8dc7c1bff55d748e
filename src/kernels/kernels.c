/* See kernels.h. */
#include "kernels/kernels.h"

#include "kernels/tables.h"

const qn_kernels *qn_kernels_get(qn_dtype real, qn_isa isa) {
    if (real == QN_F64)
        return &qn_kernels_ref_f64;
    switch (isa) {
#ifdef QN_WITH_AVX512
    case QN_ISA_AVX512:
        return &qn_kernels_avx512_f32;
#endif
#ifdef QN_WITH_AVX2
    case QN_ISA_AVX2:
        return &qn_kernels_avx2_f32;
#endif
#ifdef QN_WITH_NEON
    case QN_ISA_NEON:
        return &qn_kernels_neon_f32;
#endif
    default: /* and sets that the library was built without */
        return &qn_kernels_ref_f32;
    }
}
