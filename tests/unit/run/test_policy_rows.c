/* Each policy alone, on an engine of three nodes: it has a state where the options ask for it and
 * nowhere else, and does in its calls what its row says. */
#include "device/disk.h"
#include "kernels/rules.h"
#include "os/ranks.h"
#include "plan/swap/swap_speed.h"
#include "run/offload.h"
#include "run/planning/swap.h"
#include "run/timing.h"
#include "run/tuning/rules.h"
#include "three_nodes.h"

static const qn_policy *row(int policy) {
    return qn_policy_rows[policy];
}

/* That no other policy has a state but the device's, which every engine has. */
static void check_alone(const qn_engine *e, int policy) {
    for (int i = 0; i < QN_POLICIES; i++)
        CHECK((e->policies[i] != NULL) == (i == policy || i == QN_POLICY_OFFLOAD));
}

static void test_none(void) {
    const qn_engine_options options = three_options();
    qn_engine *e = three_make(&options);
    qn_budget_options search = {0};
    check_alone(e, QN_POLICY_OFFLOAD);
    CHECK(!qn_policies_that_plans(e) && !qn_policies_that_runs(e, 0));
    CHECK(qn_policies_reserve(e) == 0 && qn_policies_open_bytes(e) == 0);
    CHECK(qn_policies_offer(e, &search) == 0 && !search.swap);
    CHECK(qn_policies_other_bytes(e) == 0 && !qn_policies_time_batches(e));
    CHECK(qn_policies_batches(e) == 1 && !qn_policies_can_undo(e) && !qn_policies_watch(e, 0));
    qn_engine_destroy(e);
}

/* Kernels go by the user's rules; others would be refused with their text. */
static void test_rules(void) {
    qn_engine_options options = three_options();
    qn_engine *e = NULL;
    options.rules = "quern rules 1\n* forward nothing";
    CHECK_FAILS(three_try(&options, &e), QN_ERROR_FORMAT, "nothing");
    options.rules = "quern rules 1\n* forward strips c<=8";
    e = three_make(&options);
    check_alone(e, QN_POLICY_RULES);
    CHECK(qn_machine_kernels(&e->machine, QN_F32)->rules->n == 1);
    CHECK(qn_engine_rules_hash(e) != 0);
    three_run(e, 0);
    qn_engine_destroy(e);
}

/* What it offers to a search is the folder's speed; nothing is taken until a plan swaps. */
static void test_swap(void) {
    qn_engine_options options = three_options();
    qn_budget_options search = {0};
    options.swap_folder = ".";
    qn_engine *e = NULL;
    CHECK_FAILS(three_try(&options, &e), QN_ERROR_ARGUMENT, "needs a memory budget");
    options.memory_budget_bytes = (size_t)64 << 20;
    options.swap_bytes = 12345;
    e = three_make(&options);
    check_alone(e, QN_POLICY_SWAP);
    CHECK(row(QN_POLICY_SWAP)->offer(e, &search) == qn_disk_memory(".", 2, 64));
    CHECK(search.swap == &qn_swap_of(e)->speed && search.swap->write_bytes_per_ns > 0);
    CHECK(search.swap_bytes == 12345);
    CHECK(row(QN_POLICY_SWAP)->open_bytes(e) == 0);
    three_run(e, 0);
    qn_engine_destroy(e);
}

/* A device with memory of its own plans and runs in the engine's place. */
static void test_offload(void) {
    qn_engine_options options = three_options();
    options.device = "simulated";
    qn_engine *e = three_make(&options);
    check_alone(e, QN_POLICY_OFFLOAD);
    CHECK(qn_policies_that_plans(e) == row(QN_POLICY_OFFLOAD));
    CHECK(qn_policies_that_runs(e, 0) == row(QN_POLICY_OFFLOAD));
    const size_t bytes = row(QN_POLICY_OFFLOAD)->other_bytes(e);
    const qn_plan *plan = e->programs[0].plan;
    CHECK(bytes > 0 && plan->lanes && plan->lanes->n_lanes > 1);
    CHECK(row(QN_POLICY_OFFLOAD)->fits(e, plan, plan->arena_bytes, bytes));
    CHECK(!row(QN_POLICY_OFFLOAD)->fits(e, plan, plan->arena_bytes, bytes / 2));
    three_run(e, 0);
    CHECK_OK(row(QN_POLICY_OFFLOAD)->fetch(e));
    qn_engine_destroy(e);
}

static void test_tuner(void) {
    qn_engine_options options = three_options();
    options.tune = QN_TUNE_QUICK;
    options.plan_only = true;
    qn_engine *e = three_make(&options);
    check_alone(e, QN_POLICY_OFFLOAD);
    qn_engine_destroy(e);
}

/* A budget that changes holds the arena and runs the programs, with what it needs set aside. */
static void test_budget(void) {
    qn_engine_options options = three_options();
    options.budget_changes = true;
    qn_engine *e = three_make(&options);
    check_alone(e, QN_POLICY_BUDGET);
    CHECK(qn_policies_that_plans(e) == row(QN_POLICY_BUDGET));
    CHECK(qn_policies_that_runs(e, 0) == row(QN_POLICY_BUDGET));
    CHECK(!qn_policies_that_runs(e, QN_PROGRAM_UPDATE));
    CHECK(row(QN_POLICY_BUDGET)->reserve(e) > 0 && e->memory.mapped_bytes > 0);
    three_run(e, 0);
    qn_engine_destroy(e);
}

/* One process is all of them: its own batches, and nothing set aside. */
static void test_ranks(void) {
    const qn_engine_options options = three_options();
    qn_engine *e = three_make(&options);
    if (row(QN_POLICY_RANKS)) {
        CHECK(row(QN_POLICY_RANKS)->batches(e) == 1 && row(QN_POLICY_RANKS)->reserve(e) == 0);
        CHECK(!row(QN_POLICY_RANKS)->runs(e, 0));
    }
    qn_engine_destroy(e);
}

static void test_cores(void) {
    qn_engine_options options = three_options();
    options.n_threads = 2;
    options.cores = QN_CORES_AUTO;
    qn_engine *e = three_make(&options);
    check_alone(e, QN_POLICY_CORES);
    CHECK(row(QN_POLICY_CORES)->begin_run && row(QN_POLICY_CORES)->end_run);
    three_run(e, 0);
    qn_engine_destroy(e);
}

/* Batches are kept as they are where operations are timed; times are then of the nodes that ran. */
static void test_timing(void) {
    qn_engine_options options = three_options();
    options.plan_later = true;
    qn_engine *e = three_make(&options);
    CHECK(!row(QN_POLICY_TIMING)->times_batches(e));
    CHECK_OK(qn_engine_prepare_timing(e));
    check_alone(e, QN_POLICY_TIMING);
    CHECK(row(QN_POLICY_TIMING)->times_batches(e) && qn_policies_time_batches(e));
    CHECK_OK(qn_engine_plan(e, 0));
    qn_engine_begin_timing(e);
    three_run(e, 0);
    CHECK_OK(qn_engine_take_times(e));
    CHECK(e->programs[0].node_ns != NULL && !e->programs[1].node_ns);
    qn_engine_destroy(e);
}

int main(void) {
    test_none();
    test_rules();
    test_swap();
    test_offload();
    test_tuner();
    test_budget();
    test_ranks();
    test_cores();
    test_timing();
    return checks_finish();
}
