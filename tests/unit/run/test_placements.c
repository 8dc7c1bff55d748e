/* 100 random placements of small models, and what happens when the device is lost: see
 * placements.h. */
#include "placements.h"

#include "failing.h"
#include "os/heap.h"

/* 100 in all; more of those that are quick. */
static const struct {
    const char *model;
    int n;
} rows[] = {
    {"mlp", 25}, {"lenet5", 25}, {"squeezenet", 15}, {"char-lstm", 10},   {"bert-tiny", 10},
    {"dqn", 5},  {"dcgan", 5},   {"densenet40", 3},  {"mobilenet-v2", 2},
};

static void test_placements(void) {
    const bool is_slow = getenv("QUERN_SLOW") != NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        placed_check_model(qn_model_find(rows[i].model), is_slow ? 1 + rows[i].n / 10 : rows[i].n,
                           1000 * i);
}

/* Killed at every work of a run in turn: it says so, nothing of what outlives a step has changed,
 * and with the device back the run has the expected bits. */
static void test_killed(void) {
    const qn_simulated_options simulated = {.seed = 3, .lost_at = -1};
    placed_model m;
    placed_run r;
    placed_open(&m, qn_model_find("lenet5"));
    outside o = outside_create(m.program.graph), begun = outside_create(m.program.graph);
    outside_fill(&begun);
    fill_hyper(&m.program, &begun, &m.update, 0);
    placed_run_open(&r, &m, 8, false, &simulated);
    int64_t n_works = 0;
    for (int32_t s = 0; s < r.plan->n_steps; s++)
        n_works += random_lanes[r.plan->steps[s].lane].device == 1;
    CHECK(n_works > 5);
    for (int64_t at = 0; at <= n_works; at++) {
        outside_fill(&o);
        qn_simulated_revive(r.state, at < n_works ? at : -1);
        const qn_status status = placed_run_steps(&r, &m, &o);
        CHECK(status == (at < n_works ? QN_ERROR_DEVICE : QN_OK));
        CHECK(outside_equal(at < n_works ? &begun : &m.expected, &o));
    }
    placed_run_close(&r);
    outside_destroy(&o);
    outside_destroy(&begun);
    placed_close(&m);
}

/* Every allocation of an executor of lanes fails in turn. */
static void test_failing_allocations(void) {
    const qn_simulated_options simulated = {.seed = 3, .lost_at = -1};
    placed_model m;
    placed_run r;
    placed_open(&m, qn_model_find("lenet5"));
    placed_run_open(&r, &m, 8, false, &simulated);
    for (int64_t n = 0;; n++) {
        failing f = {.left = n};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        qn_executor *executor = NULL;
        void *state = NULL;
        qn_status status = qn_device_simulated.open(&allocator, &simulated, &state);
        const qn_machine machine = random_machine(m.kernels, state);
        if (status == QN_OK)
            status = qn_executor_create(&allocator, r.spread.graph, r.plan, &machine, r.team,
                                        r.arena, &executor);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        qn_executor_destroy(executor);
        qn_device_simulated.close(state);
        CHECK(f.held_bytes == 0);
        if (status == QN_OK)
            break;
    }
    placed_run_close(&r);
    placed_close(&m);
}

/* Each lane has records of its own steps, in its own ring, within the run. */
static void test_records(void) {
    const qn_simulated_options simulated = {.seed = 3, .lost_at = -1};
    placed_model m;
    placed_run r;
    qn_events *events;
    qn_event record;
    placed_open(&m, qn_model_find("lenet5"));
    outside o = outside_create(m.program.graph);
    outside_fill(&o);
    placed_run_open(&r, &m, 8, false, &simulated);
    CHECK_OK(qn_events_create(qn_allocator_default(), RANDOM_LANES, 256, &events));
    const qn_watch watch = {.events = events};
    CHECK_OK(placed_run_steps(&r, &m, &o));
    CHECK_OK(qn_executor_run(r.executor, PLACED_SEED, 0, &watch));
    int n_records = 0;
    for (int lane = 0; lane < RANDOM_LANES; lane++) {
        while (qn_events_take(events, lane, &record, 1) == 1) {
            CHECK(record.thread == lane && r.plan->steps[record.item].lane == lane);
            CHECK(record.end_ns >= record.begin_ns);
            n_records++;
        }
    }
    CHECK(n_records == r.plan->n_steps);
    qn_events_destroy(events);
    placed_run_close(&r);
    outside_destroy(&o);
    placed_close(&m);
}

int main(void) {
    test_placements();
    test_killed();
    test_failing_allocations();
    test_records();
    return checks_finish();
}
