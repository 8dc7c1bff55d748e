/* Classifiers of the zoo exported as ONNX files and read back: the network that comes back has the
 * same tensors, the same loss in every one of five steps, and the same bits in weights and
 * optimiser state after them, dropout and running statistics included. */
#ifndef QN_TESTS_ONNX_ROUND_TRIP_H
#define QN_TESTS_ONNX_ROUND_TRIP_H

#include "base/rng.h"
#include "check.h"
#include "quern/quern.h"
#include "tensor/tensor.h"

#include <glob.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROUND_TRIP_BATCH = 4, ROUND_TRIP_STEPS = 5 };

static qn_trainer *round_trip_trainer(const qn_model *model, const qn_model *recipe) {
    qn_trainer_options options = qn_trainer_options_for(recipe);
    qn_trainer *trainer = NULL;
    options.model = model;
    options.input = recipe->input;
    options.n_outputs = qn_model_classes(recipe, recipe->input);
    options.batch = options.evaluation_batch = ROUND_TRIP_BATCH;
    options.engine.update.rate *= 0.1;
    options.engine.update.warmup = 0;
    options.engine.seed = 7;
    CHECK_OK(qn_trainer_create(&options, &trainer));
    return trainer;
}

static void check_same_tensors(const char *name, qn_trainer *ours, qn_trainer *theirs) {
    qn_engine *a = qn_trainer_engine(ours), *b = qn_trainer_engine(theirs);
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

static void train_both(const qn_model *model, qn_trainer *ours, qn_trainer *theirs) {
    const size_t n = ROUND_TRIP_BATCH * (size_t)qn_shape_count(model->input);
    float *x = malloc(n * sizeof *x);
    const int32_t y[ROUND_TRIP_BATCH] = {1, 0, 3, 2};
    check_same_tensors(model->name, ours, theirs);
    for (size_t i = 0; x && i < n; i++)
        x[i] = (float)qn_rng_normal(qn_rng_make(5, 6, 0), i);
    for (int step = 0; x && step < ROUND_TRIP_STEPS; step++) {
        qn_step_result a = {0}, b = {0};
        CHECK_OK(qn_trainer_step(ours, x, y, &a));
        CHECK_OK(qn_trainer_step(theirs, x, y, &b));
        CHECK(a.loss == b.loss && a.accuracy == b.accuracy);
    }
    check_same_tensors(model->name, ours, theirs);
    free(x);
}

static void check_round_trip(const qn_model *model, bool is_outside) {
    char path[] = "/tmp/quern-test-round-trip-XXXXXX", pattern[64];
    glob_t made;
    qn_trainer *ours = round_trip_trainer(model, model), *theirs;
    const qn_model *read = NULL;
    qn_onnx_network *network = NULL;
    const int descriptor = mkstemp(path);
    CHECK(descriptor >= 0 && close(descriptor) == 0);
    const qn_onnx_export_options options = {QN_OPTIONS_INIT(qn_onnx_export_options), .model = model,
                                            .engine = qn_trainer_engine(ours),
                                            .is_outside = is_outside};
    CHECK_OK(qn_onnx_export(&options, path));
    CHECK_OK(qn_onnx_open(&(qn_onnx_options){QN_OPTIONS_INIT(qn_onnx_options)}, path, &network));
    if (network)
        CHECK_OK(qn_onnx_model_of(network, &read));
    theirs = read ? round_trip_trainer(read, model) : NULL;
    if (ours && theirs)
        train_both(model, ours, theirs);
    qn_trainer_destroy(ours);
    qn_trainer_destroy(theirs);
    qn_onnx_close(network);
    snprintf(pattern, sizeof pattern, "%s*", path);
    CHECK(glob(pattern, 0, NULL, &made) == 0 && made.gl_pathc == 1 + (size_t)is_outside);
    for (size_t i = 0; i < made.gl_pathc; i++)
        unlink(made.gl_pathv[i]);
    globfree(&made);
}

/* Weights outside of the file that are cut while the network is in use: no engine begins with what
 * is left of them, and the file has no hash. */
static inline void check_cut_outside(const qn_model *model) {
    char path[] = "/tmp/quern-test-cut-XXXXXX", pattern[64], hash[QN_ONNX_HASH_TEXT];
    glob_t made;
    qn_trainer_options trained = qn_trainer_options_for(model);
    qn_trainer *none = NULL;
    qn_onnx_network *network = NULL;
    const int descriptor = mkstemp(path);
    CHECK(descriptor >= 0 && close(descriptor) == 0);
    const qn_onnx_export_options options = {QN_OPTIONS_INIT(qn_onnx_export_options), .model = model,
                                            .is_outside = true};
    CHECK_OK(qn_onnx_export(&options, path));
    CHECK_OK(qn_onnx_open(&(qn_onnx_options){QN_OPTIONS_INIT(qn_onnx_options)}, path, &network));
    snprintf(pattern, sizeof pattern, "%s.*", path);
    CHECK(glob(pattern, 0, NULL, &made) == 0 && made.gl_pathc == 1);
    CHECK_OK(qn_onnx_model_of(network, &trained.model));
    CHECK_OK(qn_onnx_hash(network, hash));
    CHECK(truncate(made.gl_pathv[0], 100) == 0);
    CHECK_FAILS(qn_trainer_create(&trained, &none), QN_ERROR_IO, "cut short");
    CHECK_FAILS(qn_onnx_hash(network, hash), QN_ERROR_IO, "cut short");
    qn_onnx_close(network);
    unlink(made.gl_pathv[0]);
    unlink(path);
    globfree(&made);
}

/* By name. */
static inline void check_round_trips(const char *const *names, int n) {
    for (int i = 0; i < n; i++) {
        const qn_model *model = qn_model_find(names[i]);
        CHECK(model != NULL);
        if (model)
            check_round_trip(model, false);
        printf("%s: %d checks, %d failed\n", names[i], checks_done, checks_failed);
    }
}

#endif
