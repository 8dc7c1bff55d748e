/* Hostile drivers: an OpenCL library that fails at each call in turn, once or from then on, while a
 * step is trained on it, and one that lies. Either training does not begin, and it is said why, or
 * the step has the CPU's bits; nothing crashes. */
#include "base/status.h"
#include "check.h"
#include "device/gpu/gpu.h"
#include "driver/opencl/platforms.h"
#include "os/library.h"
#include "quern/quern.h"
#include "run/offload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 4, LIES = 7 };

static _Alignas(64) float x[BATCH * 28 * 28];
static _Alignas(64) int32_t y[BATCH];
static int64_t *calls, *fail_at, *opened_at, *silent_at, *harmless_at;
static int64_t *marks;
static int *fails_on, *lie, *shares, *lists, *lazy;
static int n_steps = 1;

static qn_status make(const char *device, qn_trainer **trainer) {
    qn_trainer_options o = qn_trainer_options_for(qn_model_find("lenet5"));
    o.batch = o.evaluation_batch = BATCH;
    o.engine.n_threads = 1;
    o.engine.device = device;
    *trainer = NULL;
    return qn_trainer_create(&o, trainer);
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

static qn_status train(qn_trainer *trainer) {
    qn_step_result result;
    for (int i = 0; i < n_steps; i++)
        QN_TRY(qn_trainer_step(trainer, x, y, &result));
    return QN_OK;
}

static qn_trainer *train_on_cpu(void) {
    qn_trainer *trainer;
    CHECK_OK(make("cpu", &trainer));
    CHECK_OK(train(trainer));
    return trainer;
}

/* Waits for the end of what was given to the device. */
static void settle(const qn_trainer *trainer) {
    const qn_engine *e = qn_trainer_engine(trainer);
    if (qn_engine_device(e) > 0)
        (void)qn_executor_finish(e->programs[0].executor);
}

/* Calls until the steps are done, their updates included. */
static int64_t count_calls(void) {
    qn_trainer *trainer;
    *fail_at = *calls = 0;
    CHECK_OK(make("opencl", &trainer));
    (void)train(trainer);
    settle(trainer);
    const int64_t n = *calls;
    qn_trainer_destroy(trainer);
    return n;
}

static void check_failing(const qn_trainer *expected, int64_t at, int on) {
    qn_trainer *trainer;
    *calls = *harmless_at = 0;
    *fail_at = at;
    *fails_on = on;
    const qn_status status = make("opencl", &trainer);
    if (status == QN_OK) {
        const qn_status stepped = train(trainer);
        settle(trainer);
        const bool is_harmless = at < *opened_at || at == *harmless_at ||
                                 (*shares && !qn_engine_shares(qn_trainer_engine(trainer)));
        /* A question about the device, not answered; or lists that there are not, or memory that it
         * does not share then. */
        const bool is_good = stepped == QN_OK && are_equal(expected, trainer) &&
                             qn_engine_device(qn_trainer_engine(trainer)) == 0;
        CHECK(is_good || is_harmless);
        if (!is_good && !is_harmless)
            printf("other bits after call %lld failed (%d): %s\n", (long long)at, on,
                   stepped == QN_OK ? "" : qn_error_message());
    } else {
        CHECK(strlen(qn_error_message()) > 20);
    }
    qn_trainer_destroy(trainer);
}

/* The last call of a step is a release or the end of a queue's work: what fails then is not seen in
 * this step. Reading the host's memory is what counts. */
static void test_failing(void) {
    qn_trainer *expected = train_on_cpu();
    const int64_t n = count_calls();
    const int64_t step = getenv("QUERN_ALL") || n < 200 ? 1
                                                        : n / (*shares  ? 40
                                                               : *lists ? 60
                                                                        : 120);
    CHECK(n > 100);
    for (int64_t at = 1; at <= n; at += step) {
        check_failing(expected, at, 0);
        check_failing(expected, at, 1);
    }
    qn_trainer_destroy(expected);
}

/* Optional answers of a device (its names) may fail without harm: it then works, with kernels that
 * do nothing, so no step is made. */
static void test_lying(void) {
    *fail_at = 0;
    for (*lie = 1; *lie <= LIES; ++*lie) {
        qn_opencl_device devices[QN_OPENCL_MOST_DEVICES];
        qn_trainer *trainer;
        int n;
        (void)qn_opencl_find_devices(devices, &n);
        CHECK(n >= 0 && n <= QN_OPENCL_MOST_DEVICES);
        for (int i = 0; i < n; i++)
            CHECK(strlen(devices[i].name) < sizeof devices[i].name);
        const qn_status status = make("opencl", &trainer);
        CHECK(status == QN_OK || strlen(qn_error_message()) > 20);
        qn_trainer_destroy(trainer);
    }
    *lie = 0;
}

/* What "auto" measures leaves nothing behind, whatever it comes to and whatever fails meanwhile; it
 * says what it came to. */
static void check_auto(const qn_trainer *fresh, const qn_trainer *expected, int64_t at) {
    qn_trainer *trainer;
    qn_step_result result;
    *calls = 0;
    *fail_at = at;
    CHECK_OK(make("auto", &trainer));
    const qn_engine *e = qn_trainer_engine(trainer);
    CHECK(are_equal(fresh, trainer));
    const char *name = qn_engine_get_options(e)->device;
    CHECK(qn_engine_device(e) > 0 ? strncmp(name, "opencl", 6) == 0 : strcmp(name, "cpu") == 0);
    if (qn_engine_device(e) == 0) {
        CHECK_OK(qn_trainer_step(trainer, x, y, &result));
        CHECK(are_equal(expected, trainer));
    }
    qn_trainer_destroy(trainer);
}

static void test_auto(void) {
    qn_trainer *expected = train_on_cpu(), *fresh;
    CHECK_OK(make("cpu", &fresh));
    *fails_on = 1;
    for (int64_t at = 0; at < 900; at += getenv("QUERN_ALL") ? 1 : 13)
        check_auto(fresh, expected, at);
    *fail_at = *fails_on = 0;
    qn_trainer_destroy(expected);
    qn_trainer_destroy(fresh);
}

/* A device that is silent from some call on is left after its patience; the step is the CPU's. */
static void check_silent(const qn_trainer *expected, int64_t at) {
    qn_trainer *trainer;
    qn_step_result result;
    *calls = 0;
    CHECK_OK(make("opencl", &trainer));
    const qn_engine *e = qn_trainer_engine(trainer);
    qn_gpu_set_patience(qn_offload_opened(e)->state, 2000000);
    *silent_at = *calls + at;
    CHECK_OK(qn_trainer_step(trainer, x, y, &result));
    CHECK(are_equal(expected, trainer) &&
          qn_engine_device(e) == 0); /* in this order: it waits for all */
    CHECK_OK(qn_trainer_step(trainer, x, y, &result));
    qn_trainer_destroy(trainer);
    *silent_at = 0;
}

static void test_silence(void) {
    qn_trainer *expected = train_on_cpu();
    for (int64_t at = 1; at < 100; at += 30)
        check_silent(expected, at);
    qn_trainer_destroy(expected);
}

/* The same for a device that works in the host's memory. */
static void test_sharing(void) {
    qn_trainer *trainer, *expected = train_on_cpu();
    *fail_at = 0;
    *shares = 1;
    CHECK_OK(make("opencl", &trainer));
    CHECK(qn_engine_shares(qn_trainer_engine(trainer)));
    qn_trainer_destroy(trainer);
    for (int64_t at = 1; at < 100; at += 50)
        check_silent(expected, at);
    test_failing();
    *fail_at = *shares = 0;
    qn_trainer_destroy(expected);
}

/* Calls of the driver in the n-th step and no other. */
static int64_t count_step(int n) {
    qn_trainer *trainer;
    qn_step_result result;
    CHECK_OK(make("opencl", &trainer));
    for (int i = 0; i < n; i++) {
        *calls = 0;
        (void)qn_trainer_step(trainer, x, y, &result);
        settle(trainer);
    }
    const int64_t count = *calls;
    qn_trainer_destroy(trainer);
    return count;
}

/* The second step records its kernels, those behind it start them at once: without lists each takes
 * three calls. Every call of three steps fails in turn. */
static void test_lists(void) {
    enum { STEPS = 3 };
    *fail_at = 0;
    const int64_t one_by_one = count_step(STEPS);
    *lists = 1;
    CHECK(count_step(STEPS) * 4 < one_by_one);
    n_steps = STEPS;
    test_failing();
    n_steps = 1;
    *fail_at = *lists = 0;
}

/* A device that ends nothing before it has more to do: a step is given to it while it still works
 * on the one before, of which only the results are waited for. Marks tell how often it is looked
 * at. */
static void test_ahead(void) {
    enum { MANY = 8, PATIENCE_S = 20 };
    qn_trainer *trainer;
    qn_step_result result;
    qn_device_counters counters;
    CHECK_OK(make("opencl", &trainer));
    const qn_engine *e = qn_trainer_engine(trainer);
    const qn_machine_device *d = qn_offload_opened(e);
    qn_gpu_set_patience(d->state, INT64_C(1000000000) * PATIENCE_S);
    *marks = 0;
    *lazy = 1;
    for (int i = 0; i < MANY && qn_engine_device(e) > 0; i++)
        CHECK_OK(qn_trainer_step(trainer, x, y, &result));
    d->device->counters(d->state, &counters);
    CHECK(qn_engine_device(e) > 0 && counters.n_idle == 1);
    qn_executor_await_begun(e->programs[0].executor);
    *lazy = 0;
    settle(trainer);
    CHECK(*marks == 2 * MANY);
    qn_trainer_destroy(trainer);
}

int main(void) {
    qn_library *fake;
    if (qn_library_open("libOpenCL.so.1", &fake) != QN_OK ||
        !qn_library_find(fake, "fake_calls", &calls)) {
        printf("the library of the tests' own was not found\n");
        return 1;
    }
    CHECK(qn_library_find(fake, "fake_fail_at", &fail_at));
    CHECK(qn_library_find(fake, "fake_opened_at", &opened_at));
    CHECK(qn_library_find(fake, "fake_fails_on", &fails_on));
    CHECK(qn_library_find(fake, "fake_silent_at", &silent_at));
    CHECK(qn_library_find(fake, "fake_lie", &lie));
    CHECK(qn_library_find(fake, "fake_shares", &shares));
    CHECK(qn_library_find(fake, "fake_lists", &lists));
    CHECK(qn_library_find(fake, "fake_harmless_at", &harmless_at));
    CHECK(qn_library_find(fake, "fake_marks", &marks));
    CHECK(qn_library_find(fake, "fake_lazy", &lazy));
    for (int i = 0; i < BATCH * 28 * 28; i++)
        x[i] = (float)(i * 37 % 101) / 50 - 1;
    for (int i = 0; i < BATCH; i++)
        y[i] = i % 10;
    test_failing();
    test_silence();
    test_auto();
    test_lying();
    test_sharing();
    test_lists();
    test_ahead();
    return checks_finish();
}
