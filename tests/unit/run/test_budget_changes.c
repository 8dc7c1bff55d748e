/* Budgets that change while a trainer trains, asked for by another thread at any moment: a hundred
 * in a row, shrinking and growing, at steps and in their middle; parameters have equal bits as
 * without any, and what is held keeps within each budget once it is in force. Then what is refused,
 * a change between two steps, evaluation between, accumulated batches, and failing allocations. */
#include "base/rng.h"
#include "check.h"
#include "failing.h"
#include "os/os.h"
#include "quern/quern.h"
#include "run/rebudget/live_budget.h"

#include <stdlib.h>

/* How many budgets, and how far apart the allocations are that fail. */
#ifdef __SANITIZE_THREAD__
enum { CHANGES = 8, APART = 149 }; /* what looks for races is slow */
#elif defined(__SANITIZE_ADDRESS__)
enum { CHANGES = 12, APART = 61 };
#else
enum { CHANGES = 100, APART = 29 };
#endif

enum { BATCH = 12, SAMPLE = 12 * 12 * 3, MOST_STEPS = 100000 };

/* Features take most of its memory: convolutions, batch norm, a join, dropout. */
static qn_value build(qn_graph *g, void *user, qn_value x, int n_outputs) {
    const qn_window window = qn_window_square(3, 1, 1);
    (void)user;
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "conv%d", i);
        qn_value y = qn_conv2d_layer(g, name, x, 12, window, 1, false);
        snprintf(name, sizeof name, "norm%d", i);
        y = qn_relu(g, NULL, qn_batch_norm_layer(g, name, y, 1e-5));
        x = qn_concat(g, NULL, (qn_value[]){x, y}, 2, -1);
    }
    x = qn_dropout(g, "drop", qn_max_pool(g, NULL, x, qn_window_square(2, 2, 0)), 0.25);
    x = qn_tanh(g, NULL, qn_linear_layer(g, "fc1", x, 10));
    return qn_linear_layer(g, "fc2", x, n_outputs);
}

static const qn_model network = {
    .name = "joined", .input = {3, {12, 12, 3}}, .n_classes = 4, .build = build};

static float batch_x[BATCH * SAMPLE];
static int32_t batch_y[BATCH];

static void make_batch(int64_t step) {
    const qn_rng rng = qn_rng_make(3, 5, (uint64_t)step);
    for (int i = 0; i < BATCH * SAMPLE; i++)
        batch_x[i] = qn_rng_uniform(qn_rng_word(rng, (uint64_t)i)) - 0.5f;
    for (int i = 0; i < BATCH; i++)
        batch_y[i] = (int32_t)(qn_rng_word(rng, (uint64_t)(BATCH * SAMPLE + i)) % 4);
}

static qn_trainer *create(const qn_allocator *allocator, bool changes, int64_t accumulate) {
    qn_trainer_options o = qn_trainer_options_for(&network);
    qn_trainer *trainer = NULL;
    o.engine.allocator = allocator;
    o.batch = BATCH;
    o.n_outputs = 4;
    o.engine.update.rate = 0.01;
    o.engine.update.momentum = 0.9;
    o.engine.update.accumulate = accumulate;
    o.engine.n_threads = 2;
    o.engine.seed = 9;
    o.engine.budget_changes = changes;
    if (qn_trainer_create(&o, &trainer) != QN_OK)
        return NULL;
    return trainer;
}

static void do_step(qn_trainer *trainer, int64_t step) {
    qn_step_result result;
    make_batch(step);
    CHECK_OK(qn_trainer_step(trainer, batch_x, batch_y, &result));
}

static uint64_t sum_tensors(qn_engine *engine) {
    uint64_t sum = 0xcbf29ce484222325u;
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(engine, i);
        const uint8_t *data = t.data;
        for (size_t b = 0; b < t.bytes; b++)
            sum = (sum ^ data[b]) * 0x100000001b3u;
    }
    return sum;
}

/* Of a trainer without budgets after so many steps. */
static uint64_t train_plainly(int64_t n_steps, int64_t accumulate) {
    qn_trainer *trainer = create(NULL, false, accumulate);
    for (int64_t step = 0; step < n_steps; step++)
        do_step(trainer, step);
    const uint64_t sum = sum_tensors(qn_trainer_engine(trainer));
    qn_trainer_destroy(trainer);
    return sum;
}

/* ---- another thread asks ---- */

typedef struct asking {
    qn_trainer *trainer;
    qn_engine *engine;
    size_t least, most;
    int n_changes, n_inside, n_shrunk, n_grown; /* of the thread that trains */
    int64_t n_again;
    size_t moved_bytes;
    int is_done;   /* atomic: changes that were made */
    int n_refused; /* of the thread that asks */
} asking;

static void note_change(void *user, const qn_budget_change *change) {
    asking *a = user;
    const qn_memory_use use = qn_engine_get_memory(a->engine);
    CHECK(use.held_bytes <= change->to_bytes);
    a->n_changes++;
    a->n_inside += change->kept_bytes > 0;
    a->n_shrunk += change->to_bytes < change->from_bytes;
    a->n_grown += change->to_bytes > change->from_bytes;
    a->n_again += change->n_again;
    a->moved_bytes += change->moved_bytes;
    CHECK(change->ns > 0 && change->n_waited >= 0);
    __atomic_add_fetch(&a->is_done, 1, __ATOMIC_RELEASE);
}

static void wait_for_change(const asking *a, int wanted) {
    const int64_t until = qn_clock_ns() + 20000000000;
    while (__atomic_load_n(&a->is_done, __ATOMIC_ACQUIRE) < wanted && qn_clock_ns() < until)
        ;
}

static void ask(void *context) {
    asking *a = context;
    const qn_rng rng = qn_rng_make(21, 2, 0);
    uint64_t drawn = 0;
    for (int made = 0; made < CHANGES; made++) {
        const size_t bytes =
            a->least + (size_t)(qn_rng_word(rng, drawn++) % (uint64_t)(a->most - a->least));
        a->n_refused += qn_trainer_set_budget(a->trainer, bytes) != QN_OK;
        wait_for_change(a, made + 1);
    }
}

/* The least budget, as the refusal of one that is too little says it, and an eighth more: the plan
 * for it is looked for again, and the search goes by time, of which an instrumented program needs
 * more. */
static size_t find_least(qn_trainer *trainer) {
    double size = 0;
    char unit = 0;
    CHECK_FAILS(qn_trainer_set_budget(trainer, 1000), QN_ERROR_MEMORY, "too small");
    const char *text = strstr(qn_error_message(), "about ");
    CHECK(text && sscanf(text + 6, "%lf %c", &size, &unit) == 2);
    return (size_t)(size * 1.125 * (unit == 'M' ? 1048576 : 1024));
}

static void test_many(int64_t accumulate) {
    asking a = {.trainer = create(NULL, true, accumulate)};
    qn_thread *thread;
    int64_t step = 0;
    CHECK(a.trainer);
    a.engine = qn_trainer_engine(a.trainer);
    do_step(a.trainer, step++);
    qn_live_budget_wait(a.engine); /* what is made ahead is held, what made it no more */
    a.most = qn_engine_get_memory(a.engine).held_bytes + 500000;
    a.least = find_least(a.trainer);
    CHECK(a.least < a.most);
    qn_engine_on_budget(a.engine, note_change, &a);
    CHECK_OK(qn_thread_start(NULL, ask, &a, &thread));
    for (; a.n_changes < CHANGES && step < MOST_STEPS; step++)
        do_step(a.trainer, step);
    qn_thread_join(thread);
    CHECK(a.n_refused == 0);
    CHECK(a.n_changes == CHANGES && a.n_shrunk > CHANGES / 5 && a.n_grown > CHANGES / 5 &&
          a.n_inside > CHANGES / 10);
    CHECK(sum_tensors(a.engine) == train_plainly(step, accumulate));
    printf("%lld steps, %d changes inside of a step, %lld operations ran again, %zu bytes moved\n",
           (long long)step, a.n_inside, (long long)a.n_again, a.moved_bytes);
    qn_trainer_destroy(a.trainer);
}

/* ---- on one thread ---- */

static void test_between_steps(void) {
    qn_trainer *trainer = create(NULL, true, 1);
    qn_engine *engine = qn_trainer_engine(trainer);
    float outputs[BATCH * 4];
    do_step(trainer, 0);
    const size_t full = qn_engine_get_memory(engine).arena_bytes;
    const size_t few = find_least(trainer);
    CHECK_OK(qn_trainer_set_budget(trainer, few));
    do_step(trainer, 1);
    CHECK(qn_engine_get_memory(engine).held_bytes <= few);
    CHECK(qn_engine_get_budget(engine).budget_bytes == few);
    CHECK_OK(qn_trainer_predict(trainer, batch_x, outputs));
    CHECK_FAILS(qn_trainer_set_budget(trainer, 1000), QN_ERROR_MEMORY, "the previous budget stays");
    do_step(trainer, 2);
    CHECK_OK(qn_trainer_set_budget(trainer, 0));
    CHECK_OK(qn_trainer_predict(trainer, batch_x, outputs));
    CHECK(qn_engine_get_memory(engine).arena_bytes == full);
    do_step(trainer, 3);
    CHECK(sum_tensors(engine) == train_plainly(4, 1));
    qn_trainer_destroy(trainer);
}

static void test_fixed(void) {
    qn_trainer *trainer = create(NULL, false, 1);
    CHECK_FAILS(qn_trainer_set_budget(trainer, 1 << 30), QN_ERROR_ARGUMENT, "budget_changes");
    qn_trainer_destroy(trainer);
}

/* The n-th allocation of making the trainer, changing its budget and training on fails: either all
 * goes on with equal bits, or there is no trainer; nothing is lost. */
static void test_allocation_failure(uint64_t wanted) {
    int n_failed = 0;
    for (int64_t left = 0; left < 600; left += left < 20 && APART < 100 ? 1 : APART) {
        failing f = {.left = INT64_MAX};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        qn_trainer *trainer = create(&allocator, true, 1);
        CHECK(trainer);
        do_step(trainer, 0);
        const size_t few = qn_engine_get_memory(qn_trainer_engine(trainer)).held_bytes * 9 / 10;
        __atomic_store_n(&f.left, left, __ATOMIC_RELAXED); /* plans are made ahead */
        const qn_status status = qn_trainer_set_budget(trainer, few);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        n_failed += status != QN_OK && !strstr(qn_error_message(), "too small");
        do_step(trainer, 1);
        __atomic_store_n(&f.left, INT64_MAX, __ATOMIC_RELAXED);
        do_step(trainer, 2);
        CHECK(sum_tensors(qn_trainer_engine(trainer)) == wanted);
        qn_trainer_destroy(trainer);
        CHECK(f.held_bytes == 0);
    }
    CHECK(n_failed > (APART < 100 ? 3 : 0));
}

int main(void) {
    test_fixed();
    test_between_steps();
    test_many(1);
    test_many(2);
    test_allocation_failure(train_plainly(3, 1));
    return checks_finish();
}
