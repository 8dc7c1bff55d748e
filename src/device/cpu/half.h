/* What work on 16-bit floats on the CPU shares. */
#ifndef QN_DEVICE_CPU_HALF_H
#define QN_DEVICE_CPU_HALF_H

#include "device/cpu/cpu.h"
#include "kernels/half.h"

#define QN_TYPES_HALF (QN_TYPES(QN_BF16) | QN_TYPES(QN_F16))

/* Operands of a type, and, where they are converted, the float kernels of a machine. */
static inline qn_halves qn_cpu_halves(const qn_kernels *kernels, qn_dtype dtype) {
    return (qn_halves){dtype,
                       kernels->real == QN_F32 ? kernels : qn_kernels_get(QN_F32, kernels->isa)};
}

/* An operator that makes each sample (of the first axis), or each row (of the last one), of its
 * own, in parts of the batch that its row for QN_F32, the next one, computes in f32: a whole tensor
 * is never held so. */
void qn_cpu_run_on_half_samples(const qn_call *call);
size_t qn_cpu_on_half_samples_workspace(const qn_kernels *kernels, const void *attributes,
                                        const qn_tensor *inputs, const qn_tensor *outputs,
                                        int n_threads);
void qn_cpu_run_on_half_rows(const qn_call *call);
size_t qn_cpu_on_half_rows_workspace(const qn_kernels *kernels, const void *attributes,
                                     const qn_tensor *inputs, const qn_tensor *outputs,
                                     int n_threads);

/* The rest of a row for such an operator. */
#define QN_CPU_ON_HALF(PARTS)                                                                      \
    .types = QN_TYPES_HALF, .run = qn_cpu_run_on_half_##PARTS,                                     \
    .workspace = qn_cpu_on_half_##PARTS##_workspace

#endif
