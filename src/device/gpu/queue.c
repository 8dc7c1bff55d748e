/* A queue of a GPU: a host thread starts the kernels and copies of works in order, ahead of the
 * device. What the host needs meanwhile is marked, and the timeline is raised when the device is
 * there; the thread waits for all only before it sleeps for another timeline and at the end, and
 * goes on at once where more was submitted by then. Small copies go by way of the device's room, so
 * that the host's memory is neither read late nor written late. */
#include "base/memory.h"
#include "base/status.h"
#include "device/gpu/operators.h"
#include "device/work_thread.h"
#include "os/heap.h"
#include "os/os.h"

#include <string.h>

/* What comes to the host when a mark is reached. */
typedef struct answer {
    void *to;
    const char *from;
    size_t bytes;
} answer;

/* Where works were at when the stream was marked, and the end of the room that is free then. */
enum { MOST_ANSWERS = 4 };

typedef struct mark {
    uint64_t value, room_end;
    int n_answers;
    answer answers[MOST_ANSWERS];
} mark;

/* Marks m of those that were made so far, first_mark <= m < n_marks, are not known to be reached.
 * Bytes of the room: room_begin <= b < room_end are in use, of all that were ever taken. */
struct qn_queue {
    const qn_allocator *allocator;
    qn_gpu *device;
    void *stream;        /* the driver's */
    qn_gpu_lists *lists; /* null: kernels are started one by one */
    qn_work_thread *thread;
    qn_timeline *begun;
    uint64_t next_from; /* of the works that are submitted next */
    uint64_t from;      /* of those that are done: the timeline's value before them */
    uint64_t started;   /* the timeline's value, once all that was started is done */
    bool is_unmarked;   /* something was started since the last mark */
    uint64_t first_mark, n_marks;
    uint64_t room_begin, room_end;
    mark marks[QN_GPU_MARKS - 1];
    mark next; /* that is to come: its answers so far */
};

static void count(int64_t *counter, int64_t n) {
    (void)__atomic_add_fetch(counter, n, __ATOMIC_RELAXED);
}

/* ---- marks ---- */

static int slot_of(uint64_t number) {
    return 1 + (int)(number % (QN_GPU_MARKS - 1));
}

static mark *mark_at(qn_queue *q, uint64_t number) {
    return &q->marks[slot_of(number) - 1];
}

/* The oldest mark was reached. */
static void pass_mark(qn_queue *q) {
    const mark *m = mark_at(q, q->first_mark++);
    for (int i = 0; i < m->n_answers; i++)
        memcpy(m->answers[i].to, m->answers[i].from, m->answers[i].bytes);
    q->room_begin = m->room_end;
    if (m->value > qn_timeline_value(qn_work_thread_timeline(q->thread)))
        qn_timeline_raise(qn_work_thread_timeline(q->thread), m->value);
}

static bool has_more(const void *queue) {
    return qn_work_thread_has_more(((const qn_queue *)queue)->thread);
}

/* Waits for the oldest mark; *is_done false: more was submitted meanwhile. */
static bool await_mark(qn_queue *q, bool is_interrupted, bool *is_done) {
    if (!qn_gpu_await(q->device, q->stream, slot_of(q->first_mark),
                      is_interrupted ? has_more : NULL, q, is_done))
        return false;
    if (*is_done)
        pass_mark(q);
    return true;
}

/* Waits until at most so many marks are left. */
static bool await_marks(qn_queue *q, uint64_t most) {
    bool is_done;
    while (q->n_marks - q->first_mark > most) {
        if (!await_mark(q, false, &is_done))
            return false;
    }
    return true;
}

/* Passes those that are reached by now. */
static bool look(qn_queue *q) {
    bool is_done = true;
    while (is_done && q->first_mark < q->n_marks) {
        if (!q->device->driver->is_done(q->device, q->stream, slot_of(q->first_mark), &is_done))
            return false;
        if (is_done)
            pass_mark(q);
    }
    return true;
}

/* What was gathered, if anything. */
static bool start_lists(const qn_queue *q) {
    return !q->lists || qn_gpu_lists_start(q->lists);
}

/* Marks all that was started. */
static bool add_mark(qn_queue *q) {
    if (!start_lists(q) || !await_marks(q, QN_GPU_MARKS - 2) ||
        !q->device->driver->mark(q->device, q->stream, slot_of(q->n_marks)))
        return false;
    q->next.value = q->started;
    q->next.room_end = q->room_end;
    *mark_at(q, q->n_marks++) = q->next;
    q->next.n_answers = 0;
    q->is_unmarked = false;
    return true;
}

static bool mark_all(qn_queue *q) {
    return !q->is_unmarked || add_mark(q);
}

/* Where something is to come to the host, it does not wait for what is started now. */
static bool mark_answers(qn_queue *q) {
    return q->next.n_answers == 0 || add_mark(q);
}

/* Waits for all that was started, and says so. */
static bool finish(qn_queue *q) {
    return mark_all(q) && await_marks(q, 0);
}

static void note_started(qn_queue *q, const qn_work *work) {
    q->started = q->from + work->done;
    q->is_unmarked = true;
}

/* ---- copies ---- */

/* A piece of the room, once it is free; null: the device is lost. */
static char *take_room(qn_queue *q, size_t bytes) {
    const size_t needed = (bytes + QN_ALIGNMENT - 1) / QN_ALIGNMENT * QN_ALIGNMENT;
    const size_t at = q->room_end % QN_GPU_ROOM_BYTES;
    if (at + needed > QN_GPU_ROOM_BYTES)
        q->room_end += QN_GPU_ROOM_BYTES - at;
    if (q->room_end + needed - q->room_begin > QN_GPU_ROOM_BYTES && !finish(q))
        return NULL;
    char *piece = q->device->room + q->room_end % QN_GPU_ROOM_BYTES;
    q->room_end += needed;
    return piece;
}

/* What is too large for the room comes to the host when all before it is done: what a device that
 * is lost for its silence has not begun by then writes into no memory of the host later. */
static bool copy_out(qn_queue *q, const qn_work *work, const qn_gpu_buffer *b, size_t offset,
                     size_t bytes) {
    void *to = work->call->out[0];
    const bool is_small = bytes <= QN_GPU_ROOM_BYTES / 2;
    char *by = is_small ? take_room(q, bytes) : to;
    if (!by || (!is_small && !finish(q)) ||
        !q->device->driver->copy(q->device, q->stream, b, offset, by, bytes, true))
        return false;
    note_started(q, work);
    if (!is_small)
        return finish(q);
    q->next.answers[q->next.n_answers++] = (answer){to, by, bytes};
    return q->next.n_answers < MOST_ANSWERS || add_mark(q);
}

static bool copy_in(qn_queue *q, const qn_work *work, const qn_gpu_buffer *b, size_t offset,
                    size_t bytes) {
    void *from = work->call->in[0];
    char *by = from;
    if (bytes <= QN_TAKEN_AT_ONCE) {
        by = take_room(q, bytes);
        if (!by)
            return false;
        memcpy(by, from, bytes);
    }
    if (!q->device->driver->copy(q->device, q->stream, b, offset, by, bytes, false))
        return false;
    note_started(q, work);
    return true;
}

static bool start_copy(qn_queue *q, const qn_work *work) {
    qn_gpu *d = q->device;
    const qn_call *call = work->call;
    const size_t bytes = qn_tensor_bytes(call->outputs[0]);
    size_t offset = 0;
    const qn_gpu_buffer *b =
        qn_gpu_locate(d, work->is_to_host ? call->in[0] : call->out[0], &offset);
    if (!b)
        return qn_gpu_lose(d, "finding a copy's place", "no memory has it", 0);
    if (!(work->is_to_host ? copy_out(q, work, b, offset, bytes)
                           : copy_in(q, work, b, offset, bytes)))
        return false;
    count(work->is_to_host ? &d->counters.bytes_out : &d->counters.bytes_in, (int64_t)bytes);
    return true;
}

/* ---- works ---- */

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
    note_started(q, work);
    if (row && !line.has_failed)
        return true;
    return qn_gpu_lose(q->device, "finding an operand", "no memory has it", 0);
}

/* One work; where it is watched, to its end, so that its time is its own. */
static bool do_work(qn_queue *q, const qn_work *work, const qn_queue_watch *watch) {
    if (!qn_work_is_ready(work) && (!finish(q) || !qn_work_wait(work)))
        return false;
    const int64_t begin_ns = qn_clock_ns();
    if ((!work->is_to_host && !mark_answers(q)) || !look(q) || qn_gpu_is_lost(q->device) ||
        !start(q, work, !watch))
        return false;
    if (!watch)
        return true;
    if (!finish(q))
        return false;
    qn_work_thread_record(watch, work, begin_ns);
    return true;
}

/* Waits for all, or until more is submitted. */
static bool finish_or_go_on(qn_queue *q) {
    bool is_done = true;
    if (!mark_all(q))
        return false;
    while (is_done && q->first_mark < q->n_marks) {
        if (!await_mark(q, true, &is_done))
            return false;
    }
    return true;
}

static bool do_all(qn_queue *q, const qn_work *works, int32_t n, const qn_queue_watch *watch) {
    if (q->lists)
        qn_gpu_lists_begin(q->lists);
    for (int32_t i = 0; i < n; i++) {
        if (!do_work(q, &works[i], watch))
            return false;
    }
    if (!start_lists(q))
        return false;
    qn_timeline_raise(q->begun, q->started);
    return finish_or_go_on(q);
}

/* What reads or writes the room or the host's memory shall have ended. */
static void fail(qn_queue *q) {
    if (!qn_gpu_is_silent(q->device))
        (void)qn_gpu_finish(q->device, q->stream);
    q->first_mark = q->n_marks;
    q->room_begin = q->room_end;
    q->next.n_answers = 0;
    q->is_unmarked = false;
    qn_timeline_fail(q->begun);
    qn_timeline_fail(qn_work_thread_timeline(q->thread));
}

static void do_works(void *queue, const qn_work *works, int32_t n, const qn_queue_watch *watch) {
    qn_queue *q = queue;
    const int64_t begin_ns = qn_clock_ns();
    q->from = q->next_from;
    count(&q->device->counters.n_idle, q->first_mark == q->n_marks);
    if (!do_all(q, works, n, watch))
        fail(q);
    count(&q->device->counters.busy_ns, qn_clock_ns() - begin_ns);
}

/* ---- the queue ---- */

void qn_gpu_queue_close(qn_queue *q) {
    if (!q)
        return;
    qn_work_thread_end(q->thread);
    qn_gpu_lists_destroy(q->lists);
    qn_timeline_destroy(q->begun);
    if (q->stream && qn_gpu_is_silent(q->device))
        qn_gpu_leave(q->stream);
    else if (q->stream)
        q->device->driver->stream_close(q->device, q->stream);
    qn_release(q->allocator, q, 1, sizeof *q);
}

static qn_status open(qn_queue *q, int32_t n_works) {
    QN_TRY(qn_timeline_create(q->allocator, &q->begun));
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

qn_timeline *qn_gpu_queue_begun(const qn_queue *q) {
    return q->begun;
}

void qn_gpu_queue_submit(qn_queue *q, const qn_work *works, int32_t n,
                         const qn_queue_watch *watch) {
    q->next_from = 0;
    qn_timeline_reset(q->begun);
    qn_work_thread_submit(q->thread, works, n, watch);
}

void qn_gpu_queue_submit_behind(qn_queue *q, const qn_work *works, int32_t n, uint64_t from) {
    q->next_from = from;
    qn_work_thread_submit(q->thread, works, n, NULL);
}
