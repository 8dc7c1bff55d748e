/* OpenCL as the driver of a GPU. A stream is a command queue with kernels of its own, since setting
 * their arguments is not safe between threads. */
#include "driver/opencl/opencl.h"

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "device/gpu/state.h"
#include "driver/driver.h"
#include "driver/opencl/platforms.h"
#include "os/heap.h"

#include <stdio.h>
#include <string.h>

typedef struct context {
    const qn_opencl_api *cl;
    qn_opencl_device device;
    cl_context context;
    cl_command_queue copies; /* of copies at once */
    cl_program program;
    qn_opencl_lists lists; /* where the device can record */
} context;

/* A kernel object for each kernel in it: drivers take their arguments when a list is started. */
typedef struct list {
    cl_list list;
    int n;
    size_t capacity;
    cl_kernel *kernels; /* (n) */
    cl_uint point;      /* of the last */
} list;

typedef struct stream {
    cl_command_queue queue;
    cl_kernel kernels[QN_GPU_KERNEL_COUNT];
    int known[QN_GPU_KERNEL_COUNT]; /* the shared memory that each was told of */
    cl_event marks[QN_GPU_MARKS];   /* null: none */
    struct list *list;              /* that kernels are put into; null: they are started */
} stream;

static const qn_opencl_api *api_of(const qn_gpu *d) {
    return ((const context *)d->context)->cl;
}

static const qn_opencl_lists *lists_of(const qn_gpu *d) {
    return &((const context *)d->context)->lists;
}

static bool check(qn_gpu *d, const char *what, cl_int code) {
    return code == CL_OK || qn_gpu_lose(d, what, qn_opencl_word(code), code);
}

/* ---- opening ---- */

static void close_device(qn_gpu *d) {
    context *c = d->context;
    if (!c)
        return;
    if (c->program)
        (void)c->cl->clReleaseProgram(c->program);
    if (c->copies)
        (void)c->cl->clReleaseCommandQueue(c->copies);
    if (c->context)
        (void)c->cl->clReleaseContext(c->context);
    qn_release(d->allocator, c, 1, sizeof *c);
}

static qn_status find(context *c, int number) {
    qn_opencl_device devices[QN_OPENCL_MOST_DEVICES];
    int n;
    QN_TRY(qn_opencl_find_devices(devices, &n));
    if (number < 0 || number >= n)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "there is no OpenCL device %d; this machine has %d, numbered from 0 (quern "
                       "devices lists them)",
                       number, n);
    c->device = devices[number];
    return qn_opencl_api_get(&c->cl);
}

/* The first line of the driver's log that says something of an error, or its first line. */
static void read_log(const context *c, char *to, size_t bytes) {
    char log[4096];
    memset(log, 0, sizeof log);
    if (c->cl->clGetProgramBuildInfo(c->program, c->device.id, CL_BUILD_LOG, sizeof log - 1, log,
                                     NULL) != CL_OK)
        log[0] = 0;
    const char *line = strstr(log, "error");
    while (line && line > log && line[-1] != '\n')
        line--;
    line = line ? line : log;
    snprintf(to, bytes, "%.*s", (int)strcspn(line, "\n"), line);
}

static qn_status compile(qn_gpu *d) {
    const context *c = d->context;
    char options[QN_GPU_DEFINITIONS + 32] = "-cl-std=CL1.2 ", log[200];
    qn_gpu_define_tile(&d->tile, options + strlen(options));
    const cl_int code = c->cl->clBuildProgram(c->program, 1, &c->device.id, options, NULL, NULL);
    if (code == CL_OK)
        return QN_OK;
    read_log(c, log, sizeof log);
    return qn_fail(QN_ERROR_DEVICE,
                   "the OpenCL driver of %s cannot compile the kernels (%s): %s; train with "
                   "--device cpu, or update the driver",
                   d->name, qn_opencl_word(code), log);
}

static qn_status build(qn_gpu *d) {
    context *c = d->context;
    const char *texts[QN_GPU_TEXTS + 1] = {qn_gpu_opencl_prelude};
    cl_int code = CL_OK;
    memcpy(texts + 1, qn_gpu_texts, sizeof qn_gpu_texts);
    c->program = c->cl->clCreateProgramWithSource(c->context, QN_GPU_TEXTS + 1, texts, NULL, &code);
    if (!c->program || code != CL_OK)
        return qn_fail(QN_ERROR_DEVICE, "the OpenCL device %s takes no program (%s)", d->name,
                       qn_opencl_word(code));
    return compile(d);
}

static void describe(qn_gpu *d) {
    const qn_opencl_device *o = &((const context *)d->context)->device;
    const bool is_cpu =
        (o->type & (CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_GPU)) == (cl_bits)CL_DEVICE_TYPE_CPU;
    snprintf(d->name, sizeof d->name, "%s", o->name);
    d->most_allocation_bytes = o->most_allocation_bytes;
    d->can_share = o->can_share;
    d->can_record = o->has_lists &&
                    qn_opencl_lists_get(api_of(d), o->platform, &((context *)d->context)->lists);
    d->tile = qn_gpu_choose_tile(o->group_size, is_cpu, o->local_bytes);
}

static qn_status open_device(qn_gpu *d, int number) {
    context *c;
    cl_int code = CL_OK;
    QN_TRY(qn_allocate(d->allocator, 1, sizeof *c, &c));
    d->context = c;
    QN_TRY(find(c, number));
    describe(d);
    c->context = c->cl->clCreateContext(NULL, 1, &c->device.id, NULL, NULL, &code);
    if (c->context && code == CL_OK)
        c->copies = c->cl->clCreateCommandQueue(c->context, c->device.id, 0, &code);
    if (!c->copies || code != CL_OK)
        return qn_fail(QN_ERROR_DEVICE, "the OpenCL device %s cannot be opened (%s)", d->name,
                       qn_opencl_word(code));
    return build(d);
}

/* ---- memory ---- */

static qn_status reserve(qn_gpu *d, size_t bytes, void **memory) {
    const context *c = d->context;
    cl_int code = CL_OK;
    const cl_bits flags = CL_READ_WRITE | (c->device.is_unified ? CL_ALLOC_HOST : 0);
    const cl_mem buffer = c->cl->clCreateBuffer(c->context, flags, bytes, NULL, &code);
    if (!buffer || code != CL_OK)
        return qn_fail(QN_ERROR_MEMORY, "%s gives no memory of %zu bytes (%s); lower --batch",
                       d->name, bytes, qn_opencl_word(code));
    *memory = buffer;
    return QN_OK;
}

static void release(qn_gpu *d, void *memory) {
    (void)api_of(d)->clReleaseMemObject(memory);
}

static void *share(qn_gpu *d, size_t bytes) {
    const context *c = d->context;
    return c->cl->clSVMAlloc(c->context, CL_READ_WRITE | CL_FINE_GRAIN, bytes, QN_ALIGNMENT);
}

static void unshare(qn_gpu *d, void *memory) {
    const context *c = d->context;
    c->cl->clSVMFree(c->context, memory);
}

/* ---- streams ---- */

static void stream_close(qn_gpu *d, void *opened) {
    const qn_opencl_api *cl = api_of(d);
    stream *s = opened;
    for (int i = 0; i < QN_GPU_KERNEL_COUNT; i++) {
        if (s->kernels[i])
            (void)cl->clReleaseKernel(s->kernels[i]);
    }
    for (int i = 0; i < QN_GPU_MARKS; i++) {
        if (s->marks[i])
            (void)cl->clReleaseEvent(s->marks[i]);
    }
    if (s->queue)
        (void)cl->clReleaseCommandQueue(s->queue);
    qn_release(d->allocator, s, 1, sizeof *s);
}

static qn_status make_kernels(const qn_gpu *d, stream *s) {
    const context *c = d->context;
    for (int i = 0; i < QN_GPU_KERNEL_COUNT; i++) {
        cl_int code = CL_OK;
        s->kernels[i] = c->cl->clCreateKernel(c->program, qn_gpu_kernel_names[i], &code);
        if (!s->kernels[i] || code != CL_OK)
            return qn_fail(QN_ERROR_DEVICE, "%s has no kernel %s (%s)", d->name,
                           qn_gpu_kernel_names[i], qn_opencl_word(code));
    }
    return QN_OK;
}

static qn_status stream_fill(const qn_gpu *d, stream *s) {
    const context *c = d->context;
    cl_int code = CL_OK;
    s->queue = c->cl->clCreateCommandQueue(c->context, c->device.id, 0, &code);
    if (!s->queue || code != CL_OK)
        return qn_fail(QN_ERROR_DEVICE, "%s gives no queue (%s)", d->name, qn_opencl_word(code));
    return make_kernels(d, s);
}

static qn_status stream_open(qn_gpu *d, void **opened) {
    stream *s;
    QN_TRY(qn_allocate(d->allocator, 1, sizeof *s, &s));
    const qn_status status = stream_fill(d, s);
    if (status != QN_OK) {
        stream_close(d, s);
        return status;
    }
    *opened = s;
    return QN_OK;
}

/* What a kernel reaches beyond its argument, and that. */
static cl_int set_shared(const qn_gpu *d, cl_kernel kernel, int *known) {
    const qn_opencl_api *cl = api_of(d);
    const qn_gpu_shared *shared = &d->shared;
    if (*known != shared->version) {
        const cl_int code = cl->clSetKernelExecInfo(
            kernel, CL_SHARED_POINTERS, (size_t)shared->n_pieces * sizeof *shared->pieces,
            (const void *)shared->pieces);
        if (code != CL_OK)
            return code;
        *known = shared->version;
    }
    return cl->clSetKernelArgSVMPointer(kernel, 0, shared->origin.memory);
}

static cl_int set_arguments(const qn_gpu *d, cl_kernel kernel, int *known, const qn_gpu_launch *l) {
    const qn_opencl_api *cl = api_of(d);
    const cl_mem memory = l->buffer->memory;
    const cl_int code = d->shared.is_used ? set_shared(d, kernel, known)
                                          : cl->clSetKernelArg(kernel, 0, sizeof memory, &memory);
    return code == CL_OK ? cl->clSetKernelArg(kernel, 1, sizeof *l->arguments, l->arguments) : code;
}

typedef struct extent {
    size_t first[3], global[3], local[3];
} extent;

static extent extent_of(const qn_gpu *d, const qn_gpu_launch *l) {
    extent e = {
        {l->first[0], l->first[1], l->first[2]}, {l->x, l->y, l->z}, {QN_GPU_GROUP_ITEMS, 1, 1}};
    if (qn_gpu_is_tiled(l->kernel)) {
        e.local[0] = (size_t)d->tile.lx;
        e.local[1] = (size_t)d->tile.ly;
        e.global[0] *= e.local[0];
        e.global[1] *= e.local[1];
        e.first[0] *= e.local[0];
        e.first[1] *= e.local[1];
    } else {
        e.global[0] = (e.global[0] + e.local[0] - 1) / e.local[0] * e.local[0];
    }
    return e;
}

/* Behind the kernel before it, which a list of a queue in order does not promise everywhere. */
static cl_int put(const qn_gpu *d, list *to, const qn_gpu_launch *l) {
    const context *c = d->context;
    const extent e = extent_of(d, l);
    const cl_uint before = to->point, n = to->n > 0;
    int known = 0;
    cl_int code = CL_NO_MEMORY;
    if (qn_grow(d->allocator, &to->kernels, &to->capacity, (size_t)to->n + 1,
                sizeof *to->kernels) != QN_OK)
        return code;
    const cl_kernel kernel =
        c->cl->clCreateKernel(c->program, qn_gpu_kernel_names[l->kernel], &code);
    if (!kernel)
        return code != CL_OK ? code : CL_NO_MEMORY;
    to->kernels[to->n++] = kernel;
    code = set_arguments(d, kernel, &known, l);
    return code == CL_OK
               ? c->lists.clCommandNDRangeKernelKHR(to->list, NULL, NULL, kernel, 3, e.first,
                                                    e.global, e.local, n, n > 0 ? &before : NULL,
                                                    &to->point, NULL)
               : code;
}

static cl_int start(const qn_gpu *d, stream *s, const qn_gpu_launch *l) {
    const extent e = extent_of(d, l);
    const cl_kernel kernel = s->kernels[l->kernel];
    const cl_int code = set_arguments(d, kernel, &s->known[l->kernel], l);
    return code == CL_OK ? api_of(d)->clEnqueueNDRangeKernel(s->queue, kernel, 3, e.first, e.global,
                                                             e.local, 0, NULL, NULL)
                         : code;
}

static bool launch(qn_gpu *d, void *opened, const qn_gpu_launch *l) {
    stream *s = opened;
    return check(d, "starting a kernel", s->list ? put(d, s->list, l) : start(d, s, l));
}

/* ---- lists ---- */

static void list_drop(qn_gpu *d, void *dropped) {
    list *l = dropped;
    if (l->list)
        (void)lists_of(d)->clReleaseCommandBufferKHR(l->list);
    for (int i = 0; i < l->n; i++)
        (void)api_of(d)->clReleaseKernel(l->kernels[i]);
    qn_release(d->allocator, l->kernels, l->capacity, sizeof *l->kernels);
    qn_release(d->allocator, l, 1, sizeof *l);
}

static bool list_begin(qn_gpu *d, void *opened) {
    stream *s = opened;
    cl_int code = CL_OK;
    if (qn_allocate(d->allocator, 1, sizeof *s->list, &s->list) != QN_OK)
        return false;
    s->list->list = lists_of(d)->clCreateCommandBufferKHR(1, &s->queue, NULL, &code);
    if (s->list->list && code == CL_OK)
        return true;
    list_drop(d, s->list);
    s->list = NULL;
    return false;
}

static void *list_end(qn_gpu *d, void *opened) {
    stream *s = opened;
    list *made = s->list;
    s->list = NULL;
    if (lists_of(d)->clFinalizeCommandBufferKHR(made->list) == CL_OK)
        return made;
    list_drop(d, made);
    return NULL;
}

static bool list_start(qn_gpu *d, void *opened, void *started) {
    (void)opened; /* the queue that it was made for */
    const list *l = started;
    return check(d, "starting kernels",
                 lists_of(d)->clEnqueueCommandBufferKHR(0, NULL, l->list, 0, NULL, NULL));
}

/* ---- copies ---- */

static bool copy(qn_gpu *d, void *opened, const qn_gpu_buffer *buffer, size_t offset, void *host,
                 size_t bytes, bool is_to_host) {
    const context *c = d->context;
    const stream *s = opened;
    const cl_command_queue queue = s ? s->queue : c->copies;
    const cl_uint waits = s ? CL_FALSE : CL_TRUE;
    const cl_int code = is_to_host
                            ? c->cl->clEnqueueReadBuffer(queue, buffer->memory, waits, offset,
                                                         bytes, host, 0, NULL, NULL)
                            : c->cl->clEnqueueWriteBuffer(queue, buffer->memory, waits, offset,
                                                          bytes, host, 0, NULL, NULL);
    return check(d, is_to_host ? "copying from it" : "copying to it", code);
}

/* ---- waiting ---- */

static bool mark(qn_gpu *d, void *opened, int number) {
    const qn_opencl_api *cl = api_of(d);
    stream *s = opened;
    if (s->marks[number])
        (void)cl->clReleaseEvent(s->marks[number]);
    s->marks[number] = NULL;
    cl_int code = cl->clEnqueueMarkerWithWaitList(s->queue, 0, NULL, &s->marks[number]);
    if (code == CL_OK)
        code = cl->clFlush(s->queue);
    return check(d, "waiting for it", code);
}

static bool is_done(qn_gpu *d, void *opened, int number, bool *is_done) {
    const stream *s = opened;
    cl_int status = CL_COMPLETE;
    const cl_int code =
        api_of(d)->clGetEventInfo(s->marks[number], CL_EVENT_STATUS, sizeof status, &status, NULL);
    *is_done = status == CL_COMPLETE;
    return check(d, "waiting for it", code != CL_OK || status >= 0 ? code : status);
}

static const qn_gpu_driver driver = {
    .kind = "OpenCL",
    .can_start_parts = true,
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

static qn_status opencl_open(const qn_allocator *allocator, const void *options, void **state) {
    const qn_opencl_options *o = options;
    return qn_gpu_open(allocator, &driver, o->number, o->shares, state);
}

static const qn_space spaces[] = {
    {.name = "opencl", .physical = QN_PHYSICAL_DEVICE, .alignment = QN_ALIGNMENT},
};

const qn_device qn_device_opencl = {
    .name = "opencl",
    .open = opencl_open,
    .n_spaces = 1,
    .spaces = spaces,
    QN_GPU_DEVICE_FUNCTIONS,
};

/* ---- the driver ---- */

static qn_status count_devices(int *n) {
    qn_opencl_device devices[QN_OPENCL_MOST_DEVICES];
    return qn_opencl_find_devices(devices, n);
}

static qn_status describe_device(int number, qn_driver_info *info) {
    context found;
    char memory[QN_SIZE_TEXT];
    QN_TRY(find(&found, number));
    const qn_opencl_device *o = &found.device;
    *info = (qn_driver_info){.n_facts = 0};
    snprintf(info->name, sizeof info->name, "%s", o->name);
    snprintf(info->summary, sizeof info->summary, "%s, %s, %u compute unit%s, %s of memory %s; %s",
             o->name, qn_opencl_type_name(o), o->n_units, o->n_units == 1 ? "" : "s",
             qn_text_print_size(o->memory_bytes, memory),
             o->is_unified ? "shared with the host" : "of its own", o->driver);
    qn_driver_add_text(info, "type", qn_opencl_type_name(o));
    qn_driver_add_text(info, "driver", o->driver);
    qn_driver_add_text(info, "version", o->version);
    qn_driver_add_count(info, "compute_units", o->n_units);
    qn_driver_add_count(info, "memory_bytes", (int64_t)o->memory_bytes);
    qn_driver_add_count(info, "largest_buffer_bytes", (int64_t)o->most_allocation_bytes);
    qn_driver_add_flag(info, "shared_with_host", o->is_unified);
    return QN_OK;
}

static qn_status open_driver(const qn_allocator *allocator, const qn_driver_options *options,
                             void **state) {
    const qn_opencl_options own = {.number = options->number, .shares = options->shares};
    return opencl_open(allocator, &own, state);
}

const qn_driver_functions qn_driver_opencl = {
    .device = &qn_device_opencl,
    .is_numbered = true,
    .is_tried = true,
    .count = count_devices,
    .describe = describe_device,
    .open = open_driver,
};
