/* Steps whose loss is finite and whose gradient is not: they change nothing, in every way of
 * running a step, the error names the parameter, and the steps around them give the bits that they
 * give alone. Where a gradient grows from moderate numbers after updates were made, parameters stay
 * finite, and the trainer says that some have changed. */
#include "check.h"
#include "quern/quern.h"
#include "tensor/number.h"

#include <stdlib.h>
#include <string.h>

enum { BATCH = 6, WIDTH = 8, STEPS = 4 };

static _Alignas(64) float x[BATCH * WIDTH], targets[BATCH];

static qn_value wide_build(qn_graph *graph, void *user, qn_value in, int n_outputs) {
    (void)user;
    in = qn_linear_layer(graph, "first", in, WIDTH);
    in = qn_batch_norm_layer(graph, "norm", in, 1e-5);
    return qn_linear_layer(graph, "last", qn_relu(graph, "relu", in), n_outputs);
}

static qn_value narrow_build(qn_graph *graph, void *user, qn_value in, int n_outputs) {
    (void)user;
    return qn_linear_layer(graph, "fc", in, n_outputs);
}

static qn_value deep_build(qn_graph *graph, void *user, qn_value in, int n_outputs) {
    (void)user;
    for (int i = 0; i < 5; i++) {
        char name[8] = {'d', (char)('0' + i), 0};
        in = qn_linear_layer(graph, name, in, WIDTH);
    }
    return qn_linear_layer(graph, "last", in, n_outputs);
}

static qn_model model_of(qn_value (*build)(qn_graph *, void *, qn_value, int)) {
    return (qn_model){.name = "guarded",
                      .input = {1, {WIDTH}},
                      .n_classes = 1,
                      .recipe = {.rate = 1e-8, .momentum = 0.9, .epochs = 1, .batch = BATCH},
                      .build = build};
}

static qn_trainer_options options_of(const qn_model *model) {
    qn_trainer_options o = qn_trainer_options_for(model);
    o.regression = true;
    o.n_outputs = 1;
    o.engine.seed = 5;
    return o;
}

static void fill(int64_t index, float scale) {
    for (int i = 0; i < BATCH * WIDTH; i++)
        x[i] = scale * (float)((i * 7 + index * 3) % 11 - 5);
    for (int i = 0; i < BATCH; i++)
        targets[i] = (float)(i % 3);
}

static qn_trainer *make(const qn_trainer_options *o) {
    qn_trainer *trainer = NULL;
    CHECK_OK(qn_trainer_create(o, &trainer));
    if (!trainer)
        exit(checks_finish());
    return trainer;
}

static uint64_t hash_of(const qn_trainer *trainer) {
    const qn_engine *engine = qn_trainer_engine(trainer);
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(engine, i);
        for (size_t j = 0; j < t.bytes; j++)
            hash = (hash ^ ((const unsigned char *)t.data)[j]) * 0x100000001b3u;
    }
    return hash;
}

/* Small weights: a loss of 1e34 at inputs of 1e21, whose gradient is above the largest number. */
static void shrink(const qn_trainer *trainer, const char *name) {
    const qn_stored_tensor w = qn_engine_find(qn_trainer_engine(trainer), name);
    for (size_t i = 0; i < w.bytes / sizeof(float); i++)
        ((float *)w.data)[i] = 1e-5f * (float)(1 + i % 3);
}

static uint64_t train_alone(const qn_trainer_options *o) {
    qn_trainer *trainer = make(o);
    qn_step_result result;
    shrink(trainer, "fc.weight");
    for (int64_t i = 0; qn_trainer_steps(trainer) < STEPS; i++) {
        fill(i, 1);
        CHECK_OK(qn_trainer_step(trainer, x, targets, &result));
    }
    const uint64_t hash = hash_of(trainer);
    qn_trainer_destroy(trainer);
    return hash;
}

/* A bad batch before each good one; before the first of a step where several are one: it would give
 * up those before it, too. */
static void check_nothing_changes(const qn_trainer_options *o) {
    const uint64_t alone = train_alone(o);
    qn_trainer *trainer = make(o);
    qn_step_result result;
    shrink(trainer, "fc.weight");
    for (int64_t i = 0; qn_trainer_steps(trainer) < STEPS && i < 3 * STEPS; i++) {
        if (qn_engine_accumulated(qn_trainer_engine(trainer)) == 0) {
            const uint64_t before = hash_of(trainer);
            fill(i, 1e21f);
            CHECK_FAILS(qn_trainer_step(trainer, x, targets, &result), QN_ERROR_NUMERIC,
                        "the gradient of fc.weight is not finite, though the loss is");
            CHECK(strstr(qn_error_message(), "nothing was changed"));
            CHECK(qn_engine_is_sound(qn_trainer_engine(trainer)) && hash_of(trainer) == before);
        }
        fill(i, 1);
        CHECK_OK(qn_trainer_step(trainer, x, targets, &result));
    }
    CHECK(hash_of(trainer) == alone);
    qn_trainer_destroy(trainer);
}

static void test_nothing_changes(void) {
    const qn_model model = model_of(narrow_build);
    for (int i = 0; i < 24; i++) {
        qn_trainer_options o = options_of(&model);
        o.engine.update.optimizer = i % 2 ? QN_ADAM : QN_SGD;
        o.engine.n_threads = i % 4 < 2 ? 1 : 2;
        o.engine.update.accumulate = i / 4 == 1 ? 2 : 1;
        o.engine.update.clip_norm = i / 4 == 2 ? 1 : 0;
        o.engine.micro_batch = i / 4 == 3 ? BATCH / 2 : 0;
        o.engine.cores = i / 4 == 4 ? QN_CORES_MEASURED : QN_CORES_ONE_BY_ONE;
        o.engine.budget_changes = i / 4 == 5;
        check_nothing_changes(&o);
    }
}

/* The second batch of a step is given up alone where it was tried out before. */
static void test_accumulated(void) {
    const qn_model model = model_of(narrow_build);
    qn_trainer_options o = options_of(&model);
    qn_step_result result;
    o.engine.update.accumulate = 2;
    const uint64_t alone = train_alone(&o);
    qn_trainer *trainer = make(&o);
    shrink(trainer, "fc.weight");
    for (int64_t i = 0; qn_trainer_steps(trainer) < STEPS && i < 3 * STEPS; i++) {
        fill(i, 1);
        CHECK_OK(qn_trainer_step(trainer, x, targets, &result));
        fill(i, 1e21f);
        CHECK_FAILS(qn_trainer_step(trainer, x, targets, &result), QN_ERROR_NUMERIC, "fc.weight");
    }
    CHECK(hash_of(trainer) == alone);
    qn_trainer_destroy(trainer);
}

/* A variance above the largest number makes the rest of the network 0, and its loss is small. */
static void test_statistics(void) {
    const qn_model model = model_of(wide_build);
    for (int accumulate = 1; accumulate <= 2; accumulate++) {
        qn_trainer_options o = options_of(&model);
        qn_step_result result;
        o.engine.update.accumulate = accumulate;
        qn_trainer *trainer = make(&o);
        fill(0, 1);
        CHECK_OK(qn_trainer_step(trainer, x, targets, &result));
        const uint64_t before = hash_of(trainer);
        fill(0, 1e25f);
        CHECK_FAILS(qn_trainer_step(trainer, x, targets, &result), QN_ERROR_NUMERIC,
                    "nothing was changed");
        CHECK(qn_engine_is_sound(qn_trainer_engine(trainer)) && hash_of(trainer) == before);
        qn_trainer_destroy(trainer);
    }
}

/* Activations cancel out and their gradients do not: four layers multiply them by 2^56 each. */
static void explode(const qn_trainer *trainer) {
    const qn_engine *engine = qn_trainer_engine(trainer);
    for (int k = 0; k < 5; k++) {
        char name[16] = {'d', (char)('0' + k)};
        strcpy(name + 2, ".weight");
        float *w = qn_engine_find(engine, name).data;
        for (int i = 0; i < WIDTH * WIDTH; i++)
            w[i] = k == 0 ? 0 : (i + i / WIDTH) % 2 ? 0x1p56f : -0x1p56f;
        strcpy(name + 2, ".bias");
        float *b = qn_engine_find(engine, name).data;
        for (int i = 0; i < WIDTH; i++)
            b[i] = 1;
    }
}

/* No trial foresees it; without one, nothing is infinite either. */
static void test_explosion(void) {
    const qn_model model = model_of(deep_build);
    qn_trainer_options o = options_of(&model);
    qn_step_result result;
    o.engine.update.momentum = 0;
    qn_trainer *trainer = make(&o);
    explode(trainer);
    fill(0, 1);
    CHECK_FAILS(qn_trainer_step(trainer, x, targets, &result), QN_ERROR_NUMERIC,
                "is not finite, though the loss is");
    CHECK(strstr(qn_error_message(), "continue from a checkpoint"));
    CHECK(!qn_engine_is_sound(qn_trainer_engine(trainer)));
    for (int i = 0; i < qn_engine_tensor_count(qn_trainer_engine(trainer)); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(qn_trainer_engine(trainer), i);
        const int64_t n = qn_shape_count(t.shape);
        CHECK(qn_numbers_find_bad(t.dtype, t.data, n, false) == n);
    }
    qn_trainer_destroy(trainer);
    o.engine.update.accumulate = 2; /* updates are of sums, which begin anew */
    trainer = make(&o);
    explode(trainer);
    const uint64_t exploding = hash_of(trainer);
    CHECK_FAILS(qn_trainer_step(trainer, x, targets, &result), QN_ERROR_NUMERIC,
                "nothing was changed");
    CHECK(qn_engine_is_sound(qn_trainer_engine(trainer)) && hash_of(trainer) == exploding);
    qn_trainer_destroy(trainer);
    o.engine.update.accumulate = 1;
    o.engine.update.clip_norm = 1; /* all gradients are there before the first update */
    trainer = make(&o);
    explode(trainer);
    const uint64_t before = hash_of(trainer);
    CHECK_FAILS(qn_trainer_step(trainer, x, targets, &result), QN_ERROR_NUMERIC,
                "nothing was changed");
    CHECK(qn_engine_is_sound(qn_trainer_engine(trainer)) && hash_of(trainer) == before);
    qn_trainer_destroy(trainer);
}

/* A gradient whose norm is above the largest number: by a factor of 0 the step would be lost in
 * silence. */
static void test_norm(void) {
    const qn_model model = model_of(narrow_build);
    qn_trainer_options o = options_of(&model);
    qn_step_result result;
    o.engine.update.clip_norm = 1;
    qn_trainer *trainer = make(&o);
    shrink(trainer, "fc.weight");
    const uint64_t before = hash_of(trainer);
    fill(0, 1e12f);
    CHECK_FAILS(qn_trainer_step(trainer, x, targets, &result), QN_ERROR_NUMERIC, "fc.");
    CHECK(strstr(qn_error_message(), "nothing was changed"));
    CHECK(qn_engine_is_sound(qn_trainer_engine(trainer)) && hash_of(trainer) == before);
    fill(0, 1);
    CHECK_OK(qn_trainer_step(trainer, x, targets, &result));
    qn_trainer_destroy(trainer);
}

/* The same of the sums of several batches, each of which is finite. */
static void test_norm_of_sums(void) {
    const qn_model model = model_of(narrow_build);
    qn_trainer_options o = options_of(&model);
    qn_step_result result;
    o.engine.update.clip_norm = 1;
    o.engine.update.accumulate = 2;
    qn_trainer *trainer = make(&o);
    shrink(trainer, "fc.weight");
    const uint64_t before = hash_of(trainer);
    fill(0, 1e12f);
    CHECK_OK(qn_trainer_step(trainer, x, targets, &result));
    CHECK_FAILS(qn_trainer_step(trainer, x, targets, &result), QN_ERROR_NUMERIC, "fc.");
    CHECK(strstr(qn_error_message(), "nothing was changed"));
    CHECK(qn_engine_is_sound(qn_trainer_engine(trainer)) && hash_of(trainer) == before);
    fill(0, 1);
    CHECK_OK(qn_trainer_step(trainer, x, targets, &result));
    CHECK_OK(qn_trainer_step(trainer, x, targets, &result));
    CHECK(qn_engine_steps(qn_trainer_engine(trainer)) == 1);
    qn_trainer_destroy(trainer);
}

int main(void) {
    test_norm();
    test_norm_of_sums();
    test_nothing_changes();
    test_accumulated();
    test_statistics();
    test_explosion();
    return checks_finish();
}
