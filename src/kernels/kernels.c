/* See kernels.h. */
#include "kernels/kernels.h"

#include "kernels/tables.h"

const qn_kernels *qn_kernels_get(qn_dtype real, qn_isa isa) {
    (void)isa;
    if (real == QN_F64)
        return &qn_kernels_ref_f64;
    return &qn_kernels_ref_f32;
}
