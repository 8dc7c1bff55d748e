/* See cores.h. */
#include "run/cores/cores.h"

#include "base/status.h"
#include "os/os.h"
#include "os/process/cpu_time.h"
#include "run/inspect.h"
#include "run/policy.h"
#include "run/rehearsal.h"
#include "run/timing.h"

#include <math.h>

/* Schedules that are rehearsed. */
enum { SCHEDULES = 3 };

/* What a schedule must gain in training to be kept for the next. */
static const double least_gain = 1.01;

/* A rehearsed schedule that takes so many times as long is not compared. */
static const double most_slower = 1.02;

/* ---- the second plan ---- */

/* Nodes by the schedule: order and width, and the core that leads each. */
typedef struct placing {
    int32_t *order, *behind;
    int16_t *lane_of, *width_of;
    size_t n_nodes, n_steps;
    qn_lane lanes[QN_MAX_LANES];
} placing;

static void release_placing(const qn_allocator *a, const placing *p) {
    qn_release(a, p->order, p->n_steps + 1, sizeof *p->order);
    qn_release(a, p->behind, p->n_steps + 1, sizeof *p->behind);
    qn_release(a, p->lane_of, p->n_nodes + 1, sizeof *p->lane_of);
    qn_release(a, p->width_of, p->n_nodes + 1, sizeof *p->width_of);
}

static qn_status allocate_placing(const qn_allocator *a, placing *p) {
    QN_TRY(qn_allocate(a, p->n_steps + 1, sizeof *p->order, &p->order));
    QN_TRY(qn_allocate(a, p->n_steps + 1, sizeof *p->behind, &p->behind));
    QN_TRY(qn_allocate(a, p->n_nodes + 1, sizeof *p->lane_of, &p->lane_of));
    return qn_allocate(a, p->n_nodes + 1, sizeof *p->width_of, &p->width_of);
}

static void fill_placing(const qn_program *p, const qn_timetable *t, placing *to,
                         qn_cores_use *use) {
    for (int32_t rank = 0; rank < t->n; rank++) {
        const int32_t step = t->order[rank], node = p->plan->steps[step].node;
        const qn_turn *turn = &t->turns[step];
        to->order[rank] = node;
        to->behind[rank] = turn->behind;
        to->lane_of[node] = turn->first;
        to->width_of[node] = turn->width;
        use->n_narrow += turn->width < use->n_cores;
        use->n_beside += turn->first > 0;
    }
    for (int i = 0; i < QN_MAX_LANES; i++)
        to->lanes[i] = (qn_lane){.n_threads = 1};
}

static qn_status plan_timetable(qn_engine *e, const qn_program *p, const qn_timetable *t,
                                qn_core_plans *c) {
    placing to = {.n_nodes = (size_t)p->graph->n_nodes, .n_steps = (size_t)t->n};
    qn_status status = allocate_placing(&e->allocator, &to);
    if (status == QN_OK) {
        fill_placing(p, t, &to, &c->use);
        const qn_assignment assignment = {.n_lanes = c->use.n_cores,
                                          .n_spaces = 1,
                                          .lanes = to.lanes,
                                          .lane_of = to.lane_of,
                                          .width_of = to.width_of,
                                          .order = to.order,
                                          .behind = to.behind,
                                          .n_order = t->n};
        status = qn_plan_create_for_lanes(&e->allocator, p->graph, &e->machine, &assignment,
                                          &c->other_plan);
    }
    release_placing(&e->allocator, &to);
    return status;
}

/* ---- memory ---- */

/* All that is held counts, and what others hold. */
static size_t uncounted_bytes(const qn_engine *e) {
    return e->memory.outside_bytes + e->memory.planned_bytes + sizeof *e;
}

/* An arena of another size for all plans; nothing is in the old one yet. Where there is no memory
 * for it, one of the old size. */
static qn_status change_arena(qn_engine *e, size_t bytes) {
    const size_t old_bytes = e->memory.arena_bytes;
    if (bytes == old_bytes)
        return QN_OK;
    qn_release(&e->shared, e->memory.arena, 1, old_bytes);
    e->memory.arena = NULL;
    e->memory.arena_bytes = 0;
    qn_status status = qn_allocate(&e->shared, 1, bytes, &e->memory.arena);
    if (status == QN_OK)
        e->memory.arena_bytes = bytes;
    else if (qn_allocate(&e->shared, 1, old_bytes, &e->memory.arena) == QN_OK)
        e->memory.arena_bytes = old_bytes;
    for (int i = 0; i < e->n_programs && e->memory.arena; i++)
        qn_executor_set_arena(e->programs[i].executor, e->memory.arena);
    return status;
}

/* ---- making ---- */

static void exchange(qn_core_plans *c, qn_program *p) {
    qn_plan *plan = p->plan;
    qn_executor *executor = p->executor;
    p->plan = c->other_plan;
    p->executor = c->other_executor;
    c->other_plan = plan;
    c->other_executor = executor;
    c->is_beside = !c->is_beside;
}

void qn_cores_drop(qn_core_plans *c) {
    qn_executor_destroy(c->other_executor);
    qn_plan_destroy(c->other_plan);
    c->other_executor = NULL;
    c->other_plan = NULL;
}

/* The executor of the second plan is made as if it were the program's. */
static qn_status make_executor(qn_engine *e, qn_core_plans *c, qn_program *p) {
    exchange(c, p);
    qn_status status = qn_engine_make_executor(e, p);
    if (status == QN_OK)
        status = qn_executor_open_lanes(p->executor, 0, NULL);
    exchange(c, p);
    return status;
}

/* In training the arena stays as it is: a larger one would be memory that nobody asked for. */
static qn_status make_room(qn_engine *e, const qn_core_plans *c) {
    if (c->other_plan->arena_bytes <= e->memory.arena_bytes)
        return QN_OK;
    if (e->options.cores == QN_CORES_LATER)
        return qn_fail(QN_ERROR_MEMORY, "the schedule needs a larger arena");
    return change_arena(e, c->other_plan->arena_bytes);
}

qn_status qn_cores_open(const qn_core_trying *y) {
    qn_core_plans *c = y->c;
    QN_TRY(plan_timetable(y->e, y->p, y->t, c));
    QN_TRY(make_room(y->e, c));
    QN_TRY(make_executor(y->e, c, y->p));
    qn_executor_set_arena(c->other_executor, y->e->memory.arena);
    return QN_OK;
}

/* As large as the plans that are left need. */
static qn_status fit_arena(qn_engine *e, const qn_core_plans *c, size_t usual_bytes) {
    const size_t bytes = c->other_plan ? c->other_plan->arena_bytes : 0;
    QN_TRY(change_arena(e, bytes > usual_bytes ? bytes : usual_bytes));
    if (c->other_plan)
        qn_executor_set_arena(c->other_executor, e->memory.arena);
    return QN_OK;
}

static const qn_core_wish *wish_of(const qn_core_trying *y) {
    return &y->e->options.core_wish;
}

static void exchange_timetables(qn_timetable *a, qn_timetable *b) {
    const qn_timetable kept = *a;
    *a = *b;
    *b = kept;
}

/* A plan of the timetable that was rehearsed takes the place of the one before, if it is faster. */
static bool keep_faster(const qn_core_trying *y, const qn_core_plans *before, double ns) {
    qn_core_plans *c = y->c;
    if (before->other_plan && ns >= before->use.rehearsed_ns)
        return false;
    qn_core_plans old = *before;
    qn_cores_drop(&old);
    c->use.rehearsed_ns = ns;
    c->use.predicted_ns = y->t->ns;
    c->use.one_by_one_ns = y->one_by_one_ns;
    c->use.arena_bytes = c->other_plan->arena_bytes;
    exchange_timetables(&c->schedule, y->t);
    exchange_timetables(&c->seen, y->seen);
    return true;
}

static void go_back(const qn_core_trying *y, const qn_core_plans *before) {
    qn_core_plans *c = y->c;
    const qn_cores_use use = c->use;
    qn_cores_drop(c);
    *c = *before;
    c->use.n_profiled = use.n_profiled;
    c->use.planning_ns = use.planning_ns;
    if (c->other_executor)
        qn_executor_set_arena(c->other_executor, y->e->memory.arena);
}

void qn_cores_decide(const qn_core_trying *y, const qn_core_plans *before, bool is_good,
                     double ns) {
    if (!is_good || !keep_faster(y, before, ns))
        go_back(y, before);
}

/* Makes a plan of a timetable and rehearses it; keeps it if it is faster than the one before. */
static qn_status try_timetable(qn_core_trying *y) {
    qn_core_plans *c = y->c;
    const qn_core_plans before = *c;
    const int64_t begin_ns = qn_clock_ns();
    double ns = 0;
    c->other_plan = NULL;
    c->other_executor = NULL;
    c->use.n_narrow = c->use.n_beside = 0;
    qn_status status = qn_cores_open(y);
    c->use.planning_ns += qn_clock_ns() - begin_ns;
    if (status == QN_OK)
        status = qn_cores_rehearse(y->rehearsal, c->other_executor, y->t, &y->cores, y->tasks,
                                   y->seen, &c->use, &ns);
    qn_cores_decide(y, &before, status == QN_OK, ns);
    return status;
}

static qn_status keep_curves(qn_engine *e, qn_core_plans *c, const qn_tasks *tasks) {
    QN_TRY(qn_allocate(&e->allocator, (size_t)tasks->n + 1, sizeof *c->curves, &c->curves));
    c->n_curves = (size_t)tasks->n;
    for (int32_t i = 0; i < tasks->n; i++)
        c->curves[i] = tasks->curves[i];
    return QN_OK;
}

const qn_curve *qn_cores_curves(const qn_engine *e, int32_t *n) {
    *n = qn_cores_of(e) && qn_cores_of(e)->curves ? (int32_t)qn_cores_of(e)->n_curves : 0;
    return *n > 0 ? qn_cores_of(e)->curves : NULL;
}

qn_status qn_cores_choose(qn_core_trying *y) {
    const int64_t begin_ns = qn_clock_ns();
    QN_TRY(qn_timetable_make(y->tasks, &y->cores, QN_TIMETABLE_ONE_BY_ONE, 0, y->t));
    y->one_by_one_ns = y->t->ns;
    QN_TRY(qn_timetable_choose(y->tasks, &y->cores, wish_of(y)->prefer, y->t));
    qn_timetable_fill_behind(y->t);
    y->c->use.planning_ns += qn_clock_ns() - begin_ns;
    return QN_OK;
}

bool qn_cores_schedule(const qn_engine *e, const qn_timetable **predicted,
                       const qn_timetable **seen) {
    if (!qn_cores_of(e) || qn_cores_of(e)->use.is_cached || qn_cores_of(e)->use.rehearsed_ns <= 0)
        return false;
    *predicted = &qn_cores_of(e)->schedule;
    *seen = &qn_cores_of(e)->seen;
    return true;
}

/* Schedules by times that are corrected by the schedule before; the fastest is kept. */
static qn_status try_schedules(qn_core_trying *y) {
    qn_cores_use *use = &y->c->use;
    for (int i = 0; i < SCHEDULES; i++) {
        QN_TRY(qn_cores_choose(y));
        if (i == 0) {
            use->predicted_ns = y->t->ns;
            use->one_by_one_ns = use->uncorrected_one_by_one_ns = y->one_by_one_ns;
        }
        QN_TRY(try_timetable(y));
    }
    const bool is_for_time = wish_of(y)->prefer == QN_PREFER_TIME;
    if (is_for_time && use->rehearsed_ns > most_slower * use->rehearsed_usual_ns)
        qn_cores_drop(y->c);
    use->is_beside =
        y->c->other_plan && (!is_for_time || use->rehearsed_ns < use->rehearsed_usual_ns);
    return QN_OK;
}

static qn_status choose(qn_core_trying *y) {
    qn_cores_use *use = &y->c->use;
    const int64_t begin_ns = qn_clock_ns();
    QN_TRY(qn_cores_measure(y->rehearsal, &y->cores, y->tasks, use));
    QN_TRY(keep_curves(y->e, y->c, y->tasks));
    for (int32_t i = 0; i < y->tasks->n; i++)
        use->bound_ns += y->tasks->curves[i].alone_ns / y->cores.n;
    QN_TRY(qn_cores_rehearse(y->rehearsal, y->p->executor, NULL, &y->cores, y->tasks, NULL, use,
                             &use->rehearsed_usual_ns));
    QN_TRY(try_schedules(y));
    use->measuring_ns = qn_clock_ns() - begin_ns - use->planning_ns;
    return QN_OK;
}

/* ---- the cache folder ---- */

static uint64_t mix(uint64_t hash, uint64_t with) {
    return (hash ^ with) * UINT64_C(0x9e3779b97f4a7c15) + (hash >> 29);
}

void qn_cores_fill_key(const qn_engine *e, qn_core_plans *c) {
    const qn_program *p = &e->programs[c->program];
    qn_schedule_key *key = &c->key;
    *key = (qn_schedule_key){
        .plan = qn_engine_hash(e), .n_cores = c->use.n_cores, .n_steps = p->plan->n_steps};
    for (int32_t s = 0; s < p->plan->n_steps; s++)
        key->plan = mix(key->plan, p->graph->nodes[p->plan->steps[s].node]->key);
    qn_host_name(key->machine, sizeof key->machine);
}

static qn_schedule_times times_of(const qn_cores_use *use) {
    return (qn_schedule_times){use->one_by_one_ns, use->predicted_ns, use->rehearsed_usual_ns,
                               use->rehearsed_ns, use->bound_ns};
}

void qn_cores_save(qn_core_plans *c) {
    const qn_schedule_times times = times_of(&c->use);
    qn_schedule_save(&c->key, &times, &c->schedule);
    c->is_cached = true;
}

bool qn_cores_load_cached(qn_core_trying *y, qn_schedule_times *times) {
    return y->e->options.cores != QN_CORES_MEASURED && wish_of(y)->prefer == QN_PREFER_TIME &&
           qn_schedule_load(&y->e->allocator, &y->c->key, times, y->t) &&
           qn_timetable_simulate(y->tasks, &y->cores, y->t) == QN_OK;
}

void qn_cores_take_cached(qn_core_trying *y, const qn_schedule_times *times) {
    qn_core_plans *c = y->c;
    exchange_timetables(&c->schedule, y->t);
    c->use.one_by_one_ns = c->use.uncorrected_one_by_one_ns = times->one_by_one_ns;
    c->use.predicted_ns = times->predicted_ns;
    c->use.rehearsed_usual_ns = times->rehearsed_usual_ns;
    c->use.rehearsed_ns = times->rehearsed_ns;
    c->use.bound_ns = times->bound_ns;
    c->use.arena_bytes = c->other_plan->arena_bytes;
    c->use.is_beside = c->use.is_cached = c->is_cached = true;
}

static qn_status use_cached(qn_core_trying *y) {
    qn_schedule_times times;
    if (!qn_cores_load_cached(y, &times))
        return QN_OK;
    const int64_t begin_ns = qn_clock_ns();
    QN_TRY(qn_cores_open(y));
    y->c->use.planning_ns = qn_clock_ns() - begin_ns;
    qn_cores_take_cached(y, &times);
    return QN_OK;
}

/* A schedule that is not faster is found anew each time: what is kept saves steps that gain. */
static qn_status use_cached_or_choose(qn_core_trying *y) {
    qn_core_plans *c = y->c;
    c->use.n_operations = y->tasks->n;
    c->use.usual_arena_bytes = y->p->plan->arena_bytes;
    QN_TRY(use_cached(y));
    if (c->is_cached)
        return QN_OK;
    QN_TRY(choose(y));
    if (!c->use.is_beside || wish_of(y)->prefer != QN_PREFER_TIME)
        return QN_OK;
    qn_cores_save(c);
    return QN_OK;
}

static qn_status init_timetables(const qn_core_trying *y, const qn_allocator *a) {
    const int32_t n = y->tasks->n;
    QN_TRY(qn_timetable_init(a, n, y->t));
    QN_TRY(qn_timetable_init(a, n, y->seen));
    QN_TRY(qn_timetable_init(a, n, &y->c->schedule));
    return qn_timetable_init(a, n, &y->c->seen);
}

qn_cores qn_cores_for(const qn_cores *facts, const qn_core_wish *wish, int n) {
    const qn_cores typical = qn_cores_typical(n);
    qn_cores cores = facts && facts->n_caches > 0 ? *facts : typical;
    cores.n = cores.kinds[0].n = typical.n;
    /* What one core wrote is in its caches: others get it at less than what they walk through. */
    cores.bytes_per_ns = fmin(cores.bytes_per_ns, typical.bytes_per_ns);
    if (wish->core_watts > 0) {
        cores.kinds[0].watts = wish->core_watts;
        cores.idle_watts = wish->idle_watts;
    }
    return cores;
}

static qn_status make(qn_engine *e, qn_core_plans *c) {
    qn_program *p = &e->programs[c->program];
    qn_tasks tasks = {0};
    qn_timetable t = {0}, seen = {0};
    qn_rehearsal rehearsal;
    qn_core_trying y = {
        .e = e,
        .c = c,
        .p = p,
        .cores = qn_cores_for(e->options.core_facts, &e->options.core_wish, c->use.n_cores),
        .rehearsal = &rehearsal,
        .tasks = &tasks,
        .t = &t,
        .seen = &seen};
    QN_TRY(qn_rehearsal_begin(e, p, &rehearsal));
    qn_status status = qn_tasks_of_plan(&e->allocator, p->plan, p->graph, &tasks);
    if (status == QN_OK)
        status = init_timetables(&y, &e->allocator);
    if (status == QN_OK)
        status = use_cached_or_choose(&y);
    qn_rehearsal_end(&rehearsal);
    qn_timetable_deinit(&t);
    qn_timetable_deinit(&seen);
    qn_tasks_deinit(&tasks);
    return status;
}

/* The same, without ever holding more than the budget; where that is too little for it, operations
 * run one by one. */
static qn_status make_within(qn_engine *e, qn_core_plans *c) {
    const size_t budget = e->options.memory_budget_bytes, uncounted = uncounted_bytes(e);
    const size_t limit_bytes = e->counter.limit_bytes, n_refused = e->counter.n_refused;
    const size_t usual_bytes = e->memory.arena_bytes;
    if (budget > 0)
        qn_counter_set_limit(&e->counter, budget > uncounted ? budget - uncounted : 1);
    const qn_status status = make(e, c);
    qn_counter_set_limit(&e->counter, limit_bytes);
    const bool is_over =
        status == QN_ERROR_MEMORY && e->counter.n_refused != n_refused && e->memory.arena;
    if (is_over) {
        e->counter.n_refused = n_refused;
        c->use.is_over_budget = true;
        c->use.is_beside = false;
        qn_cores_drop(c);
    }
    return status == QN_OK || is_over ? fit_arena(e, c, usual_bytes) : status;
}

/* The first program that trains, or -1. */
static int find_program(const qn_engine *e) {
    for (int i = 0; i < e->n_programs; i++) {
        if (e->programs[i].training)
            return i;
    }
    return -1;
}

/* In training's own steps nothing is tried that a budget or others could not do with. */
static bool may_wait(const qn_engine *e) {
    return e->options.memory_budget_bytes == 0 && !e->options.ranks;
}

static bool is_possible(const qn_engine *e, int program) {
    return e->options.cores != QN_CORES_ONE_BY_ONE && !e->options.plan_only && program >= 0 &&
           !qn_policies_that_runs(e, program) && e->options.n_threads > 1 &&
           e->memory.arena_bytes > 0 && !e->programs[program].plan->lanes &&
           (e->options.cores != QN_CORES_LATER || may_wait(e));
}

static qn_status start(qn_engine *e) {
    const int program = find_program(e);
    qn_core_plans *c;
    if (!is_possible(e, program))
        return QN_OK;
    QN_TRY(qn_allocate(&e->allocator, 1, sizeof *c, &c));
    *c = (qn_core_plans){.program = program, .get_idle_ns = qn_idle_cpu_ns};
    e->policies[QN_POLICY_CORES] = c;
    c->use.n_cores = e->options.n_threads < QN_MAX_LANES ? e->options.n_threads : QN_MAX_LANES;
    c->n_threads = c->use.n_threads_used = qn_team_size(e->team);
    if (e->options.cores == QN_CORES_LATER)
        return qn_cores_begin_later(e, c);
    qn_cores_fill_key(e, c);
    qn_rehearsal_fill(e);
    QN_TRY(make_within(e, c));
    qn_cores_begin_trials(c, &e->options.core_wish);
    return QN_OK;
}

static void stop(qn_engine *e) {
    qn_core_plans *c = qn_cores_of(e);
    if (!c)
        return;
    /* It lost its first comparison: the next engine measures anew. */
    if (c->is_cached && c->use.is_measured && c->use.measured_gain < least_gain)
        qn_schedule_forget(&c->key);
    qn_cores_end_later(c);
    qn_cores_drop(c);
    qn_timetable_deinit(&c->schedule);
    qn_timetable_deinit(&c->seen);
    qn_release(&e->allocator, c->curves, c->n_curves + 1, sizeof *c->curves);
    qn_release(&e->allocator, c, 1, sizeof *c);
    e->policies[QN_POLICY_CORES] = NULL;
}

/* ---- running ---- */

/* While the engine is watched, records belong to one plan. */
static int find_mode(const qn_engine *e, const qn_core_plans *c) {
    if (c->later)
        return e->run.events ? QN_CORES_ALL : qn_cores_later_mode(c);
    if (e->run.events)
        return c->other_plan && c->use.is_beside ? QN_CORES_BESIDE : QN_CORES_ALL;
    return c->adapting.mode;
}

static bool is_finding(const qn_engine *e, const qn_core_plans *c) {
    return c->later && !e->run.events;
}

void qn_engine_limit_threads(qn_engine *e, int n) {
    if (e->run.n_team_threads == 0)
        e->run.n_team_threads = qn_team_size(e->team);
    e->run.most_threads = n < 1 ? 1 : n;
}

static int limit(const qn_engine *e, int n) {
    return e->run.most_threads > 0 && e->run.most_threads < n ? e->run.most_threads : n;
}

static qn_status begin_run(qn_engine *e, int program) {
    qn_core_plans *c = qn_cores_of(e);
    if (e->run.most_threads > 0 && e->team)
        qn_team_begin_turn(e->team, limit(e, e->run.n_team_threads));
    if (!c || c->program != program)
        return QN_OK;
    if (is_finding(e, c)) {
        if (c->is_beside)
            exchange(c, &e->programs[program]);
        qn_cores_go_on_later(e, c);
    }
    const bool is_limited = limit(e, c->n_threads) < c->n_threads;
    const int mode = is_limited ? QN_CORES_ALL : find_mode(e, c);
    if ((mode == QN_CORES_BESIDE) != c->is_beside)
        exchange(c, &e->programs[program]);
    qn_team_begin_turn(e->team, limit(e, is_finding(e, c) ? qn_cores_later_threads(c)
                                                          : qn_cores_threads(c, mode)));
    c->begin_ns = qn_clock_ns();
    return QN_OK;
}

static const qn_watch *watch(const qn_engine *e, int program) {
    const qn_core_plans *c = qn_cores_of(e);
    const bool is_finding = c && c->program == program && c->later;
    return is_finding && limit(e, c->n_threads) == c->n_threads ? qn_cores_later_watch(c) : NULL;
}

/* Results stay where they are until the next run. */
static void end_run(qn_engine *e, int program) {
    qn_core_plans *c = qn_cores_of(e);
    if (!c || c->program != program)
        return;
    const double ns = (double)(qn_clock_ns() - c->begin_ns);
    qn_team_begin_turn(e->team, limit(e, c->n_threads));
    if (limit(e, c->n_threads) < c->n_threads)
        return; /* its times are of no way */
    if (is_finding(e, c))
        qn_cores_note_later(c, ns);
    else if (!e->run.events)
        qn_cores_note(c, ns);
}

qn_cores_use qn_engine_get_cores(const qn_engine *e) {
    QN_NEED_OR(e, "engine", (qn_cores_use){0});
    return qn_cores_of(e) && !qn_cores_of(e)->later ? qn_cores_of(e)->use : (qn_cores_use){0};
}

const qn_policy qn_policy_cores = {
    .name = "cores",
    .start = start,
    .begin_run = begin_run,
    .end_run = end_run,
    .watch = watch,
    .stop = stop,
};
