/* Fine-tuning: patterns; what is trained and what is not there at all then; rates; adapters, what
 * their files hold and what merging makes of them; and mistakes. */
#include "base/patterns.h"
#include "check.h"
#include "failing.h"
#include "run/engine.h"
#include "run/inspect.h"
#include "small_models.h"

#include <stdlib.h>
#include <unistd.h>

enum { BATCH = 6, N_X = 8 * 8 * 3 };

static float x[BATCH * N_X];
static double x_double[BATCH * N_X];
static int32_t y[BATCH];

static void fill_batch(void) {
    for (int i = 0; i < BATCH * N_X; i++)
        x_double[i] = x[i] = (float)sin(0.37 * i) + (float)(i % 7) * 0.1F;
    for (int i = 0; i < BATCH; i++)
        y[i] = i % 5;
}

static void test_patterns(void) {
    static const struct {
        const char *list, *name;
        bool fits;
    } cases[] = {
        {"*", "a", true},         {"a*b", "ab", true},        {"a*b", "a.x.b", true},
        {"a*b", "a.x.bc", false}, {"*.bias", "c.bias", true}, {"*.bias", "bias", false},
        {"a?c", "abc", true},     {"a?c", "ac", false},       {"x,,y", "y", true},
        {"x,y", "x,y", false},    {"", "a", false},           {"*a*b*", "xaxxabx", true},
        {"a*a*a", "aa", false},   {"ab*", "a", false},        {"*aab", "aaaab", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK(qn_patterns_match(cases[i].list, cases[i].name) == cases[i].fits);
    CHECK(!qn_patterns_match(NULL, "a"));
}

static qn_trainer_options options_of(qn_tuning tuning, qn_dtype real) {
    qn_trainer_options o = qn_trainer_options_for(&small_conv);
    o.engine.real = real;
    o.engine.tuning = tuning;
    o.engine.no_dropout = true;
    o.engine.n_threads = 2;
    return o;
}

static qn_trainer *make(const qn_trainer_options *o) {
    qn_trainer *trainer = NULL;
    CHECK_OK(qn_trainer_create(o, &trainer));
    return trainer;
}

static double step(qn_trainer *trainer, int n) {
    const bool is_double = qn_trainer_get_options(trainer)->engine.real == QN_F64;
    qn_step_result result = {0};
    for (int i = 0; i < n; i++)
        CHECK_OK(qn_trainer_step(trainer, is_double ? (const void *)x_double : x, y, &result));
    return result.loss;
}

static qn_stored_tensor find(const qn_trainer *trainer, const char *name) {
    return qn_engine_find(qn_trainer_engine(trainer), name);
}

static bool is_equal(const qn_trainer *a, const qn_trainer *b, const char *name) {
    const qn_stored_tensor s = find(a, name), t = find(b, name);
    return s.data && t.data && s.bytes == t.bytes && memcmp(s.data, t.data, s.bytes) == 0;
}

/* Nodes of the training graph whose names begin so. */
static int count_nodes(const qn_trainer *trainer, const char *prefix) {
    const qn_graph *graph = qn_engine_get_program(qn_trainer_engine(trainer), 0)->graph;
    int n = 0;
    for (int i = 0; i < graph->n_nodes; i++)
        n += strncmp(graph->nodes[i]->name, prefix, strlen(prefix)) == 0;
    return n;
}

/* What comes before the first trained layer has neither gradients nor state, and batch norm neither
 * looks at the batch nor moves. The batch norm stands before all that differs. */
static void test_frozen_front(void) {
    const qn_trainer_options all = options_of((qn_tuning){0}, QN_F64);
    const qn_trainer_options some = options_of((qn_tuning){.freeze = "conv?.*,bn1.*"}, QN_F64);
    qn_trainer *whole = make(&all), *part = make(&some);
    CHECK(count_nodes(part, "conv1") == 1 && count_nodes(whole, "conv1") > 1);
    CHECK(count_nodes(part, "bn1") == 1 && count_nodes(part, "conv2") == 1);
    CHECK(count_nodes(part, "sum.backward") == 0 && count_nodes(part, "pool.backward") == 0);
    CHECK(find(part, "optimizer.momentum.fc1.weight").data != NULL);
    CHECK(find(part, "optimizer.momentum.conv1.weight").data == NULL);
    CHECK(find(part, "conv1.weight").is_frozen && find(part, "bn1.running_mean").is_frozen);
    CHECK(find(part, "fc2.bias").trainable && !find(part, "fc2.bias").is_frozen);
    CHECK(!find(whole, "bn1.running_mean").is_frozen && !find(whole, "conv1.weight").is_frozen);
    qn_trainer *fresh = make(&some);
    step(part, 3);
    CHECK(is_equal(part, fresh, "conv1.weight") && is_equal(part, fresh, "bn1.running_mean"));
    CHECK(is_equal(part, fresh, "conv2.bias") && !is_equal(part, fresh, "fc1.weight"));
    qn_trainer_destroy(whole);
    qn_trainer_destroy(part);
    qn_trainer_destroy(fresh);
}

/* Freezing what comes behind changes no bit of the first gradients before it; neither does freezing
 * a convolution alone, whose norm then still looks at the batch. */
static void test_equal_gradients(void) {
    static const char *const lists[] = {"fc?.*", "conv?.weight", "conv2.*,fc1.bias"};
    static const char *const names[] = {"conv1.weight", "bn1.scale",  "bn1.shift", "conv2.weight",
                                        "conv2.bias",   "fc1.weight", "fc1.bias",  "fc2.weight"};
    const qn_trainer_options all = options_of((qn_tuning){0}, QN_F64);
    qn_trainer *whole = make(&all);
    step(whole, 1);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const qn_trainer_options some = options_of((qn_tuning){.freeze = lists[i]}, QN_F64);
        qn_trainer *part = make(&some);
        step(part, 1);
        for (size_t j = 0; j < sizeof names / sizeof *names; j++) {
            char state[64];
            snprintf(state, sizeof state, "optimizer.momentum.%s", names[j]);
            const bool is_frozen = qn_patterns_match(lists[i], names[j]);
            CHECK(is_frozen ? !find(part, state).data : is_equal(whole, part, state));
        }
        CHECK(is_equal(whole, part, "bn1.running_variance"));
        qn_trainer_destroy(part);
    }
    qn_trainer_destroy(whole);
}

static int count_trained(const char *train_only, const char *freeze) {
    const qn_trainer_options o =
        options_of((qn_tuning){.train_only = train_only, .freeze = freeze}, QN_F32);
    qn_trainer *trainer = make(&o);
    int n = 0;
    for (int i = 0; i < qn_engine_tensor_count(qn_trainer_engine(trainer)); i++)
        n += qn_engine_tensor_at(qn_trainer_engine(trainer), i).trainable;
    step(trainer, 1);
    qn_trainer_destroy(trainer);
    return n;
}

static void test_train_only(void) {
    CHECK(count_trained(NULL, NULL) == 9);
    CHECK(count_trained("bias", NULL) == 4); /* bn1.shift and three biases */
    CHECK(count_trained("norm", NULL) == 2);
    CHECK(count_trained("head", NULL) == 2);
    CHECK(count_trained("norm,head,conv2.*", NULL) == 6);
    CHECK(count_trained("norm,head", "*.bias") == 3);
}

/* SGD without momentum: w goes down by rate * gradient, so its way is in proportion to the rate. */
static void test_rates(void) {
    static const char *const names[] = {"fc1.weight", "fc2.weight", "conv1.weight"};
    static const double factors[] = {0.5, 2, 1};
    qn_trainer_options o = options_of((qn_tuning){0}, QN_F64);
    o.engine.update.momentum = 0;
    o.engine.update.weight_decay = 0.01;
    qn_trainer *start = make(&o), *usual = make(&o);
    o.engine.tuning.rates = "fc*=x3,fc1.*=x0.5,fc2.*=0.1"; /* of 0.05 */
    qn_trainer *other = make(&o);
    step(usual, 1);
    step(other, 1);
    for (int i = 0; i < 3; i++) {
        const double *w = find(start, names[i]).data, *u = find(usual, names[i]).data;
        const double *v = find(other, names[i]).data;
        double worst = 0;
        for (size_t j = 0; j < find(start, names[i]).bytes / sizeof *w; j++)
            worst = fmax(worst, fabs((v[j] - w[j]) - factors[i] * (u[j] - w[j])));
        CHECK(worst < 1e-15);
    }
    qn_trainer_destroy(start);
    qn_trainer_destroy(usual);
    qn_trainer_destroy(other);
}

static const qn_tuning adapters = {
    .lora_layers = "fc*", .lora_rank = 3, .lora_alpha = 6, .train_only = "head", .head = "*"};

/* The first loss is that of the network without adapters; what was trained is in a small file, and
 * merged weights compute what weights with adapters do. */
static void test_adapters(void) {
    char path[] = "/tmp/quern-tuning-XXXXXX";
    CHECK(mkstemp(path) >= 0);
    const qn_trainer_options o = options_of(adapters, QN_F32);
    const qn_trainer_options plain = options_of((qn_tuning){.freeze = "conv*,bn1.*"}, QN_F32);
    qn_trainer_options seeded = o;
    seeded.engine.seed++;
    qn_trainer *trainer = make(&o), *base = make(&plain), *again = make(&o), *other = make(&seeded);
    qn_metadata *pairs;
    CHECK(step(trainer, 1) == step(base, 1));
    CHECK(find(trainer, "fc1.lora_a.weight").shape.dims[0] == 3 &&
          find(trainer, "fc1.lora_b.weight").shape.dims[0] == 13);
    CHECK(find(trainer, "fc2.weight").is_head && find(trainer, "fc2.weight").trainable);
    CHECK(!find(trainer, "conv1.lora_a.weight").data && find(trainer, "fc1.weight").is_frozen);
    step(trainer, 3);
    CHECK_OK(qn_checkpoint_save(qn_trainer_engine(trainer), NULL, path));
    CHECK_OK(qn_checkpoint_load(qn_trainer_engine(again), path, true));
    CHECK(step(trainer, 2) == step(again, 2));
    CHECK(is_equal(trainer, again, "fc2.lora_b.weight"));
    float before[BATCH * 5], after[BATCH * 5];
    CHECK_OK(qn_trainer_predict(trainer, x, before));
    CHECK_OK(qn_metadata_create(NULL, &pairs));
    CHECK_OK(qn_metadata_set(pairs, "lora_base", "inside"));
    CHECK_OK(qn_metadata_set(pairs, "lora", "rank=2"));
    CHECK_OK(qn_metadata_set(pairs, "load", "/nowhere"));
    CHECK_OK(qn_checkpoint_save(qn_trainer_engine(trainer), pairs, path));
    CHECK_OK(qn_checkpoint_load_base(qn_trainer_engine(other), pairs, path));
    CHECK_OK(qn_checkpoint_load(qn_trainer_engine(other), path, true));
    CHECK_OK(qn_trainer_predict(other, x, after));
    CHECK(memcmp(before, after, sizeof before) == 0); /* though its weights were others */
    qn_metadata_destroy(pairs);
    CHECK_OK(qn_checkpoint_save_merged(qn_trainer_engine(trainer), NULL, path));
    CHECK_OK(qn_checkpoint_load(qn_trainer_engine(base), path, false));
    CHECK_OK(qn_trainer_predict(base, x, after));
    for (int i = 0; i < BATCH * 5; i++)
        CHECK(fabsf(before[i] - after[i]) < 1e-5F);
    CHECK_OK(qn_trainer_predict(trainer, x, before));
    CHECK(memcmp(before, after, sizeof before) == 0);
    qn_trainer_destroy(trainer);
    qn_trainer_destroy(base);
    qn_trainer_destroy(again);
    qn_trainer_destroy(other);
    unlink(path);
}

/* Weights to begin with: all but the head, which has another number of outputs. */
static void test_begin(void) {
    char path[] = "/tmp/quern-tuning-XXXXXX";
    CHECK(mkstemp(path) >= 0);
    qn_trainer_options o = options_of((qn_tuning){0}, QN_F32);
    qn_trainer *first = make(&o);
    step(first, 2);
    CHECK_OK(qn_checkpoint_save(qn_trainer_engine(first), NULL, path));
    int n_loaded = 0, n_new = 0;
    o.n_outputs = 6;
    qn_trainer *without = make(&o);
    CHECK_FAILS(qn_checkpoint_begin(qn_trainer_engine(without), path, &n_loaded, &n_new),
                QN_ERROR_FORMAT, "--head");
    o.engine.tuning.head = "fc2";
    qn_trainer *second = make(&o);
    CHECK_OK(qn_checkpoint_begin(qn_trainer_engine(second), path, &n_loaded, &n_new));
    CHECK(n_loaded == 9 && n_new == 2 && qn_trainer_steps(second) == 0);
    CHECK(is_equal(first, second, "fc1.weight") && is_equal(first, second, "bn1.running_mean"));
    CHECK(!is_equal(first, second, "fc2.weight") && is_equal(second, without, "fc2.weight"));
    qn_trainer_destroy(first);
    qn_trainer_destroy(second);
    qn_trainer_destroy(without);
    unlink(path);
}

/* A network as of a file, which makes five outputs whatever it is asked for, through a 1x1
 * convolution and a view, or with bias (user: not null) a linear layer in the middle. */
static qn_value build_fixed(qn_graph *graph, void *user, qn_value in, int n_outputs) {
    (void)n_outputs;
    const qn_window one = qn_window_square(1, 1, 0);
    in = qn_relu(graph, "relu", qn_conv2d_layer(graph, "first", in, 5, one, 1, true));
    in = qn_average_pool(graph, "pool", in, qn_window_square(8, 8, 0));
    in = qn_conv2d_layer(graph, "last", in, 5, one, 1, user != NULL);
    return qn_reshape(graph, "logits", in, QN_SHAPE(-1, 5));
}

static void test_fixed_outputs(void) {
    static char yes[] = "yes";
    qn_model model = {.name = "fixed",
                      .input = {3, {8, 8, 3}},
                      .n_classes = 5,
                      .recipe = small_conv.recipe,
                      .build = build_fixed,
                      .has_fixed_outputs = true};
    for (int i = 0; i < 2; i++) {
        model.user = i ? yes : NULL;
        qn_trainer_options o = options_of((qn_tuning){0}, QN_F32);
        o.model = &model;
        qn_trainer *own = make(&o), *other = NULL;
        o.n_outputs = 7;
        CHECK_FAILS(qn_trainer_create(&o, &other), QN_ERROR_ARGUMENT, "--head 7");
        o.engine.tuning.head = "first";
        CHECK_FAILS(qn_trainer_create(&o, &other), QN_ERROR_ARGUMENT, "7 channels");
        o.engine.tuning.head = "pool";
        CHECK_FAILS(qn_trainer_create(&o, &other), QN_ERROR_UNSUPPORTED, "pool");
        o.engine.tuning.head = "*";
        other = make(&o);
        CHECK(find(other, "last.weight").shape.dims[0] == 7 && find(other, "last.weight").is_head);
        CHECK(!i ||
              (find(other, "last.bias").shape.dims[0] == 7 && find(other, "last.bias").is_head));
        CHECK(is_equal(own, other, "first.weight") && is_equal(own, other, "first.bias"));
        CHECK(step(other, 5) > 0 && !is_equal(own, other, "first.weight"));
        qn_trainer_destroy(own);
        qn_trainer_destroy(other);
        o.n_outputs = 0;
        other = make(&o);
        CHECK(find(other, "last.weight").shape.dims[0] == 5);
        qn_trainer_destroy(other);
    }
}

/* Bits do not depend on threads, micro-batches (where no norm looks at the batch) or a budget's
 * plan. */
static void test_same_bits(void) {
    qn_trainer_options o = options_of(adapters, QN_F32);
    qn_trainer *two = make(&o);
    o.engine.n_threads = 1;
    o.engine.micro_batch = 2;
    qn_trainer *one = make(&o);
    CHECK(step(two, 3) == step(one, 3));
    CHECK(is_equal(one, two, "fc1.lora_a.weight") && is_equal(one, two, "fc2.bias"));
    qn_trainer_destroy(one);
    qn_trainer_destroy(two);
}

static void test_mistakes(void) {
    static const struct {
        qn_tuning tuning;
        const char *says;
    } cases[] = {
        {{.freeze = "*"}, "all 9 parameters are frozen"},
        {{.freeze = "conv1.wieght"}, "conv1.weight"},
        {{.freeze = "features.*"}, "conv1.weight, bn1.scale"},
        {{.train_only = "head,bn7.*"}, "bn7.*"},
        {{.rates = "fc9.weight=x2"}, "did you mean fc1.weight"},
        {{.rates = "fc1.weight"}, "neither"},
        {{.rates = "fc1.weight=x"}, "neither"},
        {{.rates = "fc1.weight=-1"}, "neither"},
        {{.head = "fc3"}, "fc3"},
        {{.lora_rank = 2, .lora_layers = "conv1"}, "conv1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const qn_trainer_options o = options_of(cases[i].tuning, QN_F32);
        qn_trainer *trainer = NULL;
        CHECK_FAILS(qn_trainer_create(&o, &trainer), QN_ERROR_ARGUMENT, cases[i].says);
        CHECK(trainer == NULL);
    }
}

/* Each allocation of making a trainer with adapters, and with a new head, fails in turn. */
static void test_failures(bool is_fixed) {
    const qn_model model = {.name = "fixed",
                            .input = {3, {8, 8, 3}},
                            .n_classes = 5,
                            .recipe = small_conv.recipe,
                            .build = build_fixed,
                            .has_fixed_outputs = true};
    qn_status status = QN_ERROR_MEMORY;
    int64_t n = 0;
    for (; status != QN_OK && n < 100000; n++) {
        failing state = {.left = n};
        const qn_allocator allocator = {&state, failing_allocate, failing_release};
        qn_trainer_options o =
            options_of(is_fixed ? (qn_tuning){.head = "last"} : adapters, QN_F32);
        qn_trainer *trainer = NULL;
        o.model = is_fixed ? &model : o.model;
        o.n_outputs = is_fixed ? 3 : 5;
        o.engine.allocator = &allocator;
        status = qn_trainer_create(&o, &trainer);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        qn_trainer_destroy(trainer);
        CHECK(state.held_bytes == 0);
    }
    CHECK(status == QN_OK && n > 50);
}

int main(void) {
    fill_batch();
    test_patterns();
    test_frozen_front();
    test_equal_gradients();
    test_train_only();
    test_rates();
    test_adapters();
    test_begin();
    test_fixed_outputs();
    test_same_bits();
    test_mistakes();
    test_failures(false);
    test_failures(true);
    return checks_finish();
}
