/* The kernels, compiled by CUDA's run-time compiler. */
#ifndef QN_DRIVER_CUDA_COMPILE_H
#define QN_DRIVER_CUDA_COMPILE_H

#include "device/gpu/state.h"
#include "driver/cuda/api.h"

/* Code for an architecture (87), as cuModuleLoadData takes it; if the compiler does not know it,
 * for the nearest one before, which the driver translates. To be released with the bytes.
 * QN_ERROR_UNSUPPORTED: there is no compiler. QN_ERROR_DEVICE: it cannot compile them. */
qn_status qn_cuda_compile(const qn_allocator *allocator, const qn_gpu_tile *tile, int architecture,
                          char **code, size_t *bytes);

#endif
