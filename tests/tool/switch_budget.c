/* Changes the budget of a model's training step at a quarter, half and three quarters of its time:
 *     switch_budget MODEL BATCH PERCENT [run]
 * from the usual plan to one of PERCENT of its arena, and back. Prints a line of ns that the
 * smaller plan took to be found, and takes to be made of what is kept ready; then a line a switch:
 * direction, percent of the step's time, ns of all that a restart under the new plan would run
 * again, ns of what the switch does, runs again before it while it is put off and, where the arena
 * grows, after it; ns of what would have run again without it from there on, number of nodes of the
 * switch, bytes kept and moved, operations that went by before it was possible or worth it, and ns
 * of working it out (estimated ns of operations, measured of working it out). "run": also runs it,
 * adds ns measured, and fails unless results and parameters have equal bits as without a switch. */
#include "a_machine.h"
#include "base/rng.h"
#include "base/status.h"
#include "device/cpu/cpu.h"
#include "os/heap.h"
#include "os/os.h"
#include "os/team.h"
#include "plan/budget/budget.h"
#include "run/rebudget/adapt.h"
#include "training_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct running {
    qn_budget_plan plan;
    qn_executor *executor; /* null: it is not run */
} running;

typedef struct bench {
    qn_program program;
    const qn_graph *graph;
    const qn_kernels *kernels;
    qn_team *team;
    double *node_ns;
    running usual, small;
    void *arena;
    qn_store store, start; /* all that is given from outside: now, and as it begins */
    uint64_t wanted;       /* of what a run without a switch leaves */
} bench;

static _Noreturn void stop(const char *what) {
    fprintf(stderr, "switch_budget: %s: %s\n", what, qn_error_message());
    exit(1);
}

static void try(qn_status status, const char *what) {
    if (status != QN_OK)
        stop(what);
}

/* ---- plans ---- */

static void plan(bench *b, double percent) {
    const qn_allocator *a = qn_allocator_default();
    const int n_threads = qn_team_size(b->team);
    qn_sequence base;
    try(qn_sequence_base(a, b->graph, &base), "the usual order");
    try(qn_budget_plan_make(a, b->graph, A_MACHINE(b->kernels, n_threads), &base, &b->usual.plan),
        "planning");
    qn_sequence_deinit(&base);
    const double full = (double)b->usual.plan.plan->arena_bytes;
    const qn_budget_options options = {.arena_bytes = (size_t)(full * percent / 100)};
    size_t least = 0;
    if (qn_budget_plan_find(a, b->graph, A_MACHINE(b->kernels, n_threads), &options, &b->small.plan,
                            &least) != QN_OK) {
        fprintf(stderr, "least %.1f%%\n", 100 * (double)least / full);
        stop("planning");
    }
    try(qn_allocate(a, (size_t)b->graph->n_nodes, sizeof *b->node_ns, &b->node_ns), "memory");
    for (int n = 0; n < b->graph->n_nodes; n++)
        b->node_ns[n] = qn_estimate_ns(b->graph, n, &options.speed);
}

static qn_variant variant_of(const running *r) {
    return (qn_variant){r->plan.graph, &r->plan.origins, r->plan.plan};
}

/* What a change waits for: the plan is found, or made of a sequence that is ready
 * (run/rebudget/plan_cache.h). */
static void print_planning(bench *b, const char *percent) {
    const qn_allocator *a = qn_allocator_default();
    const running *from = &b->small;
    running made = {0};
    const int64_t begin_ns = qn_clock_ns();
    try(qn_budget_plan_make(a, b->graph, A_MACHINE(b->kernels, qn_team_size(b->team)),
                            &from->plan.sequence, &made.plan),
        "planning");
    try(qn_executor_create(a, made.plan.graph, made.plan.plan, A_MACHINE(b->kernels, 1), b->team,
                           NULL, &made.executor),
        "memory");
    printf("plan %s found %lld ready %lld\n", percent, (long long)from->plan.planning_ns,
           (long long)(qn_clock_ns() - begin_ns));
    qn_executor_destroy(made.executor);
    qn_budget_plan_deinit(&made.plan);
}

static double step_ns(const bench *b, const running *r, int32_t step) {
    const int32_t node = r->plan.origins.node_of[r->plan.plan->steps[step].node];
    return node < 0 ? 0 : b->node_ns[node];
}

/* The step at a share of the plan's time. */
static int32_t find_step(const bench *b, const running *r, double share) {
    double total = 0, until = 0;
    int32_t step = 0;
    for (int32_t s = 0; s < r->plan.plan->n_steps; s++)
        total += step_ns(b, r, s);
    while (step < r->plan.plan->n_steps && until + step_ns(b, r, step) <= share * total)
        until += step_ns(b, r, step++);
    return step;
}

/* ---- running ---- */

static void fill(const qn_graph *graph, qn_store *store) {
    const uint32_t kinds = 1u << QN_KIND_PARAMETER | 1u << QN_KIND_STATE | 1u << QN_KIND_INPUT |
                           1u << QN_KIND_LABEL | 1u << QN_KIND_GRADIENT;
    qn_store_init(store, qn_allocator_default());
    try(qn_store_add_graph(store, graph, kinds, 7), "memory");
    for (int v = 0; v < graph->n_values; v++) {
        const qn_value_info *info = graph->values[v];
        if (info->producer >= 0 || info->kind != QN_KIND_INPUT || info->tensor.dtype != QN_F32)
            continue;
        const qn_rng rng = qn_rng_make(5, qn_hash_text(info->name), 0);
        float *x = qn_store_find(store, info->name)->data;
        for (int64_t i = 0; i < qn_shape_count(info->tensor.shape); i++)
            x[i] = 0.01f + 0.5f * qn_rng_uniform(qn_rng_word(rng, (uint64_t)i));
    }
}

static void bind(bench *b, running *r) {
    for (int v = 0; v < b->graph->n_values; v++) {
        const qn_value_info *info = b->graph->values[v];
        if (info->producer < 0)
            qn_executor_bind(r->executor, r->plan.origins.first[v],
                             qn_store_find(&b->store, info->name)->data);
    }
}

static void begin(bench *b) {
    for (int i = 0; i < b->store.n_tensors; i++)
        memcpy(b->store.tensors[i].data, b->start.tensors[i].data, b->start.tensors[i].bytes);
}

static uint64_t add_bytes(uint64_t sum, const void *data, size_t bytes) {
    const uint8_t *at = data;
    for (size_t i = 0; i < bytes; i++)
        sum = (sum ^ at[i]) * 0x100000001b3u;
    return sum;
}

/* Of parameters, state and results. */
static uint64_t sum_up(const bench *b, const running *r) {
    uint64_t sum = 0xcbf29ce484222325u;
    for (int i = 0; i < b->store.n_tensors; i++)
        sum = add_bytes(sum, b->store.tensors[i].data, b->store.tensors[i].bytes);
    for (int i = 0; i < r->plan.graph->n_results; i++) {
        const qn_value result = r->plan.graph->results[i];
        sum = add_bytes(sum, qn_executor_get(r->executor, result),
                        qn_tensor_bytes(qn_graph_tensor(r->plan.graph, result)));
    }
    return sum;
}

static void prepare_run(bench *b) {
    const qn_allocator *a = qn_allocator_default();
    running *both[] = {&b->usual, &b->small};
    fill(b->graph, &b->store);
    fill(b->graph, &b->start);
    try(qn_allocate(a, 1, b->usual.plan.plan->arena_bytes, &b->arena), "memory");
    for (int i = 0; i < 2; i++) {
        try(qn_executor_create(a, both[i]->plan.graph, both[i]->plan.plan, A_MACHINE(b->kernels, 1),
                               b->team, b->arena, &both[i]->executor),
            "memory");
        bind(b, both[i]);
    }
    try(qn_executor_run(b->usual.executor, 3, 1, NULL), "running");
    b->wanted = sum_up(b, &b->usual);
}

static void run_until(const running *r, int32_t *next, int32_t until) {
    for (; *next < until; ++*next) {
        qn_call call = *qn_executor_get_call(r->executor, *next);
        call.seed = 3;
        call.step = 1;
        qn_cpu_run(&call);
    }
}

/* ---- switches ---- */

/* What the new plan would run from its beginning until all has run that the old one had. */
static double find_restart(const bench *b, const running *from, const running *to, int32_t step) {
    const qn_variant old = variant_of(from), new = variant_of(to);
    int64_t n_left = 0;
    double ns = 0;
    for (int32_t s = 0; s < step; s++)
        n_left += !qn_adapt_runs_again(&old, s);
    for (int32_t s = 0; s < to->plan.plan->n_steps && n_left > 0; s++) {
        n_left -= !qn_adapt_runs_again(&new, s);
        ns += step_ns(b, to, s);
    }
    return ns;
}

/* Before a run's end a growing arena may wait, as in an engine (run/rebudget/live_budget.c). */
static bool is_time(const qn_adapt_options *o, bool is_growing, const qn_adapt *found) {
    return !is_growing || o->step == o->from.plan->n_steps || qn_adapt_is_worth_it(found);
}

/* From a step on, until it can be done and is worth it. waited_ns: of what runs again before. */
static bool find_switch(const bench *b, qn_adapt_options *o, bool is_growing, qn_adapt *found,
                        double *waited_ns) {
    *waited_ns = 0;
    for (; o->step <= o->from.plan->n_steps; o->step++) {
        const qn_status status = qn_adapt_find(o, found);
        if (status != QN_OK && status != QN_ERROR_UNSUPPORTED)
            stop("switching");
        if (status == QN_OK && is_time(o, is_growing, found))
            return true;
        if (status == QN_OK)
            qn_adapt_deinit(found);
        if (o->step < o->from.plan->n_steps && qn_adapt_runs_again(&o->from, o->step))
            *waited_ns += b->node_ns[o->from.origins->node_of[o->from.plan->steps[o->step].node]];
    }
    return false;
}

static void run_switch(bench *b, const qn_adapt_options *o, qn_adapt *adapt, running *from,
                       running *to) {
    int32_t next = 0;
    begin(b);
    run_until(from, &next, o->step);
    const int64_t begin_ns = qn_clock_ns();
    qn_adapt_run(adapt, o, from->executor, to->executor, b->arena, b->team, 3, 1);
    printf(" took %lld", (long long)(qn_clock_ns() - begin_ns));
    next = adapt->to_step;
    run_until(to, &next, to->plan.plan->n_steps);
    if (sum_up(b, to) != b->wanted)
        stop("bits differ");
    printf(" same bits");
}

static void do_switch(bench *b, running *from, running *to, int percent) {
    const bool is_growing = from == &b->small;
    qn_adapt found;
    double waited_ns;
    const int32_t step = find_step(b, from, percent / 100.0);
    qn_adapt_options o = {.allocator = qn_allocator_default(),
                          .base = b->graph,
                          .machine = A_MACHINE(b->kernels, qn_team_size(b->team)),
                          .node_ns = b->node_ns,
                          .from = variant_of(from),
                          .to = variant_of(to),
                          .step = step,
                          .limit_bytes = b->usual.plan.plan->arena_bytes};
    const double restart_ns = find_restart(b, from, to, step);
    if (!find_switch(b, &o, is_growing, &found, &waited_ns))
        stop("no switch");
    const int64_t begin_ns = qn_clock_ns();
    qn_adapt again;
    try(qn_adapt_find(&o, &again), "switching");
    const int64_t finding_ns = qn_clock_ns() - begin_ns;
    qn_adapt_deinit(&again);
    const double rest_ns = is_growing ? found.rest_ns : 0;
    printf("%s %d restart %.0f again %.0f stay %.0f nodes %zu kept %zu moved %zu waited %d "
           "finding %lld",
           is_growing ? "grow" : "shrink", percent, restart_ns,
           found.again_ns + waited_ns + rest_ns, found.stay_ns + waited_ns, found.n_again,
           found.kept_bytes, found.gather.bytes + found.place.bytes, o.step - step,
           (long long)finding_ns);
    if (from->executor)
        run_switch(b, &o, &found, from, to);
    printf("\n");
    qn_adapt_deinit(&found);
}

int main(int argc, char **argv) {
    qn_isa isa;
    bench b = {0};
    if (argc < 4)
        stop("MODEL BATCH PERCENT [run]");
    const qn_model *model = qn_model_find(argv[1]);
    if (!model || qn_cpu_isa(&isa) != QN_OK)
        stop(argv[1]);
    b.kernels = qn_kernels_get(QN_F32, isa);
    try(qn_team_create(qn_allocator_default(), qn_cpu_count(), &b.team), "threads");
    try(build_training(model, atoll(argv[2]), NULL, &b.program), model->name);
    b.graph = b.program.graph;
    plan(&b, atof(argv[3]));
    print_planning(&b, argv[3]);
    if (argc > 4)
        prepare_run(&b);
    for (int percent = 25; percent <= 75; percent += 25)
        do_switch(&b, &b.usual, &b.small, percent);
    for (int percent = 25; percent <= 75; percent += 25)
        do_switch(&b, &b.small, &b.usual, percent);
}
