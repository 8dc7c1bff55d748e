/* Stands for the libraries of CUDA in tests: the driver and the run-time compiler. Its one device
 * runs the kernels of src/device/gpu, which are compiled into it as C, on the calling thread; it is
 * as slow as that. Every copy and launch is checked against what was reserved and what a real GPU
 * holds. Tests make it fail at a call, lie, or fall silent. */
#include "fake/cuda_items.h"

/* The tile of a device whose blocks have 64 threads. */
#define LX      8
#define LY      8
#define PARTS_M 1
#define PARTS_N 1
#define MICRO_M 4
#define MICRO_V 1
#define LANES   4
#define TILE_K  16
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wdouble-promotion"
#pragma GCC diagnostic ignored "-Wunused-function"
/* clang-format off */
#include "device/gpu/kernels/cuda.cl"
#include "device/gpu/kernels/common.cl"
#include "device/gpu/kernels/products.cl"
#include "device/gpu/kernels/elementwise.cl"
#include "device/gpu/kernels/reductions.cl"
#include "device/gpu/kernels/sequences.cl"
#include "device/gpu/kernels/updates.cl"
/* clang-format on */

#include "device/gpu/state.h"
#include "driver/cuda/api.h"

#include <stdio.h>
#include <string.h>

#define API __attribute__((visibility("default")))

/* Set by tests. */
enum { HONEST, NULLS, MANY_DEVICES, NO_END, NO_MEMORY, BAD_BUILD, HUGE_CODE, NO_ARCHITECTURES };
API int64_t fake_calls, fake_fail_at, fake_silent_at;
API int fake_fails_on, fake_lie, fake_shares;

static int thing; /* what handles point to */

static int64_t count_call(void) {
    return __atomic_add_fetch(&fake_calls, 1, __ATOMIC_SEQ_CST);
}

static CUresult answer(void) {
    const int64_t call = count_call();
    const int is_bad =
        fake_fail_at > 0 && (fake_fails_on ? call >= fake_fail_at : call == fake_fail_at);
    return is_bad ? 701 : CUDA_OK;
}

static CUresult make(void *handle) {
    const CUresult code = answer();
    if (code == CUDA_OK)
        *(void **)handle = fake_lie == NULLS ? NULL : &thing;
    return code;
}

/* ---- declarations ---- */

#define DECLARE(name, parameters) API CUresult name parameters;
QN_CUDA_FUNCTIONS(DECLARE)
QN_CUDA_EXTRAS(DECLARE)
QN_NVRTC_FUNCTIONS(DECLARE)

/* ---- the device ---- */

CUresult cuInit(unsigned flags) {
    return flags ? 1 : answer();
}

CUresult cuDriverGetVersion(int *version) {
    *version = 12040;
    return answer();
}

CUresult cuDeviceGetCount(int *n) {
    *n = fake_lie == MANY_DEVICES ? 100000 : 1;
    return answer();
}

CUresult cuDeviceGet(CUdevice *device, int number) {
    *device = number;
    return answer();
}

CUresult cuDeviceGetName(char *to, int bytes, CUdevice device) {
    (void)device;
    memset(to, 'x', fake_lie == NO_END ? (size_t)bytes : 4);
    if (fake_lie != NO_END)
        to[4] = 0;
    return answer();
}

CUresult cuDeviceGetAttribute(int *value, int what, CUdevice device) {
    (void)device;
    switch (what) {
    case CU_MAJOR:
        *value = fake_lie == NO_END ? INT_MIN : 8;
        break;
    case CU_MINOR:
        *value = 7;
        break;
    case CU_THREADS_PER_BLOCK:
        *value = fake_lie == NO_END ? INT_MAX : LX * LY;
        break;
    case CU_HAS_ONE_ADDRESS:
        *value = fake_shares;
        break;
    default:
        *value = 1;
    }
    return answer();
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    (void)device;
    *bytes = fake_lie == NO_MEMORY ? 1000 : (size_t)1 << 32;
    return answer();
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    (void)device;
    return make(context);
}

CUresult cuCtxSetCurrent(CUcontext context) {
    return context ? answer() : 201;
}

/* ---- memory: an address is the host's ---- */

enum { MOST_BLOCKS = 64 };

static struct {
    char *memory;
    size_t bytes;
} blocks[MOST_BLOCKS];

static char lock;

static void take_lock(void) {
    while (__atomic_test_and_set(&lock, __ATOMIC_ACQUIRE))
        ;
}

static void leave_lock(void) {
    __atomic_clear(&lock, __ATOMIC_RELEASE);
}

/* With the context goes its memory. */
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    (void)device;
    for (int i = 0; i < MOST_BLOCKS; i++) {
        free(blocks[i].memory);
        blocks[i].memory = NULL;
    }
    return answer();
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
    const CUresult code = answer();
    int i = 0;
    *address = 0;
    if (code != CUDA_OK || fake_lie == NULLS)
        return code;
    take_lock();
    while (i < MOST_BLOCKS && blocks[i].memory)
        i++;
    if (i == MOST_BLOCKS)
        abort();
    blocks[i].memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    memset(blocks[i].memory, 0, bytes);
    blocks[i].bytes = bytes;
    *address = (CUdeviceptr)(uintptr_t)blocks[i].memory;
    leave_lock();
    return *address ? CUDA_OK : 2;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
    int i = 0;
    take_lock();
    while (i < MOST_BLOCKS && (!blocks[i].memory || (uintptr_t)blocks[i].memory != address))
        i++;
    if (i == MOST_BLOCKS)
        abort();
    free(blocks[i].memory);
    blocks[i].memory = NULL;
    leave_lock();
    return answer();
}

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
    CUdeviceptr address;
    const CUresult code = flags == CU_FOR_ALL_MAPPED ? cuMemAlloc_v2(&address, bytes) : 1;
    *memory = code == CUDA_OK ? (void *)(uintptr_t)address : NULL;
    return code;
}

CUresult cuMemFreeHost(void *memory) {
    return cuMemFree_v2((CUdeviceptr)(uintptr_t)memory);
}

/* The memory behind an address, which must have been reserved with so many bytes from there on. */
static char *memory_at(CUdeviceptr address, size_t bytes) {
    for (int i = 0; i < MOST_BLOCKS; i++) {
        const uintptr_t begin = (uintptr_t)blocks[i].memory;
        if (begin && address >= begin && address - begin <= blocks[i].bytes &&
            bytes <= blocks[i].bytes - (address - begin))
            return blocks[i].memory + (address - begin);
    }
    abort();
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
    memcpy(memory_at(to, bytes), from, bytes);
    return answer();
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
    memcpy(to, memory_at(from, bytes), bytes);
    return answer();
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    return stream ? cuMemcpyHtoD_v2(to, from, bytes) : 400;
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return stream ? cuMemcpyDtoH_v2(to, from, bytes) : 400;
}

/* ---- streams ---- */

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    return flags == CU_STREAM_NON_BLOCKING ? make(stream) : 1;
}

CUresult cuStreamDestroy_v2(CUstream stream) {
    return stream ? answer() : 400;
}

CUresult cuEventCreate(CUevent *event, unsigned flags) {
    return flags == CU_EVENT_NO_TIMING ? make(event) : 1;
}

CUresult cuEventDestroy_v2(CUevent event) {
    return event ? answer() : 400;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
    return event && stream ? answer() : 400;
}

CUresult cuEventQuery(CUevent event) {
    const CUresult code = event ? answer() : 400;
    return code == CUDA_OK && fake_silent_at > 0 && fake_calls >= fake_silent_at ? CUDA_NOT_READY
                                                                                 : code;
}

/* ---- kernels ---- */

typedef struct kernel {
    const char *name;
    void (*run)(uchar *memory, const arguments a);
    int is_tiled;
} kernel;

static kernel kernels[] = {
#define ROW(name) {#name, name, 0},
    QN_GPU_KERNELS(ROW)
#undef ROW
};

#define MARK(name) 1 +
static const int n_tiled = QN_GPU_TILED(MARK) 0;
#undef MARK

static kernel *started;
static char *started_memory;
static arguments started_arguments;

/* A graph is the launches that were captured; running it is one of its. */
typedef struct node {
    kernel *kernel;
    char *memory;
    arguments arguments;
    dim grid, block;
} node;

enum { MOST_NODES = 400 };

struct cu_graph {
    int n;
    node nodes[MOST_NODES];
    struct cu_graph *next; /* of `executable` */
};

/* All that were not destroyed: what is left to a silent device is no leak. */
static struct cu_graph *executable;

static _Thread_local CUgraph captured; /* null: nothing is captured */

static void run_started(void) {
    started->run((uchar *)started_memory, started_arguments);
}

CUresult cuModuleLoadData(CUmodule *module, const void *code) {
    if (strcmp(code, "the code of quern.cu") != 0)
        abort();
    return make(module);
}

CUresult cuModuleUnload(CUmodule module) {
    return module ? answer() : 400;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    const CUresult code = make(function);
    if (!module)
        abort();
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        if (code == CUDA_OK && *function && strcmp(kernels[i].name, name) == 0) {
            *function = (CUfunction)(void *)&kernels[i];
            return CUDA_OK;
        }
    }
    return code == CUDA_OK ? 500 : code;
}

static void run_grid(void (*run)(void (*work)(void))) {
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++) {
        for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++) {
            for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++)
                run(run_started);
        }
    }
}

static void run_node(const node *x) {
    take_lock();
    started = x->kernel;
    started_memory = x->memory;
    started_arguments = x->arguments;
    gridDim = x->grid;
    blockDim = x->block;
    run_grid(started - kernels < n_tiled ? run_block_in_turns : run_block);
    leave_lock();
}

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
    const CUresult code = stream && mode == CU_CAPTURE_OF_THREAD && !captured ? answer() : 1;
    if (code == CUDA_OK)
        captured = calloc(1, sizeof *captured);
    return code;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    const CUresult code = stream && captured ? answer() : 1;
    *graph = code == CUDA_OK ? captured : NULL;
    if (!*graph)
        free(captured);
    captured = NULL;
    return code;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    const CUresult code = graph && !flags ? answer() : 1;
    CUgraph copy = code == CUDA_OK ? malloc(sizeof *copy) : NULL;
    if (copy) {
        *copy = *graph;
        take_lock();
        copy->next = executable;
        executable = copy;
        leave_lock();
    }
    *exec = (CUgraphExec)(void *)copy;
    return code;
}

CUresult cuGraphDestroy(CUgraph graph) {
    free(graph);
    return answer();
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
    struct cu_graph *graph = (struct cu_graph *)(void *)exec, **at = &executable;
    take_lock();
    while (*at && *at != graph)
        at = &(*at)->next;
    if (*at)
        *at = graph->next;
    leave_lock();
    free(graph);
    return answer();
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    const CUresult code = exec && stream ? answer() : 400;
    const struct cu_graph *graph = (const struct cu_graph *)(void *)exec;
    for (int i = 0; code == CUDA_OK && i < graph->n; i++)
        run_node(&graph->nodes[i]);
    return code;
}

CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared, CUstream stream,
                        void **parameters, void **extra) {
    enum { MOST_GRID = 65535 };
    const CUresult code = answer();
    if (!function || !stream || shared || extra || bz != 1 || bx * by > LX * LY || bx * by == 0 ||
        gx == 0 || gy == 0 || gz == 0 || gx > INT_MAX || gy > MOST_GRID || gz > MOST_GRID)
        abort();
    if (code != CUDA_OK)
        return code;
    node x = {.kernel = (kernel *)(void *)function, .grid = {gx, gy, gz}, .block = {bx, by, 1}};
    take_lock();
    x.memory = memory_at(*(CUdeviceptr *)parameters[0], 0);
    leave_lock();
    memcpy(&x.arguments, parameters[1], sizeof x.arguments);
    if (!captured)
        run_node(&x);
    else if (captured->n < MOST_NODES)
        captured->nodes[captured->n++] = x;
    else
        abort();
    return CUDA_OK;
}

/* ---- the compiler ---- */

static const char fake_code[] = "the code of quern.cu";

CUresult nvrtcCreateProgram(nvrtcProgram *program, const char *text, const char *name, int n,
                            const char *const *headers, const char *const *names) {
    if (!strstr(text, "TILED_KERNEL void product") || !name || n || headers || names)
        abort();
    return make(program);
}

CUresult nvrtcDestroyProgram(nvrtcProgram *program) {
    if (!*program)
        abort();
    *program = NULL;
    return answer();
}

/* The options are those that the kernels above are compiled with. */
CUresult nvrtcCompileProgram(nvrtcProgram program, int n, const char *const *options) {
    static const char *const wanted[] = {"--fmad=false", "-DLX=8",    "-DLY=8",
                                         "-DMICRO_M=4",  "-DLANES=4", "-DTILE_K=16"};
    for (size_t i = 0; program && i < sizeof wanted / sizeof wanted[0]; i++) {
        int has = 0;
        for (int o = 0; o < n; o++)
            has |= strcmp(options[o], wanted[i]) == 0;
        if (!has)
            abort();
    }
    return !program || fake_lie == BAD_BUILD ? 6 : answer();
}

CUresult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *bytes) {
    *bytes = fake_lie == HUGE_CODE ? SIZE_MAX : 24;
    return program ? answer() : 400;
}

CUresult nvrtcGetProgramLog(nvrtcProgram program, char *log) {
    snprintf(log, 24, "line 1\nan error here");
    return program ? answer() : 400;
}

CUresult nvrtcGetCUBINSize(nvrtcProgram program, size_t *bytes) {
    *bytes = fake_lie == HUGE_CODE ? SIZE_MAX / 2 : sizeof fake_code;
    return program ? answer() : 400;
}

CUresult nvrtcGetCUBIN(nvrtcProgram program, char *code) {
    memcpy(code, fake_code, sizeof fake_code);
    return program ? answer() : 400;
}

CUresult nvrtcGetPTXSize(nvrtcProgram program, size_t *bytes) {
    return nvrtcGetCUBINSize(program, bytes);
}

CUresult nvrtcGetPTX(nvrtcProgram program, char *code) {
    return nvrtcGetCUBIN(program, code);
}

CUresult nvrtcGetNumSupportedArchs(int *n) {
    *n = fake_lie == NO_ARCHITECTURES ? 100000 : 3;
    return answer();
}

CUresult nvrtcGetSupportedArchs(int *to) {
    to[0] = 50;
    to[1] = 80;
    to[2] = 87;
    return answer();
}
