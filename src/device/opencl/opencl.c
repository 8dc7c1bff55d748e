/* See opencl.h. */
#include "device/opencl/opencl.h"

#include "base/memory.h"
#include "base/status.h"
#include "device/opencl/operators.h"
#include "os/heap.h"

#include <stdio.h>
#include <string.h>

/* ---- loss ---- */

bool qn_opencl_is_lost(const qn_opencl *d) {
    return __atomic_load_n(&d->is_lost, __ATOMIC_SEQ_CST);
}

/* The first reason counts: what follows is its consequence. Queues share a device, so two may get
 * here at once; the text is only for people. */
bool qn_opencl_lose(qn_opencl *d, const char *what, cl_int code) {
    if (!qn_opencl_is_lost(d))
        snprintf(d->reason, sizeof d->reason, "%s failed: %s (%d)", what, qn_opencl_word(code),
                 code);
    __atomic_store_n(&d->is_lost, true, __ATOMIC_SEQ_CST);
    return false;
}

static bool is_lost(const void *state) {
    return qn_opencl_is_lost(state);
}

const char *qn_opencl_name(const void *state) {
    return ((const qn_opencl *)state)->device.name;
}

const char *qn_opencl_reason(const void *state) {
    return ((const qn_opencl *)state)->reason;
}

/* ---- opening ---- */

static void opencl_close(void *state) {
    qn_opencl *d = state;
    if (!d)
        return;
    if (d->program)
        (void)d->cl->clReleaseProgram(d->program);
    if (d->copies)
        (void)d->cl->clReleaseCommandQueue(d->copies);
    if (d->context)
        (void)d->cl->clReleaseContext(d->context);
    qn_release(d->allocator, d, 1, sizeof *d);
}

static qn_status find(qn_opencl *d, int number) {
    qn_opencl_device devices[QN_OPENCL_MOST_DEVICES];
    int n;
    QN_TRY(qn_opencl_find_devices(devices, &n));
    if (number < 0 || number >= n)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "there is no OpenCL device %d; this machine has %d, numbered from 0 (quern "
                       "devices lists them)",
                       number, n);
    d->device = devices[number];
    return qn_opencl_api_get(&d->cl);
}

static qn_status open(qn_opencl *d, int number) {
    cl_int code = CL_OK;
    QN_TRY(find(d, number));
    d->tile = qn_opencl_choose_tile(&d->device);
    d->context = d->cl->clCreateContext(NULL, 1, &d->device.id, NULL, NULL, &code);
    if (d->context && code == CL_OK)
        d->copies = d->cl->clCreateCommandQueue(d->context, d->device.id, 0, &code);
    if (!d->copies || code != CL_OK)
        return qn_fail(QN_ERROR_DEVICE, "the OpenCL device %s cannot be opened (%s)",
                       d->device.name, qn_opencl_word(code));
    return qn_opencl_build(d);
}

/* Addresses that no host memory has. */
static const uintptr_t first_base = (uintptr_t)1 << (sizeof(uintptr_t) * 8 - 10);

static qn_status opencl_open(const qn_allocator *allocator, const void *options, void **state) {
    qn_opencl *d;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *d, &d));
    d->allocator = allocator;
    d->next_base = first_base;
    const qn_status status = open(d, ((const qn_opencl_options *)options)->number);
    if (status != QN_OK) {
        opencl_close(d);
        return status;
    }
    *state = d;
    return QN_OK;
}

/* ---- memory ---- */

static const qn_space spaces[] = {
    {.name = "opencl", .physical = QN_PHYSICAL_DEVICE, .alignment = QN_ALIGNMENT},
};

static qn_status check_size(const qn_opencl *d, size_t bytes) {
    if (bytes <= d->device.most_allocation_bytes)
        return QN_OK;
    return qn_fail(QN_ERROR_MEMORY,
                   "the step needs %zu bytes on %s, whose driver gives at most %llu at once; "
                   "lower --batch",
                   bytes, d->device.name, (unsigned long long)d->device.most_allocation_bytes);
}

static qn_status opencl_reserve(void *state, int space, size_t bytes, qn_memory *memory) {
    qn_opencl *d = state;
    cl_int code = CL_OK;
    int i = 0;
    QN_TRY(check_size(d, bytes));
    while (i < QN_OPENCL_MOST_MEMORIES && d->buffers[i].memory)
        i++;
    if (i == QN_OPENCL_MOST_MEMORIES)
        return qn_fail(QN_ERROR_MEMORY, "an OpenCL device supports at most %d memories", i);
    const cl_bits flags = CL_READ_WRITE | (d->device.is_unified ? CL_ALLOC_HOST : 0);
    const cl_mem buffer = d->cl->clCreateBuffer(d->context, flags, bytes, NULL, &code);
    if (!buffer || code != CL_OK)
        return qn_fail(QN_ERROR_MEMORY, "%s gives no memory of %zu bytes (%s); lower --batch",
                       d->device.name, bytes, qn_opencl_word(code));
    d->buffers[i] = (qn_opencl_buffer){buffer, d->next_base, bytes};
    d->next_base += (bytes + QN_ALIGNMENT) / 4096 * 4096 + 8192;
    *memory = (qn_memory){.space = space,
                          .bytes = bytes,
                          .base = (char *)d->buffers[i].base, /* NOLINT: no host address */
                          .handle = buffer};
    return QN_OK;
}

static void opencl_release(void *state, qn_memory *memory) {
    qn_opencl *d = state;
    for (int i = 0; i < QN_OPENCL_MOST_MEMORIES; i++) {
        if (!memory->handle || d->buffers[i].memory != memory->handle)
            continue;
        (void)d->cl->clReleaseMemObject(d->buffers[i].memory);
        d->buffers[i] = (qn_opencl_buffer){0};
    }
    *memory = (qn_memory){0};
}

const qn_opencl_buffer *qn_opencl_locate(const qn_opencl *d, const void *address, size_t *offset) {
    const uintptr_t at = (uintptr_t)address;
    for (int i = 0; i < QN_OPENCL_MOST_MEMORIES; i++) {
        const qn_opencl_buffer *b = &d->buffers[i];
        if (!b->memory || at < b->base || at - b->base >= b->bytes)
            continue;
        *offset = at - b->base;
        return b;
    }
    return NULL;
}

static qn_status check_copy(const qn_opencl *d, const qn_memory *memory, size_t offset,
                            size_t bytes) {
    if (qn_opencl_is_lost(d))
        return qn_fail(QN_ERROR_DEVICE, "the OpenCL device %s was lost: %s", d->device.name,
                       d->reason);
    if (offset > memory->bytes || bytes > memory->bytes - offset)
        return qn_fail(QN_ERROR_ARGUMENT, "%zu bytes at offset %zu exceed a memory of %zu", bytes,
                       offset, memory->bytes);
    return QN_OK;
}

static qn_status opencl_copy_in(void *state, const qn_memory *memory, size_t offset,
                                const void *from, size_t bytes) {
    qn_opencl *d = state;
    QN_TRY(check_copy(d, memory, offset, bytes));
    const cl_int code = d->cl->clEnqueueWriteBuffer(d->copies, memory->handle, CL_TRUE, offset,
                                                    bytes, from, 0, NULL, NULL);
    if (code != CL_OK)
        (void)qn_opencl_lose(d, "copying to it", code);
    return check_copy(d, memory, offset, bytes);
}

static qn_status opencl_copy_out(void *state, const qn_memory *memory, size_t offset, void *to,
                                 size_t bytes) {
    qn_opencl *d = state;
    QN_TRY(check_copy(d, memory, offset, bytes));
    const cl_int code = d->cl->clEnqueueReadBuffer(d->copies, memory->handle, CL_TRUE, offset,
                                                   bytes, to, 0, NULL, NULL);
    if (code != CL_OK)
        (void)qn_opencl_lose(d, "copying from it", code);
    return check_copy(d, memory, offset, bytes);
}

/* ---- what it runs ---- */

/* Numbers in kernels are of 32 bits, and reals are floats. */
static bool is_fit(qn_tensor tensor) {
    return (tensor.dtype == QN_NONE || tensor.dtype == QN_F32 || tensor.dtype == QN_I32 ||
            tensor.dtype == QN_U16) &&
           qn_shape_count(tensor.shape) < INT32_MAX / 4;
}

/* The reals are what tells integer operators from the others. */
static bool has_reals(const qn_query *query) {
    bool has = false;
    for (int i = 0; i < query->n_inputs; i++)
        has |= query->inputs[i].dtype == QN_F32;
    return query->outputs[0].dtype == QN_F32 && (has || query->n_inputs == 0);
}

static bool opencl_supports(const void *state, const qn_query *query) {
    const qn_opencl_operator *row = qn_opencl_find(query->op);
    (void)state;
    if (query->op->output_space || query->op->is_view)
        return true;
    if (!row)
        return false;
    for (int i = 0; i < query->n_inputs; i++) {
        if (!is_fit(query->inputs[i]))
            return false;
    }
    for (int i = 0; i < query->n_outputs; i++) {
        if (!is_fit(query->outputs[i]))
            return false;
    }
    return has_reals(query) && (!row->supports || row->supports(query));
}

static size_t opencl_workspace(const qn_machine *machine, const void *state,
                               const qn_query *query) {
    const qn_opencl_operator *row = qn_opencl_find(query->op);
    (void)machine;
    (void)state;
    return row && row->workspace ? row->workspace(query) : 0;
}

static void opencl_counters(const void *state, qn_device_counters *counters) {
    const qn_opencl *d = state;
    counters->n_works = __atomic_load_n(&d->counters.n_works, __ATOMIC_RELAXED);
    counters->busy_ns = __atomic_load_n(&d->counters.busy_ns, __ATOMIC_RELAXED);
    counters->bytes_in = __atomic_load_n(&d->counters.bytes_in, __ATOMIC_RELAXED);
    counters->bytes_out = __atomic_load_n(&d->counters.bytes_out, __ATOMIC_RELAXED);
}

const qn_device qn_device_opencl = {
    .name = "opencl",
    .open = opencl_open,
    .close = opencl_close,
    .supports = opencl_supports,
    .workspace = opencl_workspace,
    .is_lost = is_lost,
    .n_spaces = 1,
    .spaces = spaces,
    .reserve = opencl_reserve,
    .release = opencl_release,
    .copy_in = opencl_copy_in,
    .copy_out = opencl_copy_out,
    .queue_open = qn_opencl_queue_open,
    .queue_close = qn_opencl_queue_close,
    .queue_timeline = qn_opencl_queue_timeline,
    .submit = qn_opencl_queue_submit,
    .counters = opencl_counters,
};
