/* The program of all kernels: its texts are part of quern, compiled by the driver when a device is
 * opened. Drivers keep what they compiled in caches of their own. */
#include "base/embed.h"
#include "base/status.h"
#include "device/opencl/state.h"

#include <stdio.h>
#include <string.h>

QN_EMBED(qn_opencl_prelude, QN_OPENCL_KERNEL_FOLDER "/prelude.cl");
QN_EMBED(qn_opencl_product_text, QN_OPENCL_KERNEL_FOLDER "/products.cl");
QN_EMBED(qn_opencl_elementwise_text, QN_OPENCL_KERNEL_FOLDER "/elementwise.cl");
QN_EMBED(qn_opencl_reduction_text, QN_OPENCL_KERNEL_FOLDER "/reductions.cl");

/* Barriers are cheap on GPUs, and many items share a tile. A CPU's driver runs a group's items one
 * after the other: there a group is one item, with wide vectors. */
qn_opencl_tile qn_opencl_choose_tile(const qn_opencl_device *device) {
    enum { WIDE_BYTES = 48 * 1024 };
    const bool is_cpu =
        (device->type & (CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_GPU)) == (cl_bits)CL_DEVICE_TYPE_CPU;
    if (is_cpu && device->local_bytes >= WIDE_BYTES)
        return (qn_opencl_tile){.lx = 1,
                                .ly = 1,
                                .parts_m = 8,
                                .parts_n = 2,
                                .micro_m = 8,
                                .micro_v = 2,
                                .lanes = 16,
                                .k = 64};
    if (device->group_size >= 256)
        return (qn_opencl_tile){.lx = 16,
                                .ly = 16,
                                .parts_m = 1,
                                .parts_n = 1,
                                .micro_m = 4,
                                .micro_v = 1,
                                .lanes = 4,
                                .k = 16};
    return (qn_opencl_tile){.lx = 8,
                            .ly = 8,
                            .parts_m = 1,
                            .parts_n = 1,
                            .micro_m = 4,
                            .micro_v = 1,
                            .lanes = 4,
                            .k = 16};
}

/* The first line of the driver's log that says something of an error, or its first line. */
static void read_log(const qn_opencl *d, char *to, size_t bytes) {
    char log[4096];
    memset(log, 0, sizeof log);
    if (d->cl->clGetProgramBuildInfo(d->program, d->device.id, CL_BUILD_LOG, sizeof log - 1, log,
                                     NULL) != CL_OK)
        log[0] = 0;
    const char *line = strstr(log, "error");
    while (line && line > log && line[-1] != '\n')
        line--;
    line = line ? line : log;
    snprintf(to, bytes, "%.*s", (int)strcspn(line, "\n"), line);
}

static qn_status compile(qn_opencl *d) {
    const qn_opencl_tile *t = &d->tile;
    char options[256], log[200];
    snprintf(options, sizeof options,
             "-cl-std=CL1.2 -DLX=%d -DLY=%d -DPARTS_M=%d -DPARTS_N=%d -DMICRO_M=%d -DMICRO_V=%d "
             "-DLANES=%d -DVECTOR=float%d -DTILE_K=%d",
             t->lx, t->ly, t->parts_m, t->parts_n, t->micro_m, t->micro_v, t->lanes, t->lanes,
             t->k);
    const cl_int code = d->cl->clBuildProgram(d->program, 1, &d->device.id, options, NULL, NULL);
    if (code == CL_OK)
        return QN_OK;
    read_log(d, log, sizeof log);
    return qn_fail(QN_ERROR_DEVICE,
                   "the OpenCL driver of %s cannot compile the kernels (%s): %s; train with "
                   "--device cpu, or update the driver",
                   d->device.name, qn_opencl_word(code), log);
}

qn_status qn_opencl_build(qn_opencl *d) {
    const char *texts[] = {(const char *)qn_opencl_prelude, (const char *)qn_opencl_product_text,
                           (const char *)qn_opencl_elementwise_text,
                           (const char *)qn_opencl_reduction_text};
    cl_int code = CL_OK;
    d->program = d->cl->clCreateProgramWithSource(d->context, sizeof texts / sizeof texts[0], texts,
                                                  NULL, &code);
    if (!d->program || code != CL_OK)
        return qn_fail(QN_ERROR_DEVICE, "the OpenCL device %s takes no program (%s)",
                       d->device.name, qn_opencl_word(code));
    return compile(d);
}
