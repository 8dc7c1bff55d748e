/* See operators.h. */
#include "device/gpu/operators.h"

#include "ops/shared.h"

static const qn_gpu_operator *const families[] = {
    qn_gpu_products, qn_gpu_elementwise, qn_gpu_reductions, qn_gpu_sequences, qn_gpu_updates};

const qn_gpu_operator *qn_gpu_find(const qn_op *op) {
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
        for (const qn_gpu_operator *row = families[f]; row->op; row++) {
            if (row->op == op)
                return row;
        }
    }
    return NULL;
}

uint64_t qn_gpu_place(qn_gpu_line *line, const void *address) {
    size_t offset = 0;
    qn_gpu_shared *shared = &line->device->shared;
    if (!address)
        return 0;
    if (shared->is_used) { /* around zero where it lies before */
        line->buffer = &shared->origin;
        return (uint64_t)((uintptr_t)address - shared->origin.base);
    }
    const qn_gpu_buffer *buffer = qn_gpu_locate(line->device, address, &offset);
    if (!buffer || (line->buffer && line->buffer != buffer)) {
        line->has_failed = true;
        return 0;
    }
    line->buffer = buffer;
    return offset;
}

void qn_gpu_start(qn_gpu_line *line, qn_gpu_kernel kernel, const qn_gpu_arguments *a, int64_t x,
                  int64_t y, int64_t z) {
    const qn_gpu_launch launch = {
        kernel, line->buffer, a, (size_t)x, (size_t)y, (size_t)z, {0, 0, 0},
    };
    if (line->has_failed || x == 0 || y == 0 || z == 0)
        return;
    if (line->device->pace.piece_ns > 0)
        line->has_failed = !qn_gpu_start_paced(line->device, line->stream, &launch);
    else if (line->lists)
        line->has_failed = !qn_gpu_lists_take(line->lists, &launch);
    else
        line->has_failed = !line->device->driver->launch(line->device, line->stream, &launch);
}

int32_t qn_gpu_chunk(int64_t n, int64_t least, int64_t most) {
    const int64_t chunk = (n + most - 1) / most;
    return (int32_t)(chunk > least ? chunk : least);
}

void qn_gpu_rows(qn_gpu_arguments *a, qn_shape shape, int64_t step0, int64_t step1, int64_t step2) {
    const int64_t c = qn_shape_columns(shape), rows = qn_shape_rows(shape);
    const bool is_dense = step0 == c && step1 == c && (step2 == c || step2 == 0);
    a->n[0] = (int32_t)(is_dense ? c * rows : c);
    a->n[1] = (int32_t)(is_dense ? 1 : rows);
    a->n[2] = (int32_t)(is_dense ? 0 : step0);
    a->n[3] = (int32_t)(is_dense ? 0 : step1);
    a->n[4] = (int32_t)(is_dense ? 0 : step2);
}
