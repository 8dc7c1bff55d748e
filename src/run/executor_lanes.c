/* See executor_lanes.h. The k-th step of a lane (from 1) raises the lane's timeline to k. */
#include "run/executor_lanes.h"

#include "base/status.h"
#include "device/run_call.h"
#include "os/team.h"

typedef struct lane {
    const qn_device *device;
    void *state;
    qn_queue *queue; /* null: lane 0 */
    qn_timeline *timeline;
    qn_work *works; /* (n_works), of the runner's */
    int32_t n_works;
    qn_queue_watch watch;
} lane;

struct qn_lane_runner {
    const qn_allocator *allocator;
    const qn_plan *plan;
    const qn_machine *machine;
    qn_call *calls;
    int n_lanes, most_operands;
    uint64_t submitted;       /* ahead: the timeline of lane 1 when all of it is done; 0: nothing */
    lane lanes[QN_MAX_LANES]; /* (n_lanes) */
    qn_work *works;           /* (n_steps), those of a lane one behind the other */
    qn_fence *fences;         /* (n_waits) */
    int32_t *position;        /* (n_steps): of a step in its lane, from 1 */
    qn_memory memories[QN_MAX_SPACES];       /* of space i + 1 */
    qn_machine_device owners[QN_MAX_SPACES]; /* likewise: whose it is; zeroed: not reserved */
};

/* ---- making ---- */

static int most_operands(const qn_plan *plan, const qn_graph *graph) {
    int most = 0;
    for (int32_t s = 0; s < plan->n_steps; s++) {
        const qn_node *node = graph->nodes[plan->steps[s].node];
        const int n = node->n_inputs + node->n_outputs;
        most = n > most ? n : most;
    }
    return most;
}

/* A lane without steps has no queue: its device may be lost. */
static qn_status open_lanes(qn_lane_runner *r) {
    QN_TRY(qn_timeline_create(r->allocator, &r->lanes[0].timeline));
    for (int i = 1; i < r->n_lanes; i++) {
        lane *l = &r->lanes[i];
        const qn_queue_options options = {.n_threads = r->plan->lanes->lanes[i].n_threads,
                                          .most_operands = r->most_operands,
                                          .n_works = l->n_works};
        const qn_machine_device *d = &r->machine->devices[r->plan->lanes->lanes[i].device];
        l->device = d->device;
        l->state = d->state;
        if (l->n_works == 0)
            continue;
        if (!l->device->queue_open)
            return qn_fail(QN_ERROR_UNSUPPORTED, "the device %s has no queues", l->device->name);
        QN_TRY(l->device->queue_open(l->state, r->allocator, &options, &l->queue));
        l->timeline = l->device->queue_timeline(l->queue);
    }
    return QN_OK;
}

/* Those that have no memory yet. */
static qn_status reserve_spaces(qn_lane_runner *r) {
    const qn_machine *machine = r->machine;
    const qn_lanes *lanes = r->plan->lanes;
    for (int i = 0; i < lanes->n_further; i++) {
        const qn_machine_space *space = &machine->spaces[i + 1];
        const qn_machine_device *owner = &machine->devices[space->device];
        if (lanes->further[i].bytes == 0 || r->memories[i].base)
            continue;
        if (i + 1 >= machine->n_spaces || !owner->device->reserve)
            return qn_fail(QN_ERROR_ARGUMENT, "no device has memory of space %d", i + 1);
        QN_TRY(owner->device->reserve(owner->state, space->row, lanes->further[i].bytes,
                                      &r->memories[i]));
        r->owners[i] = *owner;
    }
    return QN_OK;
}

static bool is_to_host(const qn_node *node) {
    return node->op->output_space && node->op->output_space(node->attributes) == 0;
}

/* Works in the order of lanes, then of steps. */
static void fill_works(qn_lane_runner *r) {
    const qn_plan *plan = r->plan;
    qn_work *next = r->works;
    for (int i = 0; i < r->n_lanes; i++) {
        lane *l = &r->lanes[i];
        l->works = next;
        for (int32_t s = 0; s < plan->n_steps; s++) {
            if (plan->steps[s].lane != i)
                continue;
            r->position[s] = ++l->n_works;
            *next++ = (qn_work){.call = &r->calls[s],
                                .item = s,
                                .is_to_host = is_to_host(r->calls[s].node),
                                .done = (uint64_t)l->n_works};
        }
    }
}

/* The fences that works wait for: timelines are known. */
static void fill_fences(const qn_lane_runner *r) {
    const qn_plan *plan = r->plan;
    for (int32_t i = 0; i < plan->n_steps; i++) {
        qn_work *work = &r->works[i];
        const int32_t *waits = qn_plan_waits(plan, work->item, &work->n_waits);
        qn_fence *fences = r->fences + plan->steps[work->item].first_wait;
        for (int32_t w = 0; w < work->n_waits; w++)
            fences[w] = (qn_fence){r->lanes[plan->steps[waits[w]].lane].timeline,
                                   (uint64_t)r->position[waits[w]]};
        work->waits = fences;
    }
}

static qn_status make(qn_lane_runner *r) {
    const size_t n_steps = (size_t)r->plan->n_steps, n_waits = (size_t)r->plan->lanes->n_waits;
    QN_TRY(qn_allocate(r->allocator, n_steps, sizeof *r->works, &r->works));
    QN_TRY(qn_allocate(r->allocator, n_waits, sizeof *r->fences, &r->fences));
    QN_TRY(qn_allocate(r->allocator, n_steps, sizeof *r->position, &r->position));
    fill_works(r);
    return QN_OK;
}

qn_status qn_lane_runner_open(qn_lane_runner *r, int space, char *arena) {
    if (space > 0)
        r->memories[space - 1].base = arena;
    QN_TRY(open_lanes(r));
    QN_TRY(reserve_spaces(r));
    fill_fences(r);
    return QN_OK;
}

qn_status qn_lane_runner_create(const qn_allocator *allocator, const qn_plan *plan,
                                const qn_graph *graph, qn_call *calls, const qn_machine *machine,
                                qn_lane_runner **runner) {
    qn_lane_runner *r;
    QN_TRY(qn_allocate(allocator, 1, sizeof *r, &r));
    *r = (qn_lane_runner){.allocator = allocator,
                          .plan = plan,
                          .machine = machine,
                          .calls = calls,
                          .n_lanes = plan->lanes->n_lanes,
                          .most_operands = most_operands(plan, graph)};
    const qn_status status = make(r);
    if (status != QN_OK) {
        qn_lane_runner_destroy(r);
        return status;
    }
    *runner = r;
    return QN_OK;
}

void qn_lane_runner_destroy(qn_lane_runner *r) {
    if (!r)
        return;
    (void)qn_lane_runner_finish(r);
    for (int i = 0; i < QN_MAX_SPACES; i++) {
        if (r->owners[i].device)
            r->owners[i].device->release(r->owners[i].state, &r->memories[i]);
    }
    for (int i = 1; i < r->n_lanes; i++) {
        if (r->lanes[i].queue)
            r->lanes[i].device->queue_close(r->lanes[i].queue);
    }
    qn_timeline_destroy(r->lanes[0].timeline);
    qn_release(r->allocator, r->works, (size_t)r->plan->n_steps, sizeof *r->works);
    qn_release(r->allocator, r->fences, (size_t)r->plan->lanes->n_waits, sizeof *r->fences);
    qn_release(r->allocator, r->position, (size_t)r->plan->n_steps, sizeof *r->position);
    qn_release(r->allocator, r, 1, sizeof *r);
}

char *qn_lane_runner_space(const qn_lane_runner *r, int space) {
    return r->memories[space - 1].base;
}

/* ---- running ---- */

/* Rings of lanes come behind those of the threads. */
static int ring_of(const qn_lane_runner *r, int index) {
    return qn_team_size(r->calls[0].team) + index - 1;
}

/* A lane records into a ring of its own; null: there is none, or nobody watches. */
static const qn_queue_watch *watch_lane(lane *l, int ring, const qn_watch *watch) {
    if (!watch || ring >= qn_events_thread_count(watch->events))
        return NULL;
    l->watch = (qn_queue_watch){.events = watch->events, .thread = ring, .label = watch->label};
    l->watch.label.thread = (int16_t)ring;
    l->watch.label.kind = QN_EVENT_QUEUED;
    return &l->watch;
}

/* Works of a lane before a step. */
static int32_t count_before(const lane *l, int32_t step) {
    int32_t low = 0, high = l->n_works;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (l->works[middle].item < step)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The first step of lane 0 from one on, or the number of steps. */
static int32_t own_step(const qn_lane_runner *r, int32_t step) {
    const lane *l = &r->lanes[0];
    const int32_t n = count_before(l, step);
    return n < l->n_works ? l->works[n].item : r->plan->n_steps;
}

static void submit_all(qn_lane_runner *r, int32_t begin, int32_t end, const qn_watch *watch) {
    for (int i = 0; i < r->n_lanes; i++) {
        const int32_t n_done = count_before(&r->lanes[i], begin);
        if (r->lanes[i].timeline)
            qn_timeline_reset(r->lanes[i].timeline);
        if (r->lanes[i].timeline && n_done > 0)
            qn_timeline_raise(r->lanes[i].timeline, (uint64_t)n_done);
    }
    for (int i = 1; i < r->n_lanes; i++) {
        lane *l = &r->lanes[i];
        const int32_t first = count_before(l, begin), n = count_before(l, end) - first;
        if (n > 0)
            l->device->submit(l->queue, l->works + first, n, watch_lane(l, ring_of(r, i), watch));
    }
}

static bool is_asked_to_stop(const int *stop) {
    return stop && __atomic_load_n(stop, __ATOMIC_ACQUIRE);
}

/* Lane 0's steps from *next to before end; false: one of them cannot be done, as what it waits for
 * never comes. */
static bool run_own(const qn_lane_runner *r, int32_t *next, int32_t end, const int *stop,
                    const qn_watch *watch) {
    const lane *l = &r->lanes[0];
    void (*run)(const qn_call *) = qn_device_cpu.run;
    for (int32_t i = count_before(l, *next); i < l->n_works && l->works[i].item < end; i++) {
        const qn_work *work = &l->works[i];
        *next = work->item;
        if (is_asked_to_stop(stop))
            return true;
        if (!qn_work_wait(work))
            return false;
        if (watch)
            qn_run_recorded(run, work->call, work->item, watch->events, &watch->label);
        else
            run(work->call);
        qn_timeline_raise(l->timeline, work->done);
    }
    *next = end;
    return true;
}

/* Waits for the other lanes to be at rest; whether all steps from begin to before end are done.
 * Those that are submitted end at `most`, unless lane 0 has failed. */
static bool wait_for_lanes(const qn_lane_runner *r, int32_t begin, int32_t end, int32_t most) {
    bool is_done = true;
    for (int i = 1; i < r->n_lanes; i++) {
        const lane *l = &r->lanes[i];
        const int32_t first = count_before(l, begin), submitted = count_before(l, most);
        if (submitted == first)
            continue;
        (void)qn_timeline_wait(l->timeline, (uint64_t)submitted);
        is_done &= qn_timeline_value(l->timeline) >= (uint64_t)count_before(l, end);
    }
    return is_done;
}

/* Why a run did not come to its end: a device that is lost, if there is one. */
static qn_status tell(const qn_lane_runner *r) {
    for (int i = 1; i < r->n_lanes; i++) {
        const lane *l = &r->lanes[i];
        if (l->n_works > 0 && l->device->is_lost && l->device->is_lost(l->state))
            return qn_fail(QN_ERROR_DEVICE, "the device %s was lost while it was working",
                           l->device->name);
    }
    for (int i = 1; i < r->n_lanes; i++) {
        const lane *l = &r->lanes[i];
        if (l->n_works > 0 && l->device->take_failure)
            QN_TRY(l->device->take_failure(l->state));
    }
    return qn_fail(QN_ERROR_DEVICE, "a lane of the plan failed");
}

qn_status qn_lane_runner_run(qn_lane_runner *r, int32_t *next, int32_t end, const int *stop,
                             uint64_t seed, uint64_t step, const qn_watch *watch) {
    const int32_t begin = *next, most = own_step(r, end);
    for (int32_t s = 0; s < r->plan->n_steps; s++) {
        r->calls[s].seed = seed;
        r->calls[s].step = step;
    }
    submit_all(r, begin, most, watch);
    const bool is_good = run_own(r, next, most, stop, watch);
    if (!is_good || *next < most)
        qn_timeline_fail(r->lanes[0].timeline);
    return wait_for_lanes(r, begin, *next, most) && is_good ? QN_OK : tell(r);
}

/* ---- running ahead ---- */

bool qn_lane_runner_can_go_ahead(const qn_lane_runner *r) {
    return r->n_lanes == 2 && r->lanes[0].n_works == 0 && r->lanes[1].queue &&
           r->lanes[1].device->submit_behind;
}

void qn_lane_runner_await_begun(const qn_lane_runner *r) {
    const lane *l = &r->lanes[1];
    if (r->submitted > 0)
        (void)qn_timeline_wait(l->device->queue_begun(l->queue), r->submitted);
}

/* Works of the device up to the last that copies to the host. */
static uint64_t count_to_host(const lane *l) {
    int32_t n = l->n_works;
    while (n > 0 && !l->works[n - 1].is_to_host)
        n--;
    return (uint64_t)n;
}

qn_status qn_lane_runner_run_ahead(qn_lane_runner *r, uint64_t seed, uint64_t step) {
    const lane *l = &r->lanes[1];
    const uint64_t from = r->submitted;
    qn_lane_runner_await_begun(r);
    for (int32_t s = 0; s < r->plan->n_steps; s++) {
        r->calls[s].seed = seed;
        r->calls[s].step = step;
    }
    if (from == 0) {
        qn_timeline_reset(l->timeline);
        l->device->submit(l->queue, l->works, l->n_works, NULL);
    } else {
        l->device->submit_behind(l->queue, l->works, l->n_works, from);
    }
    r->submitted += (uint64_t)l->n_works;
    return qn_timeline_wait(l->timeline, from + count_to_host(l)) ? QN_OK : tell(r);
}

qn_status qn_lane_runner_finish(qn_lane_runner *r) {
    const uint64_t submitted = r->submitted;
    r->submitted = 0;
    if (submitted == 0 || qn_timeline_wait(r->lanes[1].timeline, submitted))
        return QN_OK;
    return tell(r);
}
