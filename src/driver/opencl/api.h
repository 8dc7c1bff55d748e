/* What quern uses of OpenCL 1.2, declared here so that no driver or header is needed to build. The
 * functions come from the system's libOpenCL, opened at run time; where it is missing, so is the
 * device. Types and values are those of the Khronos specification. */
#ifndef QN_DRIVER_OPENCL_API_H
#define QN_DRIVER_OPENCL_API_H

#include "quern/base.h"

typedef struct cl_platform *cl_platform_id;
typedef struct cl_device *cl_device_id;
typedef struct cl_context_object *cl_context;
typedef struct cl_queue_object *cl_command_queue;
typedef struct cl_program_object *cl_program;
typedef struct cl_kernel_object *cl_kernel;
typedef struct cl_mem_object *cl_mem;
typedef struct cl_event_object *cl_event;
typedef struct cl_list_object *cl_list; /* cl_command_buffer_khr */
typedef int32_t cl_int;
typedef uint32_t cl_uint;
typedef uint64_t cl_bits;

enum {
    CL_OK = 0,
    CL_NO_DEVICES = -1,
    CL_NO_MEMORY = -6,
    CL_NO_BUILD = -11,
    CL_NO_PLATFORM = -1001
};
enum { CL_FALSE = 0, CL_TRUE = 1 };
enum { CL_READ_WRITE = 1 << 0, CL_ALLOC_HOST = 1 << 4, CL_FINE_GRAIN = 1 << 10 };
enum { CL_SHARED_POINTERS = 0x11b6 }; /* of a kernel */

enum { CL_PLATFORM_NAME = 0x0902, CL_DEVICE_EXTENSIONS = 0x1030 };
enum { CL_EVENT_STATUS = 0x11d3, CL_COMPLETE = 0 }; /* below 0: it failed */
enum { CL_BUILD_LOG = 0x1183, CL_BINARY_SIZES = 0x1165, CL_BINARIES = 0x1166 };
enum {
    CL_DEVICE_TYPE_CPU = 1 << 1,
    CL_DEVICE_TYPE_GPU = 1 << 2,
    CL_DEVICE_TYPE_ACCELERATOR = 1 << 3,
};
#define CL_DEVICE_TYPE_ALL UINT64_C(0xffffffff)
enum {
    CL_DEVICE_TYPE = 0x1000,
    CL_DEVICE_COMPUTE_UNITS = 0x1002,
    CL_DEVICE_GROUP_SIZE = 0x1004,
    CL_DEVICE_CLOCK_MHZ = 0x100c,
    CL_DEVICE_MOST_ALLOCATION = 0x1010,
    CL_DEVICE_GLOBAL_MEMORY = 0x101f,
    CL_DEVICE_LOCAL_MEMORY = 0x1023,
    CL_DEVICE_IS_LITTLE_ENDIAN = 0x1026,
    CL_DEVICE_IS_AVAILABLE = 0x1027,
    CL_DEVICE_HAS_COMPILER = 0x1028,
    CL_DEVICE_NAME = 0x102b,
    CL_DEVICE_DRIVER = 0x102d,
    CL_DEVICE_VERSION = 0x102f,
    CL_DEVICE_IS_UNIFIED = 0x1035,
    CL_DEVICE_SHARING = 0x1053,
};
enum { CL_SHARES_FINE_BUFFERS = 1 << 1 };

/* The functions, by name: return type, name, parameters. */
#define QN_OPENCL_FUNCTIONS(F)                                                                     \
    F(cl_int, clGetPlatformIDs, (cl_uint, cl_platform_id *, cl_uint *))                            \
    F(cl_int, clGetPlatformInfo, (cl_platform_id, cl_uint, size_t, void *, size_t *))              \
    F(cl_int, clGetDeviceIDs, (cl_platform_id, cl_bits, cl_uint, cl_device_id *, cl_uint *))       \
    F(cl_int, clGetDeviceInfo, (cl_device_id, cl_uint, size_t, void *, size_t *))                  \
    F(cl_context, clCreateContext,                                                                 \
      (const intptr_t *, cl_uint, const cl_device_id *,                                            \
       void (*)(const char *, const void *, size_t, void *), void *, cl_int *))                    \
    F(cl_int, clReleaseContext, (cl_context))                                                      \
    F(cl_command_queue, clCreateCommandQueue, (cl_context, cl_device_id, cl_bits, cl_int *))       \
    F(cl_int, clReleaseCommandQueue, (cl_command_queue))                                           \
    F(cl_mem, clCreateBuffer, (cl_context, cl_bits, size_t, void *, cl_int *))                     \
    F(cl_int, clReleaseMemObject, (cl_mem))                                                        \
    F(cl_program, clCreateProgramWithSource,                                                       \
      (cl_context, cl_uint, const char **, const size_t *, cl_int *))                              \
    F(cl_int, clBuildProgram,                                                                      \
      (cl_program, cl_uint, const cl_device_id *, const char *, void (*)(cl_program, void *),      \
       void *))                                                                                    \
    F(cl_int, clGetProgramBuildInfo,                                                               \
      (cl_program, cl_device_id, cl_uint, size_t, void *, size_t *))                               \
    F(cl_int, clReleaseProgram, (cl_program))                                                      \
    F(cl_kernel, clCreateKernel, (cl_program, const char *, cl_int *))                             \
    F(cl_int, clReleaseKernel, (cl_kernel))                                                        \
    F(cl_int, clSetKernelArg, (cl_kernel, cl_uint, size_t, const void *))                          \
    F(cl_int, clEnqueueNDRangeKernel,                                                              \
      (cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *,       \
       cl_uint, const cl_event *, cl_event *))                                                     \
    F(cl_int, clEnqueueReadBuffer,                                                                 \
      (cl_command_queue, cl_mem, cl_uint, size_t, size_t, void *, cl_uint, const cl_event *,       \
       cl_event *))                                                                                \
    F(cl_int, clEnqueueWriteBuffer,                                                                \
      (cl_command_queue, cl_mem, cl_uint, size_t, size_t, const void *, cl_uint, const cl_event *, \
       cl_event *))                                                                                \
    F(cl_int, clEnqueueMarkerWithWaitList,                                                         \
      (cl_command_queue, cl_uint, const cl_event *, cl_event *))                                   \
    F(cl_int, clGetEventInfo, (cl_event, cl_uint, size_t, void *, size_t *))                       \
    F(cl_int, clReleaseEvent, (cl_event))                                                          \
    F(cl_int, clFlush, (cl_command_queue))                                                         \
    F(cl_int, clFinish, (cl_command_queue))

/* Those that a library may lack: memory that the host and devices share (2.0), extensions. Null
 * then. */
#define QN_OPENCL_EXTRAS(F)                                                                        \
    F(void *, clSVMAlloc, (cl_context, cl_bits, size_t, cl_uint))                                  \
    F(void, clSVMFree, (cl_context, void *))                                                       \
    F(cl_int, clSetKernelArgSVMPointer, (cl_kernel, cl_uint, const void *))                        \
    F(cl_int, clSetKernelExecInfo, (cl_kernel, cl_uint, size_t, const void *))                     \
    F(void *, clGetExtensionFunctionAddressForPlatform, (cl_platform_id, const char *))

/* Of the extension cl_khr_command_buffer, by platform. */
#define QN_OPENCL_LISTS(F)                                                                         \
    F(cl_list, clCreateCommandBufferKHR,                                                           \
      (cl_uint, const cl_command_queue *, const cl_bits *, cl_int *))                              \
    F(cl_int, clFinalizeCommandBufferKHR, (cl_list))                                               \
    F(cl_int, clReleaseCommandBufferKHR, (cl_list))                                                \
    F(cl_int, clEnqueueCommandBufferKHR,                                                           \
      (cl_uint, cl_command_queue *, cl_list, cl_uint, const cl_event *, cl_event *))               \
    F(cl_int, clCommandNDRangeKernelKHR,                                                           \
      (cl_list, cl_command_queue, const cl_bits *, cl_kernel, cl_uint, const size_t *,             \
       const size_t *, const size_t *, cl_uint, const cl_uint *, cl_uint *, void **))

typedef struct qn_opencl_api {
#define QN_OPENCL_MEMBER(type, name, parameters) type(*name) parameters;
    QN_OPENCL_FUNCTIONS(QN_OPENCL_MEMBER)
    QN_OPENCL_EXTRAS(QN_OPENCL_MEMBER)
} qn_opencl_api;

typedef struct qn_opencl_lists {
    QN_OPENCL_LISTS(QN_OPENCL_MEMBER)
} qn_opencl_lists;
#undef QN_OPENCL_MEMBER

/* The functions of the system's library, opened once and kept until the process ends, since drivers
 * do not survive being unloaded. QN_ERROR_UNSUPPORTED: there is none, or it lacks one of them. */
qn_status qn_opencl_api_get(const qn_opencl_api **api);

/* Those of a platform's lists; false: it has none. */
bool qn_opencl_lists_get(const qn_opencl_api *api, cl_platform_id platform, qn_opencl_lists *lists);

/* A word for a return code: "out of memory on the device". */
const char *qn_opencl_word(cl_int code);

#endif
