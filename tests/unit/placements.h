/* The property that several devices rest on: whichever device and lane each node of a model gets,
 * with and without a budget of memory, a training step has the same bits. Two steps of a model run
 * in one lane, and then again and again with its nodes spread at random over lanes of the CPU and
 * the queues of a simulated device, which delays its work at random. */
#ifndef QN_TESTS_PLACEMENTS_H
#define QN_TESTS_PLACEMENTS_H

#include "a_machine.h"
#include "base/status.h"
#include "check.h"
#include "device/simulated.h"
#include "os/heap.h"
#include "os/os.h"
#include "os/team.h"
#include "plan/budget/budget.h"
#include "random_lanes.h"
#include "run/executor.h"
#include "run/optimizer.h"
#include "training_program.h"

enum { PLACED_STEPS = 2, PLACED_BATCH = 2, PLACED_SEED = 7 };

/* What is given to a graph from outside, by value of it; null: it is made inside. */
typedef struct outside {
    const qn_graph *graph;
    void **memory;
} outside;

static inline void *placed_allocate(size_t bytes) {
    void *memory = aligned_alloc(QN_ALIGNMENT, (bytes / QN_ALIGNMENT + 1) * QN_ALIGNMENT);
    if (!memory)
        abort();
    return memset(memory, 0, bytes);
}

/* Small numbers by name; positions of words and classes are whole and small. */
static inline void outside_fill_one(const qn_value_info *info, void *memory) {
    const qn_rng rng = qn_rng_make(1, qn_hash_text(info->name), 0);
    const int64_t n = qn_shape_count(info->tensor.shape);
    const bool is_positive = strstr(info->name, "variance") || info->kind == QN_KIND_STATE;
    for (int64_t i = 0; i < n; i++) {
        const float uniform = qn_rng_uniform(qn_rng_word(rng, (uint64_t)i));
        const float real = is_positive ? 0.5f + uniform : 0.2f * (uniform - 0.5f);
        if (info->tensor.dtype == QN_F32)
            ((float *)memory)[i] = info->initial.kind == QN_INITIAL_ONE ? 1 + real : real;
        else if (info->tensor.dtype == QN_I32)
            ((int32_t *)memory)[i] = (int32_t)(i % 3);
        else if (info->tensor.dtype == QN_U16)
            ((uint16_t *)memory)[i] = (uint16_t)(i % 3);
        else
            ((uint8_t *)memory)[i] = (uint8_t)(i % 3);
    }
}

static inline outside outside_create(const qn_graph *graph) {
    outside o = {graph, calloc((size_t)graph->n_values + 1, sizeof *o.memory)};
    if (!o.memory)
        abort();
    for (int v = 0; v < graph->n_values; v++) {
        if (graph->values[v]->producer < 0)
            o.memory[v] = placed_allocate(qn_tensor_bytes(graph->values[v]->tensor));
    }
    return o;
}

static inline void outside_fill(const outside *o) {
    for (int v = 0; v < o->graph->n_values; v++) {
        if (o->memory[v])
            outside_fill_one(o->graph->values[v], o->memory[v]);
    }
}

static inline void outside_destroy(const outside *o) {
    for (int v = 0; v < o->graph->n_values; v++)
        free(o->memory[v]);
    free(o->memory);
}

/* What another has. */
static inline void outside_copy(const outside *from, const outside *to) {
    for (int v = 0; v < to->graph->n_values; v++) {
        if (to->memory[v])
            memcpy(to->memory[v], from->memory[v], qn_tensor_bytes(to->graph->values[v]->tensor));
    }
}

/* Whether all that outlives a step is the same. */
static inline bool outside_equal(const outside *a, const outside *b) {
    for (int v = 0; v < a->graph->n_values; v++) {
        if (a->memory[v] &&
            memcmp(a->memory[v], b->memory[v], qn_tensor_bytes(a->graph->values[v]->tensor)) != 0)
            return false;
    }
    return true;
}

static inline void fill_hyper(const qn_program *p, const outside *o,
                              const qn_update_options *update, int64_t step) {
    double values[QN_HYPER_COUNT];
    qn_optimizer_fill(update, step, values);
    for (int i = 0; p->hyper.id >= 0 && i < QN_HYPER_COUNT; i++)
        ((float *)o->memory[p->hyper.id])[i] = (float)values[i];
}

/* A model, its step in one lane, and what that comes to. */
typedef struct placed_model {
    const qn_model *model;
    qn_update_options update;
    qn_program program;
    qn_budget_plan budget; /* zeroed: none was found */
    outside begun, expected;
    const qn_kernels *kernels;
} placed_model;

/* Runs steps of a plan. values: where those of the program's graph are in this one; null: it is
 * that graph. */
static inline qn_status run_steps(const placed_model *m, const outside *o, qn_executor *executor,
                                  const qn_value *values, const qn_value *more) {
    for (int v = 0; v < m->program.graph->n_values; v++) {
        if (!o->memory[v])
            continue;
        qn_value at = values ? values[v] : (qn_value){v};
        at = more ? more[at.id] : at;
        qn_executor_bind(executor, at, o->memory[v]);
    }
    for (int64_t step = 0; step < PLACED_STEPS; step++) {
        fill_hyper(&m->program, o, &m->update, step);
        QN_TRY(qn_executor_run(executor, PLACED_SEED, (uint64_t)step, NULL));
    }
    return QN_OK;
}

static inline void run_in_one_lane(const placed_model *m, const outside *o) {
    const qn_allocator *a = qn_allocator_default();
    qn_executor *executor;
    qn_plan *plan;
    qn_team *team;
    CHECK_OK(qn_team_create(a, 1, &team));
    CHECK_OK(qn_plan_create(a, m->program.graph, A_MACHINE(m->kernels, 1), &plan));
    void *arena = placed_allocate(plan->arena_bytes);
    CHECK_OK(qn_executor_create(a, m->program.graph, plan, A_MACHINE(m->kernels, 1), team, arena,
                                &executor));
    outside_copy(&m->begun, o);
    CHECK_OK(run_steps(m, o, executor, NULL, NULL));
    qn_executor_destroy(executor);
    qn_plan_destroy(plan);
    free(arena);
    qn_team_destroy(team);
}

/* A plan within 60 % of the usual arena; where there is none, of the least that there is. */
static inline void plan_within(placed_model *m) {
    const qn_allocator *a = qn_allocator_default();
    qn_plan *plan;
    size_t least = 0;
    CHECK_OK(qn_plan_create(a, m->program.graph, A_MACHINE(m->kernels, 1), &plan));
    qn_budget_options options = {.arena_bytes = plan->arena_bytes / 100 * 60, .most_work = 1};
    qn_plan_destroy(plan);
    if (qn_budget_plan_find(a, m->program.graph, A_MACHINE(m->kernels, 1), &options, &m->budget,
                            &least) == QN_OK)
        return;
    options.arena_bytes = least;
    m->budget = (qn_budget_plan){0};
    CHECK_OK(qn_budget_plan_find(a, m->program.graph, A_MACHINE(m->kernels, 1), &options,
                                 &m->budget, &least));
}

static inline void placed_open(placed_model *m, const qn_model *model) {
    qn_isa isa;
    *m = (placed_model){.model = model, .update = qn_update_options_for(model)};
    m->update.accumulate = 1;
    m->update.beta2 = 0.999;
    m->update.epsilon = 1e-8;
    CHECK_OK(qn_cpu_isa(&isa));
    m->kernels = qn_kernels_get(QN_F32, isa);
    CHECK_OK(build_training(model, PLACED_BATCH, NULL, &m->program));
    m->begun = outside_create(m->program.graph);
    m->expected = outside_create(m->program.graph);
    outside_fill(&m->begun);
    run_in_one_lane(m, &m->expected);
    plan_within(m);
}

static inline void placed_close(placed_model *m) {
    outside_destroy(&m->begun);
    outside_destroy(&m->expected);
    qn_budget_plan_deinit(&m->budget);
    qn_program_deinit(&m->program);
}

/* A placement at work. */
typedef struct placed_run {
    qn_partition spread;
    qn_plan *plan;
    qn_team *team;
    void *arena, *state;
    qn_machine machine;
    qn_executor *executor;
    const qn_value *first; /* the graph before the spread: where the program's values are; null */
} placed_run;

static inline void placed_run_open(placed_run *r, const placed_model *m, uint64_t seed,
                                   bool in_budget, const qn_simulated_options *simulated) {
    const qn_allocator *a = qn_allocator_default();
    const bool again = in_budget && m->budget.graph;
    *r = (placed_run){.first = again ? m->budget.origins.first : NULL};
    r->spread = random_spread(again ? m->budget.graph : m->program.graph, seed);
    CHECK_OK(qn_device_simulated.open(a, simulated, &r->state));
    r->machine = random_machine(m->kernels, r->state);
    CHECK_OK(
        qn_plan_create_for_lanes(a, r->spread.graph, &r->machine, &r->spread.assignment, &r->plan));
    CHECK_OK(qn_plan_check(r->plan, r->spread.graph));
    CHECK_OK(qn_team_create(a, 1, &r->team));
    r->arena = placed_allocate(r->plan->arena_bytes);
    CHECK_OK(qn_executor_create(a, r->spread.graph, r->plan, &r->machine, r->team, r->arena,
                                &r->executor));
}

static inline void placed_run_close(placed_run *r) {
    qn_executor_destroy(r->executor);
    qn_device_simulated.close(r->state);
    qn_plan_destroy(r->plan);
    qn_graph_destroy(r->spread.graph);
    qn_team_destroy(r->team);
    free(r->arena);
}

static inline qn_status placed_run_steps(const placed_run *r, const placed_model *m,
                                         const outside *o) {
    return r->first ? run_steps(m, o, r->executor, r->first, r->spread.values)
                    : run_steps(m, o, r->executor, r->spread.values, NULL);
}

/* One placement, which must give the expected bits. */
static inline void placed_check(const placed_model *m, const outside *o, uint64_t seed) {
    const qn_simulated_options simulated = {
        .seed = seed, .most_delay_ns = seed % 3 == 0 ? 0 : 40000, .lost_at = -1};
    placed_run r;
    outside_copy(&m->begun, o);
    placed_run_open(&r, m, seed, seed % 2 == 1, &simulated);
    CHECK_OK(placed_run_steps(&r, m, o));
    const bool is_equal = outside_equal(&m->expected, o);
    CHECK(is_equal);
    if (!is_equal)
        printf("%s, placement %llu: other bits\n", m->model->name, (unsigned long long)seed);
    placed_run_close(&r);
}

/* So many placements of a model. */
static inline void placed_check_model(const qn_model *model, int n, uint64_t first_seed) {
    placed_model m;
    placed_open(&m, model);
    const outside o = outside_create(m.program.graph);
    for (int i = 0; i < n; i++)
        placed_check(&m, &o, first_seed + (uint64_t)i);
    outside_destroy(&o);
    placed_close(&m);
}

#endif
