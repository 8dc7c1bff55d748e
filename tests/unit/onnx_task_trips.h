/* Networks that are no classifiers, exported as ONNX files and read back: under their task, on the
 * same data, the network that comes back has the same tensors, the same loss in every one of five
 * steps, and the same bits in weights, optimiser and the task's own state after them, dropout,
 * states that are carried over and networks beside the one that learns included. And it measures
 * the same. */
#ifndef QN_TESTS_ONNX_TASK_TRIPS_H
#define QN_TESTS_ONNX_TASK_TRIPS_H

#include "data_files.h"
#include "quern/onnx.h"
#include "quern/quern.h"
#include "tensor/tensor.h"

typedef struct task_trip {
    const char *model;
    const char *pairs[20]; /* settings, "@" the test's folder */
    bool has_test;
} task_trip;

typedef struct trained {
    qn_metadata *settings;
    qn_task *task;
} trained;

static trained open_trained(const qn_model *model, const char *const *pairs) {
    trained t = {NULL};
    CHECK_OK(qn_metadata_create(NULL, &t.settings));
    for (; *pairs; pairs += 2)
        CHECK_OK(qn_metadata_set(t.settings, pairs[0], at_root(pairs[1])));
    const qn_task_options options = {QN_TASK_OPTIONS_INIT, .model = model, .settings = t.settings,
                                     .training = true, .engine.n_threads = 2};
    CHECK_OK(qn_task_open(&options, &t.task));
    return t;
}

static void close_trained(trained *t) {
    qn_task_close(t->task);
    qn_metadata_destroy(t->settings);
}

static void check_same_state(const char *name, qn_engine *a, qn_engine *b) {
    int n_differing = 0;
    CHECK(qn_engine_tensor_count(a) == qn_engine_tensor_count(b));
    for (int i = 0; i < qn_engine_tensor_count(a); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(a, i), u = qn_engine_find(b, t.name);
        if (u.data && u.bytes == t.bytes && qn_shape_equal(t.shape, u.shape) &&
            t.trainable == u.trainable && memcmp(t.data, u.data, t.bytes) == 0)
            continue;
        if (n_differing++ == 0)
            printf("%s: %s differs\n", name, t.name);
    }
    CHECK(n_differing == 0);
}

/* Those of the target network begin by chance, and are taken over before they are read. */
static void take_target(qn_engine *from, qn_engine *to) {
    for (int i = 0; i < qn_engine_tensor_count(from); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(from, i), u = qn_engine_find(to, t.name);
        if (strncmp(t.name, "task.target.", 12) == 0 && u.data && u.bytes == t.bytes)
            memcpy(u.data, t.data, t.bytes);
    }
}

static void check_same_metrics(const qn_metrics *a, const qn_metrics *b) {
    CHECK(a->n == b->n && a->n > 0);
    for (int i = 0; i < a->n; i++)
        CHECK(a->list[i].value == b->list[i].value ||
              (isnan(a->list[i].value) && isnan(b->list[i].value)));
}

static void train_both(const task_trip *trip, qn_task *ours, qn_task *theirs) {
    qn_metrics a, b;
    int64_t n;
    take_target(qn_task_engine(ours), qn_task_engine(theirs));
    check_same_state(trip->model, qn_task_engine(ours), qn_task_engine(theirs));
    for (int step = 0; step < 5; step++) {
        CHECK_OK(qn_task_step(ours, &a));
        CHECK_OK(qn_task_step(theirs, &b));
        check_same_metrics(&a, &b);
        CHECK(isfinite(a.list[0].value));
    }
    check_same_state(trip->model, qn_task_engine(ours), qn_task_engine(theirs));
    if (!trip->has_test)
        return;
    CHECK_OK(qn_task_evaluate(ours, QN_TEST, NULL, NULL, &a, &n));
    CHECK(n > 0);
    CHECK_OK(qn_task_evaluate(theirs, QN_TEST, NULL, NULL, &b, &n));
    check_same_metrics(&a, &b);
}

static void check_task_trip(const task_trip *trip) {
    char path[PATH_MAX];
    const qn_model *read = NULL;
    qn_onnx_network *network = NULL;
    trained ours = open_trained(qn_model_find(trip->model), trip->pairs), theirs;
    const qn_network_sizes sizes = qn_task_get_facts(ours.task).sizes;
    const qn_onnx_export_options options = {QN_OPTIONS_INIT(qn_onnx_export_options),
                                            .model = qn_model_find(trip->model), .sizes = &sizes,
                                            .engine = qn_task_engine(ours.task)};
    snprintf(path, sizeof path, "%s", at_root("@/network.onnx"));
    CHECK_OK(qn_onnx_export(&options, path));
    CHECK_OK(qn_onnx_open(&(qn_onnx_options){QN_OPTIONS_INIT(qn_onnx_options)}, path, &network));
    CHECK_OK(qn_onnx_model_for(network, NULL, &read));
    if (read) {
        theirs = open_trained(read, trip->pairs);
        if (theirs.task)
            train_both(trip, ours.task, theirs.task);
        close_trained(&theirs);
    }
    close_trained(&ours);
    qn_onnx_close(network);
    unlink(path);
    printf("%s: %d checks, %d failed\n", trip->model, checks_done, checks_failed);
}

#endif
