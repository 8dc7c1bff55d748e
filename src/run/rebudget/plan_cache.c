/* See plan_cache.h. Plans are found one at a time, so that the memory of planning is needed once.
 */
#include "run/rebudget/plan_cache.h"

#include "base/status.h"
#include "os/os.h"

#include <float.h>
#include <string.h>

/* Shares of the usual arena, in percent; then the least. */
static const int shares[] = {75, 50, 35, 25};
enum { N_SHARES = sizeof shares / sizeof *shares, MOST_KEPT = N_SHARES + 2 };

/* For one share, and for all of them. */
static const int64_t most_share_ns = 2000000000, most_all_ns = 15000000000;

/* Of a step: so much more time is not worth looking for a better plan. */
static const double little = 0.01;

/* A plan without its graph. */
typedef struct kept {
    qn_sequence sequence;
    int32_t n_storages;
    size_t *offsets; /* (n_storages) */
    size_t arena_bytes;
    double base_ns, extra_ns;
} kept;

typedef struct prepared {
    qn_plan_cache_program of;
    kept plans[MOST_KEPT]; /* (n) */
    int n;
} prepared;

struct qn_plan_cache {
    const qn_allocator *below;
    qn_counter counter;
    qn_allocator allocator; /* counts in counter; of the thread, and of what is kept */
    qn_machine machine;
    int n_programs;
    qn_monitor *finding; /* held while a plan is found, and whatever allocates from allocator */
    qn_monitor *lock;    /* of what follows */
    bool is_ending, is_done;
    prepared *programs; /* (n_programs) */
    qn_thread *thread;
};

/* ---- keeping ---- */

static void forget(qn_plan_cache *r, kept *k) {
    qn_release(&r->allocator, k->offsets, (size_t)k->n_storages, sizeof *k->offsets);
    qn_sequence_deinit(&k->sequence);
    *k = (kept){0};
}

static qn_status copy_plan(qn_plan_cache *r, const qn_budget_plan *plan, kept *k) {
    *k = (kept){.n_storages = plan->plan->n_storages,
                .arena_bytes = plan->plan->arena_bytes,
                .base_ns = plan->base_ns,
                .extra_ns = plan->extra_ns};
    qn_sequence_init(&k->sequence, &r->allocator);
    QN_TRY(qn_allocate(&r->allocator, (size_t)k->n_storages, sizeof *k->offsets, &k->offsets));
    for (int32_t s = 0; s < k->n_storages; s++)
        k->offsets[s] = plan->plan->storages[s].offset;
    for (size_t i = 0; i < plan->sequence.n; i++)
        QN_TRY(qn_sequence_add(&k->sequence, plan->sequence.items[i].action,
                               plan->sequence.items[i].id));
    return QN_OK;
}

/* Where there is no room, the latest goes. What cannot be kept is not, and that is all. */
static void keep(qn_plan_cache *r, int program, const qn_budget_plan *plan) {
    prepared *p = &r->programs[program];
    kept k;
    if (copy_plan(r, plan, &k) != QN_OK) {
        forget(r, &k);
        return;
    }
    qn_monitor_lock(r->lock);
    if (p->n == MOST_KEPT)
        forget(r, &p->plans[--p->n]);
    p->plans[p->n++] = k;
    qn_monitor_unlock(r->lock);
}

/* ---- finding ---- */

static qn_status find(qn_plan_cache *r, const qn_allocator *a, int program, size_t limit,
                      int64_t most_ns, qn_budget_plan *found, size_t *least) {
    const qn_plan_cache_program *p = &r->programs[program].of;
    const qn_budget_options options = {
        .arena_bytes = limit, .node_ns = p->node_ns, .most_ns = most_ns};
    return qn_budget_plan_find(a, p->graph, &r->machine, &options, found, least);
}

qn_status qn_plan_cache_find(qn_plan_cache *r, const qn_allocator *a, int program, size_t limit,
                             qn_budget_plan *found, size_t *least) {
    qn_monitor_lock(r->finding);
    const qn_status status = find(r, a, program, limit, 0, found, least);
    if (status == QN_OK)
        keep(r, program, found);
    qn_monitor_unlock(r->finding);
    return status;
}

static size_t find_usual(const qn_plan_cache *r, const qn_plan_cache_program *p) {
    qn_plan *plan = NULL;
    if (qn_plan_create(&r->allocator, p->graph, &r->machine, &plan) != QN_OK)
        return 0;
    const size_t bytes = plan->arena_bytes;
    qn_plan_destroy(plan);
    return bytes;
}

/* For one limit; false: there is none so small, and *least is known, or memory is out. */
static bool prepare(qn_plan_cache *r, int program, size_t limit, size_t *least) {
    qn_budget_plan found = {0};
    *least = 0;
    qn_monitor_lock(r->finding);
    const qn_status status = find(r, &r->allocator, program, limit, most_share_ns, &found, least);
    if (status == QN_OK)
        keep(r, program, &found);
    qn_budget_plan_deinit(&found);
    qn_monitor_unlock(r->finding);
    return status == QN_OK;
}

static bool may_go_on(qn_plan_cache *r, int64_t until_ns) {
    qn_monitor_lock(r->lock);
    const bool is_ending = r->is_ending;
    qn_monitor_unlock(r->lock);
    return !is_ending && qn_clock_ns() < until_ns;
}

static void prepare_program(qn_plan_cache *r, int program, int64_t until_ns) {
    size_t least = 0;
    qn_monitor_lock(r->finding);
    const size_t usual = find_usual(r, &r->programs[program].of);
    qn_monitor_unlock(r->finding);
    for (int i = 0; i < N_SHARES && may_go_on(r, until_ns); i++) {
        if (prepare(r, program, usual / 100 * (size_t)shares[i], &least))
            continue;
        if (least > 0 && may_go_on(r, until_ns))
            prepare(r, program, least, &least);
        return;
    }
}

static void prepare_all(void *context) {
    qn_plan_cache *r = context;
    const int64_t until_ns = qn_clock_ns() + most_all_ns;
    for (int i = 0; i < r->n_programs; i++)
        prepare_program(r, i, until_ns);
    qn_monitor_lock(r->lock);
    r->is_done = true;
    qn_monitor_notify(r->lock);
    qn_monitor_unlock(r->lock);
}

/* ---- begin and end ---- */

static qn_status start(qn_plan_cache *r, const qn_plan_cache_program *programs) {
    QN_TRY(qn_monitor_create(r->below, &r->finding));
    QN_TRY(qn_monitor_create(r->below, &r->lock));
    QN_TRY(qn_allocate(r->below, (size_t)r->n_programs, sizeof *r->programs, &r->programs));
    for (int i = 0; i < r->n_programs; i++)
        r->programs[i].of = programs[i];
    return qn_thread_start(r->below, prepare_all, r, &r->thread);
}

qn_status qn_plan_cache_start(const qn_allocator *allocator, const qn_plan_cache_program *programs,
                              int n, const qn_machine *machine, size_t most_bytes,
                              qn_plan_cache **cache) {
    qn_plan_cache *r;
    QN_TRY(qn_allocate(allocator, 1, sizeof *r, &r));
    r->below = allocator;
    r->machine = *machine;
    r->n_programs = n;
    r->allocator = qn_counter_init(&r->counter, allocator);
    qn_counter_set_limit(&r->counter, most_bytes);
    const qn_status status = start(r, programs);
    if (status != QN_OK) {
        qn_plan_cache_stop(r);
        return status;
    }
    *cache = r;
    return QN_OK;
}

void qn_plan_cache_stop(qn_plan_cache *r) {
    if (!r)
        return;
    if (r->thread) {
        qn_monitor_lock(r->lock);
        r->is_ending = true;
        qn_monitor_unlock(r->lock);
        qn_thread_join(r->thread);
    }
    for (int i = 0; r->programs && i < r->n_programs; i++) {
        while (r->programs[i].n > 0)
            forget(r, &r->programs[i].plans[--r->programs[i].n]);
    }
    qn_release(r->below, r->programs, (size_t)r->n_programs, sizeof *r->programs);
    qn_monitor_destroy(r->lock);
    qn_monitor_destroy(r->finding);
    qn_release(r->below, r, 1, sizeof *r);
}

void qn_plan_cache_wait(qn_plan_cache *r) {
    qn_monitor_lock(r->lock);
    while (!r->is_done)
        qn_monitor_wait(r->lock);
    qn_monitor_unlock(r->lock);
}

size_t qn_plan_cache_held(const qn_plan_cache *r) {
    return qn_counter_held(&r->counter);
}

/* ---- making ---- */

/* The fastest within the limit; *bound_ns: the most that those above it lose: one for just this
 * limit would hardly lose less. */
static const kept *choose(const prepared *p, size_t limit, double *bound_ns) {
    const kept *best = NULL;
    *bound_ns = 0;
    for (int i = 0; i < p->n; i++) {
        const kept *k = &p->plans[i];
        if (k->arena_bytes > limit)
            *bound_ns = k->extra_ns > *bound_ns ? k->extra_ns : *bound_ns;
        else if (!best || k->extra_ns < best->extra_ns)
            best = k;
    }
    return best;
}

/* Packing anew may end higher than the search did. */
static void take_offsets(const kept *k, qn_plan *plan) {
    if (plan->arena_bytes <= k->arena_bytes || plan->n_storages != k->n_storages)
        return;
    for (int32_t s = 0; s < k->n_storages; s++)
        plan->storages[s].offset = k->offsets[s];
    plan->arena_bytes = k->arena_bytes;
}

static qn_status make(const qn_plan_cache *r, const qn_allocator *a, int program, const kept *k,
                      qn_budget_plan *made) {
    const qn_graph *graph = r->programs[program].of.graph;
    QN_TRY(qn_budget_plan_make(a, graph, &r->machine, &k->sequence, made));
    made->base_ns = k->base_ns;
    made->extra_ns = k->extra_ns;
    take_offsets(k, made->plan);
    return QN_OK;
}

qn_status qn_plan_cache_make(qn_plan_cache *r, const qn_allocator *a, int program, size_t limit,
                             qn_budget_plan *made, bool *is_rough) {
    qn_status status = QN_OK;
    double bound_ns;
    qn_monitor_lock(r->lock);
    const kept *k = choose(&r->programs[program], limit, &bound_ns);
    if (k) {
        *is_rough |= k->extra_ns - bound_ns > little * k->base_ns;
        status = make(r, a, program, k, made);
    }
    qn_monitor_unlock(r->lock);
    return status;
}
