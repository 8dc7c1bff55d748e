/* What products of 16-bit floats on the CPU share. */
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

#endif
