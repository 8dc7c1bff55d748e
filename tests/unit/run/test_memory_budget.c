/* An engine within a budget: all that it ever holds is inside, weights are the same bits, and what
 * is refused says a budget that does work. */
#include "base/status.h"
#include "check.h"
#include "failing.h"
#include "os/heap.h"
#include "os/os.h"
#include "quern/quern.h"
#include "run/engine.h"
#include "small_models.h"

#include <stdlib.h>

enum { STEPS = 3, THREADS = 2 };

/* A run of training: what it came to. */
typedef struct outcome {
    size_t peak_bytes, parameter_bytes;
    uint64_t weights; /* hash of all tensors */
    qn_evaluation evaluation;
    qn_budget_use use;
} outcome;

static qn_trainer_options options_for(const qn_model *model, int64_t batch, size_t budget) {
    qn_trainer_options o = qn_trainer_options_for(model);
    o.batch = batch;
    o.evaluation_batch = batch > 4 ? 4 : batch;
    o.engine.n_threads = THREADS;
    o.engine.memory_budget_bytes = budget;
    o.engine.aligned_inputs = true;
    return o;
}

static uint64_t hash_tensors(const qn_engine *engine) {
    uint64_t hash = 1469598103934665603u; /* FNV-1a */
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor tensor = qn_engine_tensor_at(engine, i);
        for (size_t k = 0; k < tensor.bytes; k++)
            hash = (hash ^ ((const unsigned char *)tensor.data)[k]) * 1099511628211u;
    }
    return hash;
}

static void *make_inputs(const qn_trainer_options *o, int32_t **labels) {
    const int64_t n = o->batch * qn_shape_count(o->input);
    float *x = NULL;
    CHECK_OK(qn_allocate(qn_allocator_default(), (size_t)n, sizeof *x, &x));
    CHECK_OK(qn_allocate(qn_allocator_default(), (size_t)o->batch, sizeof **labels, labels));
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)((i * 7919) % 1000) / 500 - 1;
    for (int64_t i = 0; i < o->batch; i++)
        (*labels)[i] = (int32_t)(i % 3);
    return x;
}

static void run_steps(qn_trainer *trainer, int64_t steps, outcome *out) {
    const qn_trainer_options *o = qn_trainer_get_options(trainer);
    int32_t *y = NULL;
    float *x = make_inputs(o, &y);
    for (int64_t i = 0; i < steps; i++) {
        qn_step_result result;
        CHECK_OK(qn_trainer_step(trainer, x, y, &result));
    }
    CHECK_OK(qn_trainer_evaluate(trainer, x, y, o->evaluation_batch, &out->evaluation));
    qn_release(qn_allocator_default(), x, (size_t)(o->batch * qn_shape_count(o->input)), sizeof *x);
    qn_release(qn_allocator_default(), y, (size_t)o->batch, sizeof *y);
}

/* So much of what is there beside parameters. */
static size_t part_of(const outcome *usual, size_t percent) {
    return usual->parameter_bytes + (usual->peak_bytes - usual->parameter_bytes) / 100 * percent;
}

/* Trains within a budget; 0: none. */
static qn_status train(qn_trainer_options o, outcome *out) {
    qn_counter counter;
    const qn_allocator allocator = qn_counter_init(&counter, qn_allocator_default());
    qn_trainer *trainer = NULL;
    *out = (outcome){0};
    o.engine.allocator = &allocator;
    QN_TRY(qn_trainer_create(&o, &trainer));
    run_steps(trainer, STEPS, out);
    qn_engine *engine = qn_trainer_engine(trainer);
    out->weights = hash_tensors(engine);
    out->use = qn_engine_get_budget(engine);
    out->parameter_bytes = qn_engine_get_memory(engine).parameter_bytes;
    out->peak_bytes = counter.peak_bytes;
    CHECK(counter.held_bytes == out->use.peak_bytes);
    qn_trainer_destroy(trainer);
    CHECK(counter.held_bytes == 0);
    return QN_OK;
}

static void check_equal(const outcome *a, const outcome *b) {
    CHECK(a->weights == b->weights);
    CHECK(memcmp(&a->evaluation.loss_sum, &b->evaluation.loss_sum, sizeof(double)) == 0);
    CHECK(a->evaluation.n_correct == b->evaluation.n_correct);
}

/* The budget that the last message names, or 0. */
static size_t named_budget(void) {
    const char *at = strstr(qn_error_message(), "--memory ");
    char *end;
    const size_t n = at ? strtoul(at + strlen("--memory "), &end, 10) : 0;
    return n == 0 ? 0 : *end == 'M' ? n << 20 : n << 10;
}

/* A budget that is refused names one that does; that is then used. */
static void check_refusal(const qn_trainer_options *o, const outcome *usual) {
    qn_trainer_options least = *o;
    outcome out;
    least.engine.memory_budget_bytes = named_budget();
    if (getenv("QUERN_SLOW")) /* a search by time finds less where the processor is kept busy */
        least.engine.memory_budget_bytes += least.engine.memory_budget_bytes / 16;
    CHECK(strstr(qn_error_message(), "is too small: "));
    CHECK(least.engine.memory_budget_bytes > o->engine.memory_budget_bytes);
    CHECK_OK(train(least, &out));
    CHECK(out.peak_bytes <= least.engine.memory_budget_bytes);
    check_equal(&out, usual);
}

/* The plan is another than the usual one: values are made again, or the batch is split. */
static bool is_smaller(const qn_budget_use *use) {
    return use->n_again > 0 || use->micro_batch > 0;
}

static void test_model(const qn_model *model, int64_t batch) {
    static const int percents[] = {75, 35, 1, 100, 50, 25};
    const int n = getenv("QUERN_ALL") ? 6 : getenv("QUERN_SLOW") && model != &small_conv ? 1 : 3;
    outcome usual;
    CHECK_OK(train(options_for(model, batch, 0), &usual));
    CHECK(usual.use.budget_bytes == 0 && usual.use.slowdown == 1);
    int n_refused = 0, n_smaller = 0;
    for (int i = 0; i < n; i++) {
        const qn_trainer_options o =
            options_for(model, batch, part_of(&usual, (size_t)percents[i]));
        outcome out;
        const qn_status status = train(o, &out);
        if (status != QN_OK) {
            CHECK(status == QN_ERROR_MEMORY);
            check_refusal(&o, &usual);
            n_refused++;
            continue;
        }
        check_equal(&out, &usual);
        CHECK(out.peak_bytes <= o.engine.memory_budget_bytes);
        CHECK(out.use.peak_bytes <= o.engine.memory_budget_bytes);
        CHECK(out.use.slowdown >= 1 && (out.use.n_again > 0) <= (out.use.slowdown > 1));
        CHECK(is_smaller(&out.use) >= (out.use.slowdown > 1));
        n_smaller += is_smaller(&out.use);
    }
    CHECK(n_refused < n && n_smaller > 0);
    CHECK(n_refused >= 1 || n == 1);
}

/* ---- the ways in ---- */

static void test_later(void) {
    qn_trainer_options o = options_for(&small_conv, 64, (size_t)1 << 30);
    static _Alignas(64) float x[64 * 8 * 8 * 3 + 1];
    static _Alignas(64) int32_t y[64];
    qn_trainer *trainer = NULL;
    qn_step_result result;
    o.engine.plan_later = true;
    CHECK_OK(qn_trainer_create(&o, &trainer));
    CHECK_FAILS(qn_trainer_step(trainer, x, y, &result), QN_ERROR_ARGUMENT, "no plan yet");
    CHECK(qn_engine_get_memory(qn_trainer_engine(trainer)).arena_bytes == 0);
    CHECK_FAILS(qn_engine_plan(qn_trainer_engine(trainer), (size_t)1 << 30), QN_ERROR_MEMORY,
                "too small");
    CHECK(named_budget() > (size_t)1 << 30);
    CHECK_OK(qn_engine_plan(qn_trainer_engine(trainer), (size_t)1 << 29));
    CHECK(qn_engine_get_budget(qn_trainer_engine(trainer)).peak_bytes > (size_t)1 << 29);
    CHECK_FAILS(qn_engine_plan(qn_trainer_engine(trainer), 0), QN_ERROR_ARGUMENT, "already");
    CHECK_FAILS(qn_trainer_step(trainer, x + 1, y, &result), QN_ERROR_ARGUMENT,
                "input is not "
                "aligned");
    CHECK_OK(qn_trainer_step(trainer, x, y, &result));
    qn_trainer_destroy(trainer);
}

/* An engine that only plans comes to the plans of one that runs. */
static void test_plan_only(void) {
    outcome usual;
    CHECK_OK(train(options_for(&small_conv, 512, 0), &usual));
    qn_trainer_options o = options_for(&small_conv, 512, part_of(&usual, 90));
    qn_trainer *runs = NULL, *plans = NULL;
    CHECK_OK(qn_trainer_create(&o, &runs));
    o.engine.plan_only = true;
    CHECK_OK(qn_trainer_create(&o, &plans));
    const qn_budget_use a = qn_engine_get_budget(qn_trainer_engine(runs));
    const qn_budget_use b = qn_engine_get_budget(qn_trainer_engine(plans));
    CHECK(a.peak_bytes == b.peak_bytes && a.n_again == b.n_again && a.n_again > 0);
    qn_trainer_destroy(runs);
    qn_trainer_destroy(plans);
}

/* A graph that was made anew is watched and resumed like the one that was built. */
static void test_watched(void) {
    outcome usual;
    CHECK_OK(train(options_for(&small_conv, 512, 0), &usual));
    qn_trainer_options o = options_for(&small_conv, 512, part_of(&usual, 90));
    qn_trainer *trainer = NULL;
    CHECK_OK(qn_trainer_create(&o, &trainer));
    const qn_engine *engine = qn_trainer_engine(trainer);
    int n_again = 0, n_passes[3] = {0};
    for (int i = 0; i < qn_engine_operation_count(engine, 0); i++) {
        const qn_operation operation = qn_engine_operation_at(engine, 0, i);
        n_again += strstr(operation.name, ".again") != NULL;
        n_passes[operation.pass]++;
    }
    CHECK(n_again > 0 && n_again == qn_engine_get_budget(engine).n_again);
    CHECK(n_passes[QN_PASS_FORWARD] > 0 && n_passes[QN_PASS_BACKWARD] > 0 &&
          n_passes[QN_PASS_UPDATE] > 0);
    qn_trainer_destroy(trainer);
}

/* The first allocations fail one by one, later ones here and there: planning is thousands of them.
 */
static void test_failures(void) {
    outcome usual;
    CHECK_OK(train(options_for(&small_conv, 512, 0), &usual));
    qn_trainer_options o = options_for(&small_conv, 512, part_of(&usual, 90));
    failing heap = {.left = 0};
    const qn_allocator a = {&heap, failing_allocate, failing_release};
    qn_status status = QN_ERROR_MEMORY;
    int64_t n = 0;
    o.engine.allocator = &a;
    for (; status == QN_ERROR_MEMORY && n < 100000; n += 1 + n / 25) {
        qn_trainer *trainer = NULL;
        heap = (failing){.left = n};
        status = qn_trainer_create(&o, &trainer);
        qn_trainer_destroy(trainer);
        if (heap.held_bytes != 0)
            CHECK(!"what was allocated before a failure is released");
    }
    CHECK(status == QN_OK && n > 100);
}

int main(void) {
    test_model(&small_conv, 512);
    test_model(qn_model_find("lenet5"), 512);
    if (!getenv("QUERN_SLOW"))
        test_model(qn_model_find("squeezenet"), 16);
    test_later();
    test_plan_only();
    test_watched();
    test_failures();
    return checks_finish();
}
