/* See cores.h: whole steps of a plan before training, and what its operations take in them. */
#include "base/status.h"
#include "os/os.h"
#include "run/cores/cores.h"

#include <math.h>
#include <string.h>

/* Runs of a plan after one that warms up, and as many as fit into some time; records that are taken
 * at a time. */
enum { RUNS = 2, MOST_RUNS = 6, BATCH = 128 };

static const int64_t enough_ns = 30000000;

/* Steps of the timetable's plan come in the order of its ranks. */
static void take_event(const qn_core_seeing *c, const qn_event *e, int64_t begin_ns) {
    if ((e->kind != QN_EVENT_OPERATION && e->kind != QN_EVENT_QUEUED) || e->item < 0 ||
        e->item >= c->tasks->n)
        return;
    const int32_t task = c->timetable->order[e->item];
    const double ns = (double)(e->end_ns - e->begin_ns);
    c->ns[task] = c->ns[task] < 0 || ns < c->ns[task] ? ns : c->ns[task];
    c->turns[task] = c->timetable->turns[task];
    c->turns[task].begin_ns = (double)(e->begin_ns - begin_ns);
    c->turns[task].end_ns = (double)(e->end_ns - begin_ns);
}

static void take_events(const qn_core_seeing *c, int64_t begin_ns) {
    qn_events *events = c->events;
    qn_event taken[BATCH];
    size_t n;
    for (int thread = 0; thread < qn_events_thread_count(events); thread++) {
        while ((n = qn_events_take(events, thread, taken, BATCH)) > 0) {
            for (size_t i = 0; i < n; i++)
                take_event(c, &taken[i], begin_ns);
        }
    }
}

static void keep_run(const qn_core_seeing *c, double ns) {
    memcpy(c->seen->turns, c->turns, (size_t)c->tasks->n * sizeof *c->turns);
    memcpy(c->seen->order, c->timetable->order, (size_t)c->tasks->n * sizeof *c->seen->order);
    c->seen->ns = ns;
}

/* By what was seen of what was predicted beside the same others: the root of it, as one time is as
 * much chance as knowledge. */
static void correct(const qn_core_seeing *c, int32_t task) {
    qn_curve *curve = &c->tasks->curves[task];
    const qn_turn *turn = &c->timetable->turns[task];
    const double factor = sqrt(c->ns[task] / fmax(1, turn->end_ns - turn->begin_ns));
    curve->alone_ns *= factor;
    curve->serial_ns *= factor;
    curve->least_ns *= factor;
    curve->thread_ns *= factor;
}

qn_status qn_cores_begin_seeing(const qn_allocator *a, qn_core_seeing *c) {
    const size_t n = (size_t)c->tasks->n;
    c->allocator = a;
    qn_status status = qn_allocate(a, n + 1, sizeof *c->ns, &c->ns);
    if (status == QN_OK)
        status = qn_allocate(a, n + 1, sizeof *c->turns, &c->turns);
    if (status == QN_OK)
        status = qn_events_create(a, c->cores->n, 2 * n + BATCH, &c->events);
    for (size_t i = 0; status == QN_OK && i < n; i++)
        c->ns[i] = -1;
    if (status != QN_OK)
        qn_cores_end_seeing(c);
    return status;
}

void qn_cores_see(const qn_core_seeing *c, int64_t begin_ns, double ns, bool is_least) {
    take_events(c, begin_ns);
    if (is_least)
        keep_run(c, ns);
}

void qn_cores_correct(const qn_core_seeing *c) {
    for (int32_t i = 0; i < c->tasks->n; i++) {
        if (c->ns[i] > 0)
            correct(c, i);
    }
}

void qn_cores_end_seeing(qn_core_seeing *c) {
    if (!c->allocator)
        return;
    const size_t n = (size_t)c->tasks->n + 1;
    qn_events_destroy(c->events);
    qn_release(c->allocator, c->ns, n, sizeof *c->ns);
    qn_release(c->allocator, c->turns, n, sizeof *c->turns);
    *c = (qn_core_seeing){0};
}

/* ---- rehearsal ---- */

/* Steps of the one-by-one plan are not recorded, as its times were measured. */
static qn_status run(const qn_core_seeing *c, const qn_rehearsal *r, qn_executor *executor,
                     qn_cores_use *use, double *least_ns) {
    const qn_watch watch = {.events = c->events};
    int64_t ns, all_ns = 0;
    QN_TRY(qn_rehearsal_run(r, executor, NULL, &ns));
    use->n_profiled++;
    for (int i = 0; i < RUNS || (i < MOST_RUNS && all_ns < enough_ns); i++, all_ns += ns) {
        const int64_t begin_ns = qn_clock_ns();
        QN_TRY(qn_rehearsal_run(r, executor, c->events ? &watch : NULL, &ns));
        const bool is_least = i == 0 || (double)ns < *least_ns;
        *least_ns = is_least ? (double)ns : *least_ns;
        use->n_profiled++;
        if (c->events)
            qn_cores_see(c, begin_ns, (double)ns, is_least);
    }
    return QN_OK;
}

qn_status qn_cores_rehearse(const qn_rehearsal *r, qn_executor *executor,
                            const qn_timetable *timetable, const qn_cores *cores, qn_tasks *tasks,
                            qn_timetable *seen, qn_cores_use *use, double *least_ns) {
    qn_core_seeing c = {.timetable = timetable, .cores = cores, .tasks = tasks, .seen = seen};
    if (!timetable)
        return run(&c, r, executor, use, least_ns);
    QN_TRY(qn_cores_begin_seeing(&r->engine->allocator, &c));
    const qn_status status = run(&c, r, executor, use, least_ns);
    if (status == QN_OK)
        qn_cores_correct(&c);
    qn_cores_end_seeing(&c);
    return status;
}
