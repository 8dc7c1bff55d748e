/* See simulated.h. Calls carry addresses of the guarded pages; the queues' threads replace them by
 * those of the accessible ones. */
#include "device/simulated.h"

#include "base/memory.h"
#include "base/rng.h"
#include "base/status.h"
#include "device/cpu/cpu.h"
#include "device/host_queue.h"
#include "os/heap.h"
#include "os/os.h"
#include "os/pages.h"

#include <stddef.h>
#include <string.h>

enum { MOST_MEMORIES = 8 };

typedef struct simulated {
    const qn_allocator *allocator;
    qn_simulated_options options;
    int64_t n_begun;                        /* atomic: works of all queues */
    bool is_lost;                           /* atomic */
    int n_queues;                           /* opened so far: each has delays of its own */
    qn_twin_pages *memories[MOST_MEMORIES]; /* null: free. Changed while no work is done */
    qn_device_counters counters;            /* atomic, each by itself */
} simulated;

/* What a queue's thread needs: its clock to sleep by, and room for a call's addresses. */
typedef struct line {
    simulated *device;
    qn_rng rng;
    uint64_t n_drawn;
    qn_monitor *bell; /* that nobody rings */
    qn_call call;
    int most_operands;
    void **operands; /* (most_operands) */
} line;

static qn_status simulated_open(const qn_allocator *allocator, const void *options, void **state) {
    simulated *s;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *s, &s));
    s->allocator = allocator;
    s->options = *(const qn_simulated_options *)options;
    *state = s;
    return QN_OK;
}

static void simulated_close(void *state) {
    simulated *s = state;
    if (s)
        qn_release(s->allocator, s, 1, sizeof *s);
}

void qn_simulated_kill(void *state) {
    __atomic_store_n(&((simulated *)state)->is_lost, true, __ATOMIC_SEQ_CST);
}

void qn_simulated_revive(void *state, int64_t lost_at) {
    simulated *s = state;
    __atomic_store_n(&s->n_begun, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&s->is_lost, false, __ATOMIC_SEQ_CST);
    s->options.lost_at = lost_at;
}

static bool simulated_is_lost(const void *state) {
    return __atomic_load_n(&((const simulated *)state)->is_lost, __ATOMIC_SEQ_CST);
}

/* ---- memory ---- */

static const qn_space spaces[] = {
    {.name = "simulated", .physical = QN_PHYSICAL_DEVICE, .alignment = QN_ALIGNMENT},
};

static qn_status simulated_reserve(void *state, int space, size_t bytes, qn_memory *memory) {
    simulated *s = state;
    qn_twin_pages *pages;
    int free = 0;
    while (free < MOST_MEMORIES && s->memories[free])
        free++;
    if (free == MOST_MEMORIES)
        return qn_fail(QN_ERROR_MEMORY, "a simulated device supports at most %d memories",
                       MOST_MEMORIES);
    QN_TRY(qn_allocate(s->allocator, 1, sizeof *pages, &pages));
    const qn_status status = qn_twin_pages_open(bytes, pages);
    if (status != QN_OK) {
        qn_release(s->allocator, pages, 1, sizeof *pages);
        return status;
    }
    s->memories[free] = pages;
    *memory = (qn_memory){.space = space, .bytes = bytes, .base = pages->guarded, .handle = pages};
    return QN_OK;
}

static void simulated_release(void *state, qn_memory *memory) {
    simulated *s = state;
    for (int i = 0; memory->handle && i < MOST_MEMORIES; i++) {
        if (s->memories[i] != memory->handle)
            continue;
        qn_twin_pages_close(s->memories[i]);
        qn_release(s->allocator, s->memories[i], 1, sizeof *s->memories[i]);
        s->memories[i] = NULL;
    }
    *memory = (qn_memory){0};
}

static qn_status check_range(const simulated *s, const qn_memory *memory, size_t offset,
                             size_t bytes) {
    if (simulated_is_lost(s))
        return qn_fail(QN_ERROR_DEVICE,
                       "the simulated device was lost, with the contents of its memory");
    if (offset > memory->bytes || bytes > memory->bytes - offset)
        return qn_fail(QN_ERROR_ARGUMENT, "%zu bytes at offset %zu exceed a memory of %zu", bytes,
                       offset, memory->bytes);
    return QN_OK;
}

static qn_status simulated_map(void *state, const qn_memory *memory, size_t offset, size_t bytes,
                               void **to) {
    QN_TRY(check_range(state, memory, offset, bytes));
    QN_TRY(qn_twin_pages_show(memory->handle, offset, bytes, true));
    *to = memory->base + offset;
    return QN_OK;
}

static void simulated_unmap(void *state, const qn_memory *memory, size_t offset, size_t bytes) {
    (void)state;
    (void)qn_twin_pages_show(memory->handle, offset, bytes, false);
}

static qn_status simulated_copy_in(void *state, const qn_memory *memory, size_t offset,
                                   const void *from, size_t bytes) {
    simulated *s = state;
    const qn_twin_pages *pages = memory->handle;
    QN_TRY(check_range(s, memory, offset, bytes));
    memcpy(pages->open + offset, from, bytes);
    __atomic_add_fetch(&s->counters.bytes_in, (int64_t)bytes, __ATOMIC_RELAXED);
    return QN_OK;
}

static qn_status simulated_copy_out(void *state, const qn_memory *memory, size_t offset, void *to,
                                    size_t bytes) {
    simulated *s = state;
    const qn_twin_pages *pages = memory->handle;
    QN_TRY(check_range(s, memory, offset, bytes));
    memcpy(to, pages->open + offset, bytes);
    __atomic_add_fetch(&s->counters.bytes_out, (int64_t)bytes, __ATOMIC_RELAXED);
    return QN_OK;
}

/* ---- queues ---- */

static void delay(line *l) {
    const uint64_t most = (uint64_t)l->device->options.most_delay_ns;
    if (most == 0)
        return;
    const uint64_t kind = qn_rng_below(l->rng, l->n_drawn++, 4);
    const uint64_t ns = qn_rng_below(l->rng, l->n_drawn++, most);
    if (kind > 0) /* now and then there is none */
        return;
    qn_monitor_lock(l->bell);
    (void)qn_monitor_wait_until(l->bell, qn_clock_ns() + (int64_t)ns);
    qn_monitor_unlock(l->bell);
}

static bool begin(void *user, const qn_work *work) {
    line *l = user;
    simulated *s = l->device;
    (void)work;
    const int64_t n = __atomic_fetch_add(&s->n_begun, 1, __ATOMIC_SEQ_CST);
    delay(l);
    if (s->options.lost_at >= 0 && n >= s->options.lost_at)
        qn_simulated_kill(s);
    if (!simulated_is_lost(s))
        __atomic_add_fetch(&s->counters.n_works, 1, __ATOMIC_RELAXED);
    return !simulated_is_lost(s);
}

static void *open_address(const simulated *s, void *address) {
    for (int i = 0; i < MOST_MEMORIES; i++) {
        const qn_twin_pages *pages = s->memories[i];
        if (pages && (char *)address >= pages->guarded &&
            (char *)address < pages->guarded + pages->bytes)
            return pages->open + ((char *)address - pages->guarded);
    }
    return address;
}

static const qn_call *translate(void *user, const qn_call *call) {
    line *l = user;
    const int n_inputs = call->node->n_inputs, n_outputs = call->node->n_outputs;
    l->call = *call;
    for (int i = 0; i < n_inputs; i++)
        l->operands[i] = open_address(l->device, call->in[i]);
    for (int i = 0; i < n_outputs; i++)
        l->operands[n_inputs + i] = open_address(l->device, call->out[i]);
    l->call.in = l->operands;
    l->call.out = l->operands + n_inputs;
    l->call.workspace = open_address(l->device, call->workspace);
    return &l->call;
}

/* A call that translate has made: it waits on its core for as long as it would have taken. */
static void run_slowly(const qn_call *call) {
    const line *l = (const line *)(const void *)((const char *)call - offsetof(line, call));
    const int64_t begin_ns = qn_clock_ns();
    qn_cpu_run(call);
    const int64_t end_ns =
        begin_ns + (qn_clock_ns() - begin_ns) * l->device->options.slowed_percent / 100;
    while (qn_clock_ns() < end_ns)
        ;
}

static void close_line(line *l) {
    const qn_allocator *a = l->device->allocator;
    qn_monitor_destroy(l->bell);
    qn_release(a, l->operands, (size_t)l->most_operands, sizeof *l->operands);
    qn_release(a, l, 1, sizeof *l);
}

static qn_status open_line(simulated *s, const qn_queue_options *options, line **made) {
    line *l;
    QN_TRY(qn_allocate(s->allocator, 1, sizeof *l, &l));
    l->device = s;
    l->rng = qn_rng_make(s->options.seed, 3, (uint64_t)s->n_queues++);
    qn_status status = qn_monitor_create(s->allocator, &l->bell);
    if (status == QN_OK)
        status = qn_allocate(s->allocator, (size_t)options->most_operands, sizeof *l->operands,
                             &l->operands);
    if (status != QN_OK) {
        close_line(l);
        return status;
    }
    l->most_operands = options->most_operands;
    *made = l;
    return QN_OK;
}

static qn_status simulated_queue_open(void *state, const qn_allocator *allocator,
                                      const qn_queue_options *options, qn_queue **queue) {
    line *l;
    QN_TRY(open_line(state, options, &l));
    const qn_host_queue_hooks hooks = {.user = l, .begin = begin, .translate = translate};
    const qn_status status = qn_host_queue_open(
        allocator, 1, l->device->options.slowed_percent > 100 ? run_slowly : qn_cpu_run, &hooks,
        queue);
    if (status != QN_OK)
        close_line(l);
    return status;
}

static void simulated_queue_close(qn_queue *queue) {
    if (!queue)
        return;
    line *l = qn_host_queue_user(queue);
    qn_host_queue_close(queue);
    close_line(l);
}

static void simulated_counters(const void *state, qn_device_counters *counters) {
    const simulated *s = state;
    counters->n_works = __atomic_load_n(&s->counters.n_works, __ATOMIC_RELAXED);
    counters->busy_ns = 0;
    counters->bytes_in = __atomic_load_n(&s->counters.bytes_in, __ATOMIC_RELAXED);
    counters->bytes_out = __atomic_load_n(&s->counters.bytes_out, __ATOMIC_RELAXED);
}

const qn_device qn_device_simulated = {
    .name = "simulated",
    .open = simulated_open,
    .close = simulated_close,
    .is_lost = simulated_is_lost,
    .n_spaces = 1,
    .spaces = spaces,
    .reserve = simulated_reserve,
    .release = simulated_release,
    .map = simulated_map,
    .unmap = simulated_unmap,
    .copy_in = simulated_copy_in,
    .copy_out = simulated_copy_out,
    .queue_open = simulated_queue_open,
    .queue_close = simulated_queue_close,
    .queue_timeline = qn_host_queue_timeline,
    .submit = qn_host_queue_submit,
    .counters = simulated_counters,
};

const qn_device qn_device_slowed = {
    .name = "slowed",
    .open = simulated_open,
    .close = simulated_close,
    .queue_open = simulated_queue_open,
    .queue_close = simulated_queue_close,
    .queue_timeline = qn_host_queue_timeline,
    .submit = qn_host_queue_submit,
    .counters = simulated_counters,
};
