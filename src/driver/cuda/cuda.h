/* A CUDA device as one that runs nodes (device/gpu): the driver's interface, without the run-time
 * library, opened at run time. */
#ifndef QN_DRIVER_CUDA_CUDA_H
#define QN_DRIVER_CUDA_CUDA_H

#include "device/gpu/gpu.h"

typedef struct qn_cuda_options {
    int number;  /* of the devices that qn_cuda_find_devices lists */
    bool shares; /* it works in the host's memory where it can */
} qn_cuda_options;

extern const qn_device qn_device_cuda; /* opened with qn_cuda_options */

#endif
