/* An engine watched: its operations as they are (pass, FLOPs, bytes against a count by hand), every
 * one of them recorded when it runs, in order and inside its run, with what further threads did of
 * it; and the same bits as unwatched. */
#include "run/watch.h"

#include "base/memory.h"
#include "check.h"
#include "os/heap.h"
#include "small_models.h"

#include <stdlib.h>

enum { BATCH = 6, CAPACITY = 1 << 14, UPDATE = QN_PROGRAM_UPDATE };

static _Alignas(64) float x[BATCH * 8 * 8 * 3];
static _Alignas(64) int32_t y[BATCH];

static void fill(void) {
    for (int i = 0; i < BATCH * 8 * 8 * 3; i++)
        x[i] = (float)(i * 37 % 101) / 50 - 1;
    for (int i = 0; i < BATCH; i++)
        y[i] = i % 3;
}

static qn_trainer *make(int n_threads, int64_t accumulate) {
    qn_trainer_options o = qn_trainer_options_for(&small_conv);
    qn_trainer *trainer = NULL;
    o.engine.n_threads = n_threads;
    o.engine.update.accumulate = accumulate;
    CHECK_OK(qn_trainer_create(&o, &trainer));
    if (!trainer)
        exit(checks_finish());
    return trainer;
}

static void step(qn_trainer *trainer) {
    qn_step_result result;
    CHECK_OK(qn_trainer_step(trainer, x, y, &result));
}

/* ---- operations ---- */

static qn_operation find(const qn_engine *engine, int program, const char *name) {
    for (int i = 0; i < qn_engine_operation_count(engine, program); i++) {
        const qn_operation o = qn_engine_operation_at(engine, program, i);
        if (strcmp(o.name, name) == 0)
            return o;
    }
    printf("no operation %s\n", name);
    CHECK(false);
    return (qn_operation){.type = ""};
}

static void check_operation(const qn_engine *engine, const char *name, const char *type,
                            qn_pass pass, int64_t flops, int64_t n_numbers) {
    const qn_operation o = find(engine, 0, name);
    CHECK(strcmp(o.type, type) == 0);
    CHECK(o.device && strcmp(o.device, "cpu") == 0);
    CHECK(o.pass == pass);
    CHECK(o.n_threads == 2);
    CHECK(flops < 0 || o.flops == flops);
    CHECK(n_numbers < 0 || o.bytes == 4 * n_numbers);
}

/* Passes never go back within a phase of training, and each is there. */
static void check_passes(const qn_engine *engine, int program, const int wanted[3]) {
    int n[3] = {0};
    for (int i = 0; i < qn_engine_operation_count(engine, program); i++) {
        const qn_operation o = qn_engine_operation_at(engine, program, i);
        n[o.pass]++;
        CHECK((o.pass == QN_PASS_UPDATE) == (strcmp(o.type, "sgd") == 0));
        CHECK(o.bytes > 0 && o.flops >= 0);
    }
    for (int pass = 0; pass < 3; pass++)
        CHECK((n[pass] > 0) == (wanted[pass] > 0));
}

static void test_operations(void) {
    qn_trainer *trainer = make(2, 1);
    const qn_engine *engine = qn_trainer_engine(trainer);
    const int64_t pixels = BATCH * 8 * 8;
    CHECK(qn_engine_program_count(engine) == 2);
    CHECK(strcmp(qn_engine_program_name(engine, 0), "training") == 0);
    CHECK(strcmp(qn_engine_program_name(engine, 1), "evaluation") == 0);
    CHECK(qn_engine_operation_count(engine, UPDATE) == 0);
    check_passes(engine, 0, (const int[]){1, 1, 1});
    check_passes(engine, 1, (const int[]){1, 0, 0});
    check_operation(engine, "conv1", "conv2d", QN_PASS_FORWARD, 2 * pixels * 7 * 27,
                    pixels * 3 + 27 * 7 + pixels * 7);
    check_operation(engine, "bn1.running", "batch_norm_running", QN_PASS_FORWARD, -1, -1);
    check_operation(engine, "fc1", "linear", QN_PASS_FORWARD, 2 * BATCH * 112 * 13, -1);
    check_operation(engine, "fc1.weight.update", "sgd", QN_PASS_UPDATE, -1, -1);
    qn_trainer_destroy(trainer);
}

static void test_update_program(void) {
    qn_trainer *trainer = make(2, 2);
    const qn_engine *engine = qn_trainer_engine(trainer);
    CHECK(strcmp(qn_engine_program_name(engine, UPDATE), "update") == 0);
    CHECK(qn_engine_operation_count(engine, UPDATE) > 5);
    CHECK(find(engine, 0, "fc1.weight.accumulate").pass == QN_PASS_BACKWARD);
    check_passes(engine, 0, (const int[]){1, 1, 0});
    check_passes(engine, UPDATE, (const int[]){0, 0, 1});
    qn_trainer_destroy(trainer);
}

/* Two phases over one layer: each has its passes, told apart where the second follows the first. */
static qn_value two_phases(qn_graph *graph, void *user, int phase, qn_value kept[QN_MAX_KEPT]) {
    (void)user;
    if (phase == 0)
        kept[0] = qn_input(graph, "x", QN_SHAPE(4, 5));
    const char *name = phase == 0 ? "first" : "second";
    qn_value out = qn_tanh(graph, NULL, qn_linear_layer(graph, name, kept[0], 3));
    return qn_mean(graph, NULL, qn_reshape(graph, NULL, out, QN_SHAPE(12)));
}

static void test_phases(void) {
    const qn_engine_options options = {QN_OPTIONS_INIT(qn_engine_options), .n_threads = 1,
                                       .update = {.rate = 0.1}};
    const qn_program_options program = {QN_OPTIONS_INIT(qn_program_options), .training = true,
                                        .n_phases = 2, .trained = {"first", "second"},
                                        .build = two_phases};
    qn_engine *engine = NULL;
    CHECK_OK(qn_engine_create(&options, &program, 1, &engine));
    if (!engine)
        return;
    CHECK(strcmp(qn_engine_program_name(engine, 0), "training") == 0);
    check_passes(engine, 0, (const int[]){1, 1, 1});
    CHECK(find(engine, 0, "first").pass == QN_PASS_FORWARD);
    CHECK(find(engine, 0, "second").pass == QN_PASS_FORWARD);
    CHECK(find(engine, 0, "second.weight.update").pass == QN_PASS_UPDATE);
    qn_engine_destroy(engine);
}

/* ---- events ---- */

typedef struct expected {
    int program, step;
} expected;

/* The events of a run from events[*next] on: all operations in order, then the run around them. */
static void check_run(const qn_engine *engine, const qn_event *events, size_t n, size_t *next,
                      expected run) {
    const int n_items = qn_engine_operation_count(engine, run.program);
    int64_t begin_ns = INT64_MAX, last_ns = 0;
    if (*next + (size_t)n_items >= n) {
        CHECK(false);
        return;
    }
    for (int i = 0; i < n_items; i++, (*next)++) {
        const qn_event *e = &events[*next];
        CHECK(e->kind == QN_EVENT_OPERATION && e->item == i && e->thread == 0);
        CHECK(e->program == run.program && e->step == run.step);
        CHECK(e->begin_ns >= last_ns && e->end_ns >= e->begin_ns);
        last_ns = e->end_ns;
        begin_ns = e->begin_ns < begin_ns ? e->begin_ns : begin_ns;
    }
    const qn_event *whole = &events[(*next)++];
    CHECK(whole->kind == QN_EVENT_RUN && whole->item == -1 && whole->thread == 0);
    CHECK(whole->program == run.program && whole->step == run.step);
    CHECK(whole->begin_ns <= begin_ns && whole->end_ns >= last_ns);
}

/* Every share lies in an operation of the same program, step and item. */
static void check_shares(const qn_event *shares, size_t n_shares, const qn_event *events,
                         size_t n) {
    size_t at = 0;
    bool all = true;
    for (size_t i = 0; i < n_shares; i++) {
        const qn_event *s = &shares[i];
        while (at < n && (events[at].kind != QN_EVENT_OPERATION || events[at].end_ns < s->end_ns))
            at++;
        const qn_event *o = &events[at];
        all = all && at < n && s->kind == QN_EVENT_SHARE && s->thread == 1 &&
              s->begin_ns <= s->end_ns && o->begin_ns <= s->begin_ns && o->item == s->item &&
              o->program == s->program && o->step == s->step;
    }
    CHECK(all);
}

static void test_events(void) {
    static qn_event events[CAPACITY], shares[CAPACITY];
    qn_trainer *trainer = make(2, 2);
    qn_engine *engine = qn_trainer_engine(trainer);
    qn_events *rings = NULL;
    qn_evaluation sum = {0};
    size_t next = 0;
    CHECK_OK(qn_events_create(qn_allocator_default(), 2, CAPACITY, &rings));
    step(trainer);
    step(trainer);
    qn_engine_watch(engine, rings);
    step(trainer);
    step(trainer);
    CHECK_OK(qn_trainer_evaluate(trainer, x, y, BATCH, &sum));
    qn_engine_watch(engine, NULL);
    step(trainer);
    const size_t n = qn_events_take(rings, 0, events, CAPACITY);
    const size_t n_shares = qn_events_take(rings, 1, shares, CAPACITY);
    const expected runs[] = {{0, 1}, {0, 1}, {UPDATE, 1}, {1, 2}};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++)
        check_run(engine, events, n, &next, runs[i]);
    CHECK(next == n);
    check_shares(shares, n_shares, events, n);
    CHECK(qn_events_lost(rings) == 0);
    qn_trainer_destroy(trainer);
    qn_events_destroy(rings);
}

/* ---- bits ---- */

/* A trainer after some steps and an evaluation. */
static qn_trainer *trained(int n_threads, int64_t accumulate, qn_events *rings) {
    qn_trainer *trainer = make(n_threads, accumulate);
    qn_evaluation sum = {0};
    qn_engine_watch(qn_trainer_engine(trainer), rings);
    for (int i = 0; i < 6; i++)
        step(trainer);
    CHECK_OK(qn_trainer_evaluate(trainer, x, y, BATCH, &sum));
    return trainer;
}

/* Watched, also where the rings are full at once, or not: equal in every bit. */
static void test_same_bits(int n_threads, int64_t accumulate, size_t capacity) {
    qn_events *rings = NULL;
    CHECK_OK(qn_events_create(qn_allocator_default(), n_threads, capacity, &rings));
    qn_trainer *plain = trained(n_threads, accumulate, NULL);
    qn_trainer *watched = trained(n_threads, accumulate, rings);
    const qn_engine *a = qn_trainer_engine(plain), *b = qn_trainer_engine(watched);
    CHECK(qn_engine_tensor_count(a) > 5);
    for (int i = 0; i < qn_engine_tensor_count(a); i++) {
        const qn_stored_tensor of_a = qn_engine_tensor_at(a, i), of_b = qn_engine_tensor_at(b, i);
        CHECK(of_a.bytes == of_b.bytes && memcmp(of_a.data, of_b.data, of_a.bytes) == 0);
    }
    CHECK((qn_events_lost(rings) > 0) == (capacity < 100));
    qn_trainer_destroy(plain);
    qn_trainer_destroy(watched);
    qn_events_destroy(rings);
}

int main(void) {
    fill();
    test_operations();
    test_update_program();
    test_phases();
    test_events();
    test_same_bits(1, 1, CAPACITY);
    test_same_bits(2, 2, CAPACITY);
    test_same_bits(3, 1, 16);
    return checks_finish();
}
