/* The CUDA devices of this machine, in the driver's order. */
#ifndef QN_DRIVER_CUDA_DEVICES_H
#define QN_DRIVER_CUDA_DEVICES_H

#include "driver/cuda/api.h"

enum { QN_CUDA_MOST_DEVICES = 16 };

typedef struct qn_cuda_device {
    CUdevice id;
    char name[128];
    int architecture; /* 87: of compute capability 8.7 */
    int driver;       /* 12040: of CUDA 12.4 */
    uint64_t memory_bytes;
    int n_units, clock_mhz, block_threads;
    bool is_unified; /* its memory is the host's */
    bool can_share;  /* and both reach it at any time, at the same address */
} qn_cuda_device;

/* Fills devices (QN_CUDA_MOST_DEVICES) with those that can run kernels. QN_ERROR_UNSUPPORTED: there
 * is no CUDA driver, or it knows none; the message says which. */
qn_status qn_cuda_find_devices(qn_cuda_device *devices, int *n);

#endif
