/* What holds for every plan within a budget; for tests. */
#ifndef QN_TESTS_BUDGET_CHECKS_H
#define QN_TESTS_BUDGET_CHECKS_H

#include "a_machine.h"
#include "graph_run.h"
#include "os/heap.h"
#include "plan/budget/trial.h"
#include "random_graphs.h"

/* The planner's own view of a found sequence has the storages of the plan. */
static inline void check_storages(const qn_budget_trial *trial, const qn_plan *plan) {
    int32_t n = 0, n_different = 0;
    for (int32_t s = 0; s < plan->n_storages; s++) {
        const qn_storage *a = &plan->storages[s];
        if (a->is_bound)
            continue;
        if (n < trial->n_storages) {
            const qn_budget_storage *b = &trial->storages[n];
            n_different += a->first != b->first || a->last != b->last || a->bytes != b->room;
        }
        n++;
    }
    CHECK(n == trial->n_storages && n_different == 0);
    CHECK(trial->peak_bytes == plan->lower_bound_bytes);
}

static inline void check_view(const qn_graph *graph, const qn_kernels *kernels,
                              const qn_budget_options *options, const qn_budget_plan *made) {
    const qn_allocator *a = qn_allocator_default();
    qn_budget_model model;
    qn_budget_trial trial;
    qn_arena arena;
    const size_t n = made->sequence.n;
    int32_t *items = calloc(n + 1, sizeof *items);
    qn_arena_init(&arena, a);
    CHECK_OK(qn_budget_model_init(a, graph, A_MACHINE(kernels, 2), options, &model));
    CHECK_OK(qn_budget_trial_init(&arena, &model, 8 * (int32_t)n, &trial));
    for (size_t i = 0; items && i < n; i++) {
        for (int32_t t = 0; t < model.n_turns; t++)
            items[i] = model.turns[t].node == made->sequence.items[i].id ? t : items[i];
    }
    qn_budget_trial_set(&trial, items, (int32_t)n);
    check_storages(&trial, made->plan);
    CHECK(trial.again_ns == made->extra_ns);
    free(items);
    qn_arena_deinit(&arena);
    qn_budget_model_deinit(&model);
}

/* Every invariant, and the arena within the limit. */
static inline void check_made(const qn_graph *graph, const qn_kernels *kernels,
                              const qn_budget_options *options, const qn_budget_plan *made) {
    CHECK_OK(qn_sequence_check(&made->sequence, graph));
    CHECK_OK(qn_graph_check(made->graph));
    CHECK_OK(qn_plan_check(made->plan, made->graph));
    CHECK(made->plan->arena_bytes <= options->arena_bytes);
    CHECK(made->extra_ns >= 0 && made->base_ns > 0);
    CHECK((made->n_again > 0) == (made->extra_ns > 0));
    check_view(graph, kernels, options, made);
}

/* Results and what is updated are equal in every bit. */
static inline void check_same_bits(const qn_graph *graph, const qn_budget_plan *made,
                                   const qn_kernels *kernels, qn_team *team) {
    graph_run a = run_create(graph), b = run_create(made->graph);
    int n_compared = 0, n_different = 0;
    run_fill(&a);
    run_fill(&b);
    run_all(&a, kernels, team);
    run_all(&b, kernels, team);
    for (int v = 0; v < graph->n_values; v++) {
        const qn_value_info *info = graph->values[v];
        if (!info->is_result && info->overwrites < 0)
            continue;
        n_compared++;
        n_different += memcmp(a.memory[v], b.memory[made->origins.last[v].id],
                              qn_tensor_bytes(info->tensor)) != 0;
    }
    CHECK(n_compared > 0 && n_different == 0);
    run_destroy(&a);
    run_destroy(&b);
}

/* A limit between the least that is found and what is needed without one, by turns nearer to
 * either. */
static inline size_t draw_limit(const qn_graph *graph, const qn_kernels *kernels, uint64_t seed) {
    const qn_budget_options options = {0};
    qn_plan *plan = NULL;
    size_t least = 0;
    CHECK_OK(qn_plan_create(qn_allocator_default(), graph, A_MACHINE(kernels, 2), &plan));
    CHECK_OK(
        qn_budget_least(qn_allocator_default(), graph, A_MACHINE(kernels, 2), &options, &least));
    CHECK(least > 0 && least <= plan->arena_bytes);
    const double u = (double)qn_rng_uniform(qn_rng_word(qn_rng_make(seed, 8, 0), 0));
    const double share = seed % 4 == 0 ? 0 : seed % 2 ? u : u * u * u;
    const size_t limit = least + (size_t)(share * (double)(plan->arena_bytes - least));
    qn_plan_destroy(plan);
    return limit;
}

/* Plans random training steps [begin, end) within random limits, and runs them. */
static inline void check_random_graphs(uint64_t begin, uint64_t end, const qn_kernels *kernels,
                                       qn_team *team) {
    int n_again = 0;
    for (uint64_t seed = begin; seed < end; seed++) {
        qn_program p = random_program(seed);
        const qn_budget_options options = {.arena_bytes = draw_limit(p.graph, kernels, seed),
                                           .most_work = 40};
        qn_budget_plan made = {0};
        CHECK_OK(qn_budget_plan_find(qn_allocator_default(), p.graph, A_MACHINE(kernels, 2),
                                     &options, &made, NULL));
        if (made.graph) {
            n_again += made.n_again > 0;
            check_made(p.graph, kernels, &options, &made);
            check_same_bits(p.graph, &made, kernels, team);
        }
        qn_budget_plan_deinit(&made);
        qn_program_deinit(&p);
    }
    CHECK((uint64_t)n_again * 2 > end - begin);
}

#endif
