/* See gpu.h. */
#include "device/gpu/gpu.h"

#include "base/memory.h"
#include "base/print.h"
#include "base/status.h"
#include "device/gpu/operators.h"
#include "os/heap.h"
#include "os/os.h"

#include <stdio.h>
#include <string.h>

/* ---- loss ---- */

bool qn_gpu_is_lost(const qn_gpu *d) {
    return __atomic_load_n(&d->is_lost, __ATOMIC_SEQ_CST);
}

/* The first reason counts: what follows is its consequence. Queues share a device, so two may get
 * here at once; the text is only for people. */
bool qn_gpu_lose(qn_gpu *d, const char *what, const char *word, int code) {
    if (!qn_gpu_is_lost(d))
        snprintf(d->reason, sizeof d->reason, "%s failed: %s (%d)", what, word, code);
    __atomic_store_n(&d->is_lost, true, __ATOMIC_SEQ_CST);
    return false;
}

bool qn_gpu_state_is_lost(const void *state) {
    return qn_gpu_is_lost(state);
}

const char *qn_gpu_name(const void *state) {
    return ((const qn_gpu *)state)->name;
}

const char *qn_gpu_reason(const void *state) {
    return ((const qn_gpu *)state)->reason;
}

/* ---- waiting ---- */

bool qn_gpu_is_silent(const void *state) {
    return __atomic_load_n(&((const qn_gpu *)state)->is_silent, __ATOMIC_SEQ_CST);
}

void qn_gpu_set_patience(void *state, int64_t ns) {
    ((qn_gpu *)state)->patience_ns = ns;
}

/* Times what the longest wait was so far. */
enum { PATIENCE_FACTOR = 50 };

static bool is_too_long(const qn_gpu *d, int64_t waited_ns) {
    const int64_t usual_ns = __atomic_load_n(&d->longest_ns, __ATOMIC_RELAXED) * PATIENCE_FACTOR;
    return waited_ns > (usual_ns > d->patience_ns ? usual_ns : d->patience_ns);
}

static bool lose_silent(qn_gpu *d, int64_t waited_ns) {
    __atomic_store_n(&d->is_silent, true, __ATOMIC_SEQ_CST);
    if (!qn_gpu_is_lost(d))
        qn_print(d->reason, sizeof d->reason, "it has not answered for %.3g s",
                 (double)waited_ns * 1e-9);
    __atomic_store_n(&d->is_lost, true, __ATOMIC_SEQ_CST);
    return false;
}

/* Looks often at first, then at times that are small beside what was waited already. */
static void pause_between(int64_t waited_ns) {
    enum { BUSY_NS = 30000, MOST_NS = 1000000 };
    if (waited_ns > BUSY_NS)
        qn_sleep_ns(waited_ns / 16 < MOST_NS ? waited_ns / 16 : MOST_NS);
}

bool qn_gpu_finish(qn_gpu *d, void *stream) {
    bool is_done;
    return d->driver->mark(d, stream, 0) && qn_gpu_await(d, stream, 0, NULL, NULL, &is_done);
}

bool qn_gpu_await(qn_gpu *d, void *stream, int mark, bool (*has_more)(const void *user),
                  const void *user, bool *is_done) {
    const int64_t begin_ns = qn_clock_ns();
    int64_t waited_ns = 0;
    for (;;) {
        if (!d->driver->is_done(d, stream, mark, is_done))
            return false;
        waited_ns = qn_clock_ns() - begin_ns;
        if (*is_done)
            break;
        if (has_more && has_more(user))
            return true;
        if (is_too_long(d, waited_ns))
            return lose_silent(d, waited_ns);
        pause_between(waited_ns);
    }
    if (waited_ns > __atomic_load_n(&d->longest_ns, __ATOMIC_RELAXED))
        __atomic_store_n(&d->longest_ns, waited_ns, __ATOMIC_RELAXED);
    return true;
}

/* ---- opening ---- */

enum { MOST_LEFT = 64 }; /* silent devices are rare */
static const void *volatile left[MOST_LEFT];
static int n_left;

void qn_gpu_leave(const void *memory) {
    const int at = __atomic_fetch_add(&n_left, 1, __ATOMIC_SEQ_CST);
    if (at < MOST_LEFT)
        left[at] = memory;
}

void qn_gpu_close(void *state) {
    qn_gpu *d = state;
    if (!d)
        return;
    if (!qn_gpu_is_silent(d)) { /* else it would be waited for */
        for (int i = 0; i < d->shared.n_pieces; i++)
            d->driver->unshare(d, d->shared.pieces[i]);
        if (d->room && d->driver->copies_to_shared)
            d->driver->unshare(d, d->room);
        d->driver->close(d);
    } else {
        qn_gpu_leave(d->context);
    }
    if (!d->driver->copies_to_shared)
        qn_release(d->allocator, d->room, 1, QN_GPU_ROOM_BYTES);
    qn_release(d->allocator, d->shared.pieces, d->shared.capacity, sizeof *d->shared.pieces);
    qn_release(d->allocator, d, 1, sizeof *d);
}

/* Addresses that no host memory has. */
static const uintptr_t first_base = (uintptr_t)1 << (sizeof(uintptr_t) * 8 - 10);

/* Where it cannot, it has memory of its own, as if that had not been asked. */
static void begin_sharing(qn_gpu *d) {
    enum { ORIGIN_BYTES = 4096 };
    void *origin;
    if (!d->can_share || qn_gpu_share(d, ORIGIN_BYTES, &origin) != QN_OK)
        return;
    d->shared.origin = (qn_gpu_buffer){origin, (uintptr_t)origin, ORIGIN_BYTES};
    d->shared.is_used = true;
}

static qn_status open(qn_gpu *d, int number) {
    QN_TRY(d->driver->open(d, number));
    if (!d->driver->copies_to_shared)
        return qn_allocate(d->allocator, 1, QN_GPU_ROOM_BYTES, &d->room);
    d->room = d->driver->share(d, QN_GPU_ROOM_BYTES);
    if (d->room)
        return QN_OK;
    return qn_fail(QN_ERROR_MEMORY,
                   "%s gives no %d bytes of the host's memory for copies; close "
                   "other programs, or train with --device cpu",
                   d->name, QN_GPU_ROOM_BYTES);
}

qn_status qn_gpu_open(const qn_allocator *allocator, const qn_gpu_driver *driver, int number,
                      bool shares, void **state) {
    const int64_t patience_ns = INT64_C(60000000000);
    qn_gpu *d;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *d, &d));
    d->allocator = allocator;
    d->driver = driver;
    d->next_base = first_base;
    d->patience_ns = patience_ns;
    const qn_status status = open(d, number);
    if (status != QN_OK) {
        qn_gpu_close(d);
        return status;
    }
    if (shares)
        begin_sharing(d);
    *state = d;
    return QN_OK;
}

/* ---- memory ---- */

bool qn_gpu_shares(const void *state) {
    return ((const qn_gpu *)state)->shared.is_used;
}

qn_status qn_gpu_share(void *state, size_t bytes, void **memory) {
    qn_gpu *d = state;
    qn_gpu_shared *s = &d->shared;
    QN_TRY(qn_grow(d->allocator, &s->pieces, &s->capacity, (size_t)s->n_pieces + 1,
                   sizeof *s->pieces));
    void *piece = d->driver->share(d, bytes);
    if (!piece || (uintptr_t)piece % QN_ALIGNMENT != 0)
        return qn_fail(QN_ERROR_MEMORY, "%s gives no %zu bytes of memory that it shares", d->name,
                       bytes);
    s->pieces[s->n_pieces++] = piece;
    s->version++;
    *memory = piece;
    return QN_OK;
}

bool qn_gpu_unshare(void *state, void *memory) {
    qn_gpu *d = state;
    qn_gpu_shared *s = &d->shared;
    int i = 0;
    while (i < s->n_pieces && s->pieces[i] != memory)
        i++;
    if (i == s->n_pieces)
        return false;
    if (!qn_gpu_is_silent(d)) /* else it may still use it */
        d->driver->unshare(d, memory);
    s->pieces[i] = s->pieces[--s->n_pieces];
    s->version++;
    return true;
}

static qn_status check_size(const qn_gpu *d, size_t bytes) {
    if (bytes <= d->most_allocation_bytes)
        return QN_OK;
    return qn_fail(QN_ERROR_MEMORY,
                   "the step needs %zu bytes on %s, whose driver gives at most %llu at once; "
                   "lower --batch",
                   bytes, d->name, (unsigned long long)d->most_allocation_bytes);
}

qn_status qn_gpu_reserve(void *state, int space, size_t bytes, qn_memory *memory) {
    qn_gpu *d = state;
    void *buffer = NULL;
    int i = 0;
    QN_TRY(check_size(d, bytes));
    while (i < QN_GPU_MOST_MEMORIES && d->buffers[i].memory)
        i++;
    if (i == QN_GPU_MOST_MEMORIES)
        return qn_fail(QN_ERROR_MEMORY, "a GPU supports at most %d memories", i);
    QN_TRY(d->driver->reserve(d, bytes, &buffer));
    d->buffers[i] = (qn_gpu_buffer){buffer, d->next_base, bytes};
    d->next_base += (bytes + QN_ALIGNMENT) / 4096 * 4096 + 8192;
    *memory = (qn_memory){.space = space,
                          .bytes = bytes,
                          .base = (char *)d->buffers[i].base, /* NOLINT: no host address */
                          .handle = buffer};
    return QN_OK;
}

void qn_gpu_release(void *state, qn_memory *memory) {
    qn_gpu *d = state;
    for (int i = 0; i < QN_GPU_MOST_MEMORIES; i++) {
        if (!memory->handle || d->buffers[i].memory != memory->handle)
            continue;
        if (!qn_gpu_is_silent(d))
            d->driver->release(d, d->buffers[i].memory);
        d->buffers[i] = (qn_gpu_buffer){0};
    }
    *memory = (qn_memory){0};
}

const qn_gpu_buffer *qn_gpu_locate(const qn_gpu *d, const void *address, size_t *offset) {
    const uintptr_t at = (uintptr_t)address;
    for (int i = 0; i < QN_GPU_MOST_MEMORIES; i++) {
        const qn_gpu_buffer *b = &d->buffers[i];
        if (!b->memory || at < b->base || at - b->base >= b->bytes)
            continue;
        *offset = at - b->base;
        return b;
    }
    return NULL;
}

static qn_status check_copy(const qn_gpu *d, const qn_memory *memory, size_t offset, size_t bytes) {
    if (qn_gpu_is_lost(d))
        return qn_fail(QN_ERROR_DEVICE, "the device %s was lost: %s", d->name, d->reason);
    if (offset > memory->bytes || bytes > memory->bytes - offset)
        return qn_fail(QN_ERROR_ARGUMENT, "%zu bytes at offset %zu exceed a memory of %zu", bytes,
                       offset, memory->bytes);
    return QN_OK;
}

static qn_status copy(qn_gpu *d, const qn_memory *memory, size_t offset, void *host, size_t bytes,
                      bool is_to_host) {
    QN_TRY(check_copy(d, memory, offset, bytes));
    const qn_gpu_buffer buffer = {.memory = memory->handle, .bytes = memory->bytes};
    if (d->driver->copy(d, NULL, &buffer, offset, host, bytes, is_to_host)) {
        (void)__atomic_add_fetch(is_to_host ? &d->counters.bytes_out : &d->counters.bytes_in,
                                 (int64_t)bytes, __ATOMIC_RELAXED);
        return QN_OK;
    }
    return qn_fail(QN_ERROR_DEVICE, "the device %s was lost: %s", d->name, d->reason);
}

qn_status qn_gpu_copy_in(void *state, const qn_memory *memory, size_t offset, const void *from,
                         size_t bytes) {
    return copy(state, memory, offset, (void *)(uintptr_t)from, bytes, false);
}

qn_status qn_gpu_copy_out(void *state, const qn_memory *memory, size_t offset, void *to,
                          size_t bytes) {
    return copy(state, memory, offset, to, bytes, true);
}

/* ---- operators ---- */

/* Numbers in kernels are of 32 bits, and reals are floats. */
static bool is_fit(qn_tensor tensor) {
    return (tensor.dtype == QN_NONE || tensor.dtype == QN_F32 || tensor.dtype == QN_I32 ||
            tensor.dtype == QN_U16) &&
           qn_shape_count(tensor.shape) < INT32_MAX / 4;
}

/* The reals are what tells integer operators from the others. */
static bool has_reals(const qn_query *query) {
    bool has = false;
    for (int i = 0; i < query->n_inputs; i++)
        has |= query->inputs[i].dtype == QN_F32;
    return query->outputs[0].dtype == QN_F32 && (has || query->n_inputs == 0);
}

bool qn_gpu_supports(const void *state, const qn_query *query) {
    const qn_gpu_operator *row = qn_gpu_find(query->op);
    (void)state;
    if (query->op->output_space || query->op->is_view)
        return true;
    if (!row)
        return false;
    for (int i = 0; i < query->n_inputs; i++) {
        if (!is_fit(query->inputs[i]))
            return false;
    }
    for (int i = 0; i < query->n_outputs; i++) {
        if (!is_fit(query->outputs[i]))
            return false;
    }
    return has_reals(query) && (!row->supports || row->supports(query));
}

size_t qn_gpu_workspace(const qn_machine *machine, const void *state, const qn_query *query) {
    const qn_gpu_operator *row = qn_gpu_find(query->op);
    (void)machine;
    (void)state;
    return row && row->workspace ? row->workspace(query) : 0;
}

void qn_gpu_counters(const void *state, qn_device_counters *counters) {
    const qn_gpu *d = state;
    counters->n_works = __atomic_load_n(&d->counters.n_works, __ATOMIC_RELAXED);
    counters->busy_ns = __atomic_load_n(&d->counters.busy_ns, __ATOMIC_RELAXED);
    counters->bytes_in = __atomic_load_n(&d->counters.bytes_in, __ATOMIC_RELAXED);
    counters->bytes_out = __atomic_load_n(&d->counters.bytes_out, __ATOMIC_RELAXED);
    counters->n_idle = __atomic_load_n(&d->counters.n_idle, __ATOMIC_RELAXED);
}
