/* The rivals that our planner is measured against: on random training steps each makes a sequence
 * that holds, changes no bit and, where it has all the memory that it asks for, runs nothing again;
 * on a chain they keep what was published of them; failing allocations leave nothing behind. */
#include "a_machine.h"
#include "budget_checks.h"
#include "failing.h"
#include "os/heap.h"
#include "os/team.h"
#include "policies/facts.h"
#include "policies/policies.h"

#include <stdlib.h>

static const qn_kernels *kernels;
static qn_team *team;

enum { N_RANDOM = 40 };

/* A graph as the policies are given it; times are their bytes. */
typedef struct subject {
    const qn_graph *graph;
    qn_sequence base;
    double *node_ns;
    size_t *workspace;
} subject;

static const qn_swap_speed swap = {0.5, 0.5, 1000, 0};

static subject subject_init(const qn_graph *graph) {
    const qn_speed speed = {0};
    subject s = {.graph = graph};
    s.node_ns = calloc((size_t)graph->n_nodes, sizeof *s.node_ns);
    s.workspace = calloc((size_t)graph->n_nodes, sizeof *s.workspace);
    if (!s.node_ns || !s.workspace)
        abort();
    for (int n = 0; n < graph->n_nodes; n++)
        s.node_ns[n] = qn_estimate_ns(graph, n, &speed);
    CHECK_OK(qn_sequence_base(qn_allocator_default(), graph, &s.base));
    return s;
}

static qn_policy_problem problem_of(const subject *s) {
    return (qn_policy_problem){.allocator = qn_allocator_default(),
                               .graph = s->graph,
                               .base = &s->base,
                               .node_ns = s->node_ns,
                               .workspace = s->workspace,
                               .swap = &swap};
}

static void subject_deinit(subject *s) {
    qn_sequence_deinit(&s->base);
    free(s->node_ns);
    free(s->workspace);
}

static size_t peak_of(const qn_policy_problem *problem) {
    qn_facts facts;
    CHECK_OK(qn_facts_init(&facts, problem));
    const size_t bytes = qn_facts_peak(&facts);
    qn_facts_deinit(&facts);
    return bytes;
}

static int count_runs(const qn_sequence *sequence) {
    int n = 0;
    for (size_t i = 0; i < sequence->n; i++)
        n += sequence->items[i].action == QN_ACTION_RUN;
    return n;
}

/* ---- random graphs ---- */

/* A sequence that was made: its invariants, those of its plan, and its bits where nothing is
 * swapped. A policy may give up. Returns how many nodes run again, or -1. */
static int check_policy(const qn_policy *policy, const qn_policy_problem *problem) {
    qn_sequence sequence;
    qn_budget_plan made = {0};
    size_t own_top_bytes = 0;
    int n_again = -1;
    qn_sequence_init(&sequence, qn_allocator_default());
    const qn_status status = policy->make(problem, &sequence, &own_top_bytes);
    CHECK(status == QN_OK || status == QN_ERROR_UNSUPPORTED);
    if (status == QN_OK) {
        n_again = count_runs(&sequence) - (int)problem->base->n;
        CHECK(n_again >= 0);
        CHECK_OK(qn_sequence_check(&sequence, problem->graph));
        CHECK(qn_policy_predict_ns(problem, &sequence) >=
              0.999 * qn_policy_predict_ns(problem, problem->base));
        CHECK_OK(qn_budget_plan_make(qn_allocator_default(), problem->graph,
                                     A_DISK_MACHINE(kernels, 2), &sequence, &made));
        CHECK_OK(qn_plan_check(made.plan, made.graph));
        CHECK(made.n_again == n_again);
        if (made.swapped_bytes == 0)
            check_same_bits(problem->graph, &made, kernels, team);
    }
    qn_budget_plan_deinit(&made);
    qn_sequence_deinit(&sequence);
    return n_again;
}

static void test_random(void) {
    int n_again = 0, n_given_up = 0, n = 0;
    for (uint64_t seed = 0; seed < N_RANDOM; seed++) {
        qn_program p = random_program(seed);
        subject s = subject_init(p.graph);
        qn_policy_problem problem = problem_of(&s);
        const size_t peak = peak_of(&problem);
        for (int i = 0; qn_policies[i]; i++, n++) {
            problem.limit_bytes = peak;
            if (qn_policies[i]->has_limit && qn_policies[i] != &qn_policy_melon)
                CHECK(check_policy(qn_policies[i], &problem) == 0);
            problem.limit_bytes = peak / 100 * (40 + seed % 50);
            const int again = check_policy(qn_policies[i], &problem);
            n_again += again > 0;
            n_given_up += again < 0;
        }
        subject_deinit(&s);
        qn_program_deinit(&p);
    }
    CHECK(n_again * 3 > n);
    CHECK(n_given_up * 5 < n);
}

/* ---- a chain, of which the papers say what they reach ---- */

enum { CHAIN = 144, CHAIN_BYTES = 32 * 16 * 16 * 4 * 4 };

static qn_value build_chain(qn_graph *graph, void *user, int phase, qn_value *kept) {
    (void)user;
    (void)phase;
    (void)kept;
    const qn_shape shape = {4, {32, 16, 16, 4}};
    qn_value x = qn_conv2d_layer(graph, "first", qn_input(graph, "x", shape), 4,
                                 qn_window_square(1, 1, 0), 1, true);
    for (int i = 0; i < CHAIN; i++)
        x = qn_gelu(graph, NULL, x);
    return qn_mean(graph, NULL, x);
}

static qn_program chain_program(void) {
    const qn_engine_options engine = {QN_OPTIONS_INIT(qn_engine_options),
                                      .allocator = qn_allocator_default(), .real = QN_F32,
                                      .update = {.optimizer = QN_SGD, .accumulate = 1}};
    const qn_program_options options = {QN_OPTIONS_INIT(qn_program_options), .training = true,
                                        .build = build_chain};
    qn_program p;
    CHECK_OK(qn_program_build(&p, &options, &engine));
    return p;
}

/* The arena and the nodes that run again under a limit of so many layers' outputs. */
static int chain_again(const qn_policy *policy, qn_policy_problem problem, int n_layers,
                       double *arena_layers) {
    qn_sequence sequence;
    qn_budget_plan made = {0};
    size_t own = 0;
    problem.limit_bytes = (size_t)n_layers * CHAIN_BYTES;
    qn_sequence_init(&sequence, qn_allocator_default());
    CHECK_OK(policy->make(&problem, &sequence, &own));
    CHECK_OK(qn_budget_plan_make(qn_allocator_default(), problem.graph, A_DISK_MACHINE(kernels, 2),
                                 &sequence, &made));
    *arena_layers = made.plan ? (double)made.plan->arena_bytes / CHAIN_BYTES : 0;
    const int n_again = (int)made.n_again;
    qn_budget_plan_deinit(&made);
    qn_sequence_deinit(&sequence);
    return n_again;
}

/* Chen et al.: the root of n segments, one more forward pass. DTR: 2 times the root, a number of
 * nodes that grows as n. All: less memory than without, for no more than some forward passes. */
static void test_chain(void) {
    qn_program p = chain_program();
    subject s = subject_init(p.graph);
    const qn_policy_problem problem = problem_of(&s);
    double layers;
    CHECK(chain_again(&qn_policy_none, problem, 1, &layers) == 0 && layers > CHAIN);
    const int again = chain_again(&qn_policy_sqrt, problem, 1, &layers);
    CHECK(again > CHAIN / 2 && again <= CHAIN && layers < 2 * 12 + 6);
    const qn_policy *const limited[] = {&qn_policy_sublinear, &qn_policy_dtr, &qn_policy_dtr_eq,
                                        &qn_policy_capuchin_recompute, &qn_policy_melon};
    for (size_t i = 0; i < sizeof limited / sizeof *limited; i++) {
        const int n_again = chain_again(limited[i], problem, 48, &layers);
        CHECK(n_again > 0 && n_again <= 5 * CHAIN && layers < 52);
    }
    CHECK(chain_again(&qn_policy_dtr, problem, 2 * 12 + 4, &layers) <= 4 * CHAIN);
    subject_deinit(&s);
    qn_program_deinit(&p);
}

/* What a policy is fitted to, it keeps to. */
static void test_fit(void) {
    qn_program p = chain_program();
    subject s = subject_init(p.graph);
    const qn_policy_problem problem = problem_of(&s);
    for (int i = 0; qn_policies[i]; i++) {
        qn_policy_fit fit;
        if (qn_policies[i]->swaps)
            continue;
        CHECK_OK(qn_policy_fit_arena(qn_policies[i], &problem, A_DISK_MACHINE(kernels, 2),
                                     50 * CHAIN_BYTES, &fit));
        CHECK(fit.is_feasible == (qn_policies[i] != &qn_policy_none));
        CHECK(!fit.is_feasible ||
              (fit.plan.plan->arena_bytes <= 50 * CHAIN_BYTES && fit.extra_ns > 0));
        qn_budget_plan_deinit(&fit.plan);
    }
    subject_deinit(&s);
    qn_program_deinit(&p);
}

static void test_prediction(void) {
    qn_program p = chain_program();
    subject s = subject_init(p.graph);
    const qn_policy_problem problem = problem_of(&s);
    const int32_t node = s.base.items[1].id, v = p.graph->nodes[node]->outputs[0].id;
    const double ns = s.node_ns[node], transfer = 1000 + CHAIN_BYTES / 0.5;
    qn_item items[] = {{QN_ACTION_RUN, node}, {QN_ACTION_STORE, v}, {QN_ACTION_RUN, node},
                       {QN_ACTION_STORED, v}, {QN_ACTION_LOAD, v},  {QN_ACTION_LOADED, v},
                       {QN_ACTION_RUN, node}};
    qn_sequence sequence = {.n = 7, .items = items};
    CHECK(ns < transfer);
    CHECK(fabs(qn_policy_predict_ns(&problem, &sequence) - (2 * ns + 2 * transfer)) < 1);
    subject_deinit(&s);
    qn_program_deinit(&p);
}

static void test_failing(void) {
    qn_program p = random_program(10);
    subject s = subject_init(p.graph);
    qn_policy_problem problem = problem_of(&s);
    problem.limit_bytes = peak_of(&problem) / 2;
    for (int i = 0; qn_policies[i]; i++) {
        qn_status status = QN_ERROR_MEMORY;
        for (int64_t n = 0; status == QN_ERROR_MEMORY && n < 1000; n++) {
            failing f = {.left = n};
            const qn_allocator allocator = {&f, failing_allocate, failing_release};
            qn_sequence sequence;
            size_t own = 0;
            problem.allocator = &allocator;
            qn_sequence_init(&sequence, &allocator);
            status = qn_policies[i]->make(&problem, &sequence, &own);
            qn_sequence_deinit(&sequence);
            CHECK(f.held_bytes == 0);
        }
        CHECK(status == QN_OK || status == QN_ERROR_UNSUPPORTED);
    }
    subject_deinit(&s);
    qn_program_deinit(&p);
}

int main(void) {
    qn_isa isa;
    CHECK_OK(qn_cpu_isa(&isa));
    kernels = qn_kernels_get(QN_F32, isa);
    CHECK_OK(qn_team_create(qn_allocator_default(), 2, &team));
    CHECK(qn_policy_find("melon") == &qn_policy_melon && !qn_policy_find("other"));
    test_random();
    test_chain();
    test_fit();
    test_prediction();
    test_failing();
    qn_team_destroy(team);
    return checks_finish();
}
