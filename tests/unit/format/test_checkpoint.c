/* Checkpoints: pairs and preparation come back, equal state gives equal bytes, a resumed trainer
 * goes on bit by bit, and whatever goes wrong leaves trainer and file as they were. */
#include "quern/checkpoint.h"

#include "check.h"
#include "small_models.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static char root[] = "/tmp/quern-test-checkpoint-XXXXXX";
static char path[64], other_path[64];

/* ---- pairs ---- */

static void test_pairs(void) {
    qn_metadata *m = NULL;
    const char *key, *value;
    CHECK_OK(qn_metadata_create(NULL, &m));
    CHECK(qn_metadata_count(m) == 0 && !qn_metadata_get(m, "a"));
    CHECK_OK(qn_metadata_set(m, "b", "1"));
    CHECK_OK(qn_metadata_set(m, "a", "2"));
    CHECK_OK(qn_metadata_set(m, "c", ""));
    CHECK_OK(qn_metadata_set(m, "b", "3"));
    CHECK(qn_metadata_count(m) == 3);
    CHECK(strcmp(qn_metadata_get(m, "b"), "3") == 0 && *qn_metadata_get(m, "c") == 0);
    qn_metadata_at(m, 0, &key, &value);
    CHECK(strcmp(key, "a") == 0 && strcmp(value, "2") == 0);
    qn_metadata_destroy(m);
    qn_metadata_destroy(NULL);
}

static void test_preparation(void) {
    const float mean[3] = {0.1f, 1.0f / 3, -1e-30f}, deviation[3] = {0.25f, 3.4e38f, 1e-40f};
    const char *names[2] = {"caf\xc3\xa9, \"x\"\n", ""};
    const char *const targets[] = {"price"};
    const qn_table_column columns[] = {
        {.name = "size", .median = 0.1f, .has_gaps = true},
        {.name = "of\"it", .kind = QN_COLUMN_CATEGORY, .n_texts = 2, .texts = names},
        {.name = "day", .kind = QN_COLUMN_DATE, .is_day_first = true, .median = -3},
    };
    const qn_table table = {3, 1, columns, targets, true, true, "tags"};
    const qn_preparation p = {.sample = {3, {28, 30, 3}},
                              .centre_crop = true,
                              .n_statistics = 3,
                              .mean = mean,
                              .std_dev = deviation,
                              .n_classes = 2,
                              .class_names = names,
                              .table = &table,
                              .n_scaled = 1,
                              .target_mean = mean,
                              .target_scale = deviation};
    qn_preparation q;
    qn_metadata *m = NULL;
    CHECK_OK(qn_metadata_create(NULL, &m));
    CHECK_FAILS(qn_metadata_get_preparation(m, &q), QN_ERROR_FORMAT, "preparation.sample");
    CHECK_OK(qn_metadata_set_preparation(m, &p));
    CHECK_OK(qn_metadata_get_preparation(m, &q));
    CHECK(q.sample.rank == 3 && q.sample.dims[1] == 30 && q.centre_crop && q.n_statistics == 3);
    CHECK(memcmp(q.mean, mean, sizeof mean) == 0);
    CHECK(memcmp(q.std_dev, deviation, sizeof deviation) == 0);
    CHECK(q.n_classes == 2 && strcmp(q.class_names[0], names[0]) == 0 && !*q.class_names[1]);
    CHECK(q.n_scaled == 1 && q.target_mean[0] == mean[0] && q.target_scale[0] == deviation[0]);
    CHECK(q.table->n_columns == 3 && q.table->n_targets == 1 && q.table->are_numbers);
    CHECK(strcmp(q.table->targets[0], "price") == 0 && q.table->columns[0].median == 0.1f);
    CHECK(q.table->are_labels && strcmp(q.table->label_column, "tags") == 0);
    CHECK(q.table->columns[0].has_gaps && q.table->columns[2].is_day_first);
    CHECK(q.table->columns[1].n_texts == 2 && strcmp(q.table->columns[1].texts[0], names[0]) == 0);
    qn_metadata_destroy(m);
}

/* A key, a value that is refused for it, and why. */
static const char *const bad_values[][3] = {
    {"preparation.sample", "28x", "not a shape"},
    {"preparation.sample", "28x0x1", "not a shape"},
    {"preparation.sample", "1x1x1x1x1x1x1", "not a shape"},
    {"preparation.sample", "4000000000x4000000000x4000000000", "too large"},
    {"preparation.centre_crop", "2", "count"},
    {"preparation.n_classes", "-1", "count"},
    {"preparation.n_classes", "3", "each class"},
    {"preparation.mean", "[0,0]", "length"},
    {"preparation.mean", "0", "not a list"},
    {"preparation.mean", "[\"0\"]", "number"},
    {"preparation.mean", "[1e39]", "number"},
    {"preparation.std_dev", "[0]", "number"},
    {"preparation.class_names", "[1,2]", "text"},
    {"preparation.class_names", "[\"a\"]", "each class"},
    {"preparation.target_mean", "[0]", "preparation.target_scale"},
    {"preparation.table", "[]", "no columns"},
    {"preparation.table", "{\"columns\":[{}]}", "without name or kind"},
    {"preparation.table", "{\"columns\":[{\"name\":\"a\",\"kind\":\"number\"}]}", "list"},
    {"preparation.table", "{\"columns\":[{\"name\":\"a\",\"kind\":\"category\"}]}", "list"},
};

static void test_bad_preparation(void) {
    const float one[1] = {1};
    const char *names[2] = {"a", "b"};
    const qn_preparation p = {.sample = {1, {4}},
                              .n_statistics = 1,
                              .mean = one,
                              .std_dev = one,
                              .n_classes = 2,
                              .class_names = names};
    for (size_t i = 0; i < sizeof bad_values / sizeof bad_values[0]; i++) {
        qn_metadata *m = NULL;
        qn_preparation q;
        CHECK_OK(qn_metadata_create(NULL, &m));
        CHECK_OK(qn_metadata_set_preparation(m, &p));
        CHECK_OK(qn_metadata_set(m, bad_values[i][0], bad_values[i][1]));
        CHECK_FAILS(qn_metadata_get_preparation(m, &q), QN_ERROR_FORMAT, bad_values[i][2]);
        qn_metadata_destroy(m);
    }
}

/* ---- trainers ---- */

static qn_trainer *make_trainer(const qn_model *model, qn_optimizer optimizer, uint64_t seed) {
    qn_trainer_options o = qn_trainer_options_for(model);
    qn_trainer *trainer = NULL;
    o.engine.update.optimizer = optimizer;
    o.engine.n_threads = 1;
    o.engine.seed = seed;
    CHECK_OK(qn_trainer_create(&o, &trainer));
    return trainer;
}

static void do_steps(qn_trainer *trainer, int n_steps) {
    static _Alignas(64) float x[6 * 8 * 8 * 3];
    static _Alignas(64) int32_t y[6];
    for (int step = 0; step < n_steps; step++) {
        qn_step_result result;
        for (int i = 0; i < 6 * 8 * 8 * 3; i++)
            x[i] = (float)((i * 7 + (int)qn_trainer_steps(trainer)) % 13) / 13;
        for (int i = 0; i < 6; i++)
            y[i] = (i + (int)qn_trainer_steps(trainer)) % 5;
        CHECK_OK(qn_trainer_step(trainer, x, y, &result));
    }
}

static bool files_equal(const char *left, const char *right) {
    FILE *a = fopen(left, "rb"), *b = fopen(right, "rb");
    bool is_equal = a && b;
    for (int c = 0; is_equal && c != EOF;) {
        c = fgetc(a);
        is_equal = c == fgetc(b);
    }
    if (a)
        fclose(a);
    if (b)
        fclose(b);
    return is_equal;
}

/* Steps without a break, and with one through a file: the same file in the end. */
static void test_resume(qn_optimizer optimizer) {
    qn_trainer *whole = make_trainer(&small_conv, optimizer, 3);
    qn_trainer *first = make_trainer(&small_conv, optimizer, 3);
    qn_trainer *second = make_trainer(&small_conv, optimizer, 3);
    do_steps(whole, 5);
    CHECK_OK(qn_checkpoint_save(qn_trainer_engine(whole), NULL, other_path));
    do_steps(first, 2);
    CHECK_OK(qn_checkpoint_save(qn_trainer_engine(first), NULL, path));
    CHECK(!files_equal(path, other_path));
    CHECK_OK(qn_checkpoint_load(qn_trainer_engine(second), path, true));
    CHECK(qn_trainer_steps(second) == 2);
    do_steps(second, 3);
    CHECK_OK(qn_checkpoint_save(qn_trainer_engine(second), NULL, path));
    CHECK(files_equal(path, other_path));
    qn_trainer_destroy(whole);
    qn_trainer_destroy(first);
    qn_trainer_destroy(second);
}

static void test_saved_pairs(void) {
    qn_trainer *trainer = make_trainer(&small_linear, QN_SGD, 1);
    qn_metadata *m = NULL, *back = NULL;
    CHECK_OK(qn_metadata_create(NULL, &m));
    CHECK_OK(qn_metadata_set(m, "model", "small"));
    CHECK_OK(qn_metadata_set(m, "step", "99"));
    CHECK_OK(qn_checkpoint_save(qn_trainer_engine(trainer), m, path));
    CHECK_OK(qn_checkpoint_read(NULL, path, &back));
    CHECK(strcmp(qn_metadata_get(back, "model"), "small") == 0);
    CHECK(strcmp(qn_metadata_get(back, "step"), "0") == 0);
    qn_metadata_destroy(m);
    qn_metadata_destroy(back);
    qn_trainer_destroy(trainer);
}

/* ---- what goes wrong ---- */

/* A file that does not fit is refused, and the trainer's next file is what it was before. */
static void check_refused(qn_trainer *trainer, bool with_state, const char *message) {
    CHECK_OK(qn_checkpoint_save(qn_trainer_engine(trainer), NULL, other_path));
    CHECK_FAILS(qn_checkpoint_load(qn_trainer_engine(trainer), path, with_state), QN_ERROR_FORMAT,
                message);
    char after[80];
    snprintf(after, sizeof after, "%s-after", other_path);
    CHECK_OK(qn_checkpoint_save(qn_trainer_engine(trainer), NULL, after));
    CHECK(files_equal(after, other_path));
    unlink(after);
}

static void test_other_models(void) {
    qn_trainer *conv = make_trainer(&small_conv, QN_SGD, 1);
    qn_trainer *adam = make_trainer(&small_conv, QN_ADAM, 2);
    qn_trainer *linear = make_trainer(&small_linear, QN_SGD, 1);
    qn_model narrow = small_linear;
    narrow.n_classes = 2;
    qn_trainer *two = make_trainer(&narrow, QN_SGD, 1);
    CHECK_OK(qn_checkpoint_save(qn_trainer_engine(conv), NULL, path));
    check_refused(linear, true, "fc.weight");
    check_refused(adam, true, "optimizer.");
    CHECK_OK(qn_checkpoint_load(qn_trainer_engine(adam), path, false));
    CHECK_OK(qn_checkpoint_save(qn_trainer_engine(linear), NULL, path));
    check_refused(two, true, "is F32 3x4, but the model's is F32 2x4");
    check_refused(conv, false, "conv1.weight");
    CHECK_FAILS(qn_checkpoint_load(qn_trainer_engine(conv), "/nonexistent/file", true), QN_ERROR_IO,
                "/nonexistent");
    qn_trainer_destroy(conv);
    qn_trainer_destroy(adam);
    qn_trainer_destroy(linear);
    qn_trainer_destroy(two);
}

/* Cut at any place, a file is refused as a whole. */
static void test_truncated(void) {
    qn_trainer *trainer = make_trainer(&small_linear, QN_SGD, 1);
    char bytes[4096];
    CHECK_OK(qn_checkpoint_save(qn_trainer_engine(trainer), NULL, path));
    FILE *file = fopen(path, "rb");
    const size_t n_bytes = file ? fread(bytes, 1, sizeof bytes, file) : 0;
    if (file)
        fclose(file);
    CHECK(n_bytes > 100 && n_bytes < sizeof bytes);
    for (size_t n = 0; n < n_bytes; n++) {
        file = fopen(path, "wb");
        CHECK(file && fwrite(bytes, 1, n, file) == n);
        if (file)
            fclose(file);
        CHECK(qn_checkpoint_load(qn_trainer_engine(trainer), path, true) == QN_ERROR_FORMAT);
    }
    qn_trainer_destroy(trainer);
}

/* A limit on file sizes stands for the full disk. */
static void test_full_disk(void) {
    qn_trainer *small = make_trainer(&small_linear, QN_SGD, 1);
    qn_trainer *large = make_trainer(&small_conv, QN_SGD, 1);
    struct rlimit before, limit;
    CHECK_OK(qn_checkpoint_save(qn_trainer_engine(small), NULL, path));
    CHECK_OK(qn_checkpoint_save(qn_trainer_engine(small), NULL, other_path));
    CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    limit = before;
    limit.rlim_cur = 4096;
    signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK_FAILS(qn_checkpoint_save(qn_trainer_engine(large), NULL, path), QN_ERROR_IO, "write");
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK(files_equal(path, other_path));
    qn_trainer_destroy(small);
    qn_trainer_destroy(large);
}

static void test_not_finite(void) {
    qn_trainer *trainer = make_trainer(&small_linear, QN_SGD, 1);
    CHECK_OK(qn_checkpoint_save(qn_trainer_engine(trainer), NULL, path));
    CHECK_OK(qn_checkpoint_save(qn_trainer_engine(trainer), NULL, other_path));
    const qn_stored_tensor tensor = qn_engine_tensor_at(qn_trainer_engine(trainer), 0);
    ((float *)tensor.data)[0] = NAN;
    CHECK_FAILS(qn_checkpoint_save(qn_trainer_engine(trainer), NULL, path), QN_ERROR_NUMERIC,
                tensor.name);
    CHECK(files_equal(path, other_path));
    qn_trainer_destroy(trainer);
}

int main(void) {
    if (!mkdtemp(root))
        return 2;
    snprintf(path, sizeof path, "%s/file", root);
    snprintf(other_path, sizeof other_path, "%s/other", root);
    test_pairs();
    test_preparation();
    test_bad_preparation();
    test_resume(QN_SGD);
    test_resume(QN_ADAM);
    test_resume(QN_ADAMW);
    test_saved_pairs();
    test_other_models();
    test_truncated();
    test_full_disk();
    test_not_finite();
    unlink(path);
    unlink(other_path);
    rmdir(root); /* fails, and so does the next run's check, if a temporary file stayed */
    CHECK(access(root, F_OK) != 0);
    return checks_finish();
}
