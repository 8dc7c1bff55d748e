/* See devices.h. What drivers answer is not trusted: texts are ended, numbers are checked. */
#include "driver/cuda/devices.h"

#include "base/status.h"

#include <string.h>

/* A number from least to most; 0: the driver does not tell. */
static int get_number(const qn_cuda_api *cu, CUdevice id, int what, int least, int most) {
    int value = 0;
    if (cu->cuDeviceGetAttribute(&value, what, id) != CUDA_OK || value < least || value > most)
        return 0;
    return value;
}

static void get_name(const qn_cuda_api *cu, qn_cuda_device *d) {
    memset(d->name, 0, sizeof d->name);
    if (cu->cuDeviceGetName(d->name, sizeof d->name - 1, d->id) != CUDA_OK || !d->name[0])
        strcpy(d->name, "a CUDA device"); /* NOLINT: fits */
    d->name[sizeof d->name - 1] = 0;
    for (char *c = d->name; *c; c++) {
        if ((unsigned char)*c < ' ')
            *c = ' ';
    }
}

/* Whether it can run the kernels: of an architecture that compilers still know. */
static bool describe(const qn_cuda_api *cu, int number, qn_cuda_device *d) {
    enum { LEAST_ARCHITECTURE = 35, LEAST_THREADS = 64 };
    size_t bytes = 0;
    *d = (qn_cuda_device){.id = 0};
    if (cu->cuDeviceGet(&d->id, number) != CUDA_OK)
        return false;
    get_name(cu, d);
    if (cu->cuDriverGetVersion(&d->driver) != CUDA_OK)
        d->driver = 0;
    if (cu->cuDeviceTotalMem_v2(&bytes, d->id) != CUDA_OK)
        bytes = 0;
    d->memory_bytes = bytes;
    d->architecture =
        get_number(cu, d->id, CU_MAJOR, 1, 99) * 10 + get_number(cu, d->id, CU_MINOR, 0, 9);
    d->n_units = get_number(cu, d->id, CU_UNITS, 1, 1 << 20);
    d->clock_mhz = get_number(cu, d->id, CU_CLOCK_KHZ, 1, 1 << 30) / 1000;
    d->block_threads = get_number(cu, d->id, CU_THREADS_PER_BLOCK, 1, 1 << 20);
    d->is_unified = get_number(cu, d->id, CU_IS_INTEGRATED, 0, 1) != 0;
    d->can_share = d->is_unified && get_number(cu, d->id, CU_MAPS_HOST, 0, 1) &&
                   get_number(cu, d->id, CU_HAS_ONE_ADDRESS, 0, 1);
    return d->architecture >= LEAST_ARCHITECTURE && d->block_threads >= LEAST_THREADS &&
           d->memory_bytes > 0;
}

qn_status qn_cuda_find_devices(qn_cuda_device *devices, int *n) {
    const qn_cuda_api *cu;
    int count = 0;
    *n = 0;
    QN_TRY(qn_cuda_api_get(&cu));
    if (cu->cuDeviceGetCount(&count) != CUDA_OK)
        count = 0;
    for (int i = 0; i < count && i < QN_CUDA_MOST_DEVICES; i++)
        *n += describe(cu, i, &devices[*n]);
    if (*n > 0)
        return QN_OK;
    return qn_fail(QN_ERROR_UNSUPPORTED,
                   "the CUDA driver of this system knows no GPU that can run the kernels");
}
