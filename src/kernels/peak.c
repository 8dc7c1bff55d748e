/* See peak.h. */
#include "kernels/peak.h"

const qn_peak_loops *qn_peak_get(qn_isa isa) {
    switch (isa) {
#ifdef QN_WITH_AVX512
    case QN_ISA_AVX512:
        return &qn_peak_avx512;
#endif
#ifdef QN_WITH_AVX2
    case QN_ISA_AVX2:
        return &qn_peak_avx2;
#endif
#ifdef QN_WITH_NEON
    case QN_ISA_NEON:
        return &qn_peak_neon;
#endif
    default: /* and sets that the library was built without */
        return &qn_peak_ref;
    }
}
