/* An OpenCL device as one that runs nodes: its memory is a space of its own, reached by copies; its
 * queues are in order. Each memory of the space is a buffer; an address in a call is a number that
 * stands for a place in one. Sums have a fixed order, so that equal inputs give equal bits on one
 * device, driver and build; they are not those of the CPU. A driver's failure loses the device. */
#ifndef QN_DEVICE_OPENCL_OPENCL_H
#define QN_DEVICE_OPENCL_OPENCL_H

#include "device/device.h"

typedef struct qn_opencl_options {
    int number; /* of the devices that qn_opencl_find_devices lists */
} qn_opencl_options;

extern const qn_device qn_device_opencl; /* opened with qn_opencl_options */

/* What it is called: "pthread-skylake", of a state of the device. */
const char *qn_opencl_name(const void *state);

/* Why it was lost, in a few words; "" if it was not. */
const char *qn_opencl_reason(const void *state);

#endif
