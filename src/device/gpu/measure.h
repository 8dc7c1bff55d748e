/* How fast a GPU is: arithmetic by quern's own product, bandwidth by its addition of long vectors,
 * copies, and what starting a kernel costs. Each is the best of several tries; all take about a
 * second. */
#ifndef QN_DEVICE_GPU_MEASURE_H
#define QN_DEVICE_GPU_MEASURE_H

#include "device/gpu/gpu.h"

typedef struct qn_gpu_speed {
    double flops, bandwidth;            /* a second: f32 of a product; bytes read and written */
    double in_bandwidth, out_bandwidth; /* bytes a second from the host, and to it */
    double launch_ns; /* a kernel that does nearly nothing, started and waited for */
} qn_gpu_speed;

/* Of an open device (qn_gpu_is), while it does nothing else. QN_ERROR_DEVICE: it was lost. */
qn_status qn_gpu_measure(void *state, qn_gpu_speed *speed);

#endif
