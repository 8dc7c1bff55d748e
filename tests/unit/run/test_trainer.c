/* The trainer against itself (same bits over threads and runs, accumulation), against optimisers
 * written out here, and against bad input. */
#include "base/rng.h"
#include "check.h"
#include "quern/quern.h"
#include "small_models.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_X = 64 * 8 * 8 * 3, MAX_BATCH = 64 };

typedef struct batch {
    _Alignas(64) float x[MAX_X];
    _Alignas(64) int32_t y[MAX_BATCH];
} batch;

/* Batch `index` of a learnable task: the class shifts the mean. */
static void fill(batch *b, const qn_trainer_options *o, int64_t index) {
    int64_t n = 1;
    for (int i = 0; i < o->input.rank; i++)
        n *= o->input.dims[i];
    qn_rng rng = qn_rng_make(7, 1, (uint64_t)index);
    for (int64_t s = 0; s < o->batch; s++) {
        b->y[s] = (int32_t)qn_rng_below(rng, (uint64_t)s, 3);
        for (int64_t i = 0; i < n; i++)
            b->x[s * n + i] = (float)(qn_rng_normal(rng, (uint64_t)(s * n + i) + 1000) +
                                      (i % 3 == b->y[s] ? 1.0 : 0.0));
    }
}

static qn_trainer *make(const qn_trainer_options *options) {
    qn_trainer *trainer = NULL;
    CHECK_OK(qn_trainer_create(options, &trainer));
    if (!trainer)
        exit(checks_finish());
    return trainer;
}

static uint64_t hash_of(const qn_trainer *trainer) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = 0; i < qn_engine_tensor_count(qn_trainer_engine(trainer)); i++) {
        qn_stored_tensor t = qn_engine_tensor_at(qn_trainer_engine(trainer), i);
        for (size_t j = 0; j < t.bytes; j++)
            hash = (hash ^ ((const unsigned char *)t.data)[j]) * 0x100000001b3u;
    }
    return hash;
}

/* Runs steps and returns a hash of all tensors. */
static uint64_t train(const qn_trainer_options *options, int64_t n_steps, double *last_loss) {
    static batch b;
    qn_trainer *trainer = make(options);
    qn_step_result result = {0};
    for (int64_t i = 0; qn_trainer_steps(trainer) < n_steps; i++) {
        fill(&b, qn_trainer_get_options(trainer), i);
        CHECK_OK(qn_trainer_step(trainer, b.x, b.y, &result));
    }
    *last_loss = result.loss;
    const uint64_t hash = hash_of(trainer);
    qn_trainer_destroy(trainer);
    return hash;
}

static void test_same_bits(void) {
    qn_trainer_options o = qn_trainer_options_for(&small_conv);
    double loss, other_loss;
    o.engine.seed = 3;
    for (int optimizer = QN_SGD; optimizer <= QN_ADAMW; optimizer++) {
        o.engine.update.optimizer = (qn_optimizer)optimizer;
        o.engine.update.clip_norm = optimizer == QN_ADAM ? 0.5 : 0;
        o.engine.n_threads = 1;
        const uint64_t hash = train(&o, 20, &loss);
        for (o.engine.n_threads = 2; o.engine.n_threads <= 4; o.engine.n_threads++) {
            CHECK(train(&o, 20, &other_loss) == hash);
            CHECK(loss == other_loss);
        }
        o.engine.seed++;
        CHECK(train(&o, 20, &other_loss) != hash);
        o.engine.seed--;
    }
}

static void test_learns(void) {
    qn_trainer_options o = qn_trainer_options_for(&small_conv);
    double first, last;
    o.batch = 32;
    o.engine.n_threads = 2;
    train(&o, 1, &first);
    train(&o, 60, &last);
    CHECK(last < 0.5 * first);
}

/* Two batches accumulated are one of twice the size where no batch norm is. */
static void test_accumulation(void) {
    static batch whole, half;
    qn_trainer_options o = qn_trainer_options_for(&small_linear);
    o.engine.real = QN_F32;
    o.engine.update.momentum = 0.9;
    o.engine.update.weight_decay = 0.01;
    qn_trainer *big = make(&o);
    o.batch = 4;
    o.engine.update.accumulate = 2;
    qn_trainer *small = make(&o);
    for (int step = 0; step < 5; step++) {
        qn_step_result a, b;
        fill(&whole, qn_trainer_get_options(big), step);
        CHECK_OK(qn_trainer_step(big, whole.x, whole.y, &a));
        for (int part = 0; part < 2; part++) {
            memcpy(half.x, whole.x + part * 16, 16 * sizeof(float));
            memcpy(half.y, whole.y + part * 4, 4 * sizeof(int32_t));
            CHECK_OK(qn_trainer_step(small, half.x, half.y, &b));
            CHECK(b.completed == (part == 1));
        }
        CHECK(b.step == a.step);
        CHECK(fabs(a.loss - b.loss) < 1e-6);
    }
    for (int i = 0; i < qn_engine_tensor_count(qn_trainer_engine(big)); i++) {
        const float *a = qn_engine_tensor_at(qn_trainer_engine(big), i).data;
        for (int j = 0; j < qn_engine_tensor_count(qn_trainer_engine(small)); j++) {
            qn_stored_tensor t = qn_engine_tensor_at(qn_trainer_engine(small), j);
            if (strcmp(t.name, qn_engine_tensor_at(qn_trainer_engine(big), i).name) != 0)
                continue;
            for (size_t k = 0; k < t.bytes / sizeof(float); k++)
                CHECK(fabsf(a[k] - ((const float *)t.data)[k]) < 1e-6f);
        }
    }
    qn_trainer_destroy(big);
    qn_trainer_destroy(small);
}

/* One linear layer in double, its softmax gradient and the optimisers written out by hand. */
typedef struct by_hand {
    double w[15], m[15], v[15]; /* weight (3, 4), then bias (3) */
} by_hand;

static void hand_gradient(const by_hand *h, const double *x, const int32_t *y, int n, double *g) {
    memset(g, 0, 15 * sizeof *g);
    for (int s = 0; s < n; s++) {
        double e[3], sum = 0;
        for (int k = 0; k < 3; k++) {
            double z = h->w[12 + k];
            for (int c = 0; c < 4; c++)
                z += h->w[k * 4 + c] * x[s * 4 + c];
            sum += e[k] = exp(z);
        }
        for (int k = 0; k < 3; k++) {
            double d = (e[k] / sum - (k == y[s])) / n;
            g[12 + k] += d;
            for (int c = 0; c < 4; c++)
                g[k * 4 + c] += d * x[s * 4 + c];
        }
    }
}

static void hand_update(by_hand *h, const qn_trainer_options *o, double *g, int step) {
    double norm = 0, rate = o->engine.update.rate;
    for (int i = 0; i < 15; i++)
        norm += g[i] * g[i];
    for (int i = 0; i < 15; i++) {
        if (o->engine.update.clip_norm > 0 && sqrt(norm) > o->engine.update.clip_norm)
            g[i] *= o->engine.update.clip_norm / sqrt(norm);
        if (o->engine.update.optimizer == QN_ADAMW)
            h->w[i] -= rate * o->engine.update.weight_decay * h->w[i];
        else
            g[i] += o->engine.update.weight_decay * h->w[i];
        if (o->engine.update.optimizer == QN_SGD) {
            h->m[i] = o->engine.update.momentum * h->m[i] + g[i];
            h->w[i] -=
                rate *
                (o->engine.update.nesterov ? g[i] + o->engine.update.momentum * h->m[i] : h->m[i]);
            continue;
        }
        h->m[i] = 0.9 * h->m[i] + 0.1 * g[i];
        h->v[i] = 0.999 * h->v[i] + 0.001 * g[i] * g[i];
        h->w[i] -= rate * (h->m[i] / (1 - pow(0.9, step + 1))) /
                   (sqrt(h->v[i] / (1 - pow(0.999, step + 1))) + 1e-8);
    }
}

static const double *tensor(const qn_trainer *trainer, const char *name) {
    for (int i = 0; i < qn_engine_tensor_count(qn_trainer_engine(trainer)); i++) {
        if (strcmp(qn_engine_tensor_at(qn_trainer_engine(trainer), i).name, name) == 0)
            return qn_engine_tensor_at(qn_trainer_engine(trainer), i).data;
    }
    CHECK(!"a tensor of that name");
    exit(checks_finish());
}

static void compare_by_hand(qn_trainer_options o) {
    static batch b;
    _Alignas(64) static double x[8 * 4];
    by_hand h = {0};
    double g[15];
    o.model = &small_linear;
    o.engine.real = QN_F64;
    o.batch = 8;
    qn_trainer *trainer = make(&o);
    memcpy(h.w, tensor(trainer, "fc.weight"), 12 * sizeof(double));
    memcpy(h.w + 12, tensor(trainer, "fc.bias"), 3 * sizeof(double));
    for (int step = 0; step < 10; step++) {
        qn_step_result result;
        fill(&b, qn_trainer_get_options(trainer), step);
        for (int i = 0; i < 32; i++)
            x[i] = b.x[i];
        hand_gradient(&h, x, b.y, 8, g);
        hand_update(&h, &o, g, step);
        CHECK_OK(qn_trainer_step(trainer, x, b.y, &result));
    }
    for (int i = 0; i < 12; i++)
        CHECK(fabs(h.w[i] - tensor(trainer, "fc.weight")[i]) < 1e-12);
    for (int i = 0; i < 3; i++)
        CHECK(fabs(h.w[12 + i] - tensor(trainer, "fc.bias")[i]) < 1e-12);
    qn_trainer_destroy(trainer);
}

static void test_optimizers(void) {
    compare_by_hand((qn_trainer_options){QN_TRAINER_OPTIONS_INIT, .engine.update.rate = 0.3});
    compare_by_hand((qn_trainer_options){QN_TRAINER_OPTIONS_INIT, .engine.update.rate = 0.3,
                                         .engine.update.momentum = 0.9,
                                         .engine.update.weight_decay = 0.02});
    compare_by_hand((qn_trainer_options){QN_TRAINER_OPTIONS_INIT, .engine.update.rate = 0.3,
                                         .engine.update.momentum = 0.9,
                                         .engine.update.nesterov = true});
    compare_by_hand((qn_trainer_options){QN_TRAINER_OPTIONS_INIT, .engine.update.rate = 0.3,
                                         .engine.update.momentum = 0.5,
                                         .engine.update.clip_norm = 0.1});
    compare_by_hand((qn_trainer_options){QN_TRAINER_OPTIONS_INIT, .engine.update.rate = 0.05,
                                         .engine.update.optimizer = QN_ADAM,
                                         .engine.update.weight_decay = 0.02});
    compare_by_hand((qn_trainer_options){QN_TRAINER_OPTIONS_INIT, .engine.update.rate = 0.05,
                                         .engine.update.optimizer = QN_ADAMW,
                                         .engine.update.weight_decay = 0.1});
}

static double rate_at(qn_schedule schedule, int64_t step) {
    static batch b;
    qn_trainer_options o = qn_trainer_options_for(&small_linear);
    o.engine.update.rate = 1;
    o.engine.update.schedule = schedule;
    o.engine.update.warmup = 10;
    o.engine.update.schedule_steps = 100;
    qn_trainer *trainer = make(&o);
    qn_step_result result = {0};
    qn_engine_set_steps(qn_trainer_engine(trainer), step);
    fill(&b, &o, 0);
    CHECK_OK(qn_trainer_step(trainer, b.x, b.y, &result));
    qn_trainer_destroy(trainer);
    return result.rate;
}

static void test_schedules(void) {
    CHECK(fabs(rate_at(QN_CONSTANT, 0) - 0.1) < 1e-12);
    CHECK(fabs(rate_at(QN_COSINE, 9) - 1) < 1e-12);
    CHECK(rate_at(QN_CONSTANT, 99) == 1);
    CHECK(fabs(rate_at(QN_COSINE, 55) - 0.5) < 1e-12);
    CHECK(rate_at(QN_COSINE, 100) < 1e-12);
    CHECK(rate_at(QN_STEP, 39) == 1);
    CHECK(fabs(rate_at(QN_STEP, 41) - 0.1) < 1e-12);
    CHECK(fabs(rate_at(QN_STEP, 90) - 0.01) < 1e-12);
}

static void test_evaluation(void) {
    static batch b;
    qn_trainer_options o = qn_trainer_options_for(&small_conv);
    o.evaluation_batch = 4;
    qn_trainer *trainer = make(&o);
    qn_evaluation all = {0}, parts = {0};
    float chances[4 * 5];
    fill(&b, &o, 0);
    CHECK_OK(qn_trainer_evaluate(trainer, b.x, b.y, 3, &all));
    for (int i = 0; i < 3; i++)
        CHECK_OK(qn_trainer_evaluate(trainer, b.x + i * 192, b.y + i, 1, &parts));
    CHECK(all.n_samples == 3 && parts.n_samples == 3);
    CHECK(all.n_correct == parts.n_correct);
    CHECK(fabs(all.loss_sum - parts.loss_sum) < 1e-5);
    CHECK_OK(qn_trainer_predict(trainer, b.x, chances));
    for (int i = 0; i < 4; i++) {
        float sum = 0;
        for (int c = 0; c < 5; c++)
            sum += chances[i * 5 + c];
        CHECK(fabsf(sum - 1) < 1e-5f);
    }
    /* A batch that is not aligned is copied: same result. */
    qn_evaluation moved = {0};
    memmove(b.x + 1, b.x, 4 * 192 * sizeof(float));
    CHECK_OK(qn_trainer_evaluate(trainer, b.x + 1, b.y, 3, &moved));
    CHECK(moved.loss_sum == all.loss_sum);
    qn_trainer_destroy(trainer);
}

static void test_bad_input(void) {
    static batch b;
    qn_trainer_options o = qn_trainer_options_for(&small_linear);
    qn_trainer *trainer = NULL;
    o.batch = 0;
    CHECK_FAILS(qn_trainer_create(&o, &trainer), QN_ERROR_ARGUMENT, "batch");
    o.batch = 8;
    o.engine.update.rate = NAN;
    CHECK_FAILS(qn_trainer_create(&o, &trainer), QN_ERROR_ARGUMENT, "learning rate");
    o.engine.update.rate = 0.1;
    o.engine.update.nesterov = true;
    CHECK_FAILS(qn_trainer_create(&o, &trainer), QN_ERROR_ARGUMENT, "nesterov");
    o.engine.update.nesterov = false;
    CHECK(trainer == NULL);
    trainer = make(&o);
    qn_step_result result;
    fill(&b, &o, 0);
    b.y[2] = 3;
    CHECK_FAILS(qn_trainer_step(trainer, b.x, b.y, &result), QN_ERROR_ARGUMENT, "class 3");
    b.y[2] = 1;
    for (int i = 0; i < MAX_X; i++) /* finite, with a loss that is not */
        b.x[i] = 3e38f;
    CHECK_FAILS(qn_trainer_step(trainer, b.x, b.y, &result), QN_ERROR_NUMERIC, "step 1");
    qn_trainer_destroy(trainer);
}

/* A sample that is no number is refused before anything is changed, wherever in the batch it is:
 * the steps around it give the bits that they give without it. */
static void test_bad_samples(void) {
    static batch b;
    static const double bad[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    for (int accumulate = 1; accumulate <= 2; accumulate++) {
        qn_trainer_options o = qn_trainer_options_for(&small_conv);
        double loss;
        o.engine.update.accumulate = accumulate;
        const uint64_t hash = train(&o, 4, &loss);
        qn_trainer *trainer = make(&o);
        qn_step_result result = {0};
        const int64_t n = o.batch * 8 * 8 * 3;
        for (int64_t i = 0; i < 4 * accumulate; i++) {
            fill(&b, &o, i);
            const int64_t at = i % 2 ? n - 1 - i : i * 100;
            const float good = b.x[at];
            b.x[at] = (float)bad[i % 3];
            CHECK_FAILS(qn_trainer_step(trainer, b.x, b.y, &result), QN_ERROR_ARGUMENT, "sample");
            CHECK(qn_engine_is_sound(qn_trainer_engine(trainer)));
            b.x[at] = good;
            CHECK_OK(qn_trainer_step(trainer, b.x, b.y, &result));
        }
        CHECK(result.loss == loss && hash_of(trainer) == hash);
        qn_trainer_destroy(trainer);
    }
}

/* The same of samples that are numbers, with a loss that is none: weights and running means are as
 * before, and the steps around them give the bits that they give without them. Where operations
 * side by side update before the loss is there, the trainer says that it is spoiled. */
static void check_overflow(qn_trainer_options o) {
    static batch b, large;
    double loss;
    const uint64_t hash = train(&o, 4, &loss);
    qn_trainer *trainer = make(&o);
    qn_step_result result = {0};
    fill(&large, &o, 0);
    for (int i = 0; i < MAX_X; i++)
        large.x[i] = 3e38f;
    for (int64_t i = 0; qn_trainer_steps(trainer) < 4 && i < 8; i++) {
        const uint64_t before = hash_of(trainer);
        CHECK_FAILS(qn_trainer_step(trainer, large.x, large.y, &result), QN_ERROR_NUMERIC,
                    "the loss is ");
        if (o.engine.cores == QN_CORES_MEASURED && !qn_engine_is_sound(qn_trainer_engine(trainer)))
            break;
        CHECK(strstr(qn_error_message(), "nothing was changed"));
        CHECK(qn_engine_is_sound(qn_trainer_engine(trainer)) && hash_of(trainer) == before);
        fill(&b, &o, i);
        CHECK_OK(qn_trainer_step(trainer, b.x, b.y, &result));
    }
    if (qn_engine_is_sound(qn_trainer_engine(trainer)))
        CHECK(result.loss == loss && hash_of(trainer) == hash);
    qn_trainer_destroy(trainer);
}

static void test_overflow(void) {
    for (int i = 0; i < 6; i++) {
        qn_trainer_options o = qn_trainer_options_for(&small_conv);
        o.engine.n_threads = i < 3 ? 1 : 2;
        o.engine.update.accumulate = i % 3 == 1 ? 2 : 1;
        o.engine.update.clip_norm = i % 3 == 2 ? 0.5 : 0;
        o.engine.cores = i == 5 ? QN_CORES_MEASURED : QN_CORES_ONE_BY_ONE;
        check_overflow(o);
    }
}

/* The same of targets that are numbers. */
static void test_bad_targets(void) {
    static batch b;
    _Alignas(64) float targets[3 * MAX_BATCH] = {0};
    qn_trainer_options o = qn_trainer_options_for(&small_linear);
    qn_step_result result;
    o.regression = true;
    qn_trainer *trainer = make(&o);
    const uint64_t hash = hash_of(trainer);
    fill(&b, &o, 0);
    targets[4] = NAN;
    CHECK_FAILS(qn_trainer_step(trainer, b.x, targets, &result), QN_ERROR_ARGUMENT,
                "nan in its target");
    CHECK(hash_of(trainer) == hash && qn_trainer_steps(trainer) == 0);
    targets[4] = 0;
    CHECK_OK(qn_trainer_step(trainer, b.x, targets, &result));
    qn_trainer_destroy(trainer);
}

static void test_memory(void) {
    qn_trainer_options o = qn_trainer_options_for(&small_linear);
    o.engine.update.momentum = 0.9;
    qn_trainer *trainer = make(&o);
    qn_memory_use memory = qn_engine_get_memory(qn_trainer_engine(trainer));
    CHECK(memory.parameter_bytes == 2 * 15 * sizeof(float));
    CHECK(memory.peak_bytes >= memory.arena_bytes + memory.parameter_bytes);
    CHECK(strstr(qn_engine_print_plan(qn_trainer_engine(trainer), 0), "fc.weight.update") != NULL);
    qn_trainer_destroy(trainer);
}

int main(void) {
    test_optimizers();
    test_schedules();
    test_accumulation();
    test_evaluation();
    test_bad_input();
    test_bad_samples();
    test_overflow();
    test_bad_targets();
    test_memory();
    test_learns();
    test_same_bits();
    return checks_finish();
}
