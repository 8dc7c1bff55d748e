/* See api.h. */
#include "driver/cuda/api.h"

#include "base/status.h"
#include "os/library.h"

#define NAME(name, parameters) #name,
static const char *const cuda_names[] = {QN_CUDA_FUNCTIONS(NAME) QN_CUDA_EXTRAS(NAME)};
static const char *const nvrtc_names[] = {QN_NVRTC_FUNCTIONS(NAME)};
#undef NAME

enum {
    N_CUDA = sizeof cuda_names / sizeof cuda_names[0],
    N_NVRTC = sizeof nvrtc_names / sizeof nvrtc_names[0],
};

/* How many of the driver's there have to be. */
enum {
#define NUMBER(name, parameters) NUMBER_##name,
    QN_CUDA_FUNCTIONS(NUMBER) N_CUDA_NEEDED
#undef NUMBER
};

/* Written once, under the lock. */
static qn_cuda_api cuda;
static qn_nvrtc_api nvrtc;
static bool is_cuda_open, is_nvrtc_open;
static char lock; /* atomic */

_Static_assert(sizeof cuda == N_CUDA * sizeof(void (*)(void)), "a pointer for each name");
_Static_assert(sizeof nvrtc == N_NVRTC * sizeof(void (*)(void)), "a pointer for each name");

static void take_lock(void) {
    while (__atomic_test_and_set(&lock, __ATOMIC_ACQUIRE))
        ;
}

static void leave_lock(void) {
    __atomic_clear(&lock, __ATOMIC_RELEASE);
}

/* The first name that the library lacks of those that are needed; null: it has all. */
static const char *find_all(qn_library *library, const char *const *names, size_t n,
                            size_t n_needed, char *to) {
    for (size_t i = 0; i < n; i++) {
        if (!qn_library_find(library, names[i], to + i * sizeof(void (*)(void))) && i < n_needed)
            return names[i];
    }
    return NULL;
}

/* A driver that is there without a GPU fails to begin. */
static qn_status begin(void) {
    const CUresult code = cuda.cuInit(0);
    return code == CUDA_OK ? QN_OK
                           : qn_fail(QN_ERROR_UNSUPPORTED,
                                     "no CUDA on this system: its driver does not start (%s); is "
                                     "there an NVIDIA GPU?",
                                     qn_cuda_word(code));
}

static qn_status open_cuda(void) {
    qn_library *library;
    if (qn_library_open("libcuda.so.1", &library) != QN_OK)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "no CUDA on this system: libcuda.so.1 is not there; install the driver of "
                       "your NVIDIA GPU");
    const char *missing = find_all(library, cuda_names, N_CUDA, N_CUDA_NEEDED, (char *)&cuda);
    const qn_status status =
        missing ? qn_fail(QN_ERROR_UNSUPPORTED,
                          "the CUDA driver of this system has no %s; install a later one", missing)
                : begin();
    if (status != QN_OK)
        qn_library_close(library);
    return status;
}

static qn_status open_nvrtc(void) {
    static const char *const places[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
                                         "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so"};
    qn_library *library = NULL;
    for (size_t i = 0; i < sizeof places / sizeof places[0] && !library; i++) {
        if (qn_library_open(places[i], &library) != QN_OK)
            library = NULL;
    }
    if (!library)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "CUDA's run-time compiler is not there (libnvrtc.so); install it "
                       "(NVIDIA's cuda-nvrtc, or Debian's libnvrtc), or put its folder into "
                       "LD_LIBRARY_PATH");
    const char *missing = find_all(library, nvrtc_names, N_NVRTC, N_NVRTC, (char *)&nvrtc);
    if (!missing)
        return QN_OK;
    qn_library_close(library);
    return qn_fail(QN_ERROR_UNSUPPORTED,
                   "CUDA's run-time compiler has no %s; install 11.2 or later", missing);
}

qn_status qn_cuda_api_get(const qn_cuda_api **api) {
    take_lock();
    const qn_status status = is_cuda_open ? QN_OK : open_cuda();
    is_cuda_open |= status == QN_OK;
    leave_lock();
    *api = &cuda;
    return status;
}

qn_status qn_nvrtc_api_get(const qn_nvrtc_api **api) {
    take_lock();
    const qn_status status = is_nvrtc_open ? QN_OK : open_nvrtc();
    is_nvrtc_open |= status == QN_OK;
    leave_lock();
    *api = &nvrtc;
    return status;
}

const char *qn_cuda_word(CUresult code) {
    static const struct {
        CUresult code;
        const char *word;
    } words[] = {
        {1, "a value is invalid"},
        {2, "out of memory on the device"},
        {3, "the driver is not initialised"},
        {100, "no device"},
        {101, "no such device"},
        {200, "the kernels' code is invalid"},
        {209, "the kernels are for another architecture"},
        {218, "the kernels' code is invalid"},
        {222, "the driver is older than the compiler"},
        {500, "not found"},
        {700, "an access outside of its memory"},
        {701, "out of resources"},
        {702, "the launch took too long"},
        {719, "the launch failed"},
        {803, "the driver does not fit the system"},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (words[i].code == code)
            return words[i].word;
    }
    return "an error of the driver";
}
