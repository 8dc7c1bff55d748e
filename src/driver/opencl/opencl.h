/* An OpenCL device as one that runs nodes (device/gpu): its library is opened at run time. */
#ifndef QN_DRIVER_OPENCL_OPENCL_H
#define QN_DRIVER_OPENCL_OPENCL_H

#include "device/gpu/gpu.h"

typedef struct qn_opencl_options {
    int number;  /* of the devices that qn_opencl_find_devices lists */
    bool shares; /* it works in the host's memory where it can */
} qn_opencl_options;

extern const qn_device qn_device_opencl; /* opened with qn_opencl_options */

#endif
