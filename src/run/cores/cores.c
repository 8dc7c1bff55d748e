/* See cores.h. */
#include "run/cores/cores.h"

#include "base/status.h"
#include "os/os.h"
#include "run/rehearsal.h"

/* Pairs of steps in the comparison, and those before it that do not count; schedules that are
 * rehearsed; what one must be measured to gain. */
enum { PAIRS = 8, WARM_PAIRS = 2, SCHEDULES = 3 };

static const double least_measured = 1.01;

/* A rehearsed schedule that takes so many times as long is not compared. */
static const double most_slower = 1.02;

/* ---- the second plan ---- */

/* Nodes by the schedule: order and width, and the core that leads each. */
typedef struct placing {
    int32_t *order;
    int16_t *lane_of, *width_of;
    size_t n_nodes, n_steps;
    qn_lane lanes[QN_MAX_LANES];
} placing;

static void release_placing(const qn_allocator *a, const placing *p) {
    qn_release(a, p->order, p->n_steps + 1, sizeof *p->order);
    qn_release(a, p->lane_of, p->n_nodes + 1, sizeof *p->lane_of);
    qn_release(a, p->width_of, p->n_nodes + 1, sizeof *p->width_of);
}

static qn_status allocate_placing(const qn_allocator *a, placing *p) {
    QN_TRY(qn_allocate(a, p->n_steps + 1, sizeof *p->order, &p->order));
    QN_TRY(qn_allocate(a, p->n_nodes + 1, sizeof *p->lane_of, &p->lane_of));
    return qn_allocate(a, p->n_nodes + 1, sizeof *p->width_of, &p->width_of);
}

static void fill_placing(const qn_program *p, const qn_timetable *t, placing *to,
                         qn_cores_use *use) {
    for (int32_t rank = 0; rank < t->n; rank++) {
        const int32_t step = t->order[rank], node = p->plan->steps[step].node;
        const qn_turn *turn = &t->turns[step];
        to->order[rank] = node;
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
    return e->outside_bytes + e->planned_bytes + sizeof *e;
}

/* A larger arena for both plans; nothing is in the old one yet. */
static qn_status grow_arena(qn_engine *e, size_t bytes) {
    if (bytes <= e->arena_bytes)
        return QN_OK;
    qn_release(&e->allocator, e->arena, 1, e->arena_bytes);
    e->arena = NULL;
    e->arena_bytes = 0;
    QN_TRY(qn_allocate(&e->allocator, 1, bytes, &e->arena));
    e->arena_bytes = bytes;
    for (int i = 0; i < e->n_programs; i++)
        qn_executor_set_arena(e->programs[i].executor, e->arena);
    return QN_OK;
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

static void drop_other(qn_core_plans *c) {
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
        status = qn_executor_open_lanes(p->executor);
    exchange(c, p);
    return status;
}

static qn_status open_timetable(qn_engine *e, qn_core_plans *c, qn_program *p,
                                const qn_timetable *t) {
    QN_TRY(plan_timetable(e, p, t, c));
    QN_TRY(make_executor(e, c, p));
    QN_TRY(grow_arena(e, c->other_plan->arena_bytes));
    qn_executor_set_arena(c->other_executor, e->arena);
    return QN_OK;
}

/* What is rehearsed: the fastest so far is the engine's second plan. */
typedef struct trying {
    qn_engine *e;
    qn_core_plans *c;
    qn_program *p;
    qn_cores cores;
    qn_rehearsal rehearsal;
    qn_tasks *tasks;
    qn_timetable *t;
    double one_by_one_ns; /* predicted by the same times as t */
} trying;

/* Makes a plan of a timetable and rehearses it; keeps it if it is faster than the one before. */
static qn_status try_timetable(trying *y, bool corrects) {
    qn_core_plans *c = y->c, before = *c;
    double ns = 0;
    c->other_plan = NULL;
    c->other_executor = NULL;
    c->use.n_narrow = c->use.n_beside = 0;
    qn_status status = open_timetable(y->e, c, y->p, y->t);
    if (status == QN_OK)
        status = qn_cores_rehearse(&y->rehearsal, c->other_executor, &ns);
    if (status == QN_OK && corrects)
        status = qn_cores_correct(&y->rehearsal, c->other_executor, y->t, &y->cores, y->tasks);
    if (status == QN_OK && (!before.other_plan || ns < before.use.rehearsed_ns)) {
        drop_other(&before);
        c->use.rehearsed_ns = ns;
        c->use.predicted_ns = y->t->ns;
        c->use.one_by_one_ns = y->one_by_one_ns;
        c->use.arena_bytes = c->other_plan->arena_bytes;
        return QN_OK;
    }
    drop_other(c);
    *c = before;
    if (c->other_executor)
        qn_executor_set_arena(c->other_executor, y->e->arena);
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
    *n = e->cores && e->cores->curves ? (int32_t)e->cores->n_curves : 0;
    return *n > 0 ? e->cores->curves : NULL;
}

/* What is chosen, and one by one beside it: predictions by different times cannot be compared. */
static qn_status choose_timetable(trying *y) {
    QN_TRY(qn_timetable_make(y->tasks, &y->cores, QN_TIMETABLE_ONE_BY_ONE, 0, y->t));
    y->one_by_one_ns = y->t->ns;
    return qn_timetable_choose(y->tasks, &y->cores, y->t);
}

/* Schedules by times that are corrected by the schedule before; the fastest is kept. */
static qn_status try_schedules(trying *y) {
    qn_cores_use *use = &y->c->use;
    for (int i = 0; i < SCHEDULES; i++) {
        QN_TRY(choose_timetable(y));
        if (i == 0) {
            use->predicted_ns = y->t->ns;
            use->one_by_one_ns = use->uncorrected_one_by_one_ns = y->one_by_one_ns;
        }
        QN_TRY(try_timetable(y, i + 1 < SCHEDULES));
    }
    if (use->rehearsed_ns > most_slower * use->rehearsed_usual_ns)
        drop_other(y->c);
    use->is_beside = y->c->other_plan && use->rehearsed_ns < use->rehearsed_usual_ns;
    return QN_OK;
}

static qn_status choose(trying *y) {
    qn_cores_use *use = &y->c->use;
    const int64_t begin_ns = qn_clock_ns();
    QN_TRY(qn_cores_measure(&y->rehearsal, &y->cores, y->tasks, use));
    QN_TRY(keep_curves(y->e, y->c, y->tasks));
    const int64_t measured_ns = qn_clock_ns();
    use->n_operations = y->tasks->n;
    use->usual_arena_bytes = y->p->plan->arena_bytes;
    use->measuring_ns = measured_ns - begin_ns;
    for (int32_t i = 0; i < y->tasks->n; i++)
        use->bound_ns += y->tasks->curves[i].alone_ns / y->cores.n;
    QN_TRY(qn_cores_rehearse(&y->rehearsal, y->p->executor, &use->rehearsed_usual_ns));
    const qn_status status = try_schedules(y);
    use->planning_ns = qn_clock_ns() - measured_ns;
    return status;
}

static qn_status make(qn_engine *e, qn_core_plans *c) {
    qn_program *p = &e->programs[c->program];
    qn_tasks tasks = {0};
    qn_timetable t = {0};
    trying y = {.e = e,
                .c = c,
                .p = p,
                .cores = qn_cores_typical(c->use.n_cores),
                .tasks = &tasks,
                .t = &t};
    QN_TRY(qn_rehearsal_begin(e, p, &y.rehearsal));
    qn_status status = qn_tasks_of_plan(&e->allocator, p->plan, p->graph, &tasks);
    if (status == QN_OK)
        status = qn_timetable_init(&e->allocator, tasks.n, &t);
    if (status == QN_OK)
        status = choose(&y);
    qn_rehearsal_end(&y.rehearsal);
    qn_timetable_deinit(&t);
    qn_tasks_deinit(&tasks);
    return status;
}

/* The same, without ever holding more than the budget; where that is too little for it, operations
 * run one by one. */
static qn_status make_within(qn_engine *e, qn_core_plans *c) {
    const size_t budget = e->options.memory_budget_bytes, uncounted = uncounted_bytes(e);
    const size_t limit_bytes = e->counter.limit_bytes, n_refused = e->counter.n_refused;
    if (budget > 0)
        e->counter.limit_bytes = budget > uncounted ? budget - uncounted : 1;
    const qn_status status = make(e, c);
    e->counter.limit_bytes = limit_bytes;
    if (status != QN_ERROR_MEMORY || e->counter.n_refused == n_refused || !e->arena)
        return status;
    e->counter.n_refused = n_refused;
    c->use.is_over_budget = true;
    c->use.is_beside = false;
    drop_other(c);
    return QN_OK;
}

/* The first program that trains, or -1. */
static int find_program(const qn_engine *e) {
    for (int i = 0; i < e->n_programs; i++) {
        if (e->programs[i].training)
            return i;
    }
    return -1;
}

static bool is_possible(const qn_engine *e, int program) {
    return e->options.cores == QN_CORES_AUTO && !e->options.plan_only && !e->live_budget &&
           e->options.n_threads > 1 && e->arena_bytes > 0 && program >= 0 &&
           !e->programs[program].plan->lanes;
}

qn_status qn_engine_plan_cores(qn_engine *e) {
    const int program = find_program(e);
    qn_core_plans *c;
    if (!is_possible(e, program))
        return QN_OK;
    QN_TRY(qn_allocate(&e->allocator, 1, sizeof *c, &c));
    *c = (qn_core_plans){.program = program};
    e->cores = c;
    c->use.n_cores = e->options.n_threads < QN_MAX_LANES ? e->options.n_threads : QN_MAX_LANES;
    c->n_threads = c->use.n_threads_used = qn_team_size(e->team);
    qn_rehearsal_fill(e);
    QN_TRY(make_within(e, c));
    c->is_kept = !c->other_plan;
    return QN_OK;
}

void qn_engine_destroy_cores(qn_engine *e) {
    if (!e->cores)
        return;
    drop_other(e->cores);
    qn_release(&e->allocator, e->cores->curves, e->cores->n_curves + 1, sizeof *e->cores->curves);
    qn_release(&e->allocator, e->cores, 1, sizeof *e->cores);
    e->cores = NULL;
}

/* ---- running ---- */

/* While the engine is watched, records belong to one plan. */
static int find_way(const qn_engine *e, const qn_core_plans *c) {
    if (e->events)
        return c->other_plan && (!c->is_kept || c->use.is_beside) ? QN_CORES_BESIDE : QN_CORES_ALL;
    if (c->is_kept)
        return c->adapting.way;
    return c->is_beside ? QN_CORES_ALL : QN_CORES_BESIDE; /* by turns */
}

void qn_cores_begin_run(qn_engine *e, int program) {
    qn_core_plans *c = e->cores;
    if (!c || c->program != program)
        return;
    const int way = find_way(e, c);
    if ((way == QN_CORES_BESIDE) != c->is_beside)
        exchange(c, &e->programs[program]);
    qn_team_begin_turn(e->team, qn_cores_threads(c, way));
    c->begin_ns = qn_clock_ns();
}

/* Whether it is faster: at its fastest, and in three of four pairs. */
static bool is_faster(const qn_core_plans *c) {
    return c->use.measured_gain >= least_measured && 4 * c->n_won >= 3 * PAIRS;
}

/* The first steps touch memory for the first time. */
static void compare(qn_core_plans *c, double ns) {
    const bool is_first = c->n_compared < 2 * WARM_PAIRS + 2;
    double *least = &c->least_ns[c->is_beside];
    *least = is_first || ns < *least ? ns : *least;
    c->last_ns[c->is_beside] = ns;
    if (++c->n_compared % 2 == 0)
        c->n_won += c->n_compared > 2 * WARM_PAIRS && c->last_ns[1] < c->last_ns[0];
    if (c->n_compared < 2 * (PAIRS + WARM_PAIRS))
        return;
    c->is_kept = true;
    c->use.is_measured = true;
    c->use.measured_gain = c->least_ns[0] / c->least_ns[1];
    c->use.is_beside = is_faster(c);
    c->adapting.kept = c->adapting.way = c->use.is_beside ? QN_CORES_BESIDE : QN_CORES_ALL;
}

/* Results stay where they are until the next run. */
void qn_cores_end_run(qn_engine *e, int program) {
    qn_core_plans *c = e->cores;
    if (!c || c->program != program)
        return;
    qn_team_begin_turn(e->team, c->n_threads);
    if (e->events)
        return;
    const double ns = (double)(qn_clock_ns() - c->begin_ns);
    if (c->is_kept)
        qn_cores_note(c, ns);
    else
        compare(c, ns);
}

qn_cores_use qn_engine_get_cores(const qn_engine *e) {
    QN_NEED_OR(e, "engine", (qn_cores_use){0});
    return e->cores ? e->cores->use : (qn_cores_use){0};
}
