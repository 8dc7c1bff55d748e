/* Training on a further device that is lost: killed at every work of two steps in turn, the run
 * gives the bits of the CPU alone, tells once, and goes on without it; so it does where memory is
 * out, if only to say so. */
#include "check.h"
#include "device/simulated.h"
#include "failing.h"
#include "os/heap.h"
#include "os/os.h"
#include "plan/saved.h"
#include "quern/quern.h"
#include "run/offload.h"
#include "run/placing/placing.h"
#include "run/placing/within.h"
#include "small_models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How far apart the allocations are that fail. */
#ifdef __SANITIZE_THREAD__
enum { APART = 11 }; /* what looks for races is slow */
#else
enum { APART = 1 };
#endif

enum { BATCH = 4, STEPS = 2, NUMBERS = BATCH * 32 * 32 * 3 };

static _Alignas(64) float x[NUMBERS];
static _Alignas(64) int32_t y[BATCH];

typedef struct told {
    int n;
    char last[512];
} told;

static void write_log(void *user, int level, const char *text) {
    told *t = user;
    t->n += level == 1;
    snprintf(t->last, sizeof t->last, "%s", text);
}

static void fill(void) {
    for (int i = 0; i < NUMBERS; i++)
        x[i] = (float)(i * 37 % 101) / 50 - 1;
    for (int i = 0; i < BATCH; i++)
        y[i] = i % 10;
}

static qn_status try_make_of(const qn_model *model, const char *device, const qn_log *log,
                             const qn_allocator *allocator, qn_trainer **trainer) {
    qn_trainer_options o = qn_trainer_options_for(model);
    o.batch = o.evaluation_batch = BATCH;
    o.engine.n_threads = 1;
    o.engine.device = device;
    o.engine.log = log;
    o.engine.allocator = allocator;
    *trainer = NULL;
    return qn_trainer_create(&o, trainer);
}

static qn_status try_make(const char *model, const char *device, const qn_log *log,
                          const qn_allocator *allocator, qn_trainer **trainer) {
    return try_make_of(qn_model_find(model), device, log, allocator, trainer);
}

static qn_trainer *make_of(const qn_model *model, const char *device, const qn_log *log) {
    qn_trainer *trainer;
    CHECK_OK(try_make_of(model, device, log, NULL, &trainer));
    if (!trainer)
        exit(checks_finish());
    return trainer;
}

static qn_trainer *make(const char *model, const char *device, const qn_log *log) {
    return make_of(qn_model_find(model), device, log);
}

static void train(qn_trainer *trainer) {
    qn_step_result result;
    qn_evaluation sum = {0};
    for (int i = 0; i < STEPS; i++)
        CHECK_OK(qn_trainer_step(trainer, x, y, &result));
    CHECK_OK(qn_trainer_evaluate(trainer, x, y, BATCH, &sum));
    CHECK(sum.n_samples == BATCH);
}

static bool are_equal(const qn_trainer *a, const qn_trainer *b) {
    const qn_engine *first = qn_trainer_engine(a), *second = qn_trainer_engine(b);
    for (int i = 0; i < qn_engine_tensor_count(first); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(first, i);
        if (memcmp(t.data, qn_engine_find(second, t.name).data, t.bytes) != 0)
            return false;
    }
    return true;
}

static void *state_of(const qn_trainer *trainer) {
    const qn_engine *e = qn_trainer_engine(trainer);
    return qn_offload_opened(e)->state;
}

/* Lost at a work counted from the first step on; false: the run ends before. */
static bool check_lost(const char *model, const qn_trainer *expected, int64_t at) {
    told t = {0};
    const qn_log log = {&t, write_log, NULL};
    qn_trainer *trainer = make(model, "simulated", &log);
    const qn_engine *e = qn_trainer_engine(trainer);
    CHECK(qn_engine_device(e) > 0 && e->programs[0].plan->lanes != NULL);
    qn_simulated_revive(state_of(trainer), at);
    train(trainer);
    CHECK(are_equal(expected, trainer));
    const bool is_lost = qn_device_simulated.is_lost(state_of(trainer));
    CHECK(t.n == is_lost && (qn_engine_device(e) == 0) == is_lost);
    CHECK(!is_lost || strstr(t.last, "simulated was lost"));
    qn_trainer_destroy(trainer);
    return is_lost;
}

static void test_lost(const char *model) {
    qn_trainer *expected = make(model, "cpu", NULL);
    int64_t at = 0;
    train(expected);
    while (check_lost(model, expected, at))
        at++;
    CHECK(at > 20);
    qn_trainer_destroy(expected);
}

/* ---- what stays on the device ---- */

static qn_device_counters counters_of(const qn_trainer *trainer) {
    qn_device_counters counters;
    qn_device_simulated.counters(state_of(trainer), &counters);
    return counters;
}

static void step(qn_trainer *trainer, int n) {
    qn_step_result result;
    for (int i = 0; i < n; i++)
        CHECK_OK(qn_trainer_step(trainer, x, y, &result));
}

/* Bytes that a step of a program copies. */
static size_t copied_bytes(const qn_program *p) {
    size_t bytes = 0;
    for (int32_t s = 0; s < p->plan->n_steps; s++) {
        const qn_node *node = p->graph->nodes[p->plan->steps[s].node];
        if (node->op->output_space)
            bytes += qn_tensor_bytes(qn_graph_tensor(p->graph, node->outputs[0]));
    }
    return bytes;
}

/* Parameters and state are written once, and read when somebody looks; steps copy the batch, the
 * numbers of the update and what the trainer reads. */
static void test_stays(void) {
    qn_trainer *trainer = make("lenet5", "simulated", NULL),
               *expected = make("lenet5", "cpu", NULL);
    const qn_engine *e = qn_trainer_engine(trainer);
    const int space = e->machine.devices[qn_engine_device(e)].first_space;
    const int64_t kept = (int64_t)qn_plan_given_bytes(e->programs[0].plan, space);
    size_t all = 0;
    for (int i = 0; i < e->store.n_tensors; i++)
        all += (e->store.tensors[i].bytes + 63) / 64 * 64;
    CHECK(kept == (int64_t)all);
    CHECK(copied_bytes(&e->programs[0]) < sizeof x + sizeof y + 1024);
    step(trainer, 3);
    const int64_t in = counters_of(trainer).bytes_in;
    CHECK(in == (int64_t)e->store.bytes && counters_of(trainer).bytes_out == 0);
    step(expected, 3);
    CHECK(are_equal(expected, trainer));
    CHECK(counters_of(trainer).bytes_in == in && counters_of(trainer).bytes_out == kept);
    step(trainer, 2);
    step(expected, 2);
    CHECK(counters_of(trainer).bytes_in == 2 * in);
    CHECK(are_equal(expected, trainer));
    qn_trainer_destroy(trainer);
    qn_trainer_destroy(expected);
}

/* What somebody writes is what the next step begins with. */
static void test_written(void) {
    qn_trainer *trainers[2] = {make("mlp", "cpu", NULL), make("mlp", "simulated", NULL)};
    for (int i = 0; i < 2; i++) {
        step(trainers[i], 2);
        const qn_stored_tensor t = qn_engine_tensor_at(qn_trainer_engine(trainers[i]), 0);
        memset(t.data, 0, t.bytes);
        step(trainers[i], 1);
    }
    CHECK(are_equal(trainers[0], trainers[1]));
    CHECK(qn_engine_device(qn_trainer_engine(trainers[1])) > 0);
    for (int i = 0; i < 2; i++)
        qn_trainer_destroy(trainers[i]);
}

/* It is lost behind so many steps: in the next one, or when its memory is read. */
static void check_lost_late(int n, bool is_lost_reading) {
    told t = {0};
    const qn_log log = {&t, write_log, NULL};
    qn_trainer *trainer = make("mlp", "simulated", &log), *expected = make("mlp", "cpu", NULL);
    step(trainer, n);
    step(expected, n);
    if (is_lost_reading) {
        qn_simulated_kill(state_of(trainer));
    } else {
        qn_simulated_revive(state_of(trainer), 5);
        step(trainer, 1);
        step(expected, 1);
    }
    CHECK(are_equal(expected, trainer));
    CHECK(t.n == 1 && qn_engine_device(qn_trainer_engine(trainer)) == 0);
    CHECK(qn_engine_is_sound(qn_trainer_engine(trainer)));
    step(trainer, 1);
    step(expected, 1);
    CHECK(are_equal(expected, trainer));
    qn_trainer_destroy(trainer);
    qn_trainer_destroy(expected);
}

/* More steps than are kept, too. */
static void test_lost_late(void) {
    static const int steps[] = {1, 63, 64, 65, 130};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        check_lost_late(steps[i], false);
        check_lost_late(steps[i], true);
    }
}

/* Memory is out while it is planned anew: it is said, what was trained stays, no further step
 * runs. */
static void test_failing_allocations(void) {
    qn_trainer *expected = make("mlp", "cpu", NULL);
    for (int64_t n = 0, is_over = 0; !is_over; n += APART) {
        failing f = {.left = -1};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        qn_step_result result;
        qn_trainer *trainer;
        CHECK_OK(try_make("mlp", "simulated", NULL, &allocator, &trainer));
        qn_simulated_revive(state_of(trainer), 3);
        f.left = n;
        const qn_status status = qn_trainer_step(trainer, x, y, &result);
        is_over = f.left >= 0;
        CHECK(status == (is_over ? QN_OK : QN_ERROR_MEMORY));
        CHECK(is_over || are_equal(expected, trainer));
        f.left = -1;
        CHECK((qn_trainer_step(trainer, x, y, &result) == QN_OK) == is_over);
        qn_trainer_destroy(trainer);
        CHECK(f.held_bytes == 0);
    }
    qn_trainer_destroy(expected);
}

static void test_failing_creation(void) {
    for (int64_t n = 0;; n += APART) {
        failing f = {.left = n};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        qn_trainer *trainer;
        const qn_status status = try_make("mlp", "simulated", NULL, &allocator, &trainer);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        qn_trainer_destroy(trainer);
        CHECK(f.held_bytes == 0);
        if (status == QN_OK)
            break;
    }
}

/* A placement that is given: some operations there, the rest here, with the CPU's bits; and losing
 * the device in the middle of it. */
static void check_placed(const qn_trainer *expected, int n_nodes, int period, int64_t lost_at) {
    int16_t site_of[200], read[200] = {0};
    char name[1000] = "simulated/";
    qn_placed placed, again;
    qn_trainer *trainer;
    for (int n = 0; n < n_nodes; n++)
        site_of[n] = n / period % 2 == 0;
    CHECK_OK(qn_placed_take(qn_allocator_default(), site_of, n_nodes, 1, &placed));
    qn_placed_print(&placed, name + strlen(name), sizeof name - strlen(name));
    CHECK(strlen(name) < qn_placed_text_bytes(&placed));
    CHECK_OK(qn_placed_parse(qn_allocator_default(), strchr(name, '/') + 1, &again));
    CHECK(again.n_runs == placed.n_runs && again.pieces == 1 && again.n_nodes == n_nodes);
    CHECK_OK(qn_placed_fill(&again, read, n_nodes));
    CHECK(memcmp(site_of, read, (size_t)n_nodes * sizeof *read) == 0);
    qn_placed_deinit(qn_allocator_default(), &again);
    qn_placed_deinit(qn_allocator_default(), &placed);
    CHECK_OK(try_make("lenet5", name, NULL, NULL, &trainer));
    qn_simulated_revive(state_of(trainer), lost_at);
    const qn_plan *plan = qn_trainer_engine(trainer)->programs[0].plan;
    int n_there = 0, n_here = 0;
    for (int32_t s = 0; s < plan->n_steps; s++) {
        n_there += plan->steps[s].lane > 0;
        n_here += plan->steps[s].lane == 0;
    }
    CHECK(n_there > 0 && n_here > 0);
    train(trainer);
    CHECK(are_equal(expected, trainer));
    qn_trainer_destroy(trainer);
}

static void test_placed(void) {
    qn_trainer *expected = make("lenet5", "cpu", NULL);
    const int n_nodes = qn_trainer_engine(expected)->programs[0].graph->n_nodes;
    train(expected);
    CHECK(n_nodes <= 200);
    for (int period = 1; period < 16; period += 2) {
        check_placed(expected, n_nodes, period, -1);
        check_placed(expected, n_nodes, period, 9);
    }
    qn_trainer_destroy(expected);
}

/* A placement of many parts is as good as one of few. */
static void test_long_placement(void) {
    char name[4096] = "simulated/";
    qn_trainer *all, *placed;
    CHECK_OK(try_make("densenet100", "simulated", NULL, NULL, &all));
    const qn_graph *graph = qn_program_built_graph(&qn_trainer_engine(all)->programs[0]);
    int16_t *site_of = calloc((size_t)graph->n_nodes, sizeof *site_of);
    for (int n = 0; site_of && n < graph->n_nodes; n++)
        site_of[n] = n % 2 == 0;
    qn_placed written;
    CHECK_OK(qn_placed_take(qn_allocator_default(), site_of, graph->n_nodes, 1, &written));
    qn_placed_print(&written, name + strlen(name), sizeof name - strlen(name));
    qn_placed_deinit(qn_allocator_default(), &written);
    CHECK(strlen(name) > 1024);
    CHECK_OK(try_make("densenet100", name, NULL, NULL, &placed));
    CHECK(strcmp(qn_engine_get_options(qn_trainer_engine(placed))->device, name) == 0);
    qn_engine *e = (qn_engine *)(uintptr_t)qn_trainer_engine(placed);
    e->programs[0].site_of = site_of;
    CHECK_OK(qn_engine_note_placed(e, &e->programs[0]));
    e->programs[0].site_of = NULL;
    CHECK(strcmp(qn_engine_get_options(e)->device, name) == 0);
    free(site_of);
    qn_trainer_destroy(placed);
    qn_trainer_destroy(all);
}

static void check_refused(const char *device, const char *word) {
    qn_trainer *trainer;
    CHECK(try_make("mlp", device, NULL, NULL, &trainer) != QN_OK);
    CHECK(strstr(qn_error_message(), word) != NULL);
}

static void test_wrong_names(void) {
    check_refused("simulated/3:all", "do not divide");
    check_refused("simulated/2", "is no placement");
    check_refused("simulated/h3d", "is no placement");
    check_refused("simulated/x:h3d2", "is no placement");
    check_refused("simulated/", "is no placement");
    check_refused("simulated/x3", "is no placement");
    check_refused("simulated/h99999999999d1", "is no placement");
    check_refused("gpu", "it is one of cpu|");
    check_refused("opencl:", "it is one of cpu|");
    check_refused("opencl:x", "it is one of cpu|");
    check_refused("opencl:12345", "it is one of cpu|");
    check_refused("simulated/d3", "is none of the");
    check_refused("a device with a name that is much too long to be one", "no device");
}

/* ---- within a budget ---- */

enum { LARGE = 64 };

static _Alignas(64) float large_x[LARGE * 28 * 28];
static _Alignas(64) int32_t large_y[LARGE];

static qn_status make_within(const char *device, size_t budget, qn_trainer **trainer) {
    qn_trainer_options o = qn_trainer_options_for(qn_model_find("lenet5"));
    o.batch = LARGE;
    o.evaluation_batch = BATCH;
    o.engine.n_threads = 1;
    o.engine.device = device;
    o.engine.memory_budget_bytes = budget;
    *trainer = NULL;
    return qn_trainer_create(&o, trainer);
}

static void train_large(qn_trainer *trainer) {
    qn_step_result result;
    for (int i = 0; i < STEPS; i++)
        CHECK_OK(qn_trainer_step(trainer, large_x, large_y, &result));
}

/* The budget holds for the host and for the device's own memory: what does not fit there is made
 * again, with the bits of the CPU alone; also after the device is lost. */
static void check_within(const qn_trainer *expected, size_t budget, int64_t lost_at) {
    qn_trainer *trainer;
    CHECK_OK(make_within("simulated", budget, &trainer));
    const qn_engine *e = qn_trainer_engine(trainer);
    CHECK(qn_engine_device(e) > 0 && e->programs[0].base && e->programs[0].budget.n_again > 0);
    CHECK(qn_within_device_bytes(e) <= budget);
    CHECK_OK(qn_plan_check(e->programs[0].plan, e->programs[0].graph));
    qn_simulated_revive(state_of(trainer), lost_at);
    train_large(trainer);
    CHECK((qn_engine_device(e) == 0) == (lost_at >= 0) && are_equal(expected, trainer));
    CHECK(lost_at >= 0 || qn_engine_get_memory(e).peak_bytes <= budget);
    qn_trainer_destroy(trainer);
}

static void test_memory(void) {
    qn_trainer *expected, *free, *none;
    for (int i = 0; i < LARGE * 28 * 28; i++)
        large_x[i] = (float)(i * 37 % 101) / 50 - 1;
    for (int i = 0; i < LARGE; i++)
        large_y[i] = i % 10;
    CHECK_OK(make_within("cpu", 0, &expected));
    CHECK_OK(make_within("simulated", 0, &free));
    train_large(expected);
    const size_t budget = qn_within_device_bytes(qn_trainer_engine(free)) / 10 * 9;
    check_within(expected, budget, -1);
    check_within(expected, budget, 30);
    CHECK(make_within("simulated", 1 << 20, &none) == QN_ERROR_MEMORY && !none);
    qn_trainer_destroy(expected);
    qn_trainer_destroy(free);
}

/* Of a disk, about. */
static const qn_swap_speed disk_speed = {
    .write_bytes_per_ns = 6, .read_bytes_per_ns = 6, .latency_ns = 10000};

/* A plan of a program in seven tenths of its arena, or as it is. */
static void take_plan(qn_arena *memory, const qn_engine *e, int index, bool is_swapped,
                      qn_saved_program *saved) {
    const qn_program *p = &e->programs[index];
    const size_t bytes = p->plan->arena_bytes;
    const qn_budget_options options = {
        .arena_bytes = p->training ? bytes / 10 * 7 : bytes,
        .swap = is_swapped ? &disk_speed : NULL,
    };
    qn_budget_plan made = {0};
    CHECK_OK(qn_budget_plan_find(&e->allocator, p->graph, &e->machine, &options, &made, NULL));
    CHECK(!p->training || (is_swapped ? made.swapped_bytes > 0 : made.n_again > 0));
    CHECK_OK(qn_saved_take(memory, p->name, p->graph, &made, saved));
    qn_budget_plan_deinit(&made);
}

static qn_status make_planned(const char *device, const qn_saved_plan *plan, qn_trainer **trainer) {
    qn_trainer_options o = qn_trainer_options_for(qn_model_find("squeezenet"));
    o.batch = o.evaluation_batch = BATCH;
    o.engine.n_threads = 1;
    o.engine.device = device;
    o.engine.saved_plan = plan;
    *trainer = NULL;
    return qn_trainer_create(&o, trainer);
}

/* A plan that was made for the CPU: the device makes the same again, with the CPU's bits; and what
 * was swapped to a file goes to the host's memory and back. */
static void check_given_plan(bool is_swapped) {
    qn_trainer *expected, *trainer;
    qn_saved_program programs[2] = {{0}};
    qn_arena memory;
    qn_isa isa;
    CHECK_OK(make_planned("cpu", NULL, &expected));
    CHECK_OK(qn_cpu_isa(&isa));
    qn_arena_init(&memory, qn_allocator_default());
    for (int i = 0; i < 2; i++)
        take_plan(&memory, qn_trainer_engine(expected), i, is_swapped, &programs[i]);
    const qn_saved_plan plan = {1, qn_isa_name(isa), 2, programs};
    CHECK_OK(make_planned("simulated", &plan, &trainer));
    const qn_engine *e = qn_trainer_engine(trainer);
    CHECK(qn_engine_device(e) > 0 && e->programs[0].plan->lanes && e->programs[0].base);
    CHECK((e->programs[0].budget.swapped_bytes > 0) == is_swapped);
    CHECK_OK(qn_plan_check(e->programs[0].plan, e->programs[0].graph));
    train(expected);
    train(trainer);
    CHECK(are_equal(expected, trainer));
    qn_trainer_destroy(trainer);
    programs[0].micro_batch = BATCH / 2;
    CHECK_FAILS(make_planned("simulated", &plan, &trainer), QN_ERROR_UNSUPPORTED,
                "train with --device cpu");
    qn_arena_deinit(&memory);
    qn_trainer_destroy(expected);
}

/* ---- pieces of the batch ---- */

static void check_pieces(const qn_trainer *expected, const qn_model *model, const char *device,
                         bool is_mixed) {
    qn_trainer *trainer = make_of(model, device, NULL);
    const qn_engine *e = qn_trainer_engine(trainer);
    const qn_program *p = &e->programs[0];
    int n_own = 0;
    for (int32_t s = 0; s < p->plan->n_steps; s++)
        n_own += p->plan->steps[s].lane == 0;
    CHECK(qn_program_pieces(p) == BATCH && p->unsplit && (n_own > 5) == is_mixed);
    train(trainer);
    CHECK(are_equal(expected, trainer));
    CHECK(strcmp(qn_engine_get_options(e)->device, device) == 0);
    qn_trainer_destroy(trainer);
}

/* Every sample alone, on the device or half of the nodes on either: the bits of the whole batch. */
static void test_pieces(const qn_model *model) {
    qn_trainer *expected = make_of(model, "cpu", NULL);
    qn_trainer *other = make_of(model, "simulated/4:all", NULL);
    char name[80];
    const int32_t n = qn_program_built_graph(&qn_trainer_engine(other)->programs[0])->n_nodes;
    train(expected);
    check_pieces(expected, model, "simulated/4:all", false);
    snprintf(name, sizeof name, "simulated/4:h%dd%d", n / 2, n - n / 2);
    check_pieces(expected, model, name, true);
    qn_trainer_destroy(expected);
    qn_trainer_destroy(other);
}

int main(void) {
    fill();
    test_lost("lenet5");
    test_lost("mlp");
    test_placed();
    test_stays();
    test_memory();
    check_given_plan(false);
    check_given_plan(true);
    test_pieces(qn_model_find("lenet5"));
    test_pieces(&small_conv); /* with batch norm and a residual */
    test_written();
    test_lost_late();
    if (APART == 1)
        test_long_placement();
    test_failing_allocations();
    test_failing_creation();
    test_wrong_names();
    return checks_finish();
}
