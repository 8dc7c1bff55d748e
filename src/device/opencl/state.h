/* The inside of an OpenCL device, for the files of this folder. */
#ifndef QN_DEVICE_OPENCL_STATE_H
#define QN_DEVICE_OPENCL_STATE_H

#include "device/machine.h"
#include "device/opencl/opencl.h"
#include "device/opencl/platforms.h"

/* ---- kernels ---- */

/* Those that make tiles of sums, in groups of a fixed size; then all others. */
/* clang-format off */
#define QN_OPENCL_TILED(K) K(product) K(convolve) K(convolve_data) K(convolve_filter)
#define QN_OPENCL_KERNELS(K)                                                                       \
    QN_OPENCL_TILED(K)                                                                             \
    K(add_parts) K(depthwise) K(depthwise_data) K(depthwise_filter) K(pool_largest) K(pool_mean)   \
    K(pool_backward) K(activation) K(activation_backward) K(add) K(multiply_all) K(scale) K(bias)  \
    K(broadcast) K(gelu) K(gelu_backward) K(dropout) K(copy_rows) K(widen) K(transpose) K(embed)   \
    K(embed_backward) K(sum_columns) K(finish_columns) K(norm_gradients) K(norm_apply)             \
    K(norm_backward) K(layer_norm) K(layer_norm_backward) K(softmax) K(softmax_backward)           \
    K(cross_entropy) K(cross_entropy_backward) K(sum_chunks) K(mean_valid) K(reduce_sum)           \
    K(reduce_most) K(reduce_backward)
/* clang-format on */

typedef enum qn_opencl_kernel {
#define QN_OPENCL_NUMBER(name) QN_CL_##name,
    QN_OPENCL_KERNELS(QN_OPENCL_NUMBER)
#undef QN_OPENCL_NUMBER
        QN_OPENCL_KERNEL_COUNT
} qn_opencl_kernel;

/* What a kernel gets beside the memory; kernels/prelude.cl has the same. */
typedef struct qn_opencl_arguments {
    uint64_t p[12];
    int32_t n[32];
    float f[8];
} qn_opencl_arguments;

/* The tile of the tiled kernels: items of a group; parts, rows and vectors of an item. */
typedef struct qn_opencl_tile {
    int lx, ly, parts_m, parts_n, micro_m, micro_v, lanes, k;
} qn_opencl_tile;

static inline int qn_opencl_tile_rows(const qn_opencl_tile *t) {
    return t->ly * t->parts_m * t->micro_m;
}

static inline int qn_opencl_tile_columns(const qn_opencl_tile *t) {
    return t->lx * t->parts_n * t->micro_v * t->lanes;
}

/* ---- the device ---- */

enum { QN_OPENCL_MOST_MEMORIES = 16 };

typedef struct qn_opencl_buffer {
    cl_mem memory; /* null: free */
    uintptr_t base;
    size_t bytes;
} qn_opencl_buffer;

typedef struct qn_opencl {
    const qn_allocator *allocator;
    const qn_opencl_api *cl;
    qn_opencl_device device;
    qn_opencl_tile tile;
    cl_context context;
    cl_command_queue copies; /* of copies at once */
    cl_program program;
    qn_opencl_buffer buffers[QN_OPENCL_MOST_MEMORIES]; /* changed while no work is done */
    uintptr_t next_base;
    bool is_lost; /* atomic; behind the reason */
    char reason[160];
    qn_device_counters counters; /* atomic, each by itself */
} qn_opencl;

/* Says that a call of the driver failed: the device is lost. False, for who has to stop then. */
bool qn_opencl_lose(qn_opencl *device, const char *what, cl_int code);
bool qn_opencl_is_lost(const qn_opencl *device);

/* The buffer in which an address lies, and where; null: none. */
const qn_opencl_buffer *qn_opencl_locate(const qn_opencl *device, const void *address,
                                         size_t *offset);

/* The tile for a device, and the program of all kernels, built. */
qn_opencl_tile qn_opencl_choose_tile(const qn_opencl_device *device);
qn_status qn_opencl_build(qn_opencl *device);

/* Queues (queue.c). */
qn_status qn_opencl_queue_open(void *state, const qn_allocator *allocator,
                               const qn_queue_options *options, qn_queue **queue);
void qn_opencl_queue_close(qn_queue *queue);
qn_timeline *qn_opencl_queue_timeline(const qn_queue *queue);
void qn_opencl_queue_submit(qn_queue *queue, const qn_work *works, int32_t n,
                            const qn_queue_watch *watch);

#endif
