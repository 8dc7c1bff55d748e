/* See live_budget.h. State shared between threads is under the lock, except the flag that the
 * running thread checks before each operation. */
#include "run/rebudget/live_budget.h"

#include "base/status.h"
#include "base/text.h"
#include "os/os.h"
#include "os/pages.h"
#include "run/guard/guard.h"
#include "run/policy.h"
#include "run/rebudget/adapt.h"
#include "run/rebudget/plan_cache.h"

#include <string.h>

/* A plan of a program that waits to be taken. */
typedef struct waiting {
    qn_budget_plan plan;
    qn_executor *executor;
} waiting;

/* next (n_programs) is there exactly while is_waiting. */
typedef struct qn_live_budget {
    qn_monitor *lock;
    int is_waiting; /* atomic */
    waiting *next;
    size_t next_budget_bytes, next_arena_bytes, next_plan_bytes, next_limit_bytes;
    bool is_refined; /* what waits is a faster plan for the budget in force */
    int64_t n_asked; /* changes so far */
    /* (n_programs): what a plan that waits loses, where a search may find a faster one; else -1. */
    double *rough_ns;
    qn_plan_cache *cache;
    size_t budget_bytes; /* in force; 0: none */
    size_t plan_bytes;   /* what the plans in force take, executors included */
    size_t before_bytes; /* held before they were made */
    int64_t n_waited;    /* operations since the change was asked for */
    double **node_ns;    /* (n_programs): of the nodes of the built graphs */
    void *user;
    void (*changed)(void *user, const qn_budget_change *change);
} qn_live_budget;

static const qn_graph *built_graph(const qn_program *p) {
    return p->base ? p->base : p->graph;
}

static qn_live_budget *live_budget_of(const qn_engine *e) {
    return e->policies[QN_POLICY_BUDGET];
}

/* ---- making ---- */

static qn_status allocate_times(qn_engine *e, int program) {
    const size_t n = (size_t)built_graph(&e->programs[program])->n_nodes;
    return qn_allocate(&e->allocator, n, sizeof **live_budget_of(e)->node_ns,
                       &live_budget_of(e)->node_ns[program]);
}

/* Measured, or estimated. */
static void fill_times(qn_engine *e, int program) {
    const qn_program *p = &e->programs[program];
    const qn_graph *graph = built_graph(p);
    for (int n = 0; n < graph->n_nodes; n++)
        live_budget_of(e)->node_ns[program][n] = p->node_ns && p->node_ns[n] >= 0
                                                     ? p->node_ns[n]
                                                     : qn_estimate_ns(graph, n, &(qn_speed){0});
}

static qn_status create(qn_engine *e) {
    qn_live_budget *c;
    QN_TRY(qn_allocate(&e->allocator, 1, sizeof *c, &c));
    e->policies[QN_POLICY_BUDGET] = c;
    c->budget_bytes = e->options.memory_budget_bytes;
    QN_TRY(qn_monitor_create(&e->allocator, &c->lock));
    QN_TRY(qn_allocate(&e->allocator, (size_t)e->n_programs, sizeof *c->node_ns, &c->node_ns));
    for (int i = 0; i < e->n_programs; i++)
        QN_TRY(allocate_times(e, i));
    QN_TRY(qn_allocate(&e->allocator, (size_t)e->n_programs, sizeof *c->rough_ns, &c->rough_ns));
    c->before_bytes = qn_counter_held(&e->counter);
    return QN_OK;
}

static void drop_waiting(qn_engine *e) {
    qn_live_budget *c = live_budget_of(e);
    for (int i = 0; c->next && i < e->n_programs; i++) {
        qn_executor_destroy(c->next[i].executor);
        qn_budget_plan_deinit(&c->next[i].plan);
    }
    qn_release(&e->allocator, c->next, (size_t)e->n_programs, sizeof *c->next);
    c->next = NULL;
}

static void destroy(qn_engine *e) {
    qn_live_budget *c = live_budget_of(e);
    if (!c)
        return;
    qn_plan_cache_stop(c->cache);
    drop_waiting(e);
    qn_release(&e->allocator, c->rough_ns, (size_t)e->n_programs, sizeof *c->rough_ns);
    for (int i = 0; c->node_ns && i < e->n_programs; i++)
        qn_release(&e->allocator, c->node_ns[i], (size_t)built_graph(&e->programs[i])->n_nodes,
                   sizeof **c->node_ns);
    qn_release(&e->allocator, c->node_ns, (size_t)e->n_programs, sizeof *c->node_ns);
    qn_monitor_destroy(c->lock);
    qn_pages_close(e->memory.arena, e->memory.arena_bytes);
    qn_counter_subtract(&e->counter, e->memory.arena ? e->memory.arena_bytes : 0);
    e->memory.arena = NULL;
    qn_release(&e->allocator, c, 1, sizeof *c);
    e->policies[QN_POLICY_BUDGET] = NULL;
}

static size_t reserve(const qn_engine *e) {
    size_t n_nodes = 0;
    for (int i = 0; live_budget_of(e) && i < e->n_programs; i++)
        n_nodes += (size_t)built_graph(&e->programs[i])->n_nodes;
    return live_budget_of(e) ? QN_LIVE_BUDGET_BYTES + n_nodes * QN_LIVE_BUDGET_NODE_BYTES : 0;
}

/* The usual plan as one of the usual sequence. */
static qn_status plan_usual(qn_engine *e, const qn_graph *graph, qn_budget_plan *made) {
    qn_sequence usual;
    QN_TRY(qn_sequence_base(&e->allocator, graph, &usual));
    const qn_status status = qn_budget_plan_make(&e->allocator, graph, &e->machine, &usual, made);
    qn_sequence_deinit(&usual);
    return status;
}

static qn_status plan_program(qn_engine *e, qn_program *p) {
    qn_budget_plan made = {0};
    QN_TRY(plan_usual(e, p->graph, &made));
    qn_program_take(p, &made);
    return QN_OK;
}

static qn_status start_ready(qn_engine *e) {
    qn_live_budget *c = live_budget_of(e);
    const size_t n = (size_t)e->n_programs;
    qn_plan_cache_program *programs;
    QN_TRY(qn_allocate(&e->allocator, n, sizeof *programs, &programs));
    for (size_t i = 0; i < n; i++)
        programs[i] = (qn_plan_cache_program){built_graph(&e->programs[i]), c->node_ns[i]};
    const qn_status status = qn_plan_cache_start(&e->allocator, programs, e->n_programs,
                                                 &e->machine, reserve(e), &c->cache);
    qn_release(&e->allocator, programs, n, sizeof *programs);
    return status;
}

void qn_live_budget_wait(const qn_engine *e) {
    qn_plan_cache_wait(live_budget_of(e)->cache);
}

static qn_status open_arena(qn_engine *e) {
    for (int i = 0; i < e->n_programs; i++)
        fill_times(e, i);
    live_budget_of(e)->plan_bytes = qn_counter_held(&e->counter) - live_budget_of(e)->before_bytes;
    QN_TRY(qn_pages_open(e->memory.arena_bytes, &e->memory.arena));
    qn_counter_add(&e->counter, e->memory.arena_bytes);
    e->memory.mapped_bytes = e->memory.arena_bytes;
    return start_ready(e);
}

/* ---- planning for another budget, on any thread ---- */

/* All that the engine and others hold of a budget, but for plans in force, their arena, what waits,
 * and what is set aside anyway. */
static size_t fixed_bytes(const qn_engine *e) {
    const size_t held = qn_counter_held(&e->counter);
    return sizeof *e + held + e->memory.outside_bytes -
           qn_plan_cache_held(live_budget_of(e)->cache) - live_budget_of(e)->plan_bytes -
           e->memory.arena_bytes;
}

/* The usual plan where it fits, else one that is ready, else what is found. */
static qn_status plan_within(qn_engine *e, int program, size_t limit, size_t *least) {
    qn_live_budget *c = live_budget_of(e);
    qn_budget_plan *plan = &c->next[program].plan;
    bool is_rough = false;
    c->rough_ns[program] = -1;
    QN_TRY(plan_usual(e, built_graph(&e->programs[program]), plan));
    if (plan->plan->arena_bytes <= limit)
        return QN_OK;
    qn_budget_plan_deinit(plan);
    QN_TRY(qn_plan_cache_make(c->cache, &e->allocator, program, limit, plan, &is_rough));
    if (!plan->plan)
        return qn_plan_cache_find(c->cache, &e->allocator, program, limit, plan, least);
    if (is_rough)
        c->rough_ns[program] = plan->extra_ns;
    return QN_OK;
}

static qn_status make_executor(qn_engine *e, int program) {
    waiting *w = &live_budget_of(e)->next[program];
    const qn_value hyper = e->programs[program].built.hyper;
    QN_TRY(qn_executor_create(&e->allocator, w->plan.graph, w->plan.plan, &e->machine, e->team,
                              NULL, &w->executor));
    qn_program bound = {.graph = w->plan.graph,
                        .plan = w->plan.plan,
                        .executor = w->executor,
                        .training = e->programs[program].training};
    qn_program_bind(&bound, &e->store);
    qn_program_bind(&bound, &e->sums);
    if (hyper.id >= 0)
        qn_executor_bind(w->executor, w->plan.origins.first[hyper.id], e->memory.hyper);
    qn_guard_mark(e, &bound);
    return QN_OK;
}

/* Plans of all programs with arenas within limit; *least: of the smallest arena for which there
 * would be some, where there is none. */
static qn_status plan_all(qn_engine *e, size_t limit, size_t *least) {
    qn_live_budget *c = live_budget_of(e);
    QN_TRY(qn_allocate(&e->allocator, (size_t)e->n_programs, sizeof *c->next, &c->next));
    c->next_arena_bytes = *least = 0;
    for (int i = 0; i < e->n_programs; i++) {
        QN_TRY(plan_within(e, i, limit, least));
        QN_TRY(make_executor(e, i));
        if (c->next[i].plan.plan->arena_bytes > c->next_arena_bytes)
            c->next_arena_bytes = c->next[i].plan.plan->arena_bytes;
    }
    return QN_OK;
}

static qn_status refuse(size_t bytes, size_t needed) {
    const size_t unit = needed < (size_t)16 << 20 ? (size_t)1 << 16 : (size_t)1 << 20;
    const size_t rounded = (needed + unit - 1) / unit * unit;
    char given[QN_SIZE_TEXT], least[QN_SIZE_TEXT];
    return qn_fail(QN_ERROR_MEMORY,
                   "a budget of %s is too small: about %s is needed; the previous budget stays",
                   qn_text_print_size(bytes, given), qn_text_print_size(rounded, least));
}

/* One try with `spare` bytes set aside beside what the plans in force take; *spare grows to what
 * would have done. */
static qn_status try_budget(qn_engine *e, size_t bytes, size_t *spare, bool *does_fit) {
    qn_live_budget *c = live_budget_of(e);
    const size_t fixed = fixed_bytes(e), taken = fixed + c->plan_bytes + *spare;
    const size_t limit = bytes == 0 ? SIZE_MAX : bytes > taken ? bytes - taken : 0;
    size_t least = 0;
    c->next_limit_bytes = limit;
    const qn_status status = plan_all(e, limit, &least);
    if (status == QN_ERROR_MEMORY && least > 0)
        return refuse(bytes, taken + least);
    QN_TRY(status);
    c->next_plan_bytes = fixed_bytes(e) - fixed;
    *does_fit = bytes == 0 || fixed + c->next_plan_bytes + c->next_arena_bytes <= bytes;
    if (!*does_fit && c->next_plan_bytes > c->plan_bytes)
        *spare = c->next_plan_bytes - c->plan_bytes;
    return QN_OK;
}

static qn_status plan_budget(qn_engine *e, size_t bytes) {
    size_t spare = 0;
    for (int i = 0; i < 3; i++) {
        bool does_fit = false;
        drop_waiting(e);
        QN_TRY(try_budget(e, bytes, &spare, &does_fit));
        if (does_fit)
            return QN_OK;
        spare += spare / 8;
    }
    return refuse(bytes, bytes + spare);
}

/* Nothing that a change asks for is above the larger of both budgets, planning included. */
static qn_status set_budget(qn_engine *e, size_t bytes) {
    qn_live_budget *c = live_budget_of(e);
    __atomic_store_n(&c->is_waiting, 0, __ATOMIC_RELEASE);
    drop_waiting(e);
    const qn_status status = plan_budget(e, bytes);
    if (status != QN_OK) {
        drop_waiting(e);
        return status;
    }
    c->next_budget_bytes = bytes;
    __atomic_store_n(&c->is_waiting, 1, __ATOMIC_RELEASE);
    return QN_OK;
}

static bool is_rough(const qn_engine *e) {
    bool is_any = false;
    for (int i = 0; i < e->n_programs; i++)
        is_any |= live_budget_of(e)->rough_ns[i] >= 0;
    return is_any;
}

/* Looks for faster plans than those that were ready; true: some are, and are ready now. */
static bool find_faster(qn_engine *e, const double *rough_ns, size_t limit) {
    bool is_any = false;
    for (int i = 0; i < e->n_programs; i++) {
        qn_budget_plan found = {0};
        size_t least;
        if (rough_ns[i] < 0 || qn_plan_cache_find(live_budget_of(e)->cache, &e->allocator, i, limit,
                                                  &found, &least) != QN_OK)
            continue;
        is_any |= found.extra_ns < rough_ns[i];
        qn_budget_plan_deinit(&found);
    }
    return is_any;
}

/* After a change to plans that were ready has been asked for: not under the lock, so that it is
 * made meanwhile. What fails leaves those plans, or, where they still wait, the budget before. */
static qn_status refine(qn_engine *e, size_t bytes, int64_t n_asked, const double *rough_ns,
                        size_t limit) {
    qn_live_budget *c = live_budget_of(e);
    if (!find_faster(e, rough_ns, limit))
        return QN_OK;
    qn_status status = QN_OK;
    qn_monitor_lock(c->lock);
    if (c->n_asked == n_asked) {
        const bool is_in_force = !c->next;
        c->is_refined = is_in_force;
        status = set_budget(e, bytes);
        status = is_in_force ? QN_OK : status;
    }
    qn_monitor_unlock(c->lock);
    return status;
}

static qn_status ask(qn_engine *e, size_t bytes, double *rough_ns) {
    qn_live_budget *c = live_budget_of(e);
    qn_monitor_lock(c->lock);
    c->n_waited = 0;
    c->is_refined = false;
    const int64_t n_asked = ++c->n_asked;
    const qn_status status = set_budget(e, bytes);
    const bool may_be_faster = status == QN_OK && is_rough(e);
    const size_t limit = c->next_limit_bytes;
    memcpy(rough_ns, c->rough_ns, (size_t)e->n_programs * sizeof *rough_ns);
    qn_monitor_unlock(c->lock);
    return may_be_faster ? refine(e, bytes, n_asked, rough_ns, limit) : status;
}

qn_status qn_engine_set_budget(qn_engine *e, size_t bytes) {
    QN_NEED(e, "engine");
    double *rough_ns;
    if (!live_budget_of(e) || !e->planning.is_done || e->options.plan_only)
        return qn_fail(
            QN_ERROR_ARGUMENT,
            "the engine's budget is fixed; create the engine with budget_changes, and plan it");
    QN_TRY(qn_allocate(&e->allocator, (size_t)e->n_programs, sizeof *rough_ns, &rough_ns));
    const qn_status status = ask(e, bytes, rough_ns);
    qn_release(&e->allocator, rough_ns, (size_t)e->n_programs, sizeof *rough_ns);
    return status;
}

void qn_engine_on_budget(qn_engine *e, void (*changed)(void *user, const qn_budget_change *change),
                         void *user) {
    QN_NEED_OR(e, "engine", );
    if (!live_budget_of(e))
        return;
    qn_monitor_lock(live_budget_of(e)->lock);
    live_budget_of(e)->changed = changed;
    live_budget_of(e)->user = user;
    qn_monitor_unlock(live_budget_of(e)->lock);
}

/* ---- changing over, on the thread that runs ---- */

/* A run of a program on its way. */
typedef struct running {
    qn_program *program;
    int index;
    uint64_t step;
    int32_t next, entered; /* steps of its plan: runs next; where a change came to it */
} running;

static qn_adapt_options describe(const qn_engine *e, const running *r) {
    const qn_live_budget *c = live_budget_of(e);
    const qn_program *p = r->program;
    const qn_budget_plan *to = &c->next[r->index].plan;
    return (qn_adapt_options){
        .allocator = &e->allocator,
        .base = p->base,
        .machine = &e->machine,
        .node_ns = c->node_ns[r->index],
        .from = {p->graph, &p->budget.origins, p->plan},
        .to = {to->graph, &to->origins, to->plan},
        .step = r->next,
        .entered = r->entered,
        .limit_bytes = c->next_arena_bytes > e->memory.arena_bytes ? c->next_arena_bytes
                                                                   : e->memory.arena_bytes,
    };
}

/* A change to more memory, or to a faster plan, is not urgent: within a run it is made where it
 * saves more than it costs. That is looked at when it is asked for, and before what would run
 * again. */
static bool may_wait(const qn_engine *e, const running *r) {
    return r->next > 0 && r->next < r->program->plan->n_steps &&
           (live_budget_of(e)->next_arena_bytes > e->memory.arena_bytes ||
            live_budget_of(e)->is_refined);
}

static bool is_worth_a_look(const qn_engine *e, const running *r, const qn_adapt_options *o) {
    qn_adapt cost;
    if (live_budget_of(e)->n_waited > 0 && !qn_adapt_runs_again(&o->from, r->next))
        return false;
    if (qn_adapt_estimate(o, &cost) != QN_OK)
        return false;
    const bool is_worth_it = qn_adapt_is_worth_it(&cost);
    qn_adapt_deinit(&cost);
    return is_worth_it;
}

/* The arena's addresses may change: what has been bound to it is told. */
static qn_status resize_arena(qn_engine *e, size_t bytes) {
    QN_TRY(qn_pages_resize(&e->memory.arena, e->memory.arena_bytes, bytes));
    if (bytes > e->memory.arena_bytes)
        qn_counter_add(&e->counter, bytes - e->memory.arena_bytes);
    else
        qn_counter_subtract(&e->counter, e->memory.arena_bytes - bytes);
    e->memory.arena_bytes = bytes;
    e->memory.mapped_bytes = bytes > e->memory.mapped_bytes ? bytes : e->memory.mapped_bytes;
    return QN_OK;
}

static void take_plans(qn_engine *e) {
    qn_live_budget *c = live_budget_of(e);
    for (int i = 0; i < e->n_programs; i++) {
        qn_program_exchange(&e->programs[i], &c->next[i].plan, &c->next[i].executor);
        qn_executor_set_arena(e->programs[i].executor, e->memory.arena);
    }
    drop_waiting(e);
    c->plan_bytes = c->next_plan_bytes;
    c->budget_bytes = e->options.memory_budget_bytes = c->next_budget_bytes;
    __atomic_store_n(&c->is_waiting, 0, __ATOMIC_RELEASE);
}

static void change_over(qn_engine *e, running *r, const qn_adapt_options *o, qn_adapt *adapt,
                        qn_budget_change *change) {
    qn_live_budget *c = live_budget_of(e);
    const waiting *w = &c->next[r->index];
    *change = (qn_budget_change){.from_bytes = c->budget_bytes,
                                 .to_bytes = c->next_budget_bytes,
                                 .step = e->run.steps,
                                 .n_waited = c->n_waited,
                                 .kept_bytes = adapt->kept_bytes,
                                 .moved_bytes = adapt->gather.bytes + adapt->place.bytes,
                                 .n_again = (int64_t)adapt->n_again,
                                 .again_ns = adapt->again_ns,
                                 .restart_ns = adapt->whole_ns};
    qn_adapt_run(adapt, o, r->program->executor, w->executor, e->memory.arena, e->team,
                 e->options.seed, r->step);
    r->next = r->entered = adapt->to_step;
    take_plans(e);
}

/* Changes over if it is possible, and worth it, before the run's next operation. */
static bool try_change(qn_engine *e, running *r, qn_budget_change *change) {
    qn_live_budget *c = live_budget_of(e);
    qn_adapt adapt;
    if (!c->next)
        return false;
    const qn_adapt_options o = describe(e, r);
    const bool may_be_later = may_wait(e, r);
    if ((may_be_later && !is_worth_a_look(e, r, &o)) || qn_adapt_find(&o, &adapt) != QN_OK)
        return false;
    const size_t bytes = c->next_arena_bytes;
    const bool is_ready = (!may_be_later || qn_adapt_is_worth_it(&adapt)) &&
                          (bytes <= e->memory.arena_bytes || resize_arena(e, bytes) == QN_OK);
    if (is_ready) {
        change_over(e, r, &o, &adapt, change);
        resize_arena(e, bytes);
    }
    qn_adapt_deinit(&adapt);
    return is_ready;
}

static bool change(qn_engine *e, running *r) {
    qn_live_budget *c = live_budget_of(e);
    qn_budget_change done;
    const int64_t begin = qn_clock_ns();
    qn_monitor_lock(c->lock);
    const bool is_told = !c->is_refined, is_done = try_change(e, r, &done);
    c->n_waited += !is_done;
    void (*changed)(void *, const qn_budget_change *) = c->changed;
    void *user = c->user;
    qn_monitor_unlock(c->lock);
    done.ns = qn_clock_ns() - begin;
    if (is_done && is_told && changed)
        changed(user, &done);
    return is_done;
}

static qn_status run(qn_engine *e, int program, uint64_t step, const qn_watch *watch) {
    const int *is_waiting = &live_budget_of(e)->is_waiting;
    running r = {.program = &e->programs[program], .index = program, .step = step};
    for (;;) {
        const bool is_asked = !watch && __atomic_load_n(is_waiting, __ATOMIC_ACQUIRE);
        const bool is_put_off = is_asked && !change(e, &r);
        const qn_program *p = r.program;
        /* A change that is put off is tried again after one operation. */
        const int32_t end = is_put_off ? r.next + 1 : p->plan->n_steps;
        if (r.next >= p->plan->n_steps)
            return QN_OK;
        QN_TRY(qn_executor_run_from(p->executor, &r.next, end,
                                    is_put_off || watch ? NULL : is_waiting, e->options.seed, step,
                                    watch));
    }
}

/* ---- the policy ---- */

static qn_status prepare(qn_engine *e) {
    const bool has_reserve = !e->options.plan_only || e->options.memory_budget_bytes > 0;
    return e->options.budget_changes && has_reserve && !live_budget_of(e) ? create(e) : QN_OK;
}

static bool plans(const qn_engine *e) {
    return live_budget_of(e) != NULL;
}

static qn_status take_arena(qn_engine *e, bool *is_taken) {
    if (!live_budget_of(e) || e->options.plan_only)
        return QN_OK;
    *is_taken = true;
    return open_arena(e);
}

static bool runs(const qn_engine *e, int program) {
    return live_budget_of(e) && program != QN_PROGRAM_UPDATE;
}

const qn_policy qn_policy_budget = {
    .name = "budget",
    .prepare = prepare,
    .reserve = reserve,
    .plans = plans,
    .plan = plan_program,
    .take_arena = take_arena,
    .runs = runs,
    .run = run,
    .stop = destroy,
};
