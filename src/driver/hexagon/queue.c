/* A queue of a DSP: a host thread collects works until one of them waits for another lane or is a
 * copy, and sends them in one message. The memory is shared, so the thread does copies itself. */
#include "base/memory.h"
#include "base/status.h"
#include "device/work_thread.h"
#include "driver/hexagon/state.h"
#include "os/heap.h"

#include <string.h>

struct qn_queue {
    const qn_allocator *allocator;
    qn_hexagon *device;
    qn_work_thread *thread;
    int n_tasks;
    uint64_t last; /* of the tasks' works */
    qn_hexagon_task tasks[QN_DSP_MOST_COMMANDS];
};

static void count(int64_t *counter, int64_t n) {
    (void)__atomic_add_fetch(counter, n, __ATOMIC_RELAXED);
}

/* ---- works ---- */

static bool send_tasks(qn_queue *q) {
    const int n = q->n_tasks;
    q->n_tasks = 0;
    if (n == 0)
        return true;
    if (!qn_hexagon_do(q->device, q->tasks, n))
        return false;
    qn_timeline_raise(qn_work_thread_timeline(q->thread), q->last);
    return true;
}

static void copy(qn_queue *q, const qn_work *work) {
    qn_device_counters *counters = &q->device->counters;
    const size_t bytes = qn_tensor_bytes(work->call->outputs[0]);
    memcpy(work->call->out[0], work->call->in[0], bytes);
    count(work->is_to_host ? &counters->bytes_out : &counters->bytes_in, (int64_t)bytes);
    qn_timeline_raise(qn_work_thread_timeline(q->thread), work->done);
}

static bool add_task(qn_queue *q, const qn_work *work) {
    qn_hexagon *h = q->device;
    if (q->n_tasks == QN_DSP_MOST_COMMANDS && !send_tasks(q))
        return false;
    if (qn_hexagon_is_lost(h) || !qn_hexagon_make_task(h, work->call, &q->tasks[q->n_tasks]))
        return false;
    q->n_tasks++;
    q->last = work->done;
    return true;
}

/* Where it is watched, to its end, so that its time is its own: not the emulator's. */
static bool do_work(qn_queue *q, const qn_work *work, const qn_queue_watch *watch) {
    const bool is_copy = work->call->node->op->output_space != NULL;
    if ((is_copy || !qn_work_is_ready(work)) && !send_tasks(q))
        return false;
    if (!qn_work_wait(work))
        return false;
    const int64_t begin_ns = qn_clock_ns();
    count(&q->device->counters.n_works, 1);
    if (is_copy)
        copy(q, work);
    else if (!add_task(q, work))
        return false;
    if (!watch)
        return true;
    if (!send_tasks(q))
        return false;
    const double ns = is_copy ? qn_hexagon_copy_ns(qn_tensor_bytes(work->call->outputs[0]))
                              : q->tasks[0].packets / qn_hexagon_model.counts_per_ns;
    qn_work_thread_record_as(watch, work, begin_ns, begin_ns + (int64_t)ns);
    return true;
}

static void do_works(void *queue, const qn_work *works, int32_t n, const qn_queue_watch *watch) {
    qn_queue *q = queue;
    const int64_t begin_ns = qn_clock_ns();
    bool is_good = true;
    q->n_tasks = 0;
    for (int32_t i = 0; i < n && is_good; i++)
        is_good = do_work(q, &works[i], watch);
    is_good = is_good && send_tasks(q);
    count(&q->device->counters.busy_ns, qn_clock_ns() - begin_ns);
    if (!is_good)
        qn_timeline_fail(qn_work_thread_timeline(q->thread));
}

/* ---- the queue ---- */

void qn_hexagon_queue_close(qn_queue *q) {
    if (!q)
        return;
    qn_work_thread_end(q->thread);
    qn_release(q->allocator, q, 1, sizeof *q);
}

qn_status qn_hexagon_queue_open(void *state, const qn_allocator *allocator,
                                const qn_queue_options *options, qn_queue **queue) {
    qn_queue *q;
    (void)options;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *q, &q));
    q->allocator = allocator;
    q->device = state;
    const qn_status status = qn_work_thread_start(allocator, do_works, q, &q->thread);
    if (status != QN_OK) {
        qn_hexagon_queue_close(q);
        return status;
    }
    *queue = q;
    return QN_OK;
}

qn_timeline *qn_hexagon_queue_timeline(const qn_queue *q) {
    return qn_work_thread_timeline(q->thread);
}

void qn_hexagon_queue_submit(qn_queue *q, const qn_work *works, int32_t n,
                             const qn_queue_watch *watch) {
    qn_work_thread_submit(q->thread, works, n, watch);
}
