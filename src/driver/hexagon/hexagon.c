/* See hexagon.h. */
#include "driver/hexagon/hexagon.h"

#include "base/memory.h"
#include "base/status.h"
#include "driver/driver.h"
#include "driver/hexagon/state.h"
#include "os/heap.h"

#include <stdio.h>
#include <string.h>

/* What a program of 32 bits can map beside itself. */
static const size_t most_bytes = (size_t)1 << 30;

extern const unsigned char qn_hexagon_program[], qn_hexagon_program_end[];

/* ---- opening ---- */

static void hexagon_close(void *state) {
    qn_hexagon *h = state;
    if (!h)
        return;
    if (h->guard)
        qn_hexagon_stop(h);
    qn_shared_pages_close(&h->shared);
    qn_shared_pages_close(&h->program);
    qn_monitor_destroy(h->busy);
    qn_monitor_destroy(h->guard);
    qn_release(h->allocator, h->resident, (size_t)h->n_slots, sizeof *h->resident);
    qn_release(h->allocator, h, 1, sizeof *h);
}

static qn_status open_all(qn_hexagon *h) {
    const size_t bytes = (size_t)(qn_hexagon_program_end - qn_hexagon_program);
    QN_TRY(qn_allocate(h->allocator, (size_t)h->n_slots, sizeof *h->resident, &h->resident));
    QN_TRY(qn_monitor_create(h->allocator, &h->busy));
    QN_TRY(qn_monitor_create(h->allocator, &h->guard));
    QN_TRY(qn_shared_pages_open(bytes, &h->program));
    memcpy(h->program.memory, qn_hexagon_program, bytes);
    QN_TRY(qn_shared_pages_open(most_bytes, &h->shared));
    return qn_hexagon_try(h);
}

static qn_status hexagon_open(const qn_allocator *allocator, const void *options, void **state) {
    const qn_hexagon_options *o = options;
    qn_hexagon *h;
    QN_TRY(qn_hexagon_check());
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *h, &h));
    h->allocator = allocator;
    h->n_slots = o->n_resident > 0 && o->n_resident < QN_DSP_MOST_RESIDENT ? o->n_resident
                                                                           : QN_DSP_MOST_RESIDENT;
    const qn_status status = open_all(h);
    if (status != QN_OK) {
        hexagon_close(h);
        return qn_fail(status, "the device hexagon:emulated cannot be started: %s",
                       qn_error_message());
    }
    *state = h;
    return QN_OK;
}

const char *qn_hexagon_reason(const void *state) {
    return ((const qn_hexagon *)state)->reason;
}

qn_hexagon_counts qn_hexagon_count(const void *state) {
    const qn_hexagon_counts *c = &((const qn_hexagon *)state)->counts;
    return (qn_hexagon_counts){.n_works = __atomic_load_n(&c->n_works, __ATOMIC_RELAXED),
                               .n_prepared = __atomic_load_n(&c->n_prepared, __ATOMIC_RELAXED),
                               .n_calls = __atomic_load_n(&c->n_calls, __ATOMIC_RELAXED),
                               .n_starts = __atomic_load_n(&c->n_starts, __ATOMIC_RELAXED),
                               .n_packets = __atomic_load_n(&c->n_packets, __ATOMIC_RELAXED),
                               .n_prepare_packets =
                                   __atomic_load_n(&c->n_prepare_packets, __ATOMIC_RELAXED)};
}

/* ---- memory ---- */

/* The first gap that is large enough behind the control block. */
static size_t find_gap(const qn_hexagon *h, size_t bytes) {
    size_t at = QN_DSP_CONTROL_BYTES;
    for (bool is_free = false; !is_free;) {
        is_free = true;
        for (int i = 0; i < QN_HEXAGON_MOST_MEMORIES; i++) {
            const qn_hexagon_region *r = &h->regions[i];
            if (r->bytes == 0 || at + bytes <= r->offset || at >= r->offset + r->bytes)
                continue;
            at = r->offset + r->bytes;
            is_free = false;
        }
    }
    return at;
}

/* The process maps what there is when it starts: it starts anew. */
static qn_status hexagon_reserve(void *state, int space, size_t bytes, qn_memory *memory) {
    qn_hexagon *h = state;
    int i = 0;
    const size_t page = 4096, whole = (bytes + page) / page * page, offset = find_gap(h, whole);
    while (i < QN_HEXAGON_MOST_MEMORIES && h->regions[i].bytes > 0)
        i++;
    if (i == QN_HEXAGON_MOST_MEMORIES)
        return qn_fail(QN_ERROR_MEMORY, "a DSP supports at most %d memories", i);
    if (whole > most_bytes || offset + whole + QN_DSP_SLACK_BYTES > most_bytes)
        return qn_fail(QN_ERROR_MEMORY,
                       "the step needs %zu bytes on the DSP, which can share %zu; lower --batch",
                       bytes, most_bytes - QN_DSP_CONTROL_BYTES - QN_DSP_SLACK_BYTES);
    qn_hexagon_stop(h);
    h->regions[i] = (qn_hexagon_region){offset, whole};
    *memory = (qn_memory){.space = space,
                          .bytes = bytes,
                          .base = h->shared.memory + offset,
                          .handle = &h->regions[i]};
    return QN_OK;
}

static void hexagon_release(void *state, qn_memory *memory) {
    qn_hexagon *h = state;
    qn_hexagon_region *r = memory->handle;
    if (r)
        qn_shared_pages_give_back(&h->shared, r->offset, r->bytes);
    if (r)
        *r = (qn_hexagon_region){0};
    *memory = (qn_memory){0};
}

static qn_status check_range(const qn_hexagon *h, const qn_memory *memory, size_t offset,
                             size_t bytes) {
    if (qn_hexagon_is_lost(h))
        return qn_fail(QN_ERROR_DEVICE, "the DSP was lost: %s", h->reason);
    if (offset > memory->bytes || bytes > memory->bytes - offset)
        return qn_fail(QN_ERROR_ARGUMENT, "%zu bytes at offset %zu exceed a memory of %zu", bytes,
                       offset, memory->bytes);
    return QN_OK;
}

static qn_status hexagon_copy_in(void *state, const qn_memory *memory, size_t offset,
                                 const void *from, size_t bytes) {
    QN_TRY(check_range(state, memory, offset, bytes));
    memcpy(memory->base + offset, from, bytes);
    return QN_OK;
}

static qn_status hexagon_copy_out(void *state, const qn_memory *memory, size_t offset, void *to,
                                  size_t bytes) {
    QN_TRY(check_range(state, memory, offset, bytes));
    memcpy(to, memory->base + offset, bytes);
    return QN_OK;
}

static qn_status hexagon_map(void *state, const qn_memory *memory, size_t offset, size_t bytes,
                             void **to) {
    QN_TRY(check_range(state, memory, offset, bytes));
    *to = memory->base + offset;
    return QN_OK;
}

static void hexagon_unmap(void *state, const qn_memory *memory, size_t offset, size_t bytes) {
    (void)state;
    (void)memory;
    (void)offset;
    (void)bytes;
}

/* ---- operators ---- */

static bool describe(const qn_query *query, qn_dsp_work *work) {
    return qn_hexagon_describe(query->op, query->attributes, query->n_inputs, query->n_outputs,
                               query->inputs, query->outputs, work);
}

static bool hexagon_supports(const void *state, const qn_query *query) {
    qn_dsp_work work;
    (void)state;
    return query->op->output_space || query->op->is_view || describe(query, &work);
}

static size_t hexagon_workspace(const qn_machine *machine, const void *state,
                                const qn_query *query) {
    qn_dsp_work work;
    (void)machine;
    (void)state;
    return describe(query, &work) ? qn_hexagon_work_bytes(&work) : 0;
}

static void hexagon_counters(const void *state, qn_device_counters *counters) {
    const qn_hexagon *h = state;
    counters->n_works = __atomic_load_n(&h->counters.n_works, __ATOMIC_RELAXED);
    counters->busy_ns = __atomic_load_n(&h->counters.busy_ns, __ATOMIC_RELAXED);
    counters->bytes_in = __atomic_load_n(&h->counters.bytes_in, __ATOMIC_RELAXED);
    counters->bytes_out = __atomic_load_n(&h->counters.bytes_out, __ATOMIC_RELAXED);
}

static const qn_space spaces[] = {
    {.name = "hexagon", .physical = QN_PHYSICAL_DEVICE, .alignment = QN_DSP_VECTOR},
};

const qn_device qn_device_hexagon = {
    .name = "hexagon:emulated",
    .open = hexagon_open,
    .close = hexagon_close,
    .supports = hexagon_supports,
    .workspace = hexagon_workspace,
    .is_lost = qn_hexagon_is_lost,
    .reason = qn_hexagon_reason,
    .n_spaces = 1,
    .spaces = spaces,
    .reserve = hexagon_reserve,
    .release = hexagon_release,
    .map = hexagon_map,
    .unmap = hexagon_unmap,
    .copy_in = hexagon_copy_in,
    .copy_out = hexagon_copy_out,
    .queue_open = qn_hexagon_queue_open,
    .queue_close = qn_hexagon_queue_close,
    .queue_timeline = qn_hexagon_queue_timeline,
    .submit = qn_hexagon_queue_submit,
    .model = &qn_hexagon_model,
    .counters = hexagon_counters,
};

/* ---- the driver ---- */

static qn_status count_devices(int *n) {
    *n = 1;
    return qn_hexagon_check();
}

static qn_status describe_device(int number, qn_driver_info *info) {
    (void)number;
    *info = (qn_driver_info){.name = "hexagon:emulated", .summary = "by qemu-hexagon, for tests"};
    qn_driver_add_text(info, "emulator", "qemu-hexagon");
    return QN_OK;
}

/* The number says how many works stay prepared on it. */
static qn_status open_driver(const qn_allocator *allocator, const qn_driver_options *options,
                             void **state) {
    const qn_hexagon_options own = {options->number};
    return hexagon_open(allocator, &own, state);
}

const qn_driver_functions qn_driver_hexagon = {
    .device = &qn_device_hexagon,
    .is_placed = true,
    .count = count_devices,
    .describe = describe_device,
    .open = open_driver,
};
