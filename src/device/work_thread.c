/* See work_thread.h. The monitor guards what is submitted; the works themselves are ordered by
 * timelines alone. */
#include "device/work_thread.h"

#include "base/memory.h"
#include "base/status.h"
#include "os/heap.h"
#include "os/os.h"

struct qn_work_thread {
    const qn_allocator *allocator;
    qn_do_works *do_works;
    void *queue;
    qn_timeline *timeline;
    qn_thread *thread;
    qn_monitor *monitor;
    /* under the monitor */
    const qn_work *works; /* (n_works): submitted and not taken; null: none */
    int32_t n_works;
    const qn_queue_watch *watch;
    bool is_closing;
};

static void work(void *context) {
    qn_work_thread *t = context;
    qn_monitor_lock(t->monitor);
    for (;;) {
        while (!t->works && !t->is_closing)
            qn_monitor_wait(t->monitor);
        if (!t->works)
            break;
        const qn_work *works = t->works;
        const qn_queue_watch *watch = t->watch;
        const int32_t n = t->n_works;
        t->works = NULL;
        qn_monitor_unlock(t->monitor);
        t->do_works(t->queue, works, n, watch);
        qn_monitor_lock(t->monitor);
    }
    qn_monitor_unlock(t->monitor);
}

static qn_status start(qn_work_thread *t) {
    QN_TRY(qn_timeline_create(t->allocator, &t->timeline));
    QN_TRY(qn_monitor_create(t->allocator, &t->monitor));
    return qn_thread_start(t->allocator, work, t, &t->thread);
}

qn_status qn_work_thread_start(const qn_allocator *allocator, qn_do_works *do_works, void *queue,
                               qn_work_thread **thread) {
    qn_work_thread *t;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *t, &t));
    *t = (qn_work_thread){.allocator = allocator, .do_works = do_works, .queue = queue};
    const qn_status status = start(t);
    if (status != QN_OK) {
        qn_work_thread_end(t);
        return status;
    }
    *thread = t;
    return QN_OK;
}

void qn_work_thread_end(qn_work_thread *t) {
    if (!t)
        return;
    if (t->thread) {
        qn_monitor_lock(t->monitor);
        t->is_closing = true;
        qn_monitor_notify(t->monitor);
        qn_monitor_unlock(t->monitor);
    }
    qn_thread_join(t->thread);
    qn_monitor_destroy(t->monitor);
    qn_timeline_destroy(t->timeline);
    qn_release(t->allocator, t, 1, sizeof *t);
}

qn_timeline *qn_work_thread_timeline(const qn_work_thread *t) {
    return t->timeline;
}

void qn_work_thread_submit(qn_work_thread *t, const qn_work *works, int32_t n,
                           const qn_queue_watch *watch) {
    qn_monitor_lock(t->monitor);
    t->works = works;
    t->n_works = n;
    t->watch = watch;
    qn_monitor_notify(t->monitor);
    qn_monitor_unlock(t->monitor);
}

bool qn_work_thread_has_more(const qn_work_thread *t) {
    qn_monitor_lock(t->monitor);
    const bool has_more = t->works != NULL;
    qn_monitor_unlock(t->monitor);
    return has_more;
}

void qn_work_thread_record(const qn_queue_watch *watch, const qn_work *work, int64_t begin_ns) {
    qn_work_thread_record_as(watch, work, begin_ns, qn_clock_ns());
}

void qn_work_thread_record_as(const qn_queue_watch *watch, const qn_work *work, int64_t begin_ns,
                              int64_t end_ns) {
    qn_event event = watch->label;
    event.item = work->item;
    event.kind = work->call->node->op->output_space ? QN_EVENT_QUEUED : QN_EVENT_OPERATION;
    event.begin_ns = begin_ns;
    event.end_ns = end_ns;
    qn_events_put(watch->events, watch->thread, &event);
}
