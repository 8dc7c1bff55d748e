/* Plans made ahead: what is ready after waiting keeps within each limit and passes the checker,
 * loses no more the more room there is, and what is found later is chosen where it is faster;
 * memory keeps within what was given, and ending in the middle or without memory leaves nothing
 * behind. */
#include "a_machine.h"
#include "check.h"
#include "failing.h"
#include "os/heap.h"
#include "run/rebudget/plan_cache.h"
#include "training_program.h"

#include <stdlib.h>

enum { N_THREADS = 2 };

static const qn_kernels *kernels;

/* A network's training program, times, and the arena that it takes without a limit. */
typedef struct fixture {
    qn_program program;
    qn_plan_cache_program ready;
    double *node_ns;
    size_t usual_bytes;
} fixture;

static fixture set_up(const char *model) {
    fixture f = {0};
    qn_plan *plan;
    CHECK_OK(build_training(qn_model_find(model), 8, NULL, &f.program));
    const qn_graph *graph = f.program.graph;
    f.node_ns = calloc((size_t)graph->n_nodes, sizeof *f.node_ns);
    for (int n = 0; n < graph->n_nodes; n++)
        f.node_ns[n] = qn_estimate_ns(graph, n, &(qn_speed){0});
    CHECK_OK(qn_plan_create(qn_allocator_default(), graph, A_MACHINE(kernels, N_THREADS), &plan));
    f.usual_bytes = plan->arena_bytes;
    f.ready = (qn_plan_cache_program){graph, f.node_ns};
    qn_plan_destroy(plan);
    return f;
}

static void tear_down(fixture *f) {
    free(f->node_ns);
    qn_program_deinit(&f->program);
}

/* Makes the plan for a share of the usual arena; its loss, or -1: none is ready. */
static double make(qn_plan_cache *ready, const fixture *f, int percent, bool *is_rough) {
    qn_budget_plan made = {0};
    const size_t limit = f->usual_bytes / 100 * (size_t)percent;
    *is_rough = false;
    CHECK_OK(qn_plan_cache_make(ready, qn_allocator_default(), 0, limit, &made, is_rough));
    if (!made.plan)
        return -1;
    CHECK(made.plan->arena_bytes <= limit);
    CHECK_OK(qn_plan_check(made.plan, made.graph));
    CHECK(made.base_ns > 0 && made.n_again > 0);
    const double extra = made.extra_ns;
    qn_budget_plan_deinit(&made);
    return extra;
}

static void test_shares(void) {
    fixture f = set_up("mobilenet-v1");
    qn_plan_cache *ready;
    bool is_rough;
    CHECK_OK(qn_plan_cache_start(qn_allocator_default(), &f.ready, 1, A_MACHINE(kernels, N_THREADS),
                                 4 << 20, &ready));
    qn_plan_cache_wait(ready);
    CHECK(qn_plan_cache_held(ready) > 0 && qn_plan_cache_held(ready) < 1 << 20);
    double most = -1;
    for (int percent = 25; percent <= 75; percent += 10) {
        const double extra = make(ready, &f, percent, &is_rough);
        CHECK(most < 0 || (extra >= 0 && extra <= most));
        most = extra;
    }
    CHECK(make(ready, &f, 1, &is_rough) < 0);
    const double usual = make(ready, &f, 49, &is_rough);
    CHECK(is_rough);
    qn_budget_plan found;
    CHECK_OK(qn_plan_cache_find(ready, qn_allocator_default(), 0, f.usual_bytes / 100 * 49, &found,
                                NULL));
    CHECK(found.extra_ns < usual);
    CHECK(make(ready, &f, 49, &is_rough) == found.extra_ns && !is_rough);
    qn_budget_plan_deinit(&found);
    qn_plan_cache_stop(ready);
    tear_down(&f);
}

/* Little memory: nothing is ready, and nothing more is held. */
static void test_little_memory(void) {
    fixture f = set_up("lenet5");
    qn_plan_cache *ready;
    bool is_rough;
    CHECK_OK(qn_plan_cache_start(qn_allocator_default(), &f.ready, 1, A_MACHINE(kernels, N_THREADS),
                                 20000, &ready));
    qn_plan_cache_wait(ready);
    CHECK(qn_plan_cache_held(ready) == 0);
    CHECK(make(ready, &f, 90, &is_rough) < 0);
    qn_plan_cache_stop(ready);
    tear_down(&f);
}

static void test_ends(void) {
    fixture f = set_up("lenet5");
    for (int64_t left = 0; left < 400; left += left < 10 ? 1 : 13) {
        failing memory = {.left = left};
        const qn_allocator allocator = {&memory, failing_allocate, failing_release};
        qn_plan_cache *ready = NULL;
        if (qn_plan_cache_start(&allocator, &f.ready, 1, A_MACHINE(kernels, N_THREADS), 1 << 20,
                                &ready) == QN_OK)
            qn_plan_cache_stop(ready);
        CHECK(memory.held_bytes == 0);
    }
    tear_down(&f);
}

int main(void) {
    qn_isa isa;
    CHECK_OK(qn_cpu_isa(&isa));
    kernels = qn_kernels_get(QN_F32, isa);
    test_shares();
    test_little_memory();
    test_ends();
    return checks_finish();
}
