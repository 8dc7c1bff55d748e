/* See runner.h. */
#include "run/cores/runner.h"

#include "base/memory.h"
#include "base/status.h"
#include "device/device.h"
#include "device/run_call.h"
#include "os/os.h"
#include "os/process/pause.h"
#include "os/team.h"

#include <string.h>

/* Looks around before a step of another lane is taken: its thread comes sooner if it is there.
 * Looks until the clock is read; then, long without work, a nap at a time. */
enum { PATIENCE = 32, LOOKS = 64, SPIN_NS = 300000, NAP_NS = 50000, CACHE_LINE = 64 };

/* Steps of a lane that are done before another one begins. */
typedef struct wait {
    int32_t lane, n_done;
} wait;

/* A lane. */
typedef struct core {
    const int32_t *steps; /* (n) */
    int32_t n, end;       /* end: it goes so far in this run */
    qn_team *team;
    /* Twice the steps that are done, and one more while one is being done. Atomic. */
    _Alignas(CACHE_LINE) uint32_t state;
} core;

struct qn_core_runner {
    const qn_allocator *allocator;
    const qn_plan *plan;
    qn_call *calls;
    qn_team *team;
    const qn_watch *watch;
    int n_cores;
    int32_t *steps; /* (n_steps), those of a lane behind one another */
    wait *waits;    /* (n_waits) */
    core *cores;    /* (n_cores) */
};

/* ---- making ---- */

static void fill_steps(qn_core_runner *r) {
    int32_t *next = r->steps;
    for (int i = 0; i < r->n_cores; i++) {
        core *c = &r->cores[i];
        c->steps = next;
        for (int32_t s = 0; s < r->plan->n_steps; s++) {
            if (r->plan->steps[s].lane == i)
                *next++ = s;
        }
        c->n = (int32_t)(next - c->steps);
    }
}

/* Steps of a lane before one of the plan's. */
static int32_t count_before(const core *c, int32_t step) {
    int32_t low = 0, high = c->n;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (c->steps[middle] < step)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void fill_waits(qn_core_runner *r) {
    for (int32_t i = 0; i < r->plan->lanes->n_waits; i++) {
        const int32_t step = r->plan->lanes->waits[i];
        const int lane = r->plan->steps[step].lane;
        r->waits[i] = (wait){lane, count_before(&r->cores[lane], step) + 1};
    }
}

static qn_status make_teams(qn_core_runner *r) {
    for (int i = 0; i < r->n_cores; i++)
        QN_TRY(qn_team_create_open(r->allocator, r->n_cores, &r->cores[i].team));
    for (int32_t s = 0; s < r->plan->n_steps; s++)
        r->calls[s].team = r->cores[r->plan->steps[s].lane].team;
    return QN_OK;
}

static qn_status make(qn_core_runner *r) {
    const qn_allocator *a = r->allocator;
    QN_TRY(qn_allocate(a, (size_t)r->plan->n_steps + 1, sizeof *r->steps, &r->steps));
    QN_TRY(qn_allocate(a, (size_t)r->plan->lanes->n_waits + 1, sizeof *r->waits, &r->waits));
    QN_TRY(qn_allocate(a, (size_t)r->n_cores, sizeof *r->cores, &r->cores));
    fill_steps(r);
    fill_waits(r);
    return make_teams(r);
}

qn_status qn_core_runner_create(const qn_allocator *allocator, const qn_plan *plan, qn_call *calls,
                                qn_team *team, qn_core_runner **runner) {
    qn_core_runner *r;
    QN_TRY(qn_allocate(allocator, 1, sizeof *r, &r));
    *r = (qn_core_runner){.allocator = allocator,
                          .plan = plan,
                          .calls = calls,
                          .team = team,
                          .n_cores = plan->lanes->n_lanes};
    const qn_status status = make(r);
    if (status != QN_OK) {
        qn_core_runner_destroy(r);
        return status;
    }
    *runner = r;
    return QN_OK;
}

void qn_core_runner_destroy(qn_core_runner *r) {
    if (!r)
        return;
    for (int i = 0; r->cores && i < r->n_cores; i++)
        qn_team_destroy(r->cores[i].team);
    qn_release(r->allocator, r->steps, (size_t)r->plan->n_steps + 1, sizeof *r->steps);
    qn_release(r->allocator, r->waits, (size_t)r->plan->lanes->n_waits + 1, sizeof *r->waits);
    qn_release(r->allocator, r->cores, (size_t)r->n_cores, sizeof *r->cores);
    qn_release(r->allocator, r, 1, sizeof *r);
}

/* ---- running ---- */

static uint32_t state_of(const core *c) {
    return __atomic_load_n(&c->state, __ATOMIC_ACQUIRE);
}

static bool is_ready(const qn_core_runner *r, int32_t step) {
    int32_t n;
    (void)qn_plan_waits(r->plan, step, &n);
    const wait *waits = r->waits + r->plan->steps[step].first_wait;
    for (int32_t i = 0; i < n; i++) {
        if ((int32_t)(state_of(&r->cores[waits[i].lane]) / 2) < waits[i].n_done)
            return false;
    }
    return true;
}

/* Whether a lane has a step that may begin: *state is then what it was seen in. */
static bool has_next(const qn_core_runner *r, const core *c, uint32_t *state) {
    *state = state_of(c);
    const int32_t n_done = (int32_t)(*state / 2);
    return *state % 2 == 0 && n_done < c->end && is_ready(r, c->steps[n_done]);
}

static void run_step(const qn_core_runner *r, int32_t step, int thread) {
    void (*run)(const qn_call *) = qn_device_cpu.run;
    qn_call *call = &r->calls[step];
    qn_team_begin_turn(call->team, qn_plan_team_size(r->plan, step));
    if (!r->watch) {
        run(call);
        return;
    }
    qn_event label = r->watch->label;
    label.thread = (int16_t)thread;
    label.kind = QN_EVENT_OPERATION;
    qn_run_recorded(run, call, step, r->watch->events, &label);
}

/* Does the next step of a lane, if it may begin and nobody else does it. */
static bool do_next(const qn_core_runner *r, core *c, int thread) {
    uint32_t state;
    if (!has_next(r, c, &state) || !__atomic_compare_exchange_n(&c->state, &state, state + 1, false,
                                                                __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return false;
    run_step(r, c->steps[state / 2], thread);
    __atomic_store_n(&c->state, state + 2, __ATOMIC_RELEASE);
    return true;
}

static bool is_over(const qn_core_runner *r) {
    for (int i = 0; i < r->n_cores; i++) {
        if ((int32_t)(state_of(&r->cores[i]) / 2) < r->cores[i].end)
            return false;
    }
    return true;
}

/* A thread that looks for work. */
typedef struct looking {
    int thread, n_looks; /* n_looks: in vain, since it last had work */
    int64_t since_ns;
    uint32_t seen[QN_MAX_LANES]; /* the round of each lane's team that it was in */
} looking;

/* Takes part in what another lane is at. */
static bool help(const qn_core_runner *r, looking *l) {
    qn_events *events = r->watch ? r->watch->events : NULL;
    bool has_helped = false;
    for (int i = 0; i < r->n_cores && !has_helped; i++)
        has_helped = qn_team_help(r->cores[i].team, &l->seen[i], events, l->thread);
    return has_helped;
}

static bool do_anothers(const qn_core_runner *r, const looking *l) {
    for (int i = 1; i < r->n_cores; i++) {
        if (do_next(r, &r->cores[(l->thread + i) % r->n_cores], l->thread))
            return true;
    }
    return false;
}

static void rest(const qn_core_runner *r, looking *l) {
    qn_pause();
    if (++l->n_looks % LOOKS != 0)
        return;
    const int64_t now_ns = qn_clock_ns();
    l->since_ns = l->n_looks == LOOKS ? now_ns : l->since_ns;
    if (r->watch && l->thread == 0)
        qn_events_look(r->watch->events, now_ns);
    if (now_ns - l->since_ns > SPIN_NS)
        qn_sleep_ns(NAP_NS);
    else
        qn_yield(); /* whoever is waited for may need this processor */
}

/* A task of the team's: as many as there are threads, and one that comes late finds no work. */
static void serve(void *context, int64_t begin, int64_t end, int thread) {
    const qn_core_runner *r = context;
    looking l = {.thread = thread};
    (void)begin;
    (void)end;
    core *own = &r->cores[thread];
    while (!is_over(r)) {
        if (do_next(r, own, thread) || help(r, &l) || (l.n_looks >= PATIENCE && do_anothers(r, &l)))
            l.n_looks = 0;
        else
            rest(r, &l);
    }
}

/* What the team's threads do in it are not shares of an operation: those are recorded here. */
void qn_core_runner_run(qn_core_runner *r, int32_t begin, int32_t end, const qn_watch *watch) {
    r->watch = watch;
    for (int i = 0; i < r->n_cores; i++) {
        core *c = &r->cores[i];
        c->end = count_before(c, end);
        __atomic_store_n(&c->state, 2 * (uint32_t)count_before(c, begin), __ATOMIC_RELEASE);
    }
    qn_events *watched = qn_team_watch(r->team, NULL);
    qn_team_run(r->team, r->n_cores, serve, r);
    (void)qn_team_watch(r->team, watched);
}
