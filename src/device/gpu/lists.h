/* Kernels of a run as a list that the driver starts at once (CUDA's graphs, OpenCL's command
 * buffers): for small networks starting kernels one by one takes longer than they do. Launches are
 * gathered up to where someone waits. A stretch of them that was the same twice, in every number,
 * is recorded; from then on it is compared with what was recorded and started as that, or, where it
 * is different (dropout's numbers change with the step), one by one. */
#ifndef QN_DEVICE_GPU_LISTS_H
#define QN_DEVICE_GPU_LISTS_H

#include "device/gpu/state.h"

typedef struct qn_gpu_lists qn_gpu_lists;

/* For a stream that gets so many works at once; null: its driver has none, or there are too many
 * works for it to matter. */
qn_status qn_gpu_lists_create(const qn_allocator *allocator, qn_gpu *gpu, void *stream,
                              int32_t n_works, qn_gpu_lists **lists);
void qn_gpu_lists_destroy(qn_gpu_lists *lists);

/* A run begins: what comes first is compared with what came first before. */
void qn_gpu_lists_begin(qn_gpu_lists *lists);

/* Takes a launch, and starts all that were taken. False: the device is lost. */
bool qn_gpu_lists_take(qn_gpu_lists *lists, const qn_gpu_launch *launch);
bool qn_gpu_lists_start(qn_gpu_lists *lists);

#endif
