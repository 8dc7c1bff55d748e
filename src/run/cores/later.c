/* See cores.h: a schedule that is found in training's own steps, so that a run begins at once and a
 * short one loses nothing. Steps run one by one until they have taken so long that all that is
 * tried costs less than a fiftieth of it. Then some are recorded on all threads and on one by
 * turns, a schedule is chosen, some run by it and are recorded too, and another is chosen by what
 * they took; the faster is compared with one by one as ever (adapt.c). Between two steps all are
 * complete ones of training, by the same bits. What fails, as for want of memory, ends it. */
#include "base/status.h"
#include "os/os.h"
#include "run/cores/cores.h"

#include <math.h>

/* Steps recorded with each number of threads; schedules; steps of each, of which the first warms
 * up. 16 in all. */
enum { TIMED = 4, SCHEDULES = 2, TRIED = 4 };

/* At first an operation may run ahead of any other; then of fewer than half as many, ... */
enum { FURTHEST = 32 };

/* What is tried costs so many steps and so much time. */
enum { COST_STEPS = 12, CACHED_STEPS = 4 };
static const double cost_ns = 60e6, cached_ns = 20e6;

/* A schedule that takes so many times as long is not compared. */
static const double most_slower = 1.02;

typedef enum stage { WAITING, TIMING, TRYING } stage;

struct qn_core_later {
    const qn_allocator *allocator;
    qn_engine *engine;
    stage stage;
    bool has_looked, has_cached; /* WAITING: whether a schedule is in the cache folder */
    double ns;                   /* WAITING: of all steps so far */
    int64_t n_steps;             /* likewise */
    int64_t begin_ns;            /* of this step */
    int n_done;                  /* TIMING, TRYING: steps of it */
    int n_schedules;
    qn_tasks tasks;
    qn_timetable t, seen;
    qn_core_trying trying;
    double *ns_of[2]; /* (n): shortest of a step with one thread, with all; below 0: none */
    double least_step_ns[2];
    qn_core_seeing seeing;
    bool is_open;         /* a schedule is being tried, and its plan is c's; then: */
    qn_core_plans before; /* as all was before */
    double least_ns;
    qn_watch watch;
    qn_events *events; /* TIMING */
};

qn_status qn_cores_begin_later(qn_engine *e, qn_core_plans *c) {
    struct qn_core_later *l;
    QN_TRY(qn_allocate(&e->allocator, 1, sizeof *l, &l));
    *l = (struct qn_core_later){.allocator = &e->allocator, .engine = e};
    c->later = l;
    c->parts = 50;
    return QN_OK;
}

void qn_cores_end_later(qn_core_plans *c) {
    struct qn_core_later *l = c->later;
    if (!l)
        return;
    const size_t n = (size_t)l->tasks.n + 1;
    if (l->is_open) /* training ends in the middle */
        qn_cores_drop(&l->before);
    qn_cores_end_seeing(&l->seeing);
    qn_events_destroy(l->events);
    for (int i = 0; i < 2; i++)
        qn_release(l->allocator, l->ns_of[i], n, sizeof *l->ns_of[i]);
    qn_timetable_deinit(&l->t);
    qn_timetable_deinit(&l->seen);
    qn_tasks_deinit(&l->tasks);
    qn_release(l->allocator, l, 1, sizeof *l);
    c->later = NULL;
}

/* ---- beginning ---- */

static qn_status allocate_all(struct qn_core_later *l, qn_core_plans *c) {
    const qn_allocator *a = l->allocator;
    const size_t n = (size_t)l->tasks.n + 1;
    QN_TRY(qn_timetable_init(a, l->tasks.n, &l->t));
    QN_TRY(qn_timetable_init(a, l->tasks.n, &l->seen));
    QN_TRY(qn_timetable_init(a, l->tasks.n, &c->schedule));
    QN_TRY(qn_timetable_init(a, l->tasks.n, &c->seen));
    QN_TRY(qn_allocate(a, n, sizeof *l->ns_of[0], &l->ns_of[0]));
    QN_TRY(qn_allocate(a, n, sizeof *l->ns_of[1], &l->ns_of[1]));
    QN_TRY(qn_events_create(a, c->n_threads, n, &l->events));
    for (size_t i = 0; i < n; i++)
        l->ns_of[0][i] = l->ns_of[1][i] = -1;
    return QN_OK;
}

/* Operations that run ahead keep more alive: where the arena is too small for that, they stay the
 * closer together. */
static qn_status open_within(struct qn_core_later *l, qn_core_plans *c) {
    qn_status status = QN_ERROR_MEMORY;
    l->before = *c;
    for (int32_t most = FURTHEST; most > 0 && status == QN_ERROR_MEMORY; most /= 2) {
        const int64_t begin_ns = qn_clock_ns();
        if (most < FURTHEST)
            qn_timetable_keep_close(&l->t, most);
        c->other_plan = NULL;
        c->other_executor = NULL;
        c->use.n_narrow = c->use.n_beside = 0;
        status = qn_cores_open(&l->trying);
        c->use.planning_ns += qn_clock_ns() - begin_ns;
        if (status != QN_OK)
            qn_cores_decide(&l->trying, &l->before, false, 0);
    }
    return status;
}

/* A kept schedule that cannot be opened here is found anew. */
static void use_cached(struct qn_core_later *l, qn_core_plans *c) {
    qn_schedule_times times;
    if (qn_cores_load_cached(&l->trying, &times) && open_within(l, c) == QN_OK)
        qn_cores_take_cached(&l->trying, &times);
}

static qn_status begin(struct qn_core_later *l, qn_core_plans *c) {
    qn_engine *e = l->engine;
    qn_program *p = &e->programs[c->program];
    const qn_core_wish *wish = &e->options.core_wish;
    QN_TRY(qn_tasks_of_plan(l->allocator, p->plan, p->graph, &l->tasks));
    QN_TRY(allocate_all(l, c));
    c->use.n_operations = l->tasks.n;
    c->use.usual_arena_bytes = p->plan->arena_bytes;
    l->trying = (qn_core_trying){.e = e,
                                 .c = c,
                                 .p = p,
                                 .cores = qn_cores_for(e->options.core_facts, wish, c->use.n_cores),
                                 .tasks = &l->tasks,
                                 .t = &l->t,
                                 .seen = &l->seen};
    l->watch = (qn_watch){.events = l->events};
    l->stage = TIMING;
    l->n_done = 0;
    if (l->has_cached)
        use_cached(l, c);
    return QN_OK;
}

/* Whether the time so far pays for so many steps and so much time. */
static bool is_paid(const struct qn_core_later *l, double parts, int n_steps, double ns) {
    const double step_ns = l->n_steps > 0 ? l->ns / (double)l->n_steps : 0;
    return l->ns >= parts * (n_steps * step_ns + ns);
}

/* Whether it is time to begin; in the cache folder is looked once. */
static bool is_due(struct qn_core_later *l, qn_core_plans *c) {
    if (!l->has_looked && is_paid(l, c->parts, CACHED_STEPS, cached_ns)) {
        qn_cores_fill_key(l->engine, c);
        l->has_looked = true;
        l->has_cached = qn_schedule_is_kept(&c->key);
    }
    return l->has_cached || is_paid(l, c->parts, COST_STEPS + TIMED * (c->n_threads - 2), cost_ns);
}

/* ---- times ---- */

static void take_times(const struct qn_core_later *l, double *ns_of) {
    qn_event taken[64];
    size_t n;
    while ((n = qn_events_take(l->events, 0, taken, 64)) > 0) {
        for (size_t i = 0; i < n; i++) {
            const qn_event *e = &taken[i];
            const double ns = (double)(e->end_ns - e->begin_ns);
            if (e->kind != QN_EVENT_OPERATION || e->item < 0 || e->item >= l->tasks.n)
                continue;
            ns_of[e->item] = ns_of[e->item] < 0 || ns < ns_of[e->item] ? ns : ns_of[e->item];
        }
    }
}

static void fill_curves(struct qn_core_later *l, qn_core_plans *c) {
    const qn_program *p = l->trying.p;
    const qn_cores *cores = &l->trying.cores;
    for (int32_t s = 0; s < l->tasks.n; s++) {
        const qn_cost cost = qn_node_cost(p->graph, p->graph->nodes[p->plan->steps[s].node]);
        const bool is_known = l->ns_of[0][s] > 0 && l->ns_of[1][s] > 0;
        l->tasks.curves[s] =
            is_known ? qn_curve_fit(cores, &cost, l->ns_of[0][s], l->ns_of[1][s], cores->n)
                     : qn_curve_estimate(cores, &cost);
        c->use.n_measured += is_known;
        c->use.bound_ns += l->tasks.curves[s].alone_ns / cores->n;
    }
}

/* ---- schedules ---- */

static qn_status open_next(struct qn_core_later *l, qn_core_plans *c) {
    QN_TRY(qn_cores_choose(&l->trying));
    if (l->n_schedules == 0) {
        c->use.predicted_ns = l->t.ns;
        c->use.one_by_one_ns = c->use.uncorrected_one_by_one_ns = l->trying.one_by_one_ns;
    }
    QN_TRY(open_within(l, c));
    l->n_schedules++;
    l->n_done = 0;
    l->stage = TRYING;
    l->seeing = (qn_core_seeing){
        .timetable = &l->t, .cores = &l->trying.cores, .tasks = &l->tasks, .seen = &l->seen};
    const qn_status status = qn_cores_begin_seeing(l->allocator, &l->seeing);
    l->is_open = status == QN_OK;
    if (status != QN_OK)
        qn_cores_decide(&l->trying, &l->before, false, 0);
    l->watch = (qn_watch){.events = l->seeing.events};
    return status;
}

static void decide(struct qn_core_later *l) {
    qn_cores_correct(&l->seeing);
    qn_cores_end_seeing(&l->seeing);
    l->is_open = false;
    qn_cores_decide(&l->trying, &l->before, true, l->least_ns);
}

/* The ways are compared from the next step on. */
static void finish(qn_core_plans *c) {
    qn_cores_use *use = &c->use;
    qn_engine *e = c->later->engine;
    const bool is_cached = c->is_cached;
    use->measuring_ns = 0;
    qn_cores_end_later(c);
    if (!is_cached && c->other_plan) {
        if (use->rehearsed_ns > most_slower * use->rehearsed_usual_ns)
            qn_cores_drop(c);
        use->is_beside = c->other_plan && use->rehearsed_ns < use->rehearsed_usual_ns;
        if (use->is_beside)
            qn_cores_save(c);
    }
    qn_cores_begin_trials(c, &e->options.core_wish);
}

/* What is due before this step; a failure: nothing more is tried. */
static qn_status go_on(struct qn_core_later *l, qn_core_plans *c) {
    if (l->stage == WAITING) {
        if (is_due(l, c))
            QN_TRY(begin(l, c));
        if (c->is_cached)
            finish(c);
        return QN_OK;
    }
    if (l->stage == TIMING && l->n_done == 2 * TIMED) {
        for (int is_wide = 0; is_wide < 2; is_wide++)
            qn_cores_scale_times(l->ns_of[is_wide], sizeof(double), l->tasks.n,
                                 l->least_step_ns[is_wide]);
        fill_curves(l, c);
        return open_next(l, c);
    }
    if (l->stage == TRYING && l->n_done == TRIED) {
        decide(l);
        if (l->n_schedules < SCHEDULES)
            return open_next(l, c);
        finish(c);
    }
    return QN_OK;
}

void qn_cores_go_on_later(qn_engine *e, qn_core_plans *c) {
    const size_t n_refused = e->counter.n_refused;
    if (go_on(c->later, c) != QN_OK)
        finish(c);
    e->counter.n_refused = n_refused;
    if (c->later)
        c->later->begin_ns = qn_clock_ns();
}

/* ---- a step ---- */

int qn_cores_later_mode(const qn_core_plans *c) {
    return c->later->stage == TRYING ? QN_CORES_BESIDE : QN_CORES_ALL;
}

int qn_cores_later_threads(const qn_core_plans *c) {
    return c->later->stage == TIMING && c->later->n_done % 2 == 1 ? 1 : c->n_threads;
}

const qn_watch *qn_cores_later_watch(const qn_core_plans *c) {
    return c->later->stage == WAITING ? NULL : &c->later->watch;
}

void qn_cores_note_later(qn_core_plans *c, double ns) {
    struct qn_core_later *l = c->later;
    if (l->stage == WAITING) {
        l->ns += ns;
        l->n_steps++;
        return;
    }
    c->use.n_profiled++;
    if (l->stage == TIMING) {
        const bool is_wide = l->n_done % 2 == 0;
        double *least_ns = &l->least_step_ns[is_wide];
        take_times(l, l->ns_of[is_wide]);
        *least_ns = *least_ns > 0 ? fmin(*least_ns, ns) : ns;
        if (is_wide && (l->n_done == 0 || ns < c->use.rehearsed_usual_ns))
            c->use.rehearsed_usual_ns = ns;
    } else {
        const bool is_least = l->n_done == 1 || (l->n_done > 1 && ns < l->least_ns);
        l->least_ns = is_least ? ns : l->least_ns;
        qn_cores_see(&l->seeing, l->begin_ns, ns, is_least);
    }
    l->n_done++;
}
