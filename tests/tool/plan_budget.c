/* Plans a model's training step within budgets:
 *     plan_budget MODEL BATCH WORK PERCENT...
 * WORK is that of qn_budget_options (0: usual). It prints a line a budget: percent, arena of the
 * plan without a limit, limit, arena, least time of the step and what is lost (ns, estimated),
 * nodes that run again, planning ns of the processor, bytes of the planner; or the least that would
 * do. */
#include "a_machine.h"
#include "base/status.h"
#include "os/heap.h"
#include "os/os.h"
#include "plan/budget/budget.h"
#include "training_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void stop(const char *what) {
    fprintf(stderr, "plan_budget: %s: %s\n", what, qn_error_message());
    exit(1);
}

static void plan(const qn_graph *graph, const qn_kernels *kernels, int64_t work, double percent,
                 size_t full) {
    const qn_budget_options options = {.arena_bytes = (size_t)((double)full * percent / 100),
                                       .most_work = work};
    qn_budget_plan made;
    size_t least = 0;
    const int64_t begin = qn_thread_cpu_ns();
    const qn_status status = qn_budget_plan_find(qn_allocator_default(), graph,
                                                 A_MACHINE(kernels, 2), &options, &made, &least);
    const double planning_ms = (double)(qn_thread_cpu_ns() - begin) / 1e6;
    if (status == QN_ERROR_MEMORY && least > 0) {
        printf("%g %zu %zu least %zu (%.1f%%) %.1f ms\n", percent, full, options.arena_bytes, least,
               100.0 * (double)least / (double)full, planning_ms);
        return;
    }
    if (status != QN_OK)
        stop("planning");
    if (qn_plan_check(made.plan, made.graph) != QN_OK)
        stop("check");
    printf("%g %zu %zu %zu base %.0f extra %.0f (%.4f) again %lld %.1f ms %zu\n", percent, full,
           options.arena_bytes, made.plan->arena_bytes, made.base_ns, made.extra_ns,
           1 + made.extra_ns / made.base_ns, (long long)made.n_again, planning_ms,
           made.planner_bytes);
    qn_budget_plan_deinit(&made);
}

int main(int argc, char **argv) {
    qn_isa isa;
    qn_program program;
    if (argc < 5)
        stop("MODEL BATCH WORK PERCENT...");
    const qn_model *model = qn_model_find(argv[1]);
    if (!model || qn_cpu_isa(&isa) != QN_OK)
        stop(argv[1]);
    const qn_kernels *kernels = qn_kernels_get(QN_F32, isa);
    if (build_training(model, atoll(argv[2]), NULL, &program) != QN_OK)
        stop(model->name);
    if (qn_plan_create(qn_allocator_default(), program.graph, A_MACHINE(kernels, 2),
                       &program.plan) != QN_OK)
        stop("plan");
    for (int i = 4; i < argc; i++)
        plan(program.graph, kernels, atoll(argv[3]), atof(argv[i]), program.plan->arena_bytes);
    qn_program_deinit(&program);
}
