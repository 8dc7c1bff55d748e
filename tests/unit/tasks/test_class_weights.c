/* Class weights in the loss: against the definition worked out from the losses of single samples,
 * equal bits in pieces and within a budget, balanced weights and lists and files of them,
 * validation samples that are those of the training set, and failing allocations. */
#include "check.h"
#include "failing.h"
#include "os/heap.h"
#include "os/os.h"
#include "quern/quern.h"
#include "run/engine.h"
#include "small_models.h"
#include "tasks/class_weights.h"

#include <stdlib.h>
#include <unistd.h>

enum { BATCH = 12, CLASSES = 5, PIXELS = 8 * 8 * 3 };

static _Alignas(64) double x64[BATCH * PIXELS];
static _Alignas(64) float x32[BATCH * PIXELS];
static _Alignas(64) int32_t y[BATCH];
static const double weights[CLASSES] = {0.5, 3, 0, 1, 2.25};

static void fill(void) {
    const qn_rng rng = qn_rng_make(1, 2, 3);
    for (int i = 0; i < BATCH * PIXELS; i++) {
        x32[i] = (float)qn_rng_normal(rng, (uint64_t)i);
        x64[i] = (double)x32[i];
    }
    for (int i = 0; i < BATCH; i++)
        y[i] = i * i % CLASSES;
}

/* Convolution, pool and linear layer: what may be split into pieces. */
static qn_value build_plain(qn_graph *graph, void *user, qn_value x, int n_outputs) {
    (void)user;
    x = qn_conv2d_layer(graph, "conv", x, 7, qn_window_square(3, 1, 1), 1, true);
    x = qn_max_pool(graph, "pool", qn_relu(graph, "relu", x), qn_window_square(2, 2, 0));
    return qn_linear_layer(graph, "fc", x, n_outputs);
}

static const qn_model plain = {
    .name = "plain",
    .input = {3, {8, 8, 3}},
    .n_classes = CLASSES,
    .recipe = {.rate = 0.1, .momentum = 0.9, .epochs = 1, .batch = BATCH},
    .build = build_plain};

static qn_trainer_options options_of(qn_dtype real) {
    qn_trainer_options o = qn_trainer_options_for(&plain);
    o.engine.real = real;
    o.engine.n_threads = 2;
    o.class_weights = weights;
    return o;
}

/* sum(w l) / sum(w), from losses of samples that are looked at one by one. */
static void test_definition(void) {
    qn_trainer_options o = options_of(QN_F64);
    qn_trainer *trainer = NULL;
    double sum = 0, total = 0;
    qn_step_result result;
    o.evaluation_batch = 1;
    CHECK_OK(qn_trainer_create(&o, &trainer));
    for (int i = 0; i < BATCH; i++) {
        qn_evaluation e = {0};
        CHECK_OK(qn_trainer_evaluate(trainer, x64 + i * PIXELS, &y[i], 1, &e));
        sum += weights[y[i]] * e.loss_sum;
        total += weights[y[i]];
    }
    CHECK_OK(qn_trainer_step(trainer, x64, y, &result));
    CHECK(fabs(result.loss - sum / total) < 1e-14 * (1 + sum));
    qn_trainer_destroy(trainer);
}

/* A batch of weightless samples changes nothing and is no error. */
static void test_nothing_counts(void) {
    qn_trainer_options o = options_of(QN_F32);
    qn_trainer *trainer = NULL;
    qn_step_result result;
    int32_t labels[BATCH];
    for (int i = 0; i < BATCH; i++)
        labels[i] = 2;
    CHECK_OK(qn_trainer_create(&o, &trainer));
    const qn_stored_tensor w = qn_engine_find(qn_trainer_engine(trainer), "fc.weight");
    float before[64];
    memcpy(before, w.data, sizeof before);
    CHECK_OK(qn_trainer_step(trainer, x32, labels, &result));
    CHECK(result.loss == 0 && memcmp(before, w.data, sizeof before) == 0);
    qn_trainer_destroy(trainer);
}

static uint64_t train(const qn_trainer_options *o, double *loss) {
    qn_trainer *trainer = NULL;
    qn_step_result result = {0};
    uint64_t hash = 0xcbf29ce484222325u;
    CHECK_OK(qn_trainer_create(o, &trainer));
    for (int i = 0; trainer && i < 4; i++)
        CHECK_OK(qn_trainer_step(trainer, o->engine.real == QN_F64 ? (void *)x64 : (void *)x32, y,
                                 &result));
    for (int i = 0; trainer && i < qn_engine_tensor_count(qn_trainer_engine(trainer)); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(qn_trainer_engine(trainer), i);
        for (size_t j = 0; j < t.bytes; j++)
            hash = (hash ^ ((const unsigned char *)t.data)[j]) * 0x100000001b3u;
    }
    qn_trainer_destroy(trainer);
    *loss = result.loss;
    return hash;
}

static void test_same_bits(void) {
    double whole, other;
    for (int i = 0; i < 2; i++) {
        qn_trainer_options o = options_of(i ? QN_F64 : QN_F32);
        const uint64_t hash = train(&o, &whole);
        for (o.engine.micro_batch = 1; o.engine.micro_batch < BATCH; o.engine.micro_batch++) {
            if (BATCH % o.engine.micro_batch == 0)
                CHECK(train(&o, &other) == hash && other == whole);
        }
        o.engine.micro_batch = 0;
        o.class_weights = NULL;
        CHECK(train(&o, &other) != hash);
    }
}

/* Weights of samples are what those of their classes are, bit for bit; both multiply. */
static void test_sample_weights(void) {
    qn_trainer_options o = options_of(QN_F32);
    qn_trainer *of_classes = NULL, *of_samples = NULL;
    qn_step_result first, second;
    float w[BATCH], half[BATCH];
    for (int i = 0; i < BATCH; i++) {
        w[i] = (float)weights[y[i]];
        half[i] = 0.5f;
    }
    CHECK_OK(qn_trainer_create(&o, &of_classes));
    CHECK_FAILS(qn_trainer_step_weighted(of_classes, x32, y, w, &second), QN_ERROR_ARGUMENT,
                "sample_weights");
    o.class_weights = NULL;
    o.sample_weights = true;
    CHECK_OK(qn_trainer_create(&o, &of_samples));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(qn_trainer_step(of_classes, x32, y, &first));
        CHECK_OK(qn_trainer_step_weighted(of_samples, x32, y, w, &second));
        CHECK(first.loss == second.loss);
    }
    CHECK_OK(qn_trainer_step(of_samples, x32, y, &second));
    CHECK(second.loss != first.loss);
    w[3] = -1;
    CHECK_FAILS(qn_trainer_step_weighted(of_samples, x32, y, w, &second), QN_ERROR_ARGUMENT,
                "sample 3");
    qn_trainer_destroy(of_samples);
    o.class_weights = weights;
    CHECK_OK(qn_trainer_create(&o, &of_samples));
    qn_trainer_destroy(of_classes);
    CHECK_OK(qn_trainer_create(&o, &of_classes));
    CHECK_OK(qn_trainer_step(of_classes, x32, y, &first));
    CHECK_OK(qn_trainer_step_weighted(of_samples, x32, y, half, &second));
    CHECK(first.loss == second.loss);
    qn_trainer_destroy(of_samples);
    qn_trainer_destroy(of_classes);
}

static void test_refused(void) {
    static const double bad[CLASSES] = {1, 1, -1, 1, 1};
    qn_trainer_options o = options_of(QN_F32);
    qn_trainer *trainer;
    o.class_weights = bad;
    CHECK_FAILS(qn_trainer_create(&o, &trainer), QN_ERROR_ARGUMENT, "class 2 has the weight -1");
    o = options_of(QN_F32);
    o.regression = true;
    CHECK_FAILS(qn_trainer_create(&o, &trainer), QN_ERROR_ARGUMENT, "class weights");
}

/* ---- finding them ---- */

static const int32_t drawn[] = {0, 0, 0, 0, 0, 1, 1, 3};
static const char *const names[] = {"ant", "bee", "cat", "dog"};

static qn_status read_drawn(void *self, qn_split split, int64_t index, void *x, void *label) {
    (void)self;
    (void)split;
    memset(x, 0, 4 * sizeof(float));
    memcpy(label, &drawn[index], sizeof drawn[index]);
    return QN_OK;
}

static const qn_data_source source = {
    .name = "drawn",
    .n_samples = {8, 0, 0},
    .sample = {1, {4}},
    .dtype = QN_F32,
    .preparation = {.n_classes = 4, .class_names = names},
    .read = read_drawn,
};

static qn_status find(const char *text, double *found) {
    return qn_class_weights_find(qn_allocator_default(), &source, text, 4, found);
}

static void test_balanced(void) {
    double w[4];
    CHECK_OK(find("balanced", w));
    CHECK(fabs(w[0] - 8.0 / (3 * 5)) < 1e-15 && fabs(w[1] - 8.0 / (3 * 2)) < 1e-15);
    CHECK(w[2] == 0 && fabs(w[3] - 8.0 / 3) < 1e-15);
    CHECK_OK(find("1,2.5,0,1e2", w));
    CHECK(w[0] == 1 && w[1] == 2.5 && w[2] == 0 && w[3] == 100);
    CHECK_FAILS(find("1,2,3", w), QN_ERROR_ARGUMENT, "3 numbers for 4 classes");
    CHECK_FAILS(find("1,two,3,4", w), QN_ERROR_ARGUMENT, "there is no file 1,two,3,4");
}

static void check_file(const char *path, const char *text, const char *message) {
    double w[4];
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fputs(text, file);
    fclose(file);
    if (message)
        CHECK_FAILS(find(path, w), QN_ERROR_FORMAT, message);
    else
        CHECK(find(path, w) == QN_OK && w[0] == 1 && w[1] == 2 && w[2] == 3 && w[3] == 4);
}

static void test_files(void) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/quern-weights-%ld.csv", (long)getpid());
    check_file(path, "cat,3\r\nant,1\n\nbee,2\ndog,4", NULL);
    check_file(path, "1\n2\n3\n4\n", NULL);
    check_file(path, "\"cat\",3\nant , 1\n\"bee\",\"2\"\ndog,4\n", NULL);
    check_file(path, "ant,1\ncat, black,2\n", ":2: cat, black is none of the 4 classes");
    check_file(path, "ant,1\n\"bee,2\n", "line 2: a quote is not closed");
    check_file(path, "ant,1\nbee,2\n", "class 2 of 4 has no weight");
    check_file(path, "ant,1\nant,2\n", ":2: class 0 has a weight already");
    check_file(path, "cow,1\n", ":1: cow is none of the 4 classes");
    check_file(path, "ant,1\nbee,x\n", ":2: 'x' is not a number");
    check_file(path, "ant,-1\n", "at least 0");
    check_file(path, "1\n2\n3\n4\n5\n", ":5: a weight too many");
    remove(path);
}

static void test_failing(void) {
    failing f;
    const qn_allocator allocator = {&f, failing_allocate, failing_release};
    qn_status status = QN_ERROR_MEMORY;
    for (int64_t n = 0; status != QN_OK && n < 100000; n++) {
        qn_trainer *trainer = NULL;
        double w[4];
        qn_trainer_options o = options_of(QN_F32);
        f = (failing){.left = n};
        o.engine.allocator = &allocator;
        status = qn_trainer_create(&o, &trainer);
        if (status == QN_OK)
            status = qn_class_weights_find(&allocator, &source, "balanced", 4, w);
        if (status == QN_OK)
            status = qn_class_weights_find(&allocator, &source, "1,2,3,4", 4, w);
        qn_trainer_destroy(trainer);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        CHECK(f.held_bytes == 0);
    }
    CHECK(status == QN_OK);
}

/* ---- validation samples ---- */

/* The number of the sample of all that equals x, or -1. */
static int64_t find_sample(const qn_data_source *all, const float *x, size_t count, int32_t label) {
    static float other[PIXELS];
    for (int64_t i = 0; i < all->n_samples[QN_TRAIN]; i++) {
        int32_t class;
        CHECK_OK(all->read(all->self, QN_TRAIN, i, other, &class));
        if (class == label && memcmp(other, x, count * sizeof *x) == 0)
            return i;
    }
    return -1;
}

/* Training and validation samples are together those without validation, each once, and the test
 * samples are as they were. */
static void test_validation(void) {
    qn_data_options options = {QN_OPTIONS_INIT(qn_data_options), .seed = 3, .sample = {1, {6}},
                               .n_classes = 3};
    qn_data_source all, cut;
    float x[PIXELS];
    int32_t label;
    CHECK_OK(qn_data_open("synthetic", &options, &all));
    options.validation = 0.25;
    CHECK_OK(qn_data_open("synthetic", &options, &cut));
    const int64_t n = all.n_samples[QN_TRAIN];
    CHECK(cut.n_samples[QN_TRAIN] + cut.n_samples[QN_VALIDATION] == n);
    /* Each is held out on its own, a quarter on average: within six deviations of it. */
    const double off = (double)cut.n_samples[QN_VALIDATION] - 0.25 * (double)n;
    CHECK(off * off < 36 * 0.25 * 0.75 * (double)n && all.n_samples[QN_VALIDATION] == 0);
    CHECK(cut.n_samples[QN_TEST] == all.n_samples[QN_TEST]);
    char *met = calloc((size_t)n, 1);
    const qn_split splits[] = {QN_TRAIN, QN_VALIDATION};
    for (int s = 0; met && s < 2; s++) {
        for (int64_t i = 0; i < cut.n_samples[splits[s]]; i += s ? 11 : 67) {
            CHECK_OK(cut.read(cut.self, splits[s], i, x, &label));
            const int64_t at = find_sample(&all, x, 6, label);
            CHECK(at >= 0 && !met[at]);
            if (at >= 0)
                met[at] = 1;
        }
    }
    free(met);
    qn_data_close(&cut);
    options.validation = 1;
    CHECK_FAILS(qn_data_open("synthetic", &options, &cut), QN_ERROR_ARGUMENT, "between 0 and 1");
    qn_data_close(&all);
}

int main(void) {
    fill();
    test_definition();
    test_nothing_counts();
    test_same_bits();
    test_sample_weights();
    test_refused();
    test_balanced();
    test_files();
    test_failing();
    test_validation();
    return checks_finish();
}
