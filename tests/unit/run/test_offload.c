/* Going on without a device that is lost: killed at every work of two steps in turn, the run still
 * gives the bits of one lane, tells once, and uses the device no more. */
#include "run/offload.h"

#include "failing.h"
#include "os/heap.h"
#include "placements.h"

typedef struct told {
    int n;
    char last[256];
} told;

static void write_log(void *user, int level, const char *text) {
    told *t = user;
    t->n += level == 1;
    snprintf(t->last, sizeof t->last, "%s", text);
}

/* An offload of a model over the random lanes, and what it needs. */
typedef struct subject {
    placed_model model;
    outside o, begun;
    int16_t *lane_of;
    void *state;
    qn_machine machine;
    qn_team *team;
    told told;
    qn_log log;
    qn_offload_options options;
} subject;

static void subject_open(subject *s, const char *model, uint64_t seed) {
    const qn_simulated_options simulated = {.seed = seed, .lost_at = -1};
    *s = (subject){.log = {.write = write_log}};
    s->log.user = &s->told;
    placed_open(&s->model, qn_model_find(model));
    s->o = outside_create(s->model.program.graph);
    s->begun = outside_create(s->model.program.graph);
    outside_fill(&s->begun);
    fill_hyper(&s->model.program, &s->begun, &s->model.update, 0);
    s->lane_of = random_lane_of(s->model.program.graph, seed);
    CHECK_OK(qn_device_simulated.open(qn_allocator_default(), &simulated, &s->state));
    CHECK_OK(qn_team_create(NULL, 1, &s->team));
    s->machine = random_machine(s->model.kernels, s->state);
    s->options =
        (qn_offload_options){.graph = s->model.program.graph,
                             .machine = &s->machine,
                             .team = s->team,
                             .wanted = {RANDOM_LANES, RANDOM_SPACES, random_lanes, s->lane_of},
                             .log = &s->log};
}

static void subject_close(subject *s) {
    qn_team_destroy(s->team);
    qn_device_simulated.close(s->state);
    free(s->lane_of);
    outside_destroy(&s->o);
    outside_destroy(&s->begun);
    placed_close(&s->model);
}

static void bind_all(const subject *s, qn_offload *offload) {
    for (int v = 0; v < s->model.program.graph->n_values; v++) {
        if (s->o.memory[v])
            qn_offload_bind(offload, (qn_value){v}, s->o.memory[v]);
    }
}

static void run_all(const subject *s, qn_offload *offload) {
    for (int64_t step = 0; step < PLACED_STEPS; step++) {
        fill_hyper(&s->model.program, &s->o, &s->model.update, step);
        CHECK_OK(qn_offload_run(offload, PLACED_SEED, (uint64_t)step, NULL));
    }
}

/* Lost at a work counted from the first step on; false: the run ends before. */
static bool check_lost(subject *s, int64_t at) {
    qn_offload *offload;
    s->told.n = 0;
    qn_simulated_revive(s->state, at);
    CHECK_OK(qn_offload_create(&s->options, &offload));
    outside_fill(&s->o);
    bind_all(s, offload);
    CHECK(qn_offload_count(offload, 3) + qn_offload_count(offload, 4) > 0);
    run_all(s, offload);
    CHECK(outside_equal(&s->model.expected, &s->o));
    const bool is_lost = qn_device_simulated.is_lost(s->state);
    CHECK(s->told.n == is_lost);
    CHECK(!is_lost || strstr(s->told.last, "simulated was lost"));
    CHECK((qn_offload_count(offload, 3) + qn_offload_count(offload, 4) == 0) == is_lost);
    qn_offload_destroy(offload);
    return is_lost;
}

static void test_lost(const char *model, uint64_t seed) {
    subject s;
    int64_t at = 0;
    subject_open(&s, model, seed);
    while (check_lost(&s, at))
        at++;
    CHECK(at > 5);
    subject_close(&s);
}

/* Memory is out while it plans anew: it says so, nothing was updated, and the next try goes on. */
static void test_failing_allocations(void) {
    subject s;
    subject_open(&s, "mlp", 8);
    bool is_over = false;
    for (int64_t n = 0; !is_over; n++) {
        failing f = {.left = -1};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        qn_offload *offload;
        s.options.allocator = &allocator;
        qn_simulated_revive(s.state, 2);
        CHECK_OK(qn_offload_create(&s.options, &offload));
        outside_fill(&s.o);
        bind_all(&s, offload);
        fill_hyper(&s.model.program, &s.o, &s.model.update, 0);
        f.left = n;
        const qn_status status = qn_offload_run(offload, PLACED_SEED, 0, NULL);
        is_over = f.left >= 0;
        CHECK(status == (is_over ? QN_OK : QN_ERROR_MEMORY));
        CHECK(is_over || outside_equal(&s.begun, &s.o));
        f.left = -1;
        if (!is_over)
            run_all(&s, offload);
        CHECK(is_over || outside_equal(&s.model.expected, &s.o));
        qn_offload_destroy(offload);
        CHECK(f.held_bytes == 0);
    }
    subject_close(&s);
}

static qn_status try_create(const subject *s, failing *f) {
    const qn_allocator allocator = {f, failing_allocate, failing_release};
    qn_offload_options options = s->options;
    qn_offload *offload = NULL;
    options.allocator = &allocator;
    const qn_status status = qn_offload_create(&options, &offload);
    qn_offload_destroy(offload);
    return status;
}

static void test_failing_creation(void) {
    subject s;
    subject_open(&s, "mlp", 8);
    for (int64_t n = 0;; n++) {
        failing f = {.left = n};
        const qn_status status = try_create(&s, &f);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        CHECK(f.held_bytes == 0);
        if (status == QN_OK)
            break;
    }
    subject_close(&s);
}

int main(void) {
    test_lost("lenet5", 8);
    test_lost("mlp", 21);
    test_failing_allocations();
    test_failing_creation();
    return checks_finish();
}
