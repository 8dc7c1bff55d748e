/* The OpenCL devices of this machine: those of all drivers, in the drivers' order. */
#ifndef QN_DRIVER_OPENCL_PLATFORMS_H
#define QN_DRIVER_OPENCL_PLATFORMS_H

#include "driver/opencl/api.h"

enum { QN_OPENCL_MOST_DEVICES = 16 };

typedef struct qn_opencl_device {
    cl_platform_id platform;
    cl_device_id id;
    char name[128], driver[128], version[128]; /* driver: platform and the driver's version */
    cl_bits type;
    uint64_t memory_bytes, most_allocation_bytes, local_bytes;
    size_t group_size; /* work-items of a group, at most */
    uint32_t n_units, clock_mhz;
    bool is_unified; /* its memory is the host's */
    bool can_share;  /* and both reach it at any time, without maps */
    bool has_lists;  /* recorded commands, by its own word (cl_khr_command_buffer) */
} qn_opencl_device;

/* Fills devices (QN_OPENCL_MOST_DEVICES) with those that can compile and run kernels.
 * QN_ERROR_UNSUPPORTED: there is no OpenCL library, or it knows none; the message says which. */
qn_status qn_opencl_find_devices(qn_opencl_device *devices, int *n);

/* "GPU", "CPU", "accelerator" */
const char *qn_opencl_type_name(const qn_opencl_device *device);

#endif
