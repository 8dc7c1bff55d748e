/* See api.h. */
#include "driver/opencl/api.h"

#include "base/status.h"
#include "os/library.h"

#include <string.h>

static const char *const names[] = {
#define NAME(type, name, parameters) #name,
    QN_OPENCL_FUNCTIONS(NAME) QN_OPENCL_EXTRAS(NAME)
#undef NAME
};

/* How many of them there have to be. */
enum {
#define NUMBER(type, name, parameters) NUMBER_##name,
    QN_OPENCL_FUNCTIONS(NUMBER) NEEDED
#undef NUMBER
};

/* Written once, under the lock. */
static qn_opencl_api functions;
static bool is_open; /* atomic */
static char lock;    /* atomic */

_Static_assert(sizeof functions == sizeof names / sizeof names[0] * sizeof(void (*)(void)),
               "a pointer for each name");

static qn_status find_all(qn_library *library) {
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *place = (char *)&functions + i * sizeof(void (*)(void));
        if (!qn_library_find(library, names[i], place) && i < NEEDED)
            return qn_fail(QN_ERROR_UNSUPPORTED,
                           "the system's OpenCL library has no %s; install one of OpenCL 1.2 or "
                           "later",
                           names[i]);
    }
    return QN_OK;
}

static qn_status open_library(void) {
    qn_library *library;
    if (qn_library_open("libOpenCL.so.1", &library) != QN_OK &&
        qn_library_open("libOpenCL.so", &library) != QN_OK)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "no OpenCL on this system: libOpenCL.so.1 is not there; install the driver "
                       "of your GPU and an OpenCL loader (Debian: ocl-icd-libopencl1)");
    const qn_status status = find_all(library);
    if (status != QN_OK)
        qn_library_close(library);
    return status;
}

qn_status qn_opencl_api_get(const qn_opencl_api **api) {
    qn_status status = QN_OK;
    while (__atomic_test_and_set(&lock, __ATOMIC_ACQUIRE))
        ;
    if (!is_open)
        status = open_library();
    is_open |= status == QN_OK;
    __atomic_clear(&lock, __ATOMIC_RELEASE);
    *api = &functions;
    return status;
}

bool qn_opencl_lists_get(const qn_opencl_api *api, cl_platform_id platform,
                         qn_opencl_lists *lists) {
    static const char *const list_names[] = {
#define NAME(type, name, parameters) #name,
        QN_OPENCL_LISTS(NAME)
#undef NAME
    };
    bool has = api->clGetExtensionFunctionAddressForPlatform != NULL;
    for (size_t i = 0; has && i < sizeof list_names / sizeof list_names[0]; i++) {
        void *function = api->clGetExtensionFunctionAddressForPlatform(platform, list_names[i]);
        memcpy((char *)lists + i * sizeof function, &function, sizeof function);
        has = function != NULL;
    }
    return has;
}

const char *qn_opencl_word(cl_int code) {
    static const struct {
        cl_int code;
        const char *word;
    } words[] = {
        {-1, "no such device"},
        {-2, "the device is not available"},
        {-3, "it has no compiler"},
        {-4, "out of memory on the device"},
        {-5, "out of resources"},
        {-6, "out of memory on the host"},
        {-11, "compiling failed"},
        {-36, "the queue is invalid"},
        {-45, "no program was built"},
        {-54, "the work-group size is invalid"},
        {-61, "the buffer size is invalid"},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (words[i].code == code)
            return words[i].word;
    }
    return "an error of the driver";
}
