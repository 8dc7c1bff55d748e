/* A queue of a GPU: a host thread starts the kernels and copies of works in order, ahead
 * of the device, and waits for it only where someone else may: before it sleeps for another
 * timeline, after a copy to the host, and at the end. The timeline is raised then. */
#include "base/memory.h"
#include "base/status.h"
#include "device/gpu/operators.h"
#include "device/work_thread.h"
#include "os/heap.h"
#include "os/os.h"

struct qn_queue {
    const qn_allocator *allocator;
    qn_gpu *device;
    void *stream;        /* the driver's */
    qn_gpu_lists *lists; /* null: kernels are started one by one */
    qn_work_thread *thread;
};

/* ---- works ---- */

static void count(int64_t *counter, int64_t n) {
    (void)__atomic_add_fetch(counter, n, __ATOMIC_RELAXED);
}

/* What comes to the host does so when all before it is done: what a device that is lost for its
 * silence has not begun by then writes into no memory of the host later. */
static bool start_copy(qn_queue *q, const qn_work *work) {
    qn_gpu *d = q->device;
    const qn_call *call = work->call;
    const size_t bytes = qn_tensor_bytes(call->outputs[0]);
    size_t offset = 0;
    const qn_gpu_buffer *b =
        qn_gpu_locate(d, work->is_to_host ? call->in[0] : call->out[0], &offset);
    if (!b)
        return qn_gpu_lose(d, "finding a copy's place", "no memory has it", 0);
    if (work->is_to_host && !qn_gpu_finish(d, q->stream))
        return false;
    if (!d->driver->copy(d, q->stream, b, offset, work->is_to_host ? call->out[0] : call->in[0],
                         bytes, work->is_to_host))
        return false;
    count(work->is_to_host ? &d->counters.bytes_out : &d->counters.bytes_in, (int64_t)bytes);
    return true;
}

/* What was gathered, if anything. */
static bool start_lists(const qn_queue *q) {
    return !q->lists || qn_gpu_lists_start(q->lists);
}

/* Where somebody watches, or pieces are waited for, a kernel is not gathered. */
static bool start(qn_queue *q, const qn_work *work, bool is_gathered) {
    const qn_call *call = work->call;
    count(&q->device->counters.n_works, 1);
    if (call->node->op->output_space)
        return start_lists(q) && start_copy(q, work);
    qn_gpu_line line = {
        .device = q->device, .stream = q->stream, .lists = is_gathered ? q->lists : NULL};
    const qn_gpu_operator *row = qn_gpu_find(call->node->op);
    if (row)
        row->run(&line, call);
    if (row && !line.has_failed)
        return true;
    return qn_gpu_lose(q->device, "finding an operand", "no memory has it", 0);
}

/* Waits for all that was started, and says so. */
static bool finish(qn_queue *q, uint64_t done) {
    if (!start_lists(q) || !qn_gpu_finish(q->device, q->stream))
        return false;
    qn_timeline_raise(qn_work_thread_timeline(q->thread), done);
    return true;
}

/* One work; where it is watched, to its end, so that its time is its own. done: of the last work
 * that was started before, or 0 where all of them are done. */
static bool do_work(qn_queue *q, const qn_work *work, uint64_t *started,
                    const qn_queue_watch *watch) {
    if (!qn_work_is_ready(work)) {
        if (*started > 0 && !finish(q, *started))
            return false;
        *started = 0;
        if (!qn_work_wait(work))
            return false;
    }
    const int64_t begin_ns = qn_clock_ns();
    if (qn_gpu_is_lost(q->device) || !start(q, work, !watch))
        return false;
    *started = work->done;
    if (!watch && !work->is_to_host)
        return true;
    *started = 0;
    if (!finish(q, work->done))
        return false;
    if (watch)
        qn_work_thread_record(watch, work, begin_ns);
    return true;
}

static void do_works(void *queue, const qn_work *works, int32_t n, const qn_queue_watch *watch) {
    qn_queue *q = queue;
    const int64_t begin_ns = qn_clock_ns();
    uint64_t started = 0;
    bool is_good = true;
    if (q->lists)
        qn_gpu_lists_begin(q->lists);
    for (int32_t i = 0; i < n && is_good; i++)
        is_good = do_work(q, &works[i], &started, watch);
    if (is_good && started > 0)
        is_good = finish(q, started);
    count(&q->device->counters.busy_ns, qn_clock_ns() - begin_ns);
    if (is_good)
        return;
    if (!qn_gpu_is_silent(q->device)) /* what reads or writes the host's memory shall have ended */
        (void)qn_gpu_finish(q->device, q->stream);
    qn_timeline_fail(qn_work_thread_timeline(q->thread));
}

/* ---- the queue ---- */

void qn_gpu_queue_close(qn_queue *q) {
    if (!q)
        return;
    qn_work_thread_end(q->thread);
    qn_gpu_lists_destroy(q->lists);
    if (q->stream && !qn_gpu_is_silent(q->device))
        q->device->driver->stream_close(q->device, q->stream);
    qn_release(q->allocator, q, 1, sizeof *q);
}

static qn_status open(qn_queue *q, int32_t n_works) {
    QN_TRY(q->device->driver->stream_open(q->device, &q->stream));
    QN_TRY(qn_gpu_lists_create(q->allocator, q->device, q->stream, n_works, &q->lists));
    return qn_work_thread_start(q->allocator, do_works, q, &q->thread);
}

qn_status qn_gpu_queue_open(void *state, const qn_allocator *allocator,
                            const qn_queue_options *options, qn_queue **queue) {
    qn_queue *q;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *q, &q));
    *q = (qn_queue){.allocator = allocator, .device = state};
    const qn_status status = open(q, options->n_works);
    if (status != QN_OK) {
        qn_gpu_queue_close(q);
        return status;
    }
    *queue = q;
    return QN_OK;
}

qn_timeline *qn_gpu_queue_timeline(const qn_queue *q) {
    return qn_work_thread_timeline(q->thread);
}

void qn_gpu_queue_submit(qn_queue *q, const qn_work *works, int32_t n,
                         const qn_queue_watch *watch) {
    qn_work_thread_submit(q->thread, works, n, watch);
}
