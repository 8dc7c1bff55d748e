/* Plans of several lanes, without running them: random training graphs, each node in a random lane.
 * The check must accept every plan; with any one wait taken out, a step of a device put into the
 * host's lane, or memory shared too early, it must refuse it. With all nodes in one lane, memory is
 * as in a plan without lanes. */
#include "check.h"
#include "failing.h"
#include "kernels/kernels.h"
#include "os/heap.h"
#include "os/os.h"
#include "plan/lanes/clocks.h"
#include "plan/saved.h"
#include "random_graphs.h"
#include "random_lanes.h"

enum { N_GRAPHS = 40 };

static qn_machine machine; /* of random_lanes; nothing runs on it */

static qn_plan *plan_spread(const qn_partition *spread) {
    qn_plan *plan = NULL;
    CHECK_OK(qn_plan_create_for_lanes(qn_allocator_default(), spread->graph, &machine,
                                      &spread->assignment, &plan));
    return plan;
}

/* The step that a wait belongs to. */
static int32_t waiter_of(const qn_plan *plan, int32_t wait) {
    int32_t s = plan->n_steps - 1;
    while (plan->steps[s].first_wait > wait)
        s--;
    return s;
}

static void check_waits(qn_plan *plan, const qn_graph *graph) {
    for (int32_t i = 0; i < plan->lanes->n_waits; i++) {
        const int32_t waiter = waiter_of(plan, i), kept = plan->lanes->waits[i];
        qn_step *steps = plan->steps;
        int32_t *behind = malloc((size_t)plan->n_steps * sizeof *behind);
        if (!behind)
            abort();
        for (int32_t s = 0; s < plan->n_steps; s++)
            behind[s] = steps[s].first_wait;
        memmove(plan->lanes->waits + i, plan->lanes->waits + i + 1,
                (size_t)(plan->lanes->n_waits - i - 1) * sizeof *plan->lanes->waits);
        plan->lanes->n_waits--;
        for (int32_t s = waiter + 1; s < plan->n_steps; s++)
            steps[s].first_wait--;
        CHECK(qn_plan_check(plan, graph) == QN_ERROR_ARGUMENT);
        memmove(plan->lanes->waits + i + 1, plan->lanes->waits + i,
                (size_t)(plan->lanes->n_waits - i) * sizeof *plan->lanes->waits);
        plan->lanes->waits[i] = kept;
        plan->lanes->n_waits++;
        for (int32_t s = 0; s < plan->n_steps; s++)
            steps[s].first_wait = behind[s];
        free(behind);
    }
    CHECK_OK(qn_plan_check(plan, graph));
}

/* Two storages of one space, both in use at some time that no wait rules out, at one offset. */
static void check_memory(qn_plan *plan, const qn_graph *graph) {
    for (int32_t i = 1; i < plan->n_storages; i++) {
        qn_storage *a = &plan->storages[i - 1], *b = &plan->storages[i];
        if (a->is_bound || b->is_bound || a->space != b->space || a->last < b->first ||
            b->last < a->first || a->first >= plan->n_steps)
            continue;
        const qn_storage kept = *b;
        b->offset = a->offset;
        CHECK(qn_plan_check(plan, graph) == QN_ERROR_ARGUMENT);
        *b = kept;
    }
}

/* What a step reads must lie in its lane's space. */
static void check_spaces(qn_plan *plan, const qn_graph *graph) {
    for (int32_t s = 0; s < plan->n_steps; s++) {
        const int16_t kept = plan->steps[s].lane;
        if (plan->lanes->lanes[kept].space == 0 ||
            graph->nodes[plan->steps[s].node]->op->output_space)
            continue;
        plan->steps[s].lane = 0;
        CHECK(qn_plan_check(plan, graph) == QN_ERROR_ARGUMENT);
        plan->steps[s].lane = kept;
    }
}

static void test_random_lanes(void) {
    int n_waits = 0, n_copies = 0;
    for (uint64_t seed = 1; seed <= N_GRAPHS; seed++) {
        qn_program p = random_program(seed);
        qn_partition spread = random_spread(p.graph, seed);
        qn_plan *plan = plan_spread(&spread);
        CHECK_OK(qn_graph_check(spread.graph));
        CHECK_OK(qn_plan_check(plan, spread.graph));
        n_waits += plan->lanes->n_waits;
        n_copies += spread.graph->n_nodes - p.graph->n_nodes;
        check_waits(plan, spread.graph);
        check_memory(plan, spread.graph);
        check_spaces(plan, spread.graph);
        qn_plan_destroy(plan);
        qn_graph_destroy(spread.graph);
        qn_program_deinit(&p);
    }
    CHECK(n_waits > 500 && n_copies > 500);
}

/* Everything in lane 0: nothing is copied, nothing waits, and memory is as without lanes. */
static void test_one_lane(void) {
    for (uint64_t seed = 1; seed <= N_GRAPHS; seed++) {
        qn_program p = random_program(seed);
        int16_t *lane_of = calloc((size_t)p.graph->n_nodes, sizeof *lane_of);
        const qn_assignment one = {
            .n_lanes = 1, .n_spaces = 1, .lanes = random_lanes, .lane_of = lane_of};
        const qn_assignment three = {
            .n_lanes = 3, .n_spaces = 1, .lanes = random_lanes, .lane_of = lane_of};
        qn_plan *usual, *plans[2];
        CHECK_OK(qn_plan_create_as_is(qn_allocator_default(), p.graph, &machine, &usual));
        CHECK_OK(
            qn_plan_create_for_lanes(qn_allocator_default(), p.graph, &machine, &one, &plans[0]));
        CHECK_OK(
            qn_plan_create_for_lanes(qn_allocator_default(), p.graph, &machine, &three, &plans[1]));
        for (int i = 0; i < 2; i++) {
            CHECK((!plans[i]->lanes || plans[i]->lanes->n_waits == 0) &&
                  plans[i]->arena_bytes == usual->arena_bytes);
            CHECK(plans[i]->n_storages == usual->n_storages &&
                  memcmp(plans[i]->storages, usual->storages,
                         (size_t)usual->n_storages * sizeof *usual->storages) == 0);
            CHECK_OK(qn_plan_check(plans[i], p.graph));
            qn_plan_destroy(plans[i]);
        }
        qn_plan_destroy(usual);
        free(lane_of);
        qn_program_deinit(&p);
    }
}

/* The clocks against what follows from the waits step by step. */
static void test_clocks(void) {
    qn_program p = random_program(6);
    qn_partition spread = random_spread(p.graph, 6);
    qn_plan *plan = plan_spread(&spread);
    qn_clocks clocks;
    const size_t n = (size_t)plan->n_steps;
    bool *is_before = calloc(n * n, sizeof *is_before); /* [b * n + a]: a before b */
    CHECK_OK(qn_clocks_of(&clocks, plan));
    for (size_t b = 0; b < n; b++) {
        int32_t n_waits;
        const int32_t *waits = qn_plan_waits(plan, (int32_t)b, &n_waits);
        for (size_t a = 0; a < b; a++) {
            bool is_direct = plan->steps[a].lane == plan->steps[b].lane;
            for (int32_t i = 0; i < n_waits; i++)
                is_direct |= waits[i] == (int32_t)a;
            is_before[b * n + a] |= is_direct;
            for (size_t c = 0; is_direct && c < a; c++)
                is_before[b * n + c] |= is_before[a * n + c];
        }
        for (size_t a = 0; a < b; a++)
            CHECK(is_before[b * n + a] == qn_clocks_is_before(&clocks, (int32_t)a, (int32_t)b));
    }
    qn_clocks_deinit(&clocks);
    free(is_before);
    qn_plan_destroy(plan);
    qn_graph_destroy(spread.graph);
    qn_program_deinit(&p);
}

static void test_failing_allocations(void) {
    qn_program p = random_program(9);
    qn_partition spread = random_spread(p.graph, 9);
    for (int64_t n = 0;; n++) {
        failing f = {.left = n};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        qn_plan *plan = NULL;
        qn_status status =
            qn_plan_create_for_lanes(&allocator, spread.graph, &machine, &spread.assignment, &plan);
        if (status == QN_OK)
            status = qn_plan_check(plan, spread.graph);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        qn_plan_destroy(plan);
        CHECK(f.held_bytes == 0);
        if (status == QN_OK)
            break;
    }
    qn_graph_destroy(spread.graph);
    qn_program_deinit(&p);
}

/* A file says nothing of lanes, so such a plan is refused and not written in part. */
static void test_not_saved(void) {
    qn_program p = random_program(9);
    qn_partition spread = random_spread(p.graph, 9);
    qn_plan *plan = plan_spread(&spread);
    const qn_budget_plan planned = {.graph = spread.graph, .plan = plan};
    qn_saved_program saved;
    qn_arena memory;
    qn_arena_init(&memory, qn_allocator_default());
    CHECK_FAILS(qn_saved_take(&memory, "training", p.graph, &planned, &saved), QN_ERROR_UNSUPPORTED,
                "several lanes");
    qn_arena_deinit(&memory);
    qn_plan_destroy(plan);
    qn_graph_destroy(spread.graph);
    qn_program_deinit(&p);
}

static bool supports_nothing(const void *state, const qn_query *query) {
    (void)state;
    (void)query;
    return false;
}

/* A lane is not given what its device does not run, nor a device or a space that is not there. */
static void test_refusals(void) {
    qn_program p = random_program(5);
    qn_plan *plan = NULL;
    int16_t *lane_of = calloc((size_t)p.graph->n_nodes, sizeof *lane_of);
    qn_lane lanes[2] = {random_lanes[0], random_lanes[3]};
    const qn_assignment assignment = {
        .n_lanes = 2, .n_spaces = RANDOM_SPACES, .lanes = lanes, .lane_of = lane_of};
    for (int n = 0; n < p.graph->n_nodes; n++)
        lane_of[n] = p.graph->nodes[n]->op->overwrites[0] != 0;
    qn_device picky = qn_device_simulated;
    qn_machine other = machine;
    picky.supports = supports_nothing;
    other.devices[1].device = &picky;
    CHECK_FAILS(
        qn_plan_create_for_lanes(qn_allocator_default(), p.graph, &other, &assignment, &plan),
        QN_ERROR_UNSUPPORTED, "the device simulated does not support");
    lanes[1].device = 2;
    CHECK_FAILS(
        qn_plan_create_for_lanes(qn_allocator_default(), p.graph, &machine, &assignment, &plan),
        QN_ERROR_ARGUMENT, "lane 1 uses device 2");
    lanes[1].device = 1;
    lanes[1].space = 7;
    CHECK_FAILS(
        qn_plan_create_for_lanes(qn_allocator_default(), p.graph, &machine, &assignment, &plan),
        QN_ERROR_ARGUMENT, "memory space 7");
    CHECK(!plan);
    free(lane_of);
    qn_program_deinit(&p);
}

/* A device that works in the host's chips, in a space of its own: both spaces' arenas count against
 * one budget, and those of the device with memory of its own do not. */
static void test_shared_memory(void) {
    const qn_space spaces[] = {
        {.name = "shared", .physical = QN_PHYSICAL_HOST, .alignment = QN_ALIGNMENT}};
    qn_device device = qn_device_simulated;
    device.name = "shared";
    device.spaces = spaces;
    qn_machine both = random_machine(qn_kernels_get(QN_F32, QN_ISA_REF), NULL);
    int row = 0;
    CHECK_OK(qn_machine_add(&both, &device, NULL, &row));
    const qn_lane lanes[] = {random_lanes[0],
                             {.device = 1, .space = 1, .n_threads = 1},
                             {.device = (int16_t)row, .space = 2, .n_threads = 1}};
    for (uint64_t seed = 1; seed <= 10; seed++) {
        qn_program p = random_program(seed);
        int16_t *lane_of = calloc((size_t)p.graph->n_nodes, sizeof *lane_of);
        for (int n = 0; n < p.graph->n_nodes; n++)
            lane_of[n] = (int16_t)qn_rng_below(qn_rng_make(seed, 12, 0), (uint64_t)n, 3);
        const qn_assignment wanted = {
            .n_lanes = 3, .n_spaces = 3, .lanes = lanes, .lane_of = lane_of};
        qn_partition spread = {0};
        qn_plan *plan = NULL;
        CHECK_OK(qn_partition_make(p.graph, &wanted, &spread));
        CHECK_OK(qn_plan_create_for_lanes(qn_allocator_default(), spread.graph, &both,
                                          &spread.assignment, &plan));
        CHECK_OK(qn_plan_check(plan, spread.graph));
        const size_t host = qn_plan_arena(plan, 0).bytes, own = qn_plan_arena(plan, 1).bytes;
        const size_t shared = qn_plan_arena(plan, 2).bytes;
        CHECK(host > 0 && own > 0 && shared > 0);
        CHECK(qn_plan_bytes(plan, &both, 0) == host + shared);
        CHECK(qn_plan_bytes(plan, &both, 2) == host + shared);
        CHECK(qn_plan_bytes(plan, &both, 1) == own);
        CHECK_FAILS(qn_partition_make(spread.graph, &spread.assignment, &spread), QN_ERROR_ARGUMENT,
                    "copies between memory spaces already");
        qn_plan_destroy(plan);
        qn_graph_destroy(spread.graph);
        free(lane_of);
        qn_program_deinit(&p);
    }
}

int main(void) {
    machine = random_machine(qn_kernels_get(QN_F32, QN_ISA_REF), NULL);
    test_not_saved();
    test_refusals();
    test_shared_memory();
    test_random_lanes();
    test_one_lane();
    test_clocks();
    test_failing_allocations();
    return checks_finish();
}
