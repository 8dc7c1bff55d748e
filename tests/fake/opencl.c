/* A stand-in for an OpenCL library that fails at the n-th call, once or from then on, or lies about
 * sizes and counts. Its kernels do nothing: a test must have it fail before it looks at results.
 * The test that loads it sets the variables that are named fake_. */
#include "driver/opencl/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

/* Call number fake_fail_at fails (0: none); fake_fails_on: so do all after it. */
API int64_t fake_calls, fake_fail_at, fake_opened_at; /* opened_at: the call that made a context */
API int fake_fails_on;
API int64_t fake_silent_at;   /* from this call on (0: never) nothing is done any more */
API int64_t fake_marks;       /* that were made */
API int fake_lazy;            /* what was marked is done only when there is a mark behind it */
API int64_t fake_harmless_at; /* a call that failed, without which there are only no lists */
API int fake_lists;           /* it has lists of kernels */
API int fake_shares;          /* its memory is the host's, at any time */
/* What it lies about; 0: nothing. */
enum { TRUTH, MANY_PLATFORMS, MANY_DEVICES, NO_END, NULLS, SMALL_BUFFERS, SMALL_LOCAL, BAD_BUILD };
API int fake_lie;

static char thing; /* whose address stands for platforms, devices, contexts, queues, ... */

static int fails(void) {
    const int64_t call = __atomic_add_fetch(&fake_calls, 1, __ATOMIC_SEQ_CST);
    return fake_fail_at > 0 && (fake_fails_on ? call >= fake_fail_at : call == fake_fail_at);
}

static void *make(cl_int *code) {
    const int is_bad = fails();
    if (code)
        *code = is_bad ? -5 : CL_OK;
    return is_bad || fake_lie == NULLS ? NULL : &thing;
}

static cl_int answer(void) {
    return fails() ? -5 : CL_OK;
}

API cl_int clGetPlatformIDs(cl_uint n, cl_platform_id *platforms, cl_uint *count);
API cl_int clGetPlatformInfo(cl_platform_id platform, cl_uint what, size_t bytes, void *to,
                             size_t *size);
API cl_int clGetDeviceIDs(cl_platform_id platform, cl_bits type, cl_uint n, cl_device_id *devices,
                          cl_uint *count);
API cl_int clGetDeviceInfo(cl_device_id device, cl_uint what, size_t bytes, void *to, size_t *size);
API cl_context clCreateContext(const intptr_t *properties, cl_uint n, const cl_device_id *devices,
                               void (*told)(const char *, const void *, size_t, void *), void *user,
                               cl_int *code);
API cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id device, cl_bits bits,
                                          cl_int *code);
API cl_mem clCreateBuffer(cl_context context, cl_bits flags, size_t bytes, void *from,
                          cl_int *code);
API cl_program clCreateProgramWithSource(cl_context context, cl_uint n, const char **texts,
                                         const size_t *sizes, cl_int *code);
API cl_int clBuildProgram(cl_program program, cl_uint n, const cl_device_id *devices,
                          const char *options, void (*told)(cl_program, void *), void *user);
API cl_int clGetProgramBuildInfo(cl_program program, cl_device_id device, cl_uint what,
                                 size_t bytes, void *to, size_t *size);
API cl_kernel clCreateKernel(cl_program program, const char *name, cl_int *code);
API cl_int clSetKernelArg(cl_kernel kernel, cl_uint index, size_t bytes, const void *from);
API cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint n,
                                  const size_t *first, const size_t *global, const size_t *local,
                                  cl_uint n_events, const cl_event *events, cl_event *event);
API cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem memory, cl_uint is_blocking,
                               size_t offset, size_t bytes, void *to, cl_uint n,
                               const cl_event *events, cl_event *event);
API cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem memory, cl_uint is_blocking,
                                size_t offset, size_t bytes, const void *from, cl_uint n,
                                const cl_event *events, cl_event *event);
API cl_int clReleaseContext(cl_context context);
API cl_int clReleaseCommandQueue(cl_command_queue queue);
API cl_int clReleaseMemObject(cl_mem memory);
API cl_int clReleaseProgram(cl_program program);
API cl_int clReleaseKernel(cl_kernel kernel);
API cl_int clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint n, const cl_event *events,
                                       cl_event *event);
API cl_int clGetEventInfo(cl_event event, cl_uint what, size_t bytes, void *to, size_t *size);
API cl_int clReleaseEvent(cl_event event);
API cl_int clFlush(cl_command_queue queue);
API cl_int clFinish(cl_command_queue queue);
API void *clGetExtensionFunctionAddressForPlatform(cl_platform_id platform, const char *name);
API void *clSVMAlloc(cl_context context, cl_bits flags, size_t bytes, cl_uint align);
API void clSVMFree(cl_context context, void *memory);
API cl_int clSetKernelArgSVMPointer(cl_kernel kernel, cl_uint index, const void *memory);
API cl_int clSetKernelExecInfo(cl_kernel kernel, cl_uint what, size_t bytes, const void *from);

cl_int clGetPlatformIDs(cl_uint n, cl_platform_id *platforms, cl_uint *count) {
    (void)n;
    platforms[0] = (cl_platform_id)(void *)&thing;
    *count = fake_lie == MANY_PLATFORMS ? 100000 : 1;
    return answer();
}

/* A text, or as much of one as there is room for, without an end. */
static void put_text(size_t bytes, void *to, size_t *size) {
    memset(to, 'x', fake_lie == NO_END ? bytes : 4);
    if (fake_lie != NO_END)
        ((char *)to)[4] = 0;
    if (size)
        *size = fake_lie == NO_END ? 1 << 30 : 5;
}

cl_int clGetPlatformInfo(cl_platform_id platform, cl_uint what, size_t bytes, void *to,
                         size_t *size) {
    (void)platform;
    (void)what;
    put_text(bytes, to, size);
    return answer();
}

cl_int clGetDeviceIDs(cl_platform_id platform, cl_bits type, cl_uint n, cl_device_id *devices,
                      cl_uint *count) {
    (void)platform;
    (void)type;
    (void)n;
    devices[0] = (cl_device_id)(void *)&thing;
    *count = fake_lie == MANY_DEVICES ? 100000 : 1;
    return answer();
}

static uint64_t number_of(cl_uint what) {
    switch (what) {
    case CL_DEVICE_TYPE:
        return CL_DEVICE_TYPE_GPU;
    case CL_DEVICE_GROUP_SIZE:
        return 256;
    case CL_DEVICE_MOST_ALLOCATION:
        return fake_lie == SMALL_BUFFERS ? 1000 : 1 << 30;
    case CL_DEVICE_GLOBAL_MEMORY:
        return UINT64_C(1) << 32;
    case CL_DEVICE_LOCAL_MEMORY:
        return fake_lie == SMALL_LOCAL ? 1 : 1 << 16;
    case CL_DEVICE_SHARING:
        return fake_shares ? CL_SHARES_FINE_BUFFERS : 0;
    default:
        return 1;
    }
}

cl_int clGetDeviceInfo(cl_device_id device, cl_uint what, size_t bytes, void *to, size_t *size) {
    const uint64_t number = number_of(what);
    (void)device;
    if (what == CL_DEVICE_EXTENSIONS) {
        snprintf(to, bytes, "cl_khr_fp64 %s", fake_lists ? "cl_khr_command_buffer" : "");
        return answer();
    }
    if (what == CL_DEVICE_NAME || what == CL_DEVICE_DRIVER || what == CL_DEVICE_VERSION) {
        put_text(bytes, to, size);
        return answer();
    }
    memcpy(to, &number, bytes < sizeof number ? bytes : sizeof number);
    *size = fake_lie == NO_END ? 3 : bytes;
    return answer();
}

cl_context clCreateContext(const intptr_t *properties, cl_uint n, const cl_device_id *devices,
                           void (*told)(const char *, const void *, size_t, void *), void *user,
                           cl_int *code) {
    (void)properties;
    (void)n;
    (void)devices;
    (void)told;
    (void)user;
    fake_opened_at = fake_calls + 1;
    return make(code);
}

cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id device, cl_bits bits,
                                      cl_int *code) {
    (void)context;
    (void)device;
    (void)bits;
    return make(code);
}

/* A buffer is its memory. */
cl_mem clCreateBuffer(cl_context context, cl_bits flags, size_t bytes, void *from, cl_int *code) {
    (void)context;
    (void)flags;
    (void)from;
    return make(code) ? calloc(1, bytes) : NULL;
}

cl_program clCreateProgramWithSource(cl_context context, cl_uint n, const char **texts,
                                     const size_t *sizes, cl_int *code) {
    (void)context;
    (void)n;
    (void)texts;
    (void)sizes;
    return make(code);
}

cl_int clBuildProgram(cl_program program, cl_uint n, const cl_device_id *devices,
                      const char *options, void (*told)(cl_program, void *), void *user) {
    (void)program;
    (void)n;
    (void)devices;
    (void)options;
    (void)told;
    (void)user;
    return fake_lie == BAD_BUILD ? CL_NO_BUILD : answer();
}

cl_int clGetProgramBuildInfo(cl_program program, cl_device_id device, cl_uint what, size_t bytes,
                             void *to, size_t *size) {
    (void)program;
    (void)device;
    (void)what;
    (void)size;
    memset(to, 'e', bytes);
    return answer();
}

cl_kernel clCreateKernel(cl_program program, const char *name, cl_int *code) {
    (void)program;
    (void)name;
    return make(code);
}

cl_int clSetKernelArg(cl_kernel kernel, cl_uint index, size_t bytes, const void *from) {
    (void)kernel;
    (void)index;
    (void)bytes;
    (void)from;
    return answer();
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint n,
                              const size_t *first, const size_t *global, const size_t *local,
                              cl_uint n_events, const cl_event *events, cl_event *event) {
    (void)queue;
    (void)kernel;
    (void)first;
    (void)n_events;
    (void)events;
    (void)event;
    for (cl_uint i = 0; i < n; i++) {
        if (local[i] == 0 || global[i] == 0 || global[i] % local[i] != 0)
            abort();
    }
    return answer();
}

cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem memory, cl_uint is_blocking,
                           size_t offset, size_t bytes, void *to, cl_uint n, const cl_event *events,
                           cl_event *event) {
    (void)queue;
    (void)is_blocking;
    (void)n;
    (void)events;
    (void)event;
    memcpy(to, (const char *)(const void *)memory + offset, bytes);
    return answer();
}

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem memory, cl_uint is_blocking,
                            size_t offset, size_t bytes, const void *from, cl_uint n,
                            const cl_event *events, cl_event *event) {
    (void)queue;
    (void)is_blocking;
    (void)n;
    (void)events;
    (void)event;
    memcpy((char *)(void *)memory + offset, from, bytes);
    return answer();
}

cl_int clReleaseMemObject(cl_mem memory) {
    free(memory);
    return answer();
}

cl_int clReleaseContext(cl_context context) {
    (void)context;
    return answer();
}

cl_int clReleaseCommandQueue(cl_command_queue queue) {
    (void)queue;
    return answer();
}

cl_int clReleaseProgram(cl_program program) {
    (void)program;
    return answer();
}

cl_int clReleaseKernel(cl_kernel kernel) {
    (void)kernel;
    return answer();
}

cl_int clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint n, const cl_event *events,
                                   cl_event *event) {
    (void)queue;
    (void)n;
    (void)events;
    *event = (cl_event)(intptr_t)++fake_marks; /* NOLINT: a number */
    return answer();
}

cl_int clGetEventInfo(cl_event event, cl_uint what, size_t bytes, void *to, size_t *size) {
    const int is_open = fake_lazy && (intptr_t)event >= fake_marks;
    const cl_int status =
        is_open || (fake_silent_at > 0 && fake_calls >= fake_silent_at) ? 1 : CL_COMPLETE;
    (void)size;
    if (what != CL_EVENT_STATUS || bytes != sizeof status)
        abort();
    memcpy(to, &status, bytes);
    return answer();
}

cl_int clReleaseEvent(cl_event event) {
    (void)event;
    return CL_OK; /* nothing follows from its failing */
}

cl_int clFlush(cl_command_queue queue) {
    (void)queue;
    return answer();
}

cl_int clFinish(cl_command_queue queue) {
    (void)queue;
    return answer();
}

void *clSVMAlloc(cl_context context, cl_bits flags, size_t bytes, cl_uint align) {
    (void)context;
    if (!(flags & CL_FINE_GRAIN))
        abort();
    return make(NULL) ? aligned_alloc(align, (bytes + align - 1) / align * align) : NULL;
}

void clSVMFree(cl_context context, void *memory) {
    (void)context;
    free(memory);
}

cl_int clSetKernelArgSVMPointer(cl_kernel kernel, cl_uint index, const void *memory) {
    (void)kernel;
    if (index != 0 || !memory)
        abort();
    return answer();
}

cl_int clSetKernelExecInfo(cl_kernel kernel, cl_uint what, size_t bytes, const void *from) {
    (void)kernel;
    if (what != CL_SHARED_POINTERS || bytes == 0 || bytes % sizeof(void *) != 0 || !from)
        abort();
    return answer();
}

/* ---- lists: only how many kernels there are in one is known ---- */

static int harmless(int is_good) {
    fake_harmless_at = is_good ? fake_harmless_at : fake_calls;
    return is_good;
}

static cl_list create_list(cl_uint n, const cl_command_queue *queues, const cl_bits *properties,
                           cl_int *code) {
    (void)properties;
    if (n != 1 || !queues[0])
        abort();
    return harmless(make(code) != NULL) ? calloc(1, sizeof(int)) : NULL;
}

static cl_int finalize_list(cl_list list) {
    (void)list;
    return harmless(!fails()) ? CL_OK : -5;
}

static cl_int release_list(cl_list list) {
    free(list);
    return answer();
}

static cl_int start_list(cl_uint n, cl_command_queue *queues, cl_list list, cl_uint n_events,
                         const cl_event *events, cl_event *event) {
    (void)n_events;
    (void)events;
    (void)event;
    if (n != 0 || queues || *(const int *)(const void *)list < 2)
        abort();
    return answer();
}

static cl_int add_kernel(cl_list list, cl_command_queue queue, const cl_bits *properties,
                         cl_kernel kernel, cl_uint n, const size_t *first, const size_t *global,
                         const size_t *local, cl_uint n_points, const cl_uint *points,
                         cl_uint *point, void **handle) {
    int *n_kernels = (int *)(void *)list;
    if (queue || properties || !point || handle || n_points != (*n_kernels > 0) ||
        (n_points && points[0] != (cl_uint)*n_kernels))
        abort();
    *point = (cl_uint)++ * n_kernels;
    return clEnqueueNDRangeKernel(NULL, kernel, n, first, global, local, 0, NULL, NULL);
}

void *clGetExtensionFunctionAddressForPlatform(cl_platform_id platform, const char *name) {
    static const struct {
        const char *name;
        void (*function)(void);
    } functions[] = {
        {"clCreateCommandBufferKHR", (void (*)(void))create_list},
        {"clFinalizeCommandBufferKHR", (void (*)(void))finalize_list},
        {"clReleaseCommandBufferKHR", (void (*)(void))release_list},
        {"clEnqueueCommandBufferKHR", (void (*)(void))start_list},
        {"clCommandNDRangeKernelKHR", (void (*)(void))add_kernel},
    };
    void *found = NULL;
    (void)platform;
    for (size_t i = 0; fake_lists && i < sizeof functions / sizeof functions[0]; i++) {
        if (strcmp(functions[i].name, name) == 0)
            memcpy(&found, &functions[i].function, sizeof found);
    }
    return harmless(!fails()) ? found : NULL;
}
