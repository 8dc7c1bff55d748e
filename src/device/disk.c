/* See disk.h. Each queue has a thread that waits for the dependencies of its work, starts the
 * requests, and raises the timeline when they have ended, in order. Checksums of written data are
 * kept by position in the file. */
#include "device/disk.h"

#include "base/memory.h"
#include "base/status.h"
#include "device/work_thread.h"
#include "os/files/swap_file.h"
#include "os/heap.h"
#include "os/os.h"

/* Requests of a queue that are under way at once. */
enum { DEPTH = 4 };

/* What was written last at a place. */
typedef struct sum {
    int64_t offset;
    uint64_t sum;
} sum;

typedef struct disk {
    const qn_allocator *allocator;
    qn_swap_file *file;
    size_t bytes;
    int most_queues, n_queues; /* n_queues: opened so far */
    qn_monitor *monitor;
    /* under the monitor */
    int32_t n_sums;
    size_t sum_capacity, n_works; /* capacity >= n_works, the sum of all queues' */
    sum *sums;                    /* (n_sums) */
    qn_device_counters counters;
} disk;

struct qn_queue {
    disk *disk;
    const qn_allocator *allocator;
    int first_request; /* of DEPTH */
    qn_work_thread *thread;
    int64_t begun_ns[DEPTH];
};

/* An address in calls is this and the offset in the file. */
static char *const base = (char *)QN_SWAP_FILE_BLOCK;

static const qn_space spaces[] = {
    {.name = "disk", .physical = QN_PHYSICAL_DISK, .alignment = QN_SWAP_FILE_BLOCK},
};

/* ---- sums, under the disk's monitor ---- */

static sum *find_sum(const disk *d, int64_t offset) {
    for (int32_t i = 0; i < d->n_sums; i++) {
        if (d->sums[i].offset == offset)
            return &d->sums[i];
    }
    return NULL;
}

static void keep_sum(disk *d, int64_t offset, uint64_t value) {
    qn_monitor_lock(d->monitor);
    sum *kept = find_sum(d, offset);
    if (!kept)
        kept = &d->sums[d->n_sums++];
    *kept = (sum){offset, value};
    qn_monitor_unlock(d->monitor);
}

/* Of what was written there; 0: nothing was. */
static uint64_t get_sum(disk *d, int64_t offset) {
    qn_monitor_lock(d->monitor);
    const sum *kept = find_sum(d, offset);
    const uint64_t value = kept ? kept->sum : 0;
    qn_monitor_unlock(d->monitor);
    return value;
}

/* Room for what a queue writes besides the others, while none of them works. What plans that are
 * gone have written is forgotten. */
static qn_status add_room(disk *d, int32_t n_works) {
    d->n_works += (size_t)n_works;
    d->n_sums = 0;
    return qn_grow(d->allocator, &d->sums, &d->sum_capacity, d->n_works, sizeof *d->sums);
}

/* ---- the device ---- */

static void disk_close(void *state) {
    disk *d = state;
    if (!d)
        return;
    qn_swap_file_close(d->file);
    qn_monitor_destroy(d->monitor);
    qn_release(d->allocator, d->sums, d->sum_capacity, sizeof *d->sums);
    qn_release(d->allocator, d, 1, sizeof *d);
}

static qn_status disk_open(const qn_allocator *allocator, const void *options, void **state) {
    const qn_disk_options *o = options;
    disk *d;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *d, &d));
    *d = (disk){.allocator = allocator, .bytes = o->bytes, .most_queues = o->n_queues};
    qn_status status = qn_monitor_create(allocator, &d->monitor);
    if (status == QN_OK)
        status = qn_swap_file_open(allocator, o->folder, (int64_t)o->bytes, o->n_queues * DEPTH,
                                   &d->file);
    if (status != QN_OK) {
        disk_close(d);
        return status;
    }
    *state = d;
    return QN_OK;
}

static bool disk_supports(const void *state, const qn_query *query) {
    (void)state;
    return query->op->output_space != NULL;
}

static size_t disk_workspace(const struct qn_machine *machine, const void *state,
                             const qn_query *query) {
    (void)machine;
    (void)state;
    (void)query;
    return 0;
}

static qn_status disk_reserve(void *state, int space, size_t bytes, qn_memory *memory) {
    const disk *d = state;
    if (bytes > d->bytes)
        return qn_fail(QN_ERROR_ARGUMENT, "%zu bytes do not fit into the swap file of %zu", bytes,
                       d->bytes);
    *memory = (qn_memory){.space = space, .bytes = bytes, .base = base};
    return QN_OK;
}

static void disk_release(void *state, qn_memory *memory) {
    (void)state;
    *memory = (qn_memory){0};
}

static qn_status disk_take_failure(void *state) {
    return qn_swap_file_settle(((const disk *)state)->file);
}

static void disk_counters(const void *state, qn_device_counters *counters) {
    const disk *d = state;
    qn_monitor_lock(d->monitor);
    *counters = d->counters;
    qn_monitor_unlock(d->monitor);
}

/* ---- a queue's thread ---- */

typedef struct transfer {
    int request;
    int64_t offset;
    size_t bytes;
} transfer;

static transfer transfer_of(const qn_queue *q, const qn_work *work, int32_t number) {
    const qn_call *call = work->call;
    const char *place = work->is_to_host ? call->in[0] : call->out[0];
    return (transfer){.request = q->first_request + number % DEPTH,
                      .offset = (int64_t)((uintptr_t)place - (uintptr_t)base),
                      .bytes = qn_tensor_bytes(call->inputs[0])};
}

static void begin(qn_queue *q, const qn_work *work, int32_t number) {
    const transfer t = transfer_of(q, work, number);
    q->begun_ns[number % DEPTH] = qn_clock_ns();
    if (work->is_to_host)
        qn_swap_file_begin_read(q->disk->file, t.request, t.offset, work->call->out[0], t.bytes);
    else
        qn_swap_file_begin_write(q->disk->file, t.request, t.offset, work->call->in[0], t.bytes);
}

static void count(disk *d, const qn_work *work, size_t bytes, int64_t ns) {
    qn_monitor_lock(d->monitor);
    d->counters.n_works++;
    d->counters.busy_ns += ns;
    if (work->is_to_host)
        d->counters.bytes_out += (int64_t)bytes;
    else
        d->counters.bytes_in += (int64_t)bytes;
    qn_monitor_unlock(d->monitor);
}

static void record(const qn_queue_watch *watch, int32_t item, int64_t begin_ns, int64_t end_ns) {
    qn_event event = watch->label;
    event.item = item;
    event.begin_ns = begin_ns;
    event.end_ns = end_ns;
    qn_events_put(watch->events, watch->thread, &event);
}

/* Waits for a work that was begun; false: it failed. */
static bool end(qn_queue *q, const qn_work *work, int32_t number, const qn_queue_watch *watch) {
    const transfer t = transfer_of(q, work, number);
    disk *d = q->disk;
    if (work->is_to_host)
        qn_swap_file_end_read(d->file, t.request, get_sum(d, t.offset));
    else
        keep_sum(d, t.offset, qn_swap_file_end_write(d->file, t.request));
    const int64_t begun_ns = q->begun_ns[number % DEPTH], now = qn_clock_ns();
    count(d, work, t.bytes, now - begun_ns);
    if (watch)
        record(watch, work->item, begun_ns, now);
    return !qn_swap_file_has_failed(d->file);
}

static bool wait_for_all(const qn_work *work) {
    for (int32_t i = 0; i < work->n_waits; i++) {
        if (!qn_timeline_sleep(work->waits[i].timeline, work->waits[i].value))
            return false;
    }
    return true;
}

/* Begins what can be, from one work on, and waits only where nothing is under way; false: what is
 * waited for never comes. */
static bool begin_ready(qn_queue *q, const qn_work *works, int32_t n, int32_t ended,
                        int32_t *begun) {
    while (*begun < n && *begun - ended < DEPTH) {
        const bool is_idle = *begun == ended;
        if (is_idle ? !wait_for_all(&works[*begun]) : !qn_work_is_ready(&works[*begun]))
            return !is_idle;
        begin(q, &works[*begun], *begun);
        ++*begun;
    }
    return true;
}

/* Works until one cannot be done: then all behind it cannot either. What was begun has ended. */
static void do_works(void *queue, const qn_work *works, int32_t n, const qn_queue_watch *watch) {
    qn_queue *q = queue;
    qn_timeline *timeline = qn_work_thread_timeline(q->thread);
    int32_t begun = 0, ended = 0;
    bool is_good = true;
    while (ended < n && is_good) {
        is_good = begin_ready(q, works, n, ended, &begun);
        if (!is_good)
            break;
        is_good = end(q, &works[ended], ended, watch);
        if (is_good)
            qn_timeline_raise(timeline, works[ended].done);
        ended++;
    }
    for (; ended < begun; ended++)
        end(q, &works[ended], ended, watch);
    if (!is_good)
        qn_timeline_fail(timeline);
}

/* ---- queues ---- */

static void disk_queue_close(qn_queue *q) {
    if (!q)
        return;
    qn_work_thread_end(q->thread);
    qn_release(q->allocator, q, 1, sizeof *q);
}

static qn_status disk_queue_open(void *state, const qn_allocator *allocator,
                                 const qn_queue_options *options, qn_queue **queue) {
    disk *d = state;
    qn_queue *q;
    if (!d)
        return qn_fail(QN_ERROR_ARGUMENT, "no folder is set to swap to; set one (--swap)");
    if (d->n_queues == d->most_queues)
        return qn_fail(QN_ERROR_ARGUMENT, "the disk was opened for %d queues only", d->most_queues);
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(add_room(d, options->n_works));
    QN_TRY(qn_allocate(allocator, 1, sizeof *q, &q));
    *q = (qn_queue){.disk = d, .allocator = allocator, .first_request = d->n_queues * DEPTH};
    const qn_status status = qn_work_thread_start(allocator, do_works, q, &q->thread);
    if (status != QN_OK) {
        disk_queue_close(q);
        return status;
    }
    d->n_queues++;
    *queue = q;
    return QN_OK;
}

static qn_timeline *disk_queue_timeline(const qn_queue *q) {
    return qn_work_thread_timeline(q->thread);
}

static void disk_submit(qn_queue *q, const qn_work *works, int32_t n, const qn_queue_watch *watch) {
    qn_work_thread_submit(q->thread, works, n, watch);
}

/* Threads, timelines and monitors are a few hundred bytes each. */
size_t qn_disk_memory(const char *folder, int n_queues, int32_t n_works) {
    return sizeof(disk) + qn_swap_file_memory(folder, n_queues * DEPTH) +
           (size_t)n_queues * (sizeof(qn_queue) + 1024) + 2 * (size_t)n_works * sizeof(sum) + 1024;
}

const qn_device qn_device_disk = {
    .name = "disk",
    .open = disk_open,
    .close = disk_close,
    .supports = disk_supports,
    .workspace = disk_workspace,
    .take_failure = disk_take_failure,
    .n_spaces = 1,
    .spaces = spaces,
    .reserve = disk_reserve,
    .release = disk_release,
    .queue_open = disk_queue_open,
    .queue_close = disk_queue_close,
    .queue_timeline = disk_queue_timeline,
    .submit = disk_submit,
    .counters = disk_counters,
};
