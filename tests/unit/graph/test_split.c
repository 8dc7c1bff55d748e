/* Micro-batches against whole batches: after some steps equal bits of all tensors, losses and
 * counts, whatever the size of the pieces, the threads, the type and the instruction set; networks
 * that look at the whole batch are refused; a budget splits the batch by itself. */
#include "base/rng.h"
#include "check.h"
#include "os/os.h"
#include "quern/quern.h"
#include "small_models.h"

#include <stdlib.h>

/* What some steps leave behind. */
typedef struct outcome {
    uint64_t hash;
    double loss;
    qn_memory_use memory;
    qn_budget_use budget;
} outcome;

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n) {
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    return hash;
}

static void fill(const qn_trainer_options *o, int64_t step, void *x, int32_t *y) {
    int64_t size = o->batch;
    for (int i = 0; i < o->input.rank; i++)
        size *= o->input.dims[i];
    const qn_rng rng = qn_rng_make(7, 1, (uint64_t)step);
    for (int64_t i = 0; i < size; i++) {
        const double value = qn_rng_normal(rng, (uint64_t)i);
        if (o->engine.real == QN_F64)
            ((double *)x)[i] = value;
        else
            ((float *)x)[i] = (float)value;
    }
    for (int64_t i = 0; i < o->batch; i++)
        y[i] = (int32_t)qn_rng_below(rng, (uint64_t)(size + i), (uint64_t)o->n_outputs);
}

static uint64_t hash_tensors(const qn_engine *engine, uint64_t hash) {
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(engine, i);
        hash = hash_bytes(hash, t.data, t.bytes);
    }
    return hash;
}

static outcome train(const qn_trainer_options *options, int n_steps) {
    qn_trainer *trainer = NULL;
    outcome result = {.hash = 0xcbf29ce484222325u};
    qn_step_result step = {0};
    CHECK_OK(qn_trainer_create(options, &trainer));
    if (!trainer)
        exit(checks_finish());
    const qn_trainer_options *o = qn_trainer_get_options(trainer);
    qn_engine *engine = qn_trainer_engine(trainer);
    void *x = aligned_alloc(64, (qn_engine_input_at(engine, 0, 0).bytes + 63) / 64 * 64);
    int32_t *y = aligned_alloc(64, ((size_t)o->batch * sizeof *y + 63) / 64 * 64);
    for (int i = 0; i < n_steps; i++) {
        fill(o, i, x, y);
        CHECK_OK(qn_trainer_step(trainer, x, y, &step));
        result.hash = hash_bytes(result.hash, &step.loss, sizeof step.loss);
        result.hash = hash_bytes(result.hash, &step.accuracy, sizeof step.accuracy);
    }
    result.hash = hash_tensors(engine, result.hash);
    result.loss = step.loss;
    result.memory = qn_engine_get_memory(engine);
    result.budget = qn_engine_get_budget(engine);
    free(x);
    free(y);
    qn_trainer_destroy(trainer);
    return result;
}

/* Convolutions by Winograd, of few channels and of taps that do not fit, dropout, and a layer that
 * is larger than its samples. */
static qn_value mixed_build(qn_graph *graph, void *user, qn_value x, int n_outputs) {
    (void)user;
    x = qn_relu(graph, "relu1",
                qn_conv2d_layer(graph, "conv1", x, 32, qn_window_square(3, 1, 1), 1, true));
    x = qn_relu(graph, "relu2",
                qn_conv2d_layer(graph, "conv2", x, 32, qn_window_square(3, 1, 1), 1, true));
    x = qn_max_pool(graph, "pool1", x, qn_window_square(2, 2, 0));
    x = qn_dropout(graph, "drop1", x, 0.25);
    qn_value y = qn_conv2d_layer(graph, "conv3", x, 7, qn_window_square(3, 1, 1), 1, true);
    y = qn_average_pool(graph, "pool2", y, qn_window_square(2, 2, 0));
    qn_value z = qn_conv2d_layer(graph, "conv4", x, 70, qn_window_square(3, 2, 1), 1, false);
    x = qn_concat(graph, "both", (qn_value[]){y, z}, 2, -1);
    x = qn_dropout(graph, "drop2", qn_tanh(graph, "tanh", x), 0.5);
    return qn_linear_layer(graph, "fc", qn_flatten(graph, "flat", x), n_outputs);
}

static const qn_model mixed = {
    .name = "mixed",
    .input = {3, {16, 12, 3}},
    .n_classes = 5,
    .recipe = {.rate = 0.05, .momentum = 0.9, .epochs = 1, .batch = 24},
    .build = mixed_build,
};

static qn_trainer_options options_of(const qn_model *model, int64_t batch, qn_dtype real) {
    qn_trainer_options o = qn_trainer_options_for(model);
    o.batch = batch;
    o.evaluation_batch = 1;
    o.engine.real = real;
    o.engine.seed = 5;
    o.engine.n_threads = 2;
    return o;
}

/* A network in pieces of these sizes, ended by 0. */
static void check_model(const qn_model *model, int64_t batch, const int64_t *sizes, qn_dtype real) {
    qn_trainer_options o = options_of(model, batch, real);
    o.engine.update.clip_norm = 1;
    const outcome whole = train(&o, 2);
    for (; *sizes; sizes++) {
        o.engine.micro_batch = *sizes;
        o.engine.n_threads = 1 + (int)(*sizes % 3);
        const outcome split = train(&o, 2);
        CHECK(split.hash == whole.hash && split.loss == whole.loss);
        if (split.hash != whole.hash)
            printf("%s: %lld in pieces of %lld\n", model->name, (long long)batch,
                   (long long)*sizes);
    }
}

static void test_same_bits(void) {
    static const int64_t sizes[] = {12, 8, 6, 4, 3, 2, 1, 0}, few[] = {8, 2, 0};
    check_model(&mixed, 24, sizes, QN_F32);
    check_model(&mixed, 24, sizes, QN_F64);
    check_model(qn_model_find("mlp"), 16, few, QN_F32);
    check_model(qn_model_find("lenet5"), 32, few, QN_F32);
    check_model(qn_model_find("lenet5"), 32, few, QN_F64);
    if (!getenv("QUERN_SLOW"))
        check_model(qn_model_find("squeezenet"), 16, few, QN_F32);
}

/* Accumulated batches, each in pieces. */
static void test_accumulated(void) {
    qn_trainer_options o = options_of(&mixed, 8, QN_F32);
    o.engine.update.accumulate = 3;
    const outcome whole = train(&o, 6);
    o.engine.micro_batch = 2;
    CHECK(train(&o, 6).hash == whole.hash);
}

static void test_less_memory(void) {
    qn_trainer_options o = options_of(qn_model_find("squeezenet"), 32, QN_F32);
    const outcome whole = train(&o, 1);
    o.engine.micro_batch = 4;
    CHECK(3 * train(&o, 1).memory.arena_bytes < 2 * whole.memory.arena_bytes);
    o.engine.micro_batch = 0;
    o.engine.memory_budget_bytes = (whole.memory.peak_bytes + whole.memory.parameter_bytes) / 2;
    const outcome within = train(&o, 1);
    CHECK(within.hash == whole.hash);
    CHECK(within.budget.micro_batch > 0 || within.budget.n_again > 0);
    CHECK(within.memory.peak_bytes <= o.engine.memory_budget_bytes);
}

/* Within a part of what the whole batches take: bits, memory, and what the plans came to. */
static outcome check_within(qn_trainer_options o, const outcome *whole, size_t percent) {
    const size_t fixed = whole->memory.parameter_bytes;
    o.engine.memory_budget_bytes = fixed + (whole->memory.peak_bytes - fixed) / 100 * percent;
    const outcome within = train(&o, 4);
    CHECK(within.hash == whole->hash && within.loss == whole->loss);
    CHECK(within.memory.peak_bytes <= o.engine.memory_budget_bytes);
    CHECK(within.budget.micro_batch > 0 || within.budget.n_again > 0);
    return within;
}

/* Only planned: to the same plans. */
static void check_planned(qn_trainer_options o, const outcome *within) {
    qn_trainer *trainer = NULL;
    o.engine.memory_budget_bytes = within->budget.budget_bytes;
    o.engine.plan_only = true;
    CHECK_OK(qn_trainer_create(&o, &trainer));
    const qn_budget_use planned = qn_engine_get_budget(qn_trainer_engine(trainer));
    CHECK(planned.micro_batch == within->budget.micro_batch);
    CHECK(planned.n_again == within->budget.n_again);
    CHECK(planned.peak_bytes == within->budget.peak_bytes);
    qn_trainer_destroy(trainer);
}

/* A budget splits batches, accumulated ones too; not where the caller says the pieces, nor where
 * the budget may change. */
static void test_chosen(void) {
    enum { BATCH = 240 };
    qn_trainer_options o = options_of(&mixed, BATCH, QN_F32);
    o.engine.update.accumulate = 2;
    const outcome sums = train(&o, 4);
    CHECK(check_within(o, &sums, 50).budget.micro_batch > 0);
    o.engine.update.accumulate = 1;
    const outcome whole = train(&o, 4), within = check_within(o, &whole, 50);
    CHECK(within.budget.micro_batch > 0 && within.budget.micro_batch < BATCH);
    check_planned(o, &within);
    o.engine.micro_batch = BATCH;
    CHECK(check_within(o, &whole, 90).budget.micro_batch == 0);
    o.engine.micro_batch = 0;
    o.engine.budget_changes = true;
    const outcome changing = train(&o, 4);
    o.engine.memory_budget_bytes = changing.budget.peak_bytes / 10 * 9;
    const outcome less = train(&o, 4);
    CHECK(less.hash == whole.hash && less.budget.micro_batch == 0 && less.budget.n_again > 0);
}

static void test_refused(void) {
    qn_trainer *trainer = NULL;
    qn_trainer_options o = options_of(&small_conv, 6, QN_F32);
    o.engine.micro_batch = 3;
    CHECK_FAILS(qn_trainer_create(&o, &trainer), QN_ERROR_UNSUPPORTED, "bn1");
    o.engine.micro_batch = 4;
    CHECK_FAILS(qn_trainer_create(&o, &trainer), QN_ERROR_ARGUMENT, "do not divide");
    CHECK(!trainer);
}

int main(void) {
    static const char *const sets[] = {"ref", "avx2", "neon"};
    static const int64_t sizes[] = {8, 3, 0};
    test_same_bits();
    test_accumulated();
    test_less_memory();
    test_chosen();
    test_refused();
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        setenv("QUERN_ISA", sets[i], 1);
        qn_isa isa;
        if (qn_cpu_isa(&isa) == QN_OK)
            check_model(&mixed, 24, sizes, QN_F32);
    }
    return checks_finish();
}
