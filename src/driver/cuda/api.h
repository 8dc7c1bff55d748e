/* What quern uses of CUDA's driver interface and of its run-time compiler (NVRTC), declared here so
 * that no toolkit is needed to build. The functions come from the driver's libcuda and from an
 * NVRTC, opened at run time; where one is missing, so is the device. Types and values are those of
 * NVIDIA's headers. */
#ifndef QN_DRIVER_CUDA_API_H
#define QN_DRIVER_CUDA_API_H

#include "quern/base.h"

typedef int CUresult; /* also nvrtcResult */
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct cu_context *CUcontext;
typedef struct cu_module *CUmodule;
typedef struct cu_function *CUfunction;
typedef struct cu_stream *CUstream;
typedef struct cu_event *CUevent;
typedef struct cu_graph *CUgraph;
typedef struct cu_graph_exec *CUgraphExec;
typedef struct nvrtc_program *nvrtcProgram;

enum {
    CUDA_OK = 0,
    CUDA_NOT_READY = 600,
    CU_STREAM_NON_BLOCKING = 1,
    CU_EVENT_NO_TIMING = 2,
    CU_MANAGED_GLOBAL = 1,
    CU_FOR_ALL_MAPPED = 3,
    CU_CAPTURE_OF_THREAD = 1,
};

enum {
    CU_THREADS_PER_BLOCK = 1,
    CU_CLOCK_KHZ = 13,
    CU_UNITS = 16,
    CU_IS_INTEGRATED = 18,
    CU_MAPS_HOST = 19,
    CU_HAS_ONE_ADDRESS = 41,
    CU_MAJOR = 75,
    CU_MINOR = 76,
};

/* The functions, by name: name, parameters. All return CUresult. */
#define QN_CUDA_FUNCTIONS(F)                                                                       \
    F(cuInit, (unsigned))                                                                          \
    F(cuDriverGetVersion, (int *))                                                                 \
    F(cuDeviceGetCount, (int *))                                                                   \
    F(cuDeviceGet, (CUdevice *, int))                                                              \
    F(cuDeviceGetName, (char *, int, CUdevice))                                                    \
    F(cuDeviceGetAttribute, (int *, int, CUdevice))                                                \
    F(cuDeviceTotalMem_v2, (size_t *, CUdevice))                                                   \
    F(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                           \
    F(cuDevicePrimaryCtxRelease_v2, (CUdevice))                                                    \
    F(cuCtxSetCurrent, (CUcontext))                                                                \
    F(cuModuleLoadData, (CUmodule *, const void *))                                                \
    F(cuModuleUnload, (CUmodule))                                                                  \
    F(cuModuleGetFunction, (CUfunction *, CUmodule, const char *))                                 \
    F(cuMemAlloc_v2, (CUdeviceptr *, size_t))                                                      \
    F(cuMemFree_v2, (CUdeviceptr))                                                                 \
    F(cuMemHostAlloc, (void **, size_t, unsigned))                                                 \
    F(cuMemFreeHost, (void *))                                                                     \
    F(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t))                                        \
    F(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t))                                              \
    F(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream))                         \
    F(cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream))                               \
    F(cuStreamCreate, (CUstream *, unsigned))                                                      \
    F(cuStreamDestroy_v2, (CUstream))                                                              \
    F(cuEventCreate, (CUevent *, unsigned))                                                        \
    F(cuEventDestroy_v2, (CUevent))                                                                \
    F(cuEventRecord, (CUevent, CUstream))                                                          \
    F(cuEventQuery, (CUevent))                                                                     \
    F(cuLaunchKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,     \
                       unsigned, CUstream, void **, void **))

/* Those that an older driver lacks: graphs (11.4). Null then. */
#define QN_CUDA_EXTRAS(F)                                                                          \
    F(cuStreamBeginCapture_v2, (CUstream, int))                                                    \
    F(cuStreamEndCapture, (CUstream, CUgraph *))                                                   \
    F(cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long))                   \
    F(cuGraphDestroy, (CUgraph))                                                                   \
    F(cuGraphExecDestroy, (CUgraphExec))                                                           \
    F(cuGraphLaunch, (CUgraphExec, CUstream))

#define QN_NVRTC_FUNCTIONS(F)                                                                      \
    F(nvrtcCreateProgram,                                                                          \
      (nvrtcProgram *, const char *, const char *, int, const char *const *, const char *const *)) \
    F(nvrtcDestroyProgram, (nvrtcProgram *))                                                       \
    F(nvrtcCompileProgram, (nvrtcProgram, int, const char *const *))                               \
    F(nvrtcGetProgramLogSize, (nvrtcProgram, size_t *))                                            \
    F(nvrtcGetProgramLog, (nvrtcProgram, char *))                                                  \
    F(nvrtcGetCUBINSize, (nvrtcProgram, size_t *))                                                 \
    F(nvrtcGetCUBIN, (nvrtcProgram, char *))                                                       \
    F(nvrtcGetPTXSize, (nvrtcProgram, size_t *))                                                   \
    F(nvrtcGetPTX, (nvrtcProgram, char *))                                                         \
    F(nvrtcGetNumSupportedArchs, (int *))                                                          \
    F(nvrtcGetSupportedArchs, (int *))

#define QN_CUDA_MEMBER(name, parameters) CUresult(*name) parameters;
typedef struct qn_cuda_api {
    QN_CUDA_FUNCTIONS(QN_CUDA_MEMBER)
    QN_CUDA_EXTRAS(QN_CUDA_MEMBER)
} qn_cuda_api;

typedef struct qn_nvrtc_api {
    QN_NVRTC_FUNCTIONS(QN_CUDA_MEMBER)
} qn_nvrtc_api;
#undef QN_CUDA_MEMBER

/* The functions of the system's libraries, opened once and kept until the process ends.
 * QN_ERROR_UNSUPPORTED: there is none, or it lacks one of them. cuInit has been called. */
qn_status qn_cuda_api_get(const qn_cuda_api **api);
qn_status qn_nvrtc_api_get(const qn_nvrtc_api **api);

/* A word for a return code of the driver: "out of memory on the device". */
const char *qn_cuda_word(CUresult code);

#endif
