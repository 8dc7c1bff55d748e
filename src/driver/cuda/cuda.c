/* CUDA as the driver of a GPU. Every function makes the device's context current, as it may be
 * called from any thread. */
#include "driver/cuda/cuda.h"

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "device/gpu/state.h"
#include "driver/cuda/compile.h"
#include "driver/cuda/devices.h"
#include "driver/driver.h"
#include "os/heap.h"

#include <stdio.h>

typedef struct context {
    const qn_cuda_api *cu;
    qn_cuda_device device;
    CUcontext context;
    CUmodule module;
    CUfunction functions[QN_GPU_KERNEL_COUNT];
} context;

typedef struct stream {
    CUstream stream;
    CUevent marks[QN_GPU_MARKS];
} stream;

static bool check(qn_gpu *d, const char *what, CUresult code) {
    return code == CUDA_OK || qn_gpu_lose(d, what, qn_cuda_word(code), code);
}

/* ---- opening ---- */

static void close_device(qn_gpu *d) {
    context *c = d->context;
    if (!c)
        return;
    if (c->module)
        (void)c->cu->cuModuleUnload(c->module);
    if (c->context)
        (void)c->cu->cuDevicePrimaryCtxRelease_v2(c->device.id);
    qn_release(d->allocator, c, 1, sizeof *c);
}

static qn_status find(context *c, int number) {
    qn_cuda_device devices[QN_CUDA_MOST_DEVICES];
    int n;
    QN_TRY(qn_cuda_find_devices(devices, &n));
    if (number < 0 || number >= n)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "there is no CUDA device %d; this machine has %d, numbered from 0 (quern "
                       "devices lists them)",
                       number, n);
    c->device = devices[number];
    return qn_cuda_api_get(&c->cu);
}

static qn_status load(qn_gpu *d, const char *code) {
    context *c = d->context;
    CUresult result = c->cu->cuModuleLoadData(&c->module, code);
    if (result != CUDA_OK || !c->module) {
        c->module = NULL;
        return qn_fail(QN_ERROR_DEVICE, "%s takes no kernels (%s); update its driver", d->name,
                       qn_cuda_word(result));
    }
    for (int i = 0; i < QN_GPU_KERNEL_COUNT; i++) {
        result = c->cu->cuModuleGetFunction(&c->functions[i], c->module, qn_gpu_kernel_names[i]);
        if (result != CUDA_OK || !c->functions[i])
            return qn_fail(QN_ERROR_DEVICE, "%s has no kernel %s (%s)", d->name,
                           qn_gpu_kernel_names[i], qn_cuda_word(result));
    }
    return QN_OK;
}

static qn_status build(qn_gpu *d) {
    const context *c = d->context;
    char *code;
    size_t bytes;
    QN_TRY(qn_cuda_compile(d->allocator, &d->tile, c->device.architecture, &code, &bytes));
    const qn_status status = load(d, code);
    qn_release(d->allocator, code, 1, bytes);
    return status;
}

static bool has_lists(const qn_cuda_api *cu) {
    return cu->cuStreamBeginCapture_v2 && cu->cuStreamEndCapture &&
           cu->cuGraphInstantiateWithFlags && cu->cuGraphDestroy && cu->cuGraphExecDestroy &&
           cu->cuGraphLaunch;
}

static qn_status open_device(qn_gpu *d, int number) {
    context *c;
    QN_TRY(qn_allocate(d->allocator, 1, sizeof *c, &c));
    d->context = c;
    QN_TRY(find(c, number));
    snprintf(d->name, sizeof d->name, "%s", c->device.name);
    d->most_allocation_bytes = c->device.memory_bytes;
    d->can_share = c->device.can_share;
    d->can_record = has_lists(c->cu);
    d->tile = qn_gpu_choose_tile((size_t)c->device.block_threads, false, 0);
    CUresult code = c->cu->cuDevicePrimaryCtxRetain(&c->context, c->device.id);
    if (code != CUDA_OK || !c->context) {
        c->context = NULL;
        return qn_fail(QN_ERROR_DEVICE, "the CUDA device %s cannot be opened (%s)", d->name,
                       qn_cuda_word(code));
    }
    code = c->cu->cuCtxSetCurrent(c->context);
    if (code != CUDA_OK)
        return qn_fail(QN_ERROR_DEVICE, "the CUDA device %s cannot be used (%s)", d->name,
                       qn_cuda_word(code));
    return build(d);
}

/* The driver, with the device's context current; the code of that. */
static CUresult enter(const qn_gpu *d, const qn_cuda_api **cu) {
    const context *c = d->context;
    *cu = c->cu;
    return c->cu->cuCtxSetCurrent(c->context);
}

/* ---- memory ---- */

static qn_status reserve(qn_gpu *d, size_t bytes, void **memory) {
    const qn_cuda_api *cu;
    CUdeviceptr address = 0;
    CUresult code = enter(d, &cu);
    if (code == CUDA_OK)
        code = cu->cuMemAlloc_v2(&address, bytes);
    if (code != CUDA_OK || !address)
        return qn_fail(QN_ERROR_MEMORY, "%s gives no memory of %zu bytes (%s); lower --batch",
                       d->name, bytes, qn_cuda_word(code));
    *memory = (void *)(uintptr_t)address; /* NOLINT: the driver's own */
    return QN_OK;
}

static void release(qn_gpu *d, void *memory) {
    const qn_cuda_api *cu;
    if (enter(d, &cu) == CUDA_OK)
        (void)cu->cuMemFree_v2((CUdeviceptr)(uintptr_t)memory);
}

static void *share(qn_gpu *d, size_t bytes) {
    const qn_cuda_api *cu;
    void *memory = NULL;
    if (enter(d, &cu) != CUDA_OK || cu->cuMemHostAlloc(&memory, bytes, CU_FOR_ALL_MAPPED))
        return NULL;
    return memory;
}

static void unshare(qn_gpu *d, void *memory) {
    const qn_cuda_api *cu;
    if (enter(d, &cu) == CUDA_OK)
        (void)cu->cuMemFreeHost(memory);
}

/* ---- streams ---- */

static void stream_close(qn_gpu *d, void *opened) {
    const qn_cuda_api *cu;
    stream *s = opened;
    (void)enter(d, &cu);
    for (int i = 0; i < QN_GPU_MARKS; i++) {
        if (s->marks[i])
            (void)cu->cuEventDestroy_v2(s->marks[i]);
    }
    if (s->stream)
        (void)cu->cuStreamDestroy_v2(s->stream);
    qn_release(d->allocator, s, 1, sizeof *s);
}

static qn_status stream_open(qn_gpu *d, void **opened) {
    const qn_cuda_api *cu;
    stream *s;
    QN_TRY(qn_allocate(d->allocator, 1, sizeof *s, &s));
    CUresult code = enter(d, &cu);
    if (code == CUDA_OK)
        code = cu->cuStreamCreate(&s->stream, CU_STREAM_NON_BLOCKING);
    bool has_marks = true;
    for (int i = 0; i < QN_GPU_MARKS && code == CUDA_OK; i++) {
        code = cu->cuEventCreate(&s->marks[i], CU_EVENT_NO_TIMING);
        has_marks = has_marks && s->marks[i];
    }
    if (code != CUDA_OK || !s->stream || !has_marks) {
        stream_close(d, s);
        return qn_fail(QN_ERROR_DEVICE, "%s gives no queue (%s)", d->name, qn_cuda_word(code));
    }
    *opened = s;
    return QN_OK;
}

/* What a grid holds along y and z. */
enum { MOST_Y = 65535 };

static bool launch(qn_gpu *d, void *opened, const qn_gpu_launch *l) {
    const qn_cuda_api *cu;
    const context *c = d->context;
    const stream *s = opened;
    CUdeviceptr memory = (CUdeviceptr)(uintptr_t)l->buffer->memory;
    void *parameters[] = {&memory, (void *)(uintptr_t)l->arguments};
    const size_t y_parts = (l->y + MOST_Y - 1) / MOST_Y;
    unsigned grid[3], block[2] = {QN_GPU_GROUP_ITEMS, 1};
    if (qn_gpu_is_tiled(l->kernel)) { /* kernels/cuda.cl: rows of tiles along x */
        block[0] = (unsigned)d->tile.lx;
        block[1] = (unsigned)d->tile.ly;
        grid[0] = (unsigned)l->y;
        grid[1] = (unsigned)l->x;
        grid[2] = (unsigned)l->z;
    } else {
        grid[0] = (unsigned)((l->x + QN_GPU_GROUP_ITEMS - 1) / QN_GPU_GROUP_ITEMS);
        grid[1] = (unsigned)((l->y + y_parts - 1) / y_parts);
        grid[2] = (unsigned)y_parts;
    }
    CUresult code = enter(d, &cu);
    if (code == CUDA_OK)
        code = cu->cuLaunchKernel(c->functions[l->kernel], grid[0], grid[1], grid[2], block[0],
                                  block[1], 1, 0, s->stream, parameters, NULL);
    return check(d, "starting a kernel", code);
}

/* ---- lists ---- */

static bool list_begin(qn_gpu *d, void *opened) {
    const qn_cuda_api *cu;
    const stream *s = opened;
    return enter(d, &cu) == CUDA_OK &&
           cu->cuStreamBeginCapture_v2(s->stream, CU_CAPTURE_OF_THREAD) == CUDA_OK;
}

static void *list_end(qn_gpu *d, void *opened) {
    const qn_cuda_api *cu;
    const stream *s = opened;
    CUgraph graph = NULL;
    CUgraphExec list = NULL;
    if (enter(d, &cu) != CUDA_OK || cu->cuStreamEndCapture(s->stream, &graph) != CUDA_OK || !graph)
        return NULL;
    if (cu->cuGraphInstantiateWithFlags(&list, graph, 0) != CUDA_OK)
        list = NULL;
    (void)cu->cuGraphDestroy(graph);
    return list;
}

static bool list_start(qn_gpu *d, void *opened, void *list) {
    const qn_cuda_api *cu;
    const stream *s = opened;
    CUresult code = enter(d, &cu);
    if (code == CUDA_OK)
        code = cu->cuGraphLaunch(list, s->stream);
    return check(d, "starting kernels", code);
}

static void list_drop(qn_gpu *d, void *list) {
    const qn_cuda_api *cu;
    if (enter(d, &cu) == CUDA_OK)
        (void)cu->cuGraphExecDestroy(list);
}

/* ---- copies ---- */

static bool copy(qn_gpu *d, void *opened, const qn_gpu_buffer *buffer, size_t offset, void *host,
                 size_t bytes, bool is_to_host) {
    const qn_cuda_api *cu;
    const stream *s = opened;
    const CUdeviceptr at = (CUdeviceptr)(uintptr_t)buffer->memory + offset;
    CUresult code = enter(d, &cu);
    if (code == CUDA_OK && s)
        code = is_to_host ? cu->cuMemcpyDtoHAsync_v2(host, at, bytes, s->stream)
                          : cu->cuMemcpyHtoDAsync_v2(at, host, bytes, s->stream);
    else if (code == CUDA_OK)
        code = is_to_host ? cu->cuMemcpyDtoH_v2(host, at, bytes)
                          : cu->cuMemcpyHtoD_v2(at, host, bytes);
    return check(d, is_to_host ? "copying from it" : "copying to it", code);
}

/* ---- waiting ---- */

static bool mark(qn_gpu *d, void *opened, int number) {
    const qn_cuda_api *cu;
    const stream *s = opened;
    CUresult code = enter(d, &cu);
    if (code == CUDA_OK)
        code = cu->cuEventRecord(s->marks[number], s->stream);
    return check(d, "waiting for it", code);
}

static bool is_done(qn_gpu *d, void *opened, int number, bool *is_done) {
    const qn_cuda_api *cu;
    const stream *s = opened;
    CUresult code = enter(d, &cu);
    if (code == CUDA_OK)
        code = cu->cuEventQuery(s->marks[number]);
    *is_done = code == CUDA_OK;
    return check(d, "waiting for it", code == CUDA_NOT_READY ? CUDA_OK : code);
}

static const qn_gpu_driver driver = {
    .kind = "CUDA",
    .copies_to_shared = true,
    .open = open_device,
    .close = close_device,
    .reserve = reserve,
    .release = release,
    .share = share,
    .unshare = unshare,
    .stream_open = stream_open,
    .stream_close = stream_close,
    .launch = launch,
    .list_begin = list_begin,
    .list_end = list_end,
    .list_start = list_start,
    .list_drop = list_drop,
    .copy = copy,
    .mark = mark,
    .is_done = is_done,
};

/* ---- the device ---- */

static qn_status cuda_open(const qn_allocator *allocator, const void *options, void **state) {
    const qn_cuda_options *o = options;
    return qn_gpu_open(allocator, &driver, o->number, o->shares, state);
}

static const qn_space spaces[] = {
    {.name = "cuda", .physical = QN_PHYSICAL_DEVICE, .alignment = QN_ALIGNMENT},
};

const qn_device qn_device_cuda = {
    .name = "cuda",
    .open = cuda_open,
    .n_spaces = 1,
    .spaces = spaces,
    QN_GPU_DEVICE_FUNCTIONS,
};

/* ---- the driver ---- */

static qn_status count_devices(int *n) {
    qn_cuda_device devices[QN_CUDA_MOST_DEVICES];
    return qn_cuda_find_devices(devices, n);
}

static qn_status describe_device(int number, qn_driver_info *info) {
    context found;
    char memory[QN_SIZE_TEXT];
    QN_TRY(find(&found, number));
    const qn_cuda_device *g = &found.device;
    *info = (qn_driver_info){.n_facts = 0};
    snprintf(info->name, sizeof info->name, "%s", g->name);
    snprintf(info->summary, sizeof info->summary,
             "%s, %d multiprocessor%s of architecture %d.%d, %s of memory %s; driver of CUDA %d.%d",
             g->name, g->n_units, g->n_units == 1 ? "" : "s", g->architecture / 10,
             g->architecture % 10, qn_text_print_size(g->memory_bytes, memory),
             g->is_unified ? "shared with the host" : "of its own", g->driver / 1000,
             g->driver % 1000 / 10);
    qn_driver_add_count(info, "architecture", g->architecture);
    qn_driver_add_count(info, "driver", g->driver);
    qn_driver_add_count(info, "compute_units", g->n_units);
    qn_driver_add_count(info, "memory_bytes", (int64_t)g->memory_bytes);
    qn_driver_add_flag(info, "shared_with_host", g->is_unified);
    return QN_OK;
}

static qn_status open_driver(const qn_allocator *allocator, const qn_driver_options *options,
                             void **state) {
    const qn_cuda_options own = {.number = options->number, .shares = options->shares};
    return cuda_open(allocator, &own, state);
}

const qn_driver_functions qn_driver_cuda = {
    .device = &qn_device_cuda,
    .is_numbered = true,
    .is_tried = true,
    .count = count_devices,
    .describe = describe_device,
    .open = open_driver,
};
