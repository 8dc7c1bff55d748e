/* See host_queue.h. The monitor guards the submitted work; only timelines order its execution. */
#include "device/host_queue.h"

#include "base/memory.h"
#include "base/status.h"
#include "device/run_call.h"
#include "device/work_thread.h"
#include "os/heap.h"
#include "os/os.h"
#include "os/team.h"

struct qn_queue {
    const qn_allocator *allocator;
    void (*run)(const qn_call *call);
    qn_host_queue_hooks hooks;
    qn_team *team;
    qn_work_thread *thread;
};

/* ---- the thread ---- */

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
static void do_works(void *queue, const qn_work *works, int32_t n, const qn_queue_watch *watch) {
    const qn_queue *q = queue;
    qn_timeline *timeline = qn_work_thread_timeline(q->thread);
    for (int32_t i = 0; i < n; i++) {
        if (!qn_work_wait(&works[i]) ||
            (q->hooks.begin && !q->hooks.begin(q->hooks.user, &works[i]))) {
            qn_timeline_fail(timeline);
            return;
        }
        run_work(q, &works[i], watch);
        qn_timeline_raise(timeline, works[i].done);
    }
}

/* ---- the queue ---- */

static qn_status start(qn_queue *q, int n_threads) {
    QN_TRY(qn_team_create(q->allocator, n_threads, &q->team));
    return qn_work_thread_start(q->allocator, do_works, q, &q->thread);
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
    qn_work_thread_end(q->thread);
    qn_team_destroy(q->team);
    qn_release(q->allocator, q, 1, sizeof *q);
}

qn_timeline *qn_host_queue_timeline(const qn_queue *q) {
    return qn_work_thread_timeline(q->thread);
}

void *qn_host_queue_user(const qn_queue *q) {
    return q->hooks.user;
}

void qn_host_queue_submit(qn_queue *q, const qn_work *works, int32_t n,
                          const qn_queue_watch *watch) {
    qn_work_thread_submit(q->thread, works, n, watch);
}
