/* See measure.h. One buffer holds the three operands of all that is tried. */
#include "device/gpu/measure.h"

#include "base/status.h"
#include "device/gpu/operators.h"
#include "os/heap.h"
#include "os/os.h"

#include <string.h>

/* Elements of an operand: of products of up to SIDE x SIDE, and of vectors. */
enum { SIDE = 1024, COUNT = 4 * SIDE * SIDE, OPERANDS = 3, TRIES = 3 };

typedef struct trying {
    qn_gpu *device;
    qn_memory memory;
    void *stream;
    char *host; /* an operand's bytes */
    int64_t n;  /* of what is done now */
} trying;

static const size_t operand_bytes = (size_t)COUNT * sizeof(float);

static float *operand(const trying *t, int i) {
    return (float *)(void *)(t->memory.base + (size_t)i * operand_bytes); /* the device's */
}

typedef bool (*work)(const trying *t);

static bool run_line(const trying *t, void (*start)(qn_gpu_line *line, const trying *t)) {
    qn_gpu_line line = {.device = t->device, .stream = t->stream};
    start(&line, t);
    return !line.has_failed;
}

static void start_product(qn_gpu_line *line, const trying *t) {
    qn_gpu_multiply(line, operand(t, 0), operand(t, 1), operand(t, 2), t->n);
}

static void start_add(qn_gpu_line *line, const trying *t) {
    qn_gpu_add_vectors(line, operand(t, 0), operand(t, 1), operand(t, 2), t->n);
}

static bool do_product(const trying *t) {
    return run_line(t, start_product);
}

static bool do_add(const trying *t) {
    return run_line(t, start_add);
}

static bool do_copy(const trying *t, bool is_to_host) {
    size_t offset;
    const qn_gpu_buffer *b = qn_gpu_locate(t->device, t->memory.base, &offset);
    return t->device->driver->copy(t->device, t->stream, b, offset, t->host,
                                   (size_t)t->n * sizeof(float), is_to_host);
}

static bool do_in(const trying *t) {
    return do_copy(t, false);
}

static bool do_out(const trying *t) {
    return do_copy(t, true);
}

static qn_status lost(const qn_gpu *d) {
    return qn_fail(QN_ERROR_DEVICE, "the device %s was lost: %s", d->name, d->reason);
}

/* The shortest of some tries to the end, after one that warms up. */
static qn_status measure(trying *t, int64_t n, work do_it, double *shortest_ns) {
    t->n = n;
    *shortest_ns = 1e18;
    for (int i = 0; i <= TRIES; i++) {
        const int64_t begin_ns = qn_clock_ns();
        if (!do_it(t) || !qn_gpu_finish(t->device, t->stream))
            return lost(t->device);
        const double ns = (double)(qn_clock_ns() - begin_ns);
        if (i > 0 && ns < *shortest_ns)
            *shortest_ns = ns > 1 ? ns : 1;
    }
    return QN_OK;
}

/* Products grow until they take long enough to count. */
static qn_status measure_products(trying *t, qn_device_speed *speed) {
    const double enough_ns = 2e7;
    double ns = 0;
    for (int64_t n = SIDE / 8; n <= SIDE && ns < enough_ns; n *= 2) {
        QN_TRY(measure(t, n, do_product, &ns));
        const double flops = 2.0 * (double)n * (double)n * (double)n / ns * 1e9;
        speed->flops = flops > speed->flops ? flops : speed->flops;
    }
    return QN_OK;
}

static qn_status measure_bytes(trying *t, work do_it, int n_operands, double *rate) {
    double ns;
    QN_TRY(measure(t, COUNT, do_it, &ns));
    *rate = (double)operand_bytes * n_operands / ns * 1e9;
    return QN_OK;
}

static qn_status measure_all(trying *t, qn_device_speed *speed) {
    QN_TRY(measure_bytes(t, do_in, 1, &speed->in_bandwidth));
    QN_TRY(measure_bytes(t, do_out, 1, &speed->out_bandwidth));
    for (int i = 0; i < OPERANDS; i++)
        QN_TRY(qn_gpu_copy_in(t->device, &t->memory, (size_t)i * operand_bytes, t->host,
                              operand_bytes));
    QN_TRY(measure_bytes(t, do_add, OPERANDS, &speed->bandwidth));
    QN_TRY(measure(t, 1, do_add, &speed->launch_ns));
    return measure_products(t, speed);
}

static qn_status open_and_measure(trying *t, qn_device_speed *speed) {
    QN_TRY(qn_allocate(t->device->allocator, 1, operand_bytes, &t->host));
    memset(t->host, 0, operand_bytes);
    QN_TRY(qn_gpu_reserve(t->device, 0, OPERANDS * operand_bytes, &t->memory));
    QN_TRY(t->device->driver->stream_open(t->device, &t->stream));
    return measure_all(t, speed);
}

/* What a silent device may still write to is left to it. */
qn_status qn_gpu_measure(void *state, qn_device_speed *speed) {
    trying t = {.device = state};
    *speed = (qn_device_speed){.flops = 0};
    const qn_status status = open_and_measure(&t, speed);
    if (qn_gpu_is_silent(state)) {
        qn_gpu_leave(t.stream);
        qn_gpu_leave(t.host);
        return status;
    }
    if (t.stream)
        t.device->driver->stream_close(t.device, t.stream);
    if (t.memory.base)
        qn_gpu_release(state, &t.memory);
    qn_release(t.device->allocator, t.host, 1, operand_bytes);
    return status;
}
