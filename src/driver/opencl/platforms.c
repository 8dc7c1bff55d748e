/* See platforms.h. What drivers answer is not trusted: texts are ended, numbers are checked. */
#include "driver/opencl/platforms.h"

#include "base/status.h"

#include <stdio.h>
#include <string.h>

enum { MOST_PLATFORMS = 16 };

typedef struct asking {
    const qn_opencl_api *cl;
    qn_opencl_device *device;
} asking;

static void get_text(const asking *a, cl_uint what, char *to, size_t bytes) {
    size_t size = 0;
    memset(to, 0, bytes);
    if (a->cl->clGetDeviceInfo(a->device->id, what, bytes - 1, to, &size) != CL_OK)
        to[0] = 0;
    to[bytes - 1] = 0;
    for (char *c = to; *c; c++) {
        if ((unsigned char)*c < ' ')
            *c = ' ';
    }
}

/* A number of the given size; 0: the driver does not tell. */
static uint64_t get_number(const asking *a, cl_uint what, size_t bytes) {
    union {
        uint32_t small;
        uint64_t large;
    } value = {.large = 0};
    size_t size = bytes;
    if (a->cl->clGetDeviceInfo(a->device->id, what, bytes, &value, &size) != CL_OK || size != bytes)
        return 0;
    return bytes == sizeof value.small ? value.small : value.large;
}

/* Its list of extensions is text of any length; what does not fit is not there. */
static bool has_extension(const asking *a, const char *name) {
    char text[4096] = "";
    size_t size = 0;
    if (a->cl->clGetDeviceInfo(a->device->id, CL_DEVICE_EXTENSIONS, sizeof text - 1, text, &size) !=
        CL_OK)
        return false;
    text[sizeof text - 1] = 0;
    return strstr(text, name) != NULL;
}

static void describe(const asking *a) {
    qn_opencl_device *d = a->device;
    char platform[64] = "", driver[60];
    get_text(a, CL_DEVICE_NAME, d->name, sizeof d->name);
    get_text(a, CL_DEVICE_VERSION, d->version, sizeof d->version);
    get_text(a, CL_DEVICE_DRIVER, driver, sizeof driver);
    if (a->cl->clGetPlatformInfo(d->platform, CL_PLATFORM_NAME, sizeof platform - 1, platform,
                                 NULL) != CL_OK)
        platform[0] = 0;
    snprintf(d->driver, sizeof d->driver, "%s%s%s", platform, platform[0] ? " " : "", driver);
    d->type = get_number(a, CL_DEVICE_TYPE, sizeof(cl_bits));
    d->memory_bytes = get_number(a, CL_DEVICE_GLOBAL_MEMORY, sizeof(uint64_t));
    d->most_allocation_bytes = get_number(a, CL_DEVICE_MOST_ALLOCATION, sizeof(uint64_t));
    d->local_bytes = get_number(a, CL_DEVICE_LOCAL_MEMORY, sizeof(uint64_t));
    d->group_size = (size_t)get_number(a, CL_DEVICE_GROUP_SIZE, sizeof(size_t));
    d->n_units = (uint32_t)get_number(a, CL_DEVICE_COMPUTE_UNITS, sizeof(cl_uint));
    d->clock_mhz = (uint32_t)get_number(a, CL_DEVICE_CLOCK_MHZ, sizeof(cl_uint));
    d->is_unified = get_number(a, CL_DEVICE_IS_UNIFIED, sizeof(cl_uint)) != 0;
    d->can_share = d->is_unified && a->cl->clSVMAlloc && a->cl->clSVMFree &&
                   a->cl->clSetKernelArgSVMPointer && a->cl->clSetKernelExecInfo &&
                   (get_number(a, CL_DEVICE_SHARING, sizeof(cl_bits)) & CL_SHARES_FINE_BUFFERS);
    d->has_lists = has_extension(a, "cl_khr_command_buffer");
}

/* Kernels need a compiler, the host's byte order and room for their tiles. */
static bool is_usable(const asking *a) {
    enum { LEAST_LOCAL_BYTES = 16 * 1024, LEAST_GROUP = 64 };
    return get_number(a, CL_DEVICE_IS_AVAILABLE, sizeof(cl_uint)) &&
           get_number(a, CL_DEVICE_HAS_COMPILER, sizeof(cl_uint)) &&
           get_number(a, CL_DEVICE_IS_LITTLE_ENDIAN, sizeof(cl_uint)) &&
           a->device->local_bytes >= LEAST_LOCAL_BYTES && a->device->group_size >= LEAST_GROUP;
}

static void find_of_platform(const qn_opencl_api *cl, cl_platform_id platform,
                             qn_opencl_device *devices, int *n) {
    cl_device_id ids[QN_OPENCL_MOST_DEVICES] = {0};
    cl_uint count = 0;
    if (cl->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, QN_OPENCL_MOST_DEVICES, ids, &count) !=
        CL_OK)
        return;
    for (cl_uint i = 0; i < count && i < QN_OPENCL_MOST_DEVICES; i++) {
        if (!ids[i] || *n == QN_OPENCL_MOST_DEVICES)
            continue;
        devices[*n] = (qn_opencl_device){.platform = platform, .id = ids[i]};
        const asking a = {cl, &devices[*n]};
        describe(&a);
        *n += is_usable(&a);
    }
}

qn_status qn_opencl_find_devices(qn_opencl_device *devices, int *n) {
    const qn_opencl_api *cl;
    cl_platform_id platforms[MOST_PLATFORMS] = {0};
    cl_uint count = 0;
    *n = 0;
    QN_TRY(qn_opencl_api_get(&cl));
    if (cl->clGetPlatformIDs(MOST_PLATFORMS, platforms, &count) != CL_OK)
        count = 0;
    for (cl_uint i = 0; i < count && i < MOST_PLATFORMS; i++) {
        if (platforms[i])
            find_of_platform(cl, platforms[i], devices, n);
    }
    if (*n > 0)
        return QN_OK;
    return qn_fail(QN_ERROR_UNSUPPORTED,
                   "the OpenCL library of this system knows no device that can compile and run "
                   "kernels; install the driver of your GPU (on any processor, Debian's "
                   "pocl-opencl-icd)");
}

const char *qn_opencl_type_name(const qn_opencl_device *device) {
    return device->type & CL_DEVICE_TYPE_GPU           ? "GPU"
           : device->type & CL_DEVICE_TYPE_CPU         ? "CPU"
           : device->type & CL_DEVICE_TYPE_ACCELERATOR ? "accelerator"
                                                       : "device";
}
