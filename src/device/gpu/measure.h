/* How fast a GPU is: arithmetic by quern's own product, bandwidth by its addition of long vectors,
 * copies, and what starting a kernel costs. Each is the best of several tries; all take about a
 * second. */
#ifndef QN_DEVICE_GPU_MEASURE_H
#define QN_DEVICE_GPU_MEASURE_H

#include "device/gpu/gpu.h"

/* Of an open device, while it does nothing else. QN_ERROR_DEVICE: it was lost. */
qn_status qn_gpu_measure(void *state, qn_device_speed *speed);

#endif
