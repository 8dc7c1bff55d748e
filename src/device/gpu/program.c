/* The texts of all kernels: they are part of quern, and compiled by a device's driver when it is
 * opened. Drivers keep what they compiled in caches of their own. */
#include "base/embed.h"
#include "device/gpu/state.h"

#include <stdio.h>

QN_EMBED(qn_gpu_opencl_text, QN_GPU_KERNEL_FOLDER "/opencl.cl");
QN_EMBED(qn_gpu_cuda_text, QN_GPU_KERNEL_FOLDER "/cuda.cl");
QN_EMBED(qn_gpu_common_text, QN_GPU_KERNEL_FOLDER "/common.cl");
QN_EMBED(qn_gpu_product_text, QN_GPU_KERNEL_FOLDER "/products.cl");
QN_EMBED(qn_gpu_elementwise_text, QN_GPU_KERNEL_FOLDER "/elementwise.cl");
QN_EMBED(qn_gpu_reduction_text, QN_GPU_KERNEL_FOLDER "/reductions.cl");
QN_EMBED(qn_gpu_sequence_text, QN_GPU_KERNEL_FOLDER "/sequences.cl");
QN_EMBED(qn_gpu_update_text, QN_GPU_KERNEL_FOLDER "/updates.cl");

const char *const qn_gpu_opencl_prelude = (const char *)qn_gpu_opencl_text;
const char *const qn_gpu_cuda_prelude = (const char *)qn_gpu_cuda_text;
const char *const qn_gpu_texts[QN_GPU_TEXTS] = {
    (const char *)qn_gpu_common_text,      (const char *)qn_gpu_product_text,
    (const char *)qn_gpu_elementwise_text, (const char *)qn_gpu_reduction_text,
    (const char *)qn_gpu_sequence_text,    (const char *)qn_gpu_update_text};

const char *const qn_gpu_kernel_names[QN_GPU_KERNEL_COUNT] = {
#define NAME(name) #name,
    QN_GPU_KERNELS(NAME)
#undef NAME
};

bool qn_gpu_is_tiled(qn_gpu_kernel kernel) {
    switch (kernel) {
#define CASE(name) case QN_GPU_##name:
        QN_GPU_TILED(CASE)
#undef CASE
        return true;
    default:
        return false;
    }
}

/* Barriers are cheap on GPUs, and many items share a tile. A CPU's driver runs a group's items one
 * after the other: there a group is one item, with wide vectors. */
qn_gpu_tile qn_gpu_choose_tile(size_t group_size, bool is_serial, uint64_t local_bytes) {
    enum { WIDE_BYTES = 48 * 1024 };
    if (is_serial && local_bytes >= WIDE_BYTES)
        return (qn_gpu_tile){.lx = 1,
                             .ly = 1,
                             .parts_m = 8,
                             .parts_n = 2,
                             .micro_m = 8,
                             .micro_v = 2,
                             .lanes = 16,
                             .k = 64};
    const int side = group_size >= 256 ? 16 : 8;
    return (qn_gpu_tile){.lx = side,
                         .ly = side,
                         .parts_m = 1,
                         .parts_n = 1,
                         .micro_m = 4,
                         .micro_v = 1,
                         .lanes = 4,
                         .k = 16};
}

void qn_gpu_define_tile(const qn_gpu_tile *t, char to[QN_GPU_DEFINITIONS]) {
    snprintf(to, QN_GPU_DEFINITIONS,
             "-DLX=%d -DLY=%d -DPARTS_M=%d -DPARTS_N=%d -DMICRO_M=%d -DMICRO_V=%d -DLANES=%d "
             "-DTILE_K=%d",
             t->lx, t->ly, t->parts_m, t->parts_n, t->micro_m, t->micro_v, t->lanes, t->k);
}
