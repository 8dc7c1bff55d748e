/* See operators.h. */
#include "device/opencl/operators.h"

#include "ops/shared.h"

static const qn_opencl_operator *const families[] = {qn_opencl_products, qn_opencl_elementwise,
                                                     qn_opencl_reductions};

const qn_opencl_operator *qn_opencl_find(const qn_op *op) {
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
        for (const qn_opencl_operator *row = families[f]; row->op; row++) {
            if (row->op == op)
                return row;
        }
    }
    return NULL;
}

uint64_t qn_opencl_place(qn_opencl_line *line, const void *address) {
    size_t offset = 0;
    if (!address)
        return 0;
    const qn_opencl_buffer *buffer = qn_opencl_locate(line->device, address, &offset);
    if (!buffer || (line->buffer && line->buffer != buffer)) {
        line->has_failed = true;
        return 0;
    }
    line->buffer = buffer;
    return offset;
}

static bool is_tiled(qn_opencl_kernel kernel) {
    switch (kernel) {
#define CASE(name) case QN_CL_##name:
        QN_OPENCL_TILED(CASE)
#undef CASE
        return true;
    default:
        return false;
    }
}

/* Items of a group of all other kernels, along x. */
enum { GROUP_ITEMS = 64 };

void qn_opencl_start(qn_opencl_line *line, qn_opencl_kernel kernel, const qn_opencl_arguments *a,
                     int64_t x, int64_t y, int64_t z) {
    const qn_opencl_api *cl = line->device->cl;
    const qn_opencl_tile *t = &line->device->tile;
    size_t local[3] = {GROUP_ITEMS, 1, 1}, global[3] = {(size_t)x, (size_t)y, (size_t)z};
    if (line->has_failed || x == 0 || y == 0 || z == 0)
        return;
    if (is_tiled(kernel)) {
        local[0] = (size_t)t->lx;
        local[1] = (size_t)t->ly;
        global[0] *= local[0];
        global[1] *= local[1];
    } else {
        global[0] = (global[0] + GROUP_ITEMS - 1) / GROUP_ITEMS * GROUP_ITEMS;
    }
    const cl_kernel k = line->kernels[kernel];
    cl_int code = cl->clSetKernelArg(k, 0, sizeof line->buffer->memory, &line->buffer->memory);
    if (code == CL_OK)
        code = cl->clSetKernelArg(k, 1, sizeof *a, a);
    if (code == CL_OK)
        code = cl->clEnqueueNDRangeKernel(line->queue, k, 3, NULL, global, local, 0, NULL, NULL);
    if (code != CL_OK)
        line->has_failed = !qn_opencl_lose(line->device, "starting a kernel", code);
}

int32_t qn_opencl_chunk(int64_t n, int64_t least, int64_t most) {
    const int64_t chunk = (n + most - 1) / most;
    return (int32_t)(chunk > least ? chunk : least);
}

void qn_opencl_rows(qn_opencl_arguments *a, qn_shape shape, int64_t step0, int64_t step1,
                    int64_t step2) {
    const int64_t c = qn_shape_columns(shape), rows = qn_shape_rows(shape);
    const bool is_dense = step0 == c && step1 == c && (step2 == c || step2 == 0);
    a->n[0] = (int32_t)(is_dense ? c * rows : c);
    a->n[1] = (int32_t)(is_dense ? 1 : rows);
    a->n[2] = (int32_t)(is_dense ? 0 : step0);
    a->n[3] = (int32_t)(is_dense ? 0 : step1);
    a->n[4] = (int32_t)(is_dense ? 0 : step2);
}
