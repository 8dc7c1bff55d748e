/* The meter around a small training run: steps counted as they are marked, every call of every
 * operation in the tables, whatever the memory; the same bits as without; wrong use said plainly;
 * every allocation failing in turn. */
#include "meter/meter.h"

#include "base/memory.h"
#include "base/status.h"
#include "check.h"
#include "failing.h"
#include "quern/quern.h"
#include "small_models.h"

#include <stdlib.h>

enum { BATCH = 6, MILLISECOND = 1000000 };

static _Alignas(64) float x[BATCH * 8 * 8 * 3];
static _Alignas(64) int32_t y[BATCH];

static void fill(void) {
    for (int i = 0; i < BATCH * 8 * 8 * 3; i++)
        x[i] = (float)(i * 37 % 101) / 50 - 1;
    for (int i = 0; i < BATCH; i++)
        y[i] = i % 3;
}

static qn_trainer *make(void) {
    qn_trainer_options o = qn_trainer_options_for(&small_conv);
    qn_trainer *trainer = NULL;
    o.engine.n_threads = 2;
    CHECK_OK(qn_trainer_create(&o, &trainer));
    if (!trainer)
        exit(checks_finish());
    return trainer;
}

static void train(qn_trainer *trainer, qn_meter *meter, int n_steps) {
    for (int i = 0; i < n_steps; i++) {
        qn_step_result result;
        if (qn_trainer_step(trainer, x, y, &result) != QN_OK)
            CHECK(false);
        qn_meter_mark(meter);
    }
}

/* ---- what it says ---- */

static void check_summary(qn_meter *meter, int64_t n_steps) {
    qn_meter_summary s;
    CHECK_OK(qn_meter_report(meter, &s));
    CHECK(s.steps == n_steps);
    CHECK(s.mean_step_ms > 0 && s.median_step_ms > 0);
    CHECK(s.operations_ms_per_step > 0 && s.idle_ms_per_step >= 0);
    CHECK(fabs(s.operations_ms_per_step + s.idle_ms_per_step - s.mean_step_ms) <
          1e-6 * s.mean_step_ms);
    CHECK(fabs(s.samples_per_second * s.mean_step_ms * 1e-3 - BATCH) < 1e-6);
    CHECK(s.flops_per_second > 0);
}

/* Each node of the training program ran once a step; none of evaluation did. */
static void check_calls(const qn_measurement *m, const qn_engine *engine, int64_t n_steps) {
    int n_called = 0;
    bool all = true;
    for (int i = 0; i < m->n_nodes; i++) {
        all = all && m->nodes[i].calls == (m->nodes[i].program == 0 ? n_steps : 0);
        n_called += m->nodes[i].calls > 0;
    }
    CHECK(all);
    CHECK(n_called == qn_engine_operation_count(engine, 0));
}

/* most_bytes too small for all events: some are folded. */
static void test_run(int64_t interval_ns, size_t most_bytes, int n_steps) {
    qn_trainer *trainer = make();
    const qn_meter_options o = {
        QN_OPTIONS_INIT(qn_meter_options), .engine = qn_trainer_engine(trainer),
        .samples_per_step = BATCH,         .skip_steps = -1,
        .interval_ns = interval_ns,        .most_bytes = most_bytes};
    qn_meter *meter = NULL;
    const qn_measurement *m = NULL;
    CHECK_OK(qn_meter_start(&o, &meter));
    if (!meter)
        return;
    train(trainer, meter, n_steps);
    CHECK_FAILS(qn_meter_measure(meter, &m), QN_ERROR_ARGUMENT, "stop it first");
    qn_meter_stop(meter);
    train(trainer, meter, 2); /* is no longer looked at */
    qn_meter_stop(meter);
    check_summary(meter, n_steps - 3);
    CHECK_OK(qn_meter_measure(meter, &m));
    CHECK(m->skipped_steps == 3 && m->n_lost_events == 0);
    CHECK((m->n_folded_events > 0) == (most_bytes > 0));
    CHECK(m->meter_bytes > 1 << 16 && m->meter_bytes <= (most_bytes ? 3 << 20 : 16 * 1000 * 1000));
    check_calls(m, qn_trainer_engine(trainer), n_steps - 3);
    CHECK(strcmp(qn_meter_title(meter), "training") == 0);
    qn_meter_destroy(meter);
    train(trainer, NULL, 1);
    qn_trainer_destroy(trainer);
}

/* Of another program's steps, as it were: no engine. */
static void test_no_engine(void) {
    const qn_meter_options o = {QN_OPTIONS_INIT(qn_meter_options), .skip_steps = 0,
                                .interval_ns = MILLISECOND, .title = "marks"};
    qn_meter_summary s;
    qn_meter *meter = NULL;
    CHECK_OK(qn_meter_start(&o, &meter));
    for (int i = 0; i < 10; i++)
        qn_meter_mark(meter);
    qn_meter_stop(meter);
    CHECK_OK(qn_meter_report(meter, &s));
    CHECK(s.steps == 10 && strcmp(qn_meter_title(meter), "marks") == 0);
    qn_meter_destroy(meter);
}

/* ---- what it must not do ---- */

static void test_same_bits(void) {
    qn_trainer *plain = make(), *measured = make();
    const qn_meter_options o = {QN_OPTIONS_INIT(qn_meter_options),
                                .engine = qn_trainer_engine(measured), .interval_ns = MILLISECOND};
    qn_meter *meter = NULL;
    CHECK_OK(qn_meter_start(&o, &meter));
    train(plain, NULL, 20);
    train(measured, meter, 20);
    qn_meter_destroy(meter);
    const qn_engine *a = qn_trainer_engine(plain), *b = qn_trainer_engine(measured);
    for (int i = 0; i < qn_engine_tensor_count(a); i++) {
        const qn_stored_tensor of_a = qn_engine_tensor_at(a, i), of_b = qn_engine_tensor_at(b, i);
        CHECK(of_a.bytes == of_b.bytes && memcmp(of_a.data, of_b.data, of_a.bytes) == 0);
    }
    qn_trainer_destroy(plain);
    qn_trainer_destroy(measured);
}

static void test_wrong_use(void) {
    qn_meter *meter = NULL;
    qn_meter_summary s;
    qn_meter_options o = {QN_OPTIONS_INIT(qn_meter_options), .interval_ns = MILLISECOND / 2};
    CHECK_FAILS(qn_meter_start(&o, &meter), QN_ERROR_ARGUMENT, "0.5 ms; choose 1 to 1000 ms");
    o = (qn_meter_options){QN_OPTIONS_INIT(qn_meter_options), .interval_ns = 2000LL * MILLISECOND};
    CHECK_FAILS(qn_meter_start(&o, &meter), QN_ERROR_ARGUMENT, "2000 ms; choose 1 to 1000 ms");
    o = (qn_meter_options){QN_OPTIONS_INIT(qn_meter_options), .samples_per_step = NAN};
    CHECK_FAILS(qn_meter_start(&o, &meter), QN_ERROR_ARGUMENT, "samples");
    o = (qn_meter_options){QN_OPTIONS_INIT(qn_meter_options), .most_bytes = 1000};
    CHECK_FAILS(qn_meter_start(&o, &meter), QN_ERROR_ARGUMENT, "1000 bytes");
    CHECK(!meter);
    o = (qn_meter_options){QN_OPTIONS_INIT(qn_meter_options), .skip_steps = 3};
    CHECK_OK(qn_meter_start(&o, &meter));
    for (int i = 0; i < 3; i++)
        qn_meter_mark(meter);
    CHECK_FAILS(qn_meter_report(meter, &s), QN_ERROR_ARGUMENT, "stop it first");
    qn_meter_stop(meter);
    CHECK(qn_meter_report(meter, &s) == QN_ERROR_ARGUMENT);
    qn_meter_destroy(meter);
    qn_meter_mark(NULL);
    qn_meter_stop(NULL);
    qn_meter_destroy(NULL);
}

static qn_status whole_run(qn_trainer *trainer, const qn_allocator *allocator) {
    const qn_meter_options o = {QN_OPTIONS_INIT(qn_meter_options), .allocator = allocator,
                                .engine = qn_trainer_engine(trainer), .most_bytes = 1 << 20,
                                .title = "failing"};
    qn_meter *meter = NULL;
    qn_meter_summary s;
    QN_TRY(qn_meter_start(&o, &meter));
    train(trainer, meter, 2);
    qn_meter_stop(meter);
    const qn_status status = qn_meter_report(meter, &s);
    qn_meter_destroy(meter);
    return status;
}

static void test_failures(void) {
    qn_trainer *trainer = make();
    qn_status status = QN_ERROR_MEMORY;
    int64_t n = 0;
    for (; n < 100000 && status != QN_OK; n++) {
        failing f = {.left = n, .and_after = true};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        status = whole_run(trainer, &allocator);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        CHECK(f.held_bytes == 0);
    }
    CHECK(status == QN_OK);
    printf("%lld allocations failed in turn\n", (long long)n - 1);
    qn_trainer_destroy(trainer);
}

int main(void) {
    setenv("XDG_CACHE_HOME", "/nonexistent", 1); /* no roofline of this machine's */
    setenv("TMPDIR", "/nonexistent", 1);
    fill();
    test_run(0, 0, 20);
    test_run(MILLISECOND, 1 << 20, 400);
    test_run(1000LL * MILLISECOND, 1 << 20, 400);
    test_no_engine();
    test_same_bits();
    test_wrong_use();
    test_failures();
    return checks_finish();
}
