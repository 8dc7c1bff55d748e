/* See host_queue.h. The monitor guards what is submitted; the works themselves are ordered by
 * timelines alone. */
#include "device/host_queue.h"

#include "base/memory.h"
#include "base/status.h"
#include "device/run_call.h"
#include "os/heap.h"
#include "os/os.h"
#include "os/team.h"

struct qn_queue {
    const qn_allocator *allocator;
    void (*run)(const qn_call *call);
    qn_host_queue_hooks hooks;
    qn_team *team;
    qn_timeline *timeline;
    qn_thread *thread;
    qn_monitor *monitor;
    /* under the monitor */
    const qn_work *works; /* (n_works): submitted and not taken; null: none */
    int32_t n_works;
    const qn_queue_watch *watch;
    bool is_closing;
};

/* ---- the thread ---- */

static bool wait_for_all(const qn_work *work) {
    for (int32_t i = 0; i < work->n_waits; i++) {
        if (!qn_timeline_wait(work->waits[i].timeline, work->waits[i].value))
            return false;
    }
    return true;
}

static void run_work(const qn_queue *q, const qn_work *work, const qn_queue_watch *watch) {
    qn_call call = *work->call;
    call.team = q->team;
    const qn_call *made = q->hooks.translate ? q->hooks.translate(q->hooks.user, &call) : &call;
    if (watch)
        qn_run_recorded(q->run, made, work->item, watch->events, &watch->label);
    else
        q->run(made);
}

/* Works until one cannot be done: then all behind it cannot either. */
static void do_works(const qn_queue *q, const qn_work *works, int32_t n,
                     const qn_queue_watch *watch) {
    for (int32_t i = 0; i < n; i++) {
        if (!wait_for_all(&works[i]) ||
            (q->hooks.begin && !q->hooks.begin(q->hooks.user, &works[i]))) {
            qn_timeline_fail(q->timeline);
            return;
        }
        run_work(q, &works[i], watch);
        qn_timeline_raise(q->timeline, works[i].done);
    }
}

static void work(void *context) {
    qn_queue *q = context;
    qn_monitor_lock(q->monitor);
    for (;;) {
        while (!q->works && !q->is_closing)
            qn_monitor_wait(q->monitor);
        if (!q->works)
            break;
        const qn_work *works = q->works;
        const qn_queue_watch *watch = q->watch;
        const int32_t n = q->n_works;
        q->works = NULL;
        qn_monitor_unlock(q->monitor);
        do_works(q, works, n, watch);
        qn_monitor_lock(q->monitor);
    }
    qn_monitor_unlock(q->monitor);
}

/* ---- the queue ---- */

static qn_status start(qn_queue *q, int n_threads) {
    QN_TRY(qn_team_create(q->allocator, n_threads, &q->team));
    QN_TRY(qn_timeline_create(q->allocator, &q->timeline));
    QN_TRY(qn_monitor_create(q->allocator, &q->monitor));
    return qn_thread_start(q->allocator, work, q, &q->thread);
}

qn_status qn_host_queue_open(const qn_allocator *allocator, int n_threads,
                             void (*run)(const qn_call *call), const qn_host_queue_hooks *hooks,
                             qn_queue **queue) {
    qn_queue *q;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *q, &q));
    *q = (qn_queue){.allocator = allocator, .run = run};
    if (hooks)
        q->hooks = *hooks;
    const qn_status status = start(q, n_threads);
    if (status != QN_OK) {
        qn_host_queue_close(q);
        return status;
    }
    *queue = q;
    return QN_OK;
}

void qn_host_queue_close(qn_queue *q) {
    if (!q)
        return;
    if (q->thread) {
        qn_monitor_lock(q->monitor);
        q->is_closing = true;
        qn_monitor_notify(q->monitor);
        qn_monitor_unlock(q->monitor);
    }
    qn_thread_join(q->thread);
    qn_monitor_destroy(q->monitor);
    qn_timeline_destroy(q->timeline);
    qn_team_destroy(q->team);
    qn_release(q->allocator, q, 1, sizeof *q);
}

qn_timeline *qn_host_queue_timeline(const qn_queue *q) {
    return q->timeline;
}

void *qn_host_queue_user(const qn_queue *q) {
    return q->hooks.user;
}

void qn_host_queue_submit(qn_queue *q, const qn_work *works, int32_t n,
                          const qn_queue_watch *watch) {
    qn_monitor_lock(q->monitor);
    q->works = works;
    q->n_works = n;
    q->watch = watch;
    qn_monitor_notify(q->monitor);
    qn_monitor_unlock(q->monitor);
}
