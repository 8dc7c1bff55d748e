/* See peak.h. */
#include "kernels/peak.h"

const qn_peak_loops *qn_peak_get(qn_isa isa) {
    switch (isa) {
#if defined(__x86_64__)
    case QN_ISA_AVX512:
        return &qn_peak_avx512;
    case QN_ISA_AVX2:
        return &qn_peak_avx2;
#elif defined(__aarch64__)
    case QN_ISA_NEON:
        return &qn_peak_neon;
#endif
    default:
        return &qn_peak_ref;
    }
}
