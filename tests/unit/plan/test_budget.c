/* Plans within budgets: of the zoo and of random training steps they keep every invariant, stay
 * within the limit, and change no bit of what is computed; what is too little is refused with the
 * least that would do; failing allocations leave nothing behind. */
#include "a_machine.h"
#include "budget_checks.h"
#include "failing.h"
#include "ops/loss.h"
#include "os/heap.h"
#include "os/team.h"
#include "small_models.h"
#include "training_program.h"

#include <stdlib.h>

static const qn_kernels *kernels;
static qn_team *team;
static bool is_slow; /* an instrumented program: less of the same */

static qn_program build_model(const qn_model *model) {
    const qn_update_options update = {.optimizer = QN_SGD};
    qn_program p;
    CHECK_OK(build_training(model, 2, &update, &p));
    return p;
}

static size_t full_bytes(const qn_graph *graph) {
    qn_plan *plan = NULL;
    CHECK_OK(qn_plan_create(qn_allocator_default(), graph, A_MACHINE(kernels, 2), &plan));
    const size_t bytes = plan ? plan->arena_bytes : 0;
    qn_plan_destroy(plan);
    return bytes;
}

static qn_status find(const qn_graph *graph, const qn_budget_options *options, qn_budget_plan *made,
                      size_t *least) {
    *made = (qn_budget_plan){0};
    return qn_budget_plan_find(qn_allocator_default(), graph, A_MACHINE(kernels, 2), options, made,
                               least);
}

/* Time lost within a share of what is needed without a limit; negative: too little. */
static double check_share(const qn_graph *graph, size_t full, double share) {
    qn_budget_options options = {.arena_bytes = (size_t)((double)full * share), .most_work = 50};
    qn_budget_plan made;
    size_t least = 0;
    double extra_ns = -1;
    if (find(graph, &options, &made, &least) == QN_OK) {
        check_made(graph, kernels, &options, &made);
        extra_ns = made.extra_ns;
        qn_budget_plan_deinit(&made);
        return extra_ns;
    }
    CHECK(least > options.arena_bytes && least <= full);
    options.arena_bytes = least;
    CHECK_OK(find(graph, &options, &made, NULL));
    check_made(graph, kernels, &options, &made);
    qn_budget_plan_deinit(&made);
    return extra_ns;
}

/* No time is lost without need, and less memory never costs less (but for what a heuristic may
 * miss). */
static void test_model(const qn_model *model) {
    static const double shares[] = {0.85, 0.65, 0.45};
    qn_program p = build_model(model);
    const size_t full = full_bytes(p.graph);
    double before = check_share(p.graph, full, 1);
    CHECK(before == 0);
    for (int i = 0; i < 3; i++) {
        const double extra = check_share(p.graph, full, shares[i]);
        CHECK(extra < 0 || extra >= before * 0.9);
        if (extra >= 0)
            before = extra;
    }
    qn_program_deinit(&p);
}

static void test_zoo(void) {
    for (int i = 0; qn_model_at(i); i++) {
        if (!is_slow || i % 3 == 0)
            test_model(qn_model_at(i));
    }
}

/* The same options give the same plan. */
static void test_repeats(const qn_graph *graph, size_t limit) {
    const qn_budget_options options = {.arena_bytes = limit};
    qn_budget_plan a, b;
    CHECK_OK(find(graph, &options, &a, NULL));
    CHECK_OK(find(graph, &options, &b, NULL));
    CHECK(a.n_again > 0 && a.sequence.n == b.sequence.n && a.extra_ns == b.extra_ns);
    CHECK(memcmp(a.sequence.items, b.sequence.items, a.sequence.n * sizeof *a.sequence.items) == 0);
    check_same_bits(graph, &a, kernels, team);
    qn_budget_plan_deinit(&a);
    qn_budget_plan_deinit(&b);
}

/* Measured times decide what is made again: what is dear is kept. */
static void test_measured(const qn_graph *graph, size_t limit) {
    double *ns = calloc((size_t)graph->n_nodes, sizeof *ns);
    const qn_budget_options options = {.arena_bytes = limit, .node_ns = ns};
    qn_budget_plan made;
    for (int n = 0; ns && n < graph->n_nodes; n++)
        ns[n] = strncmp(graph->nodes[n]->name, "conv", 4) == 0 ? 1e9 : 1;
    CHECK_OK(find(graph, &options, &made, NULL));
    CHECK(made.n_again > 0 && made.extra_ns < 1e9);
    qn_budget_plan_deinit(&made);
    free(ns);
}

/* Layers made again give the same bits within limits. */
static void test_layers(const qn_graph *graph) {
    static const double shares[] = {0.95, 0.8};
    const size_t full = full_bytes(graph);
    int n_made = 0;
    for (int i = 0; i < 2; i++) {
        qn_budget_plan made = {0};
        const qn_budget_options limit = {.arena_bytes = (size_t)((double)full * shares[i]),
                                         .has_layers = true};
        CHECK_OK(find(graph, &limit, &made, NULL));
        if (!made.plan)
            continue;
        n_made++;
        check_made(graph, kernels, &limit, &made);
        check_same_bits(graph, &made, kernels, team);
        qn_budget_plan_deinit(&made);
    }
    CHECK(n_made > 0);
}

/* A part of a step's time is never exceeded, none saves nothing, and more time never saves less. */
static void test_thrifty(const qn_graph *graph) {
    static const double parts[] = {0, 0.01, 0.05, 0.2};
    const qn_budget_options options = {.arena_bytes = SIZE_MAX};
    size_t before = full_bytes(graph);
    int n_found = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        qn_budget_plan made = {0};
        CHECK_OK(qn_budget_plan_thrifty(NULL, graph, A_MACHINE(kernels, 2), &options, parts[i],
                                        0.02, &made));
        if (!made.plan)
            continue;
        n_found++;
        const qn_budget_options limit = {.arena_bytes = made.plan->arena_bytes};
        check_made(graph, kernels, &limit, &made);
        CHECK(made.extra_ns <= parts[i] * made.base_ns && made.plan->arena_bytes <= before);
        before = made.plan->arena_bytes;
        qn_budget_plan_deinit(&made);
    }
    CHECK(n_found > 0);
}

static void test_too_little(const qn_graph *graph) {
    const qn_budget_options options = {.arena_bytes = 64};
    qn_budget_plan made;
    size_t least = 0, same = 0;
    CHECK_FAILS(find(graph, &options, &made, &least), QN_ERROR_MEMORY, "the smallest plan found");
    CHECK_OK(
        qn_budget_least(qn_allocator_default(), graph, A_MACHINE(kernels, 2), &options, &same));
    CHECK(least > 64 && least == same);
}

/* What is known of the least changes no plan, no refusal, and not the memory that planning takes;
 * also where the sequence of the least had no room, and with values that go to a file. */
static void test_known_least(const qn_graph *graph, const qn_swap_speed *swap, size_t most_bytes) {
    const size_t full = full_bytes(graph);
    qn_budget_low low = {.most_bytes = most_bytes};
    int n_refused = 0;
    for (int i = 1; i <= 32; i++) {
        qn_budget_options options = {
            .arena_bytes = full * (size_t)i / 32, .most_work = 1, .swap = swap};
        qn_budget_plan fresh = {0}, known = {0};
        size_t least = 0, same = 0;
        const qn_machine *machine = A_DISK_MACHINE(kernels, 2);
        const qn_status status =
            qn_budget_plan_find(NULL, graph, machine, &options, &fresh, &least);
        options.low = &low;
        CHECK(qn_budget_plan_find(NULL, graph, machine, &options, &known, &same) == status);
        CHECK(least == same && fresh.sequence.n == known.sequence.n);
        CHECK(fresh.planner_bytes == known.planner_bytes);
        CHECK(fresh.sequence.n != known.sequence.n || fresh.sequence.n == 0 ||
              memcmp(fresh.sequence.items, known.sequence.items,
                     fresh.sequence.n * sizeof *fresh.sequence.items) == 0);
        n_refused += status == QN_ERROR_MEMORY;
        qn_budget_plan_deinit(&fresh);
        qn_budget_plan_deinit(&known);
    }
    CHECK(n_refused > 0 && n_refused < 31 && low.arena_bytes > 0);
    CHECK((low.items != NULL) == (most_bytes != 1));
    qn_budget_low_deinit(&low);
}

/* A network whose values are large enough for the file. */
static void test_known_leasts(void) {
    static const qn_swap_speed swap = {2, 2, 1000, 0};
    const qn_update_options update = {.optimizer = QN_SGD};
    qn_program p;
    CHECK_OK(build_training(qn_model_find("squeezenet"), 2, &update, &p));
    if (!is_slow)
        test_known_least(p.graph, NULL, 0);
    test_known_least(p.graph, NULL, 1);
    test_known_least(p.graph, &swap, 0);
    qn_program_deinit(&p);
}

/* A narrow value that is read before and after wide ones: of an operator that may run again, or of
 * one that talks to a peer. */
static qn_graph *build_stretch(bool has_peer) {
    enum { ROWS = 64, NARROW = 16, WIDE = 64 };
    const qn_graph_options options = {QN_OPTIONS_INIT(qn_graph_options), .real = QN_F32};
    qn_graph *g = NULL;
    CHECK_OK(qn_graph_create(&options, &g));
    if (!g)
        exit(checks_finish());
    const qn_value x = qn_input(g, "x", QN_SHAPE(ROWS, NARROW));
    const qn_value labels = qn_label(g, "labels", QN_I32, QN_SHAPE(ROWS));
    qn_value narrow = qn_gelu(g, "narrow", x);
    if (has_peer) {
        qn_peer_loss(g, "peer", narrow, labels, NULL);
        narrow = qn_graph_find(g, "peer.error");
    }
    qn_value h = qn_linear_layer(g, "widen", narrow, WIDE);
    h = qn_linear_layer(g, "narrow_again", qn_gelu(g, "wide", h), NARROW);
    qn_result(g, qn_add(g, "sum", h, narrow));
    CHECK_OK(qn_graph_check(g));
    return g;
}

/* How often the narrow value's operator runs where memory is as little as it can be, or where time
 * costs nothing. */
static int64_t count_runs(const qn_graph *graph, const char *value, bool is_thrifty) {
    const int32_t id = qn_graph_find(graph, value).id;
    qn_budget_options options = {.arena_bytes = SIZE_MAX};
    qn_budget_plan made = {0};
    int64_t n = 0;
    if (is_thrifty) {
        CHECK_OK(qn_budget_plan_thrifty(NULL, graph, A_MACHINE(kernels, 2), &options, 1, 0, &made));
    } else {
        CHECK_OK(
            qn_budget_least(NULL, graph, A_MACHINE(kernels, 2), &options, &options.arena_bytes));
        CHECK_OK(find(graph, &options, &made, NULL));
    }
    for (size_t i = 0; i < made.sequence.n; i++) {
        const qn_node *node = graph->nodes[made.sequence.items[i].id];
        for (int j = 0; j < node->n_outputs; j++)
            n += node->outputs[j].id == id;
    }
    qn_budget_plan_deinit(&made);
    return n;
}

/* What talks to a peer runs once, whatever the memory; anything else in its place runs again. */
static void test_runs_once(void) {
    qn_graph *free_graph = build_stretch(false), *peer_graph = build_stretch(true);
    for (int is_thrifty = 0; is_thrifty < 2; is_thrifty++) {
        CHECK(count_runs(free_graph, "narrow", is_thrifty) > 1);
        CHECK(count_runs(peer_graph, "peer.error", is_thrifty) == 1);
    }
    qn_graph_destroy(free_graph);
    qn_graph_destroy(peer_graph);
}

static void test_failures(const qn_graph *graph, size_t limit, bool has_layers) {
    failing heap = {.left = 0};
    const qn_allocator a = {&heap, failing_allocate, failing_release};
    const qn_budget_options options = {
        .arena_bytes = limit, .most_work = 10, .has_layers = has_layers};
    qn_graph copy = *graph; /* what is made of it comes from the graph's allocator */
    copy.allocator = &a;
    int n_failed = 0;
    for (int64_t n = 0;; n++) {
        qn_budget_plan made = {0};
        size_t least = 1;
        heap = (failing){.left = n};
        const qn_status status =
            qn_budget_plan_find(&a, &copy, A_MACHINE(kernels, 2), &options, &made, &least);
        qn_budget_plan_deinit(&made);
        if (status == QN_OK)
            break;
        n_failed++;
        if (status != QN_ERROR_MEMORY || least != 0 || heap.held_bytes != 0)
            CHECK(!"a failed allocation is reported and leaves nothing");
    }
    CHECK(n_failed > 20 && heap.held_bytes == 0);
}

int main(void) {
    is_slow = getenv("QUERN_SLOW") != NULL;
    kernels = qn_kernels_get(QN_F32, QN_ISA_REF);
    CHECK_OK(qn_team_create(qn_allocator_default(), 2, &team));
    qn_program small = build_model(&small_conv);
    const size_t limit = full_bytes(small.graph) * 8 / 10;
    test_repeats(small.graph, limit);
    test_measured(small.graph, limit * 9 / 8);
    test_too_little(small.graph);
    test_thrifty(small.graph);
    test_layers(small.graph);
    test_failures(small.graph, limit, false);
    test_failures(small.graph, limit, true);
    qn_program_deinit(&small);
    test_known_leasts();
    test_runs_once();
    check_random_graphs(0, is_slow ? 60 : 300, kernels, team);
    test_zoo();
    qn_team_destroy(team);
    return checks_finish();
}
