/* What every plan of the zoo must keep, with and without a budget: for tests that walk models. */
#ifndef QN_TESTS_ZOO_PLANS_H
#define QN_TESTS_ZOO_PLANS_H

#include "a_machine.h"
#include "check.h"
#include "os/heap.h"
#include "plan/saved.h"
#include "quern/quern.h"
#include "run/inspect.h"

#include <stdio.h>

static const qn_kernels *zoo_kernels(void) {
    qn_isa isa;
    CHECK_OK(qn_cpu_isa(&isa));
    return qn_kernels_get(QN_F32, isa);
}

/* A plan keeps its promises, and after it was taken down and restored it is the same. */
static void zoo_check_plan(const qn_graph *base, const qn_budget_plan *found, int n_threads) {
    qn_arena memory;
    qn_saved_program saved;
    qn_budget_plan restored = {0};
    CHECK_OK(qn_plan_check(found->plan, found->graph));
    CHECK_OK(qn_sequence_check(&found->sequence, base));
    qn_arena_init(&memory, qn_allocator_default());
    CHECK_OK(qn_saved_take(&memory, "zoo", base, found, &saved));
    CHECK_OK(qn_saved_restore(qn_allocator_default(), &saved, base,
                              A_MACHINE(zoo_kernels(), n_threads), &restored));
    CHECK(restored.plan && restored.plan->arena_bytes == found->plan->arena_bytes);
    CHECK(restored.n_again == found->n_again);
    qn_budget_plan_deinit(&restored);
    qn_arena_deinit(&memory);
}

/* Whether a plan within a part of the usual arena was found. One that is not must be said to need
 * more than that. */
static bool zoo_check_budget(const qn_program *p, int percent) {
    const qn_allocator *a = qn_allocator_default();
    const qn_budget_options options = {.arena_bytes = p->plan->arena_bytes / 100 * (size_t)percent};
    qn_budget_plan found = {0};
    size_t least = 0;
    const qn_status status =
        qn_budget_plan_find(a, p->graph, A_MACHINE(zoo_kernels(), 2), &options, &found, &least);
    if (status == QN_ERROR_MEMORY) {
        CHECK(least > options.arena_bytes);
        return false;
    }
    CHECK_OK(status);
    if (status != QN_OK)
        return false;
    CHECK(found.plan->arena_bytes <= options.arena_bytes);
    zoo_check_plan(p->graph, &found, 2);
    qn_budget_plan_deinit(&found);
    return true;
}

/* All programs of a model, with the budgets in percent of the arena, 0 at the end. Returns for how
 * many a plan was found. */
static int zoo_check(const qn_model *model, const char *batch, const int *percents) {
    qn_metadata *settings;
    qn_task *task;
    int n_found = 0, n_asked = 0;
    CHECK_OK(qn_metadata_create(NULL, &settings));
    CHECK_OK(qn_metadata_set(settings, "data", "synthetic"));
    CHECK_OK(qn_metadata_set(settings, "batch", batch));
    const qn_task_options options = {QN_TASK_OPTIONS_INIT,  .model = model,
                                     .settings = settings,  .training = true,
                                     .engine.n_threads = 2, .engine.plan_only = true};
    CHECK_OK(qn_task_open(&options, &task));
    const qn_engine *engine = qn_task_engine(task);
    for (int i = 0; i < qn_engine_program_count(engine); i++) {
        const qn_program *p = qn_engine_get_program(engine, i);
        CHECK_OK(qn_plan_check(p->plan, p->graph));
        for (int j = 0; p->training && percents[j] > 0; j++, n_asked++)
            n_found += zoo_check_budget(p, percents[j]);
    }
    printf("%s: %d of %d budgets\n", model->name, n_found, n_asked);
    qn_task_close(task);
    qn_metadata_destroy(settings);
    return n_found;
}

#endif
