/* A GPU as a device that runs nodes, whatever its driver: its memory is a space of its own, reached
 * by copies; its queues are in order. Each memory of the space is a buffer of the driver; an
 * address in a call is a number that stands for a place in one. Sums have a fixed order: equal
 * inputs give equal bits on one device, driver and build; they are not those of the CPU. A driver's
 * failure, or its silence for much longer than usual, loses the device. */
#ifndef QN_DEVICE_GPU_GPU_H
#define QN_DEVICE_GPU_GPU_H

#include "device/device.h"

/* The states of devices whose open is one of a driver's (driver/opencl, driver/cuda). */

/* What it is called: "pthread-skylake". */
const char *qn_gpu_name(const void *state);

/* Why it was lost, in a few words; "" if it was not. */
const char *qn_gpu_reason(const void *state);

/* Whether it was lost for its silence: it may still read and write what it was given, at any time,
 * until the process ends. */
bool qn_gpu_is_silent(const void *state);

/* How long a driver may be silent before the device is lost: at least so long, and many times what
 * it took at most so far. */
void qn_gpu_set_patience(void *state, int64_t ns);

/* From now on kernels are cut into pieces of about so many ns, where the driver can, each waited
 * for and followed by a pause: for a device on which somebody else draws. Bits stay. */
void qn_gpu_set_pace(void *state, int64_t piece_ns, int64_t pause_ns);

#endif
