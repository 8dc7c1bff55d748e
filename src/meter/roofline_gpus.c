/* The speeds of GPUs for the roofline, by quern's own kernels. See roofline.h. */
#include "meter/roofline.h"

#include "base/status.h"
#include "device/gpu/measure.h"

#ifdef QN_WITH_CUDA
#include "device/cuda/cuda.h"
#include "device/cuda/devices.h"
#endif
#ifdef QN_WITH_OPENCL
#include "device/opencl/opencl.h"
#include "device/opencl/platforms.h"
#endif

#include <stdio.h>
#include <string.h>

#if defined QN_WITH_OPENCL || defined QN_WITH_CUDA

typedef struct measuring {
    const qn_allocator *allocator;
    qn_roofline *roofline;
    void *user;
    void (*tell)(void *user, const char *what, double done);
    char *failed; /* (256) */
} measuring;

static void note_failure(const measuring *m, const char *device) {
    if (!m->failed[0])
        snprintf(m->failed, 256, "%s: %.200s", device, qn_error_message());
}

static void measure(const measuring *m, const qn_device *device, const void *options, int number) {
    qn_roofline *r = m->roofline;
    char name[24];
    qn_gpu_speed speed;
    void *state;
    if (r->n_gpus == QN_ROOFLINE_MOST)
        return;
    snprintf(name, sizeof name, "%s:%d", device->name, number);
    if (m->tell)
        m->tell(m->user, name, 0.99);
    if (device->open(m->allocator, options, &state) != QN_OK) {
        note_failure(m, name);
        return;
    }
    if (qn_gpu_measure(state, &speed) == QN_OK) {
        qn_roofline_gpu *g = &r->gpus[r->n_gpus++];
        *g = (qn_roofline_gpu){.flops = speed.flops,
                               .bandwidth = speed.bandwidth,
                               .in_bandwidth = speed.in_bandwidth,
                               .out_bandwidth = speed.out_bandwidth,
                               .launch_ns = speed.launch_ns};
        snprintf(g->device, sizeof g->device, "%.15s", name);
        snprintf(g->name, sizeof g->name, "%.95s", qn_gpu_name(state));
    } else {
        note_failure(m, name);
    }
    device->close(state);
}

static void measure_opencl(const measuring *m) {
#ifdef QN_WITH_OPENCL
    qn_opencl_device devices[QN_OPENCL_MOST_DEVICES];
    qn_opencl_options options = {0};
    int n;
    if (qn_opencl_find_devices(devices, &n) != QN_OK)
        return;
    for (; options.number < n; options.number++)
        measure(m, &qn_device_opencl, &options, options.number);
#else
    (void)m;
#endif
}

static void measure_cuda(const measuring *m) {
#ifdef QN_WITH_CUDA
    qn_cuda_device devices[QN_CUDA_MOST_DEVICES];
    qn_cuda_options options = {0};
    int n;
    if (qn_cuda_find_devices(devices, &n) != QN_OK)
        return;
    for (; options.number < n; options.number++)
        measure(m, &qn_device_cuda, &options, options.number);
#else
    (void)m;
#endif
}

void qn_roofline_measure_gpus(const qn_allocator *allocator, qn_roofline *roofline, void *user,
                              void (*tell)(void *user, const char *what, double done),
                              char failed[256]) {
    const measuring m = {allocator, roofline, user, tell, failed};
    failed[0] = 0;
    roofline->n_gpus = 0;
    measure_opencl(&m);
    measure_cuda(&m);
    if (tell)
        tell(user, "", 1);
}

#else

void qn_roofline_measure_gpus(const qn_allocator *allocator, qn_roofline *roofline, void *user,
                              void (*tell)(void *user, const char *what, double done),
                              char failed[256]) {
    (void)allocator;
    (void)user;
    (void)tell;
    failed[0] = 0;
    roofline->n_gpus = 0;
}

#endif
