/* Hostile drivers: a CUDA driver and compiler that fail at each call in turn, once or from then on,
 * while a step is trained, that lie, and that fall silent. Either training does not begin, and it
 * is said why, or the step is the CPU's, in every bit where the device was left. */
#include "check.h"
#include "device/gpu/gpu.h"
#include "driver/cuda/cuda.h"
#include "driver/cuda/devices.h"
#include "os/library.h"
#include "quern/quern.h"
#include "run/offload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 1, LIES = 7 };

static _Alignas(64) float x[BATCH * 28 * 28];
static _Alignas(64) int32_t y[BATCH];
static int64_t *calls, *fail_at, *silent_at;
static int *fails_on, *lie, *shares;

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

/* The step of the CPU; of a device that was not lost, but for rounding. */
static bool is_as_expected(const qn_trainer *expected, const qn_trainer *trainer) {
    const qn_engine *first = qn_trainer_engine(expected), *second = qn_trainer_engine(trainer);
    double distance = 0, size = 0;
    if (qn_engine_device(second) == 0)
        return are_equal(expected, trainer);
    for (int i = 0; i < qn_engine_tensor_count(first); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(first, i);
        const float *a = t.data, *b = qn_engine_find(second, t.name).data;
        for (int64_t j = 0; t.dtype == QN_F32 && j < qn_shape_count(t.shape); j++) {
            distance += ((double)a[j] - (double)b[j]) * ((double)a[j] - (double)b[j]);
            size += (double)a[j] * (double)a[j];
        }
    }
    return distance <= 1e-10 * size;
}

static qn_trainer *train_on_cpu(void) {
    qn_trainer *trainer;
    qn_step_result result;
    CHECK_OK(make("cpu", &trainer));
    CHECK_OK(qn_trainer_step(trainer, x, y, &result));
    return trainer;
}

/* Calls until the first step is done, its updates included. */
static int64_t count_calls(void) {
    qn_trainer *trainer;
    qn_step_result result;
    *fail_at = *calls = 0;
    CHECK_OK(make("cuda", &trainer));
    (void)qn_trainer_step(trainer, x, y, &result);
    const int64_t n = *calls;
    qn_trainer_destroy(trainer);
    return n;
}

static void check_failing(const qn_trainer *expected, int64_t at, int on) {
    qn_trainer *trainer;
    qn_step_result result;
    *calls = 0;
    *fail_at = at;
    *fails_on = on;
    const qn_status status = make("cuda", &trainer);
    if (status == QN_OK) {
        CHECK_OK(qn_trainer_step(trainer, x, y, &result));
        const bool is_good = is_as_expected(expected, trainer);
        CHECK(is_good);
        if (!is_good)
            printf("other numbers after call %lld failed\n", (long long)at);
    } else {
        CHECK(strlen(qn_error_message()) > 20);
    }
    qn_trainer_destroy(trainer);
}

static void test_failing(void) {
    qn_trainer *expected = train_on_cpu();
    const int64_t n = count_calls();
    const int64_t step = getenv("QUERN_ALL") || n < 200 ? 1 : n / (*shares ? 5 : 15);
    CHECK(n > 100);
    for (int64_t at = 1; at <= n; at += step) {
        check_failing(expected, at, 0);
        check_failing(expected, at, 1);
    }
    qn_trainer_destroy(expected);
}

static void test_lying(void) {
    *fail_at = 0;
    for (*lie = 1; *lie <= LIES; ++*lie) {
        qn_cuda_device devices[QN_CUDA_MOST_DEVICES];
        qn_trainer *trainer;
        int n;
        (void)qn_cuda_find_devices(devices, &n);
        CHECK(n >= 0 && n <= QN_CUDA_MOST_DEVICES);
        for (int i = 0; i < n; i++)
            CHECK(strlen(devices[i].name) < sizeof devices[i].name);
        const qn_status status = make("cuda", &trainer);
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
    CHECK(qn_engine_device(e) > 0 ? strncmp(name, "cuda", 4) == 0 : strcmp(name, "cpu") == 0);
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
    for (int64_t at = 0; at < 900; at += getenv("QUERN_ALL") ? 1 : 300)
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
    CHECK_OK(make("cuda", &trainer));
    const qn_engine *e = qn_trainer_engine(trainer);
    qn_gpu_set_patience(qn_offload_opened(e)->state, 2000000);
    *silent_at = *calls + at;
    CHECK_OK(qn_trainer_step(trainer, x, y, &result));
    CHECK(qn_engine_device(e) == 0 && are_equal(expected, trainer));
    CHECK_OK(qn_trainer_step(trainer, x, y, &result));
    qn_trainer_destroy(trainer);
    *silent_at = 0;
}

static void test_silence(void) {
    qn_trainer *expected = train_on_cpu();
    for (int64_t at = 1; at < 100; at += 50)
        check_silent(expected, at);
    qn_trainer_destroy(expected);
}

/* The same for a device that works in the host's memory: nothing is copied. */
static void test_sharing(void) {
    qn_trainer *trainer, *expected = train_on_cpu();
    qn_device_counters counters;
    qn_step_result result;
    *shares = 1;
    CHECK_OK(make("cuda", &trainer));
    const qn_engine *e = qn_trainer_engine(trainer);
    CHECK(qn_engine_shares(e));
    CHECK_OK(qn_trainer_step(trainer, x, y, &result));
    CHECK(qn_engine_device(e) > 0 && is_as_expected(expected, trainer));
    qn_device_cuda.counters(e->machine.devices[qn_engine_device(e)].state, &counters);
    CHECK(counters.n_works > 10 && counters.bytes_in == 0 && counters.bytes_out == 0);
    qn_trainer_destroy(trainer);
    check_silent(expected, 50);
    test_failing();
    *fail_at = *shares = 0;
    qn_trainer_destroy(expected);
}

/* From the third step on kernels are started as a graph; the steps are the CPU's. */
static void test_graphs(void) {
    qn_trainer *expected = train_on_cpu(), *trainer;
    qn_step_result result;
    int64_t first = 0, last = 0;
    CHECK_OK(make("cuda", &trainer));
    for (int i = 0; i < 3; i++) {
        *calls = 0;
        CHECK_OK(qn_trainer_step(trainer, x, y, &result));
        CHECK_OK(qn_executor_finish(qn_trainer_engine(trainer)->programs[0].executor));
        if (i > 0)
            CHECK_OK(qn_trainer_step(expected, x, y, &result));
        first = i == 0 ? *calls : first;
        last = *calls;
    }
    CHECK(last * 3 < first && qn_engine_device(qn_trainer_engine(trainer)) > 0);
    CHECK(is_as_expected(expected, trainer));
    qn_trainer_destroy(trainer);
    qn_trainer_destroy(expected);
}

int main(void) {
    qn_library *fake;
    if (qn_library_open("libcuda.so.1", &fake) != QN_OK ||
        !qn_library_find(fake, "fake_calls", &calls)) {
        printf("the library of the tests' own was not found\n");
        return 1;
    }
    CHECK(qn_library_find(fake, "fake_fail_at", &fail_at));
    CHECK(qn_library_find(fake, "fake_fails_on", &fails_on));
    CHECK(qn_library_find(fake, "fake_silent_at", &silent_at));
    CHECK(qn_library_find(fake, "fake_lie", &lie));
    CHECK(qn_library_find(fake, "fake_shares", &shares));
    for (int i = 0; i < BATCH * 28 * 28; i++)
        x[i] = (float)(i * 37 % 101) / 50 - 1;
    for (int i = 0; i < BATCH; i++)
        y[i] = i % 10;
    test_failing();
    test_silence();
    test_auto();
    test_lying();
    test_sharing();
    test_graphs();
    return checks_finish();
}
