/* See tuner.h. One kind of tiling after the other, the variants of each are timed in turn and the
 * fastest is kept. In the end the result must beat the fixed rules once more, by times that did not
 * select it: the minimum of many noisy times is small by chance, too. */
#include "run/tuning/tuner.h"

#include "base/memory.h"
#include "base/status.h"
#include "device/cpu/cpu.h"
#include "os/os.h"
#include "run/offload.h"
#include "run/policy.h"
#include "run/rehearsal.h"
#include "run/tuning/tuner_cache.h"

#include <stdlib.h>
#include <string.h>

/* Times of each variant, and pairs for each in the end; the part of a budget that tuning may take;
 * what is read between two times: a processor's own caches have less. */
enum {
    QUICK_ROUNDS = 3,
    FULL_ROUNDS = 5,
    PAIRS = 4,
    USUAL_CALLS = 40, /* that a quick measurement of a product takes, about */
    BUDGET_PART = 64,
    LINE_BYTES = 64,
    SWEPT_BYTES = 1 << 21
};

static const int64_t quick_ns = 1500000000;

/* Slower than this factor of the best in one round: not timed again. Faster by this: taken for now;
 * in the end. */
static const double hopeless = 1.15, better = 0.98, enough = 0.97;

/* ---- making ---- */

static qn_status create(qn_engine *e) {
    qn_tuner *t;
    if (e->options.tune == QN_TUNE_OFF || e->options.plan_only)
        return QN_OK;
    QN_TRY(qn_allocate(&e->allocator, 1, sizeof *t, &t));
    e->policies[QN_POLICY_TUNER] = t;
    t->kernels = *qn_machine_kernels(&e->machine, e->options.real);
    t->kernels.tilings = &t->tilings;
    t->use.tune = e->options.tune;
    qn_machine_set_kernels(&e->machine, &t->kernels);
    return QN_OK;
}

static void release_steps(qn_engine *e, qn_tuner *t) {
    qn_release(&e->allocator, t->steps, t->step_capacity, sizeof *t->steps);
    t->steps = NULL;
    t->n_steps = t->step_capacity = 0;
}

static void release_tilings(qn_engine *e, qn_tuner *t) {
    qn_release(&e->allocator, t->tilings.entries, t->capacity, sizeof *t->tilings.entries);
    t->tilings.entries = NULL;
    t->tilings.n = t->capacity = 0;
}

static void destroy(qn_engine *e) {
    qn_tuner *t = qn_tuner_of(e);
    if (!t)
        return;
    release_steps(e, t);
    release_tilings(e, t);
    qn_release(&e->allocator, t, 1, sizeof *t);
    e->policies[QN_POLICY_TUNER] = NULL;
}

/* For operands of some types. */
static bool takes_tiling(const qn_op *op) {
    for (const qn_cpu_operator *row = qn_cpu_row(op); row && row->op == op; row++) {
        if (row->takes_tiling)
            return true;
    }
    return false;
}

static size_t count_products(const qn_engine *e) {
    size_t n = 0;
    for (int i = 0; i < e->n_programs; i++) {
        const qn_graph *graph = e->programs[i].graph;
        for (int node = 0; node < graph->n_nodes; node++) {
            n += takes_tiling(graph->nodes[node]->op);
        }
    }
    return n;
}

/* The reference's kernels have one way. */
static bool can_be_tuned(const qn_tuner *t) {
    return t->kernels.real == QN_F32 && t->kernels.name != qn_kernels_get(QN_F32, QN_ISA_REF)->name;
}

static qn_status prepare(qn_engine *e) {
    qn_tuner *t = qn_tuner_of(e);
    const size_t budget = e->options.memory_budget_bytes;
    if (!t || !can_be_tuned(t))
        return QN_OK;
    release_steps(e, t); /* of an attempt to plan that failed */
    release_tilings(e, t);
    const size_t kept = qn_tilings_kept_bytes(&t->kernels), n_kept = qn_tilings_most(kept);
    const size_t n = count_products(e), capacity = n + n_kept;
    t->use.bytes =
        (n_kept > 0 ? kept : 0) + capacity * sizeof *t->tilings.entries + n * sizeof *t->steps;
    t->use.is_over_budget = budget > 0 && t->use.bytes > budget / BUDGET_PART;
    if (t->use.is_over_budget)
        return QN_OK;
    QN_TRY(qn_allocate(&e->allocator, n, sizeof *t->steps, &t->steps));
    t->step_capacity = n;
    QN_TRY(qn_allocate(&e->allocator, capacity, sizeof *t->tilings.entries, &t->tilings.entries));
    t->capacity = capacity;
    qn_tilings_load(&e->allocator, &t->kernels, kept, t->tilings.entries, &t->tilings.n,
                    &t->use.cache_is_damaged);
    return QN_OK;
}

/* ---- what there is to tune ---- */

static const qn_call *call_of(const qn_engine *e, const qn_tuned_step *s) {
    return qn_executor_get_call(e->programs[s->program].executor, s->step);
}

static bool is_listed(const qn_tuner *t, uint64_t key) {
    for (size_t i = 0; i < t->n_steps; i++) {
        if (t->steps[i].key == key)
            return true;
    }
    return false;
}

/* Takes a step in, if it is a product that knows kinds of tilings and was not met before. */
static void list_step(qn_engine *e, int program, int32_t step) {
    const qn_program *p = &e->programs[program];
    const qn_speed speed = qn_speed_typical(p->plan->n_threads);
    qn_tuner *t = qn_tuner_of(e);
    const qn_call *call = qn_executor_get_call(p->executor, step);
    if (!call->cpu->takes_tiling || !qn_rehearsal_can_run(e, call) ||
        t->n_steps == t->step_capacity)
        return;
    t->trial = (qn_tiling_trial){.is_question = true};
    qn_cpu_run(call);
    if (t->trial.kinds == 0 || is_listed(t, t->trial.key))
        return;
    const int32_t node = p->plan->steps[step].node;
    t->steps[t->n_steps++] = (qn_tuned_step){.key = t->trial.key,
                                             .kinds = t->trial.kinds,
                                             .step = step,
                                             .program = program,
                                             .estimate_ns = qn_estimate_ns(p->graph, node, &speed)};
}

static int by_estimate(const void *left, const void *right) {
    const qn_tuned_step *a = left, *b = right;
    if (a->estimate_ns != b->estimate_ns)
        return a->estimate_ns < b->estimate_ns ? 1 : -1;
    return (a->key > b->key) - (a->key < b->key);
}

/* Evaluations are short beside training, and tuned only where all is. */
static void list_steps(qn_engine *e) {
    qn_tuner *t = qn_tuner_of(e);
    for (int i = 0; i < e->n_programs; i++) {
        const qn_program *p = &e->programs[i];
        const bool is_wanted = p->training || t->use.tune == QN_TUNE_FULL;
        for (int32_t step = 0; is_wanted && step < p->plan->n_steps; step++)
            list_step(e, i, step);
    }
    qsort(t->steps, t->n_steps, sizeof *t->steps, by_estimate);
}

/* ---- measuring ---- */

/* A task is a thread's. */
static void sweep_task(void *context, int64_t begin, int64_t end, int thread) {
    const qn_engine *e = context;
    const size_t bytes = e->memory.arena_bytes < SWEPT_BYTES ? e->memory.arena_bytes : SWEPT_BYTES;
    (void)thread;
    for (int64_t task = begin; task < end; task++) {
        for (size_t i = 0; i < bytes; i += LINE_BYTES)
            (void)((const volatile char *)e->memory.arena)[i];
    }
}

void qn_tuner_sweep(const qn_engine *e) {
    qn_team_run(e->team, qn_team_size(e->team), sweep_task, (void *)(uintptr_t)e);
}

/* One product under way. */
typedef struct measuring {
    const qn_engine *engine;
    const qn_call *call;
    int n_rounds; /* of each variant */
    int64_t until_ns;
    bool is_late;
} measuring;

static double time_tiling(measuring *m, qn_tiling tiling) {
    m->is_late |= qn_clock_ns() > m->until_ns;
    if (m->is_late)
        return 0;
    qn_tuner_of(m->engine)->trial = (qn_tiling_trial){.tiling = tiling};
    qn_tuner_sweep(m->engine);
    const int64_t begin_ns = qn_clock_ns();
    qn_cpu_run(m->call);
    return (double)(qn_clock_ns() - begin_ns);
}

enum { MOST_VARIANTS = 8 };

/* The least times of variants 0 to n - 1, timed in turn. */
static void time_variants(measuring *m, const qn_tiling *tilings, int n, double *least_ns) {
    double best_ns = 0;
    for (int round = 0; round < m->n_rounds; round++) {
        for (int i = 0; i < n; i++) {
            if (round > 0 && least_ns[i] > hopeless * best_ns)
                continue;
            const double ns = time_tiling(m, tilings[i]);
            least_ns[i] = round > 0 && least_ns[i] < ns ? least_ns[i] : ns;
            best_ns = best_ns > 0 && best_ns < least_ns[i] ? best_ns : least_ns[i];
        }
    }
}

/* The best variant of a kind, with the others as in *tiling; the fixed rule's where it is hardly
 * worse. */
static void choose_variant(measuring *m, int kind, qn_tiling *tiling) {
    const int n = qn_tiling_variants[kind] + 1;
    qn_tiling tilings[MOST_VARIANTS];
    double least_ns[MOST_VARIANTS];
    int best = 0;
    for (int i = 0; i < n; i++) {
        tilings[i] = *tiling;
        tilings[i].kinds[kind] = (uint8_t)i;
    }
    time_variants(m, tilings, n, least_ns);
    for (int i = 1; i < n; i++)
        best = least_ns[i] < least_ns[best] ? i : best;
    if (least_ns[best] < better * least_ns[0])
        *tiling = tilings[best];
}

static bool is_fixed(qn_tiling tiling) {
    static const qn_tiling fixed = {{0}};
    return memcmp(&tiling, &fixed, sizeof tiling) == 0;
}

/* Whether it is faster than the fixed rules still: at its fastest, and in three of four pairs. */
static bool is_confirmed(measuring *m, qn_tiling tiling) {
    const qn_tiling fixed = {{0}};
    const int n_pairs = PAIRS * m->n_rounds;
    double least_fixed_ns = 0, least_ns = 0;
    int n_won = 0;
    for (int pair = 0; pair < n_pairs && !m->is_late; pair++) {
        const double fixed_ns = time_tiling(m, fixed), ns = time_tiling(m, tiling);
        n_won += ns < fixed_ns;
        least_fixed_ns = pair > 0 && least_fixed_ns < fixed_ns ? least_fixed_ns : fixed_ns;
        least_ns = pair > 0 && least_ns < ns ? least_ns : ns;
    }
    return 4 * n_won >= 3 * n_pairs && least_ns < enough * least_fixed_ns;
}

static void put(qn_tuner *t, uint64_t key, qn_tiling tiling) {
    const size_t place = qn_tilings_place(&t->tilings, key);
    qn_tiling_entry *entries = t->tilings.entries;
    memmove(&entries[place + 1], &entries[place], (t->tilings.n - place) * sizeof *entries);
    entries[place] = (qn_tiling_entry){key, tiling};
    t->tilings.n++;
}

/* False: there was no time for it. */
static bool tune_step(qn_engine *e, const qn_tuned_step *s, int64_t until_ns) {
    qn_tuner *t = qn_tuner_of(e);
    measuring m = {.engine = e,
                   .call = call_of(e, s),
                   .n_rounds = t->use.tune == QN_TUNE_FULL ? FULL_ROUNDS : QUICK_ROUNDS,
                   .until_ns = until_ns};
    const bool has_team = qn_team_size(e->team) > 1;
    qn_tiling tiling = {{0}};
    if (time_tiling(&m, tiling) * USUAL_CALLS > (double)(until_ns - qn_clock_ns()))
        return false;
    for (int kind = 0; kind < QN_TILING_COUNT; kind++) {
        if (s->kinds >> kind & 1 && (kind != QN_TILING_SPLIT || has_team))
            choose_variant(&m, kind, &tiling);
    }
    if (!is_fixed(tiling) && !is_confirmed(&m, tiling))
        tiling = (qn_tiling){{0}};
    if (!m.is_late)
        put(t, s->key, tiling);
    return !m.is_late;
}

static void measure(qn_engine *e, int64_t begin_ns) {
    qn_tuner *t = qn_tuner_of(e);
    const int64_t until_ns = t->use.tune == QN_TUNE_FULL ? INT64_MAX : begin_ns + quick_ns;
    qn_rehearsal_fill(e);
    for (size_t i = 0; i < t->n_steps; i++) {
        if (qn_tilings_has(&t->tilings, t->steps[i].key))
            continue;
        if (tune_step(e, &t->steps[i], until_ns))
            t->use.n_measured++;
        else
            t->use.n_left++;
    }
}

static void count_tiled(qn_tuner *t) {
    for (size_t i = 0; i < t->n_steps; i++) {
        const size_t place = qn_tilings_place(&t->tilings, t->steps[i].key);
        t->use.n_tiled += qn_tilings_has(&t->tilings, t->steps[i].key) &&
                          !is_fixed(t->tilings.entries[place].tiling);
    }
}

/* Where there are too many to be kept, those of this engine are. */
static void save(qn_tuner *t) {
    size_t n = 0;
    for (size_t i = 0; t->tilings.n > QN_TILINGS_KEPT && i < t->tilings.n && n < QN_TILINGS_KEPT;
         i++) {
        if (is_listed(t, t->tilings.entries[i].key))
            t->tilings.entries[n++] = t->tilings.entries[i];
    }
    t->tilings.n = n > 0 ? n : t->tilings.n;
    qn_tilings_save(&t->kernels, &t->tilings);
}

static void tune(qn_engine *e) {
    qn_tuner *t = qn_tuner_of(e);
    const int64_t begin_ns = qn_clock_ns();
    if (!t || !t->steps || e->memory.arena_bytes == 0)
        return;
    t->tilings.trial = &t->trial;
    list_steps(e);
    t->use.n_products = (int64_t)t->n_steps;
    for (size_t i = 0; i < t->n_steps; i++)
        t->use.n_known += qn_tilings_has(&t->tilings, t->steps[i].key);
    if (t->use.n_known < t->use.n_products)
        measure(e, begin_ns);
    t->tilings.trial = NULL;
    count_tiled(t);
    if (t->use.n_measured > 0)
        save(t);
    release_steps(e, t);
    t->use.ns = qn_clock_ns() - begin_ns;
}

static qn_status start(qn_engine *e) {
    if (qn_engine_device(e) == 0)
        tune(e);
    return QN_OK;
}

qn_kernel_tuning_use qn_engine_get_kernel_tuning(const qn_engine *engine) {
    QN_NEED_OR(engine, "engine", (qn_kernel_tuning_use){0});
    const qn_tuner *t = qn_tuner_of(engine);
    return t ? t->use : (qn_kernel_tuning_use){.tune = QN_TUNE_OFF};
}

const qn_policy qn_policy_tuner = {
    .name = "tuner",
    .create = create,
    .prepare = prepare,
    .start = start,
    .destroy = destroy,
};
