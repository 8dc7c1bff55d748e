/* See language.h. */
#include "kernels/language.h"

const qn_language_kernels *qn_language_kernels_get(const qn_kernels *kernels) {
    if (kernels->real == QN_F64)
        return &qn_language_ref_f64;
    switch (kernels->isa) {
#ifdef QN_WITH_AVX512
    case QN_ISA_AVX512:
        return &qn_language_avx512;
#endif
#ifdef QN_WITH_AVX2
    case QN_ISA_AVX2:
        return &qn_language_avx2;
#endif
#ifdef QN_WITH_NEON
    case QN_ISA_NEON:
        return &qn_language_neon;
#endif
    default: /* and sets that the library was built without */
        return &qn_language_ref_f32;
    }
}
