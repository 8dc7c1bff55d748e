/* Tuning at the making of a trainer: the same bits off, quick and full, and by any tilings that a
 * cache may hold; a second trainer measures nothing; a damaged cache is said and made anew; budgets
 * are kept to; what cannot be tuned is left alone. */
#include "base/rng.h"
#include "check.h"
#include "failing.h"
#include "quern/quern.h"
#include "run/tuning/tuner.h"
#include "run/tuning/tuner_cache.h"

#include <stdlib.h>
#include <unistd.h>

enum { BATCH = 8, SIDE = 12, STEPS = 3, TEXT_BYTES = 1 << 16 };

static char root[] = "/tmp/quern-test-tuner-XXXXXX", cache_path[256], cache_folder[128];
static char kept_text[TEXT_BYTES]; /* of the trainers that were tuned first */
static _Alignas(64) float x[BATCH * SIDE * SIDE * 3];
static _Alignas(64) int32_t y[BATCH];

/* Products of every kind: Winograd's, gathered, in phases, straight, by few rows. */
static qn_value build(qn_graph *graph, void *user, qn_value v, int n_outputs) {
    (void)user;
    v = qn_relu(graph, "r1",
                qn_conv2d_layer(graph, "c1", v, 32, qn_window_square(3, 1, 1), 1, true));
    v = qn_relu(graph, "r2",
                qn_conv2d_layer(graph, "c2", v, 32, qn_window_square(3, 1, 1), 1, true));
    v = qn_tanh(graph, "t3",
                qn_conv2d_layer(graph, "c3", v, 40, qn_window_square(3, 2, 1), 1, true));
    v = qn_tanh(graph, "t4",
                qn_conv2d_layer(graph, "c4", v, 72, qn_window_square(1, 1, 0), 1, true));
    v = qn_tanh(graph, "t5", qn_linear_layer(graph, "f1", v, 200));
    return qn_linear_layer(graph, "f2", v, n_outputs);
}

static const qn_model model = {
    .name = "products",
    .input = {3, {SIDE, SIDE, 3}},
    .n_classes = 5,
    .recipe = {.rate = 0.01, .momentum = 0.9, .epochs = 1, .batch = BATCH},
    .build = build,
};

static qn_trainer_options options_of(qn_kernel_tuning tune) {
    qn_trainer_options o = qn_trainer_options_for(&model);
    o.evaluation_batch = 5;
    o.engine.n_threads = 1;
    o.engine.seed = 5;
    o.engine.tune = tune;
    return o;
}

/* A hash of all tensors after some steps. */
static uint64_t train(qn_trainer_options o, qn_kernel_tuning_use *use) {
    qn_trainer *trainer = NULL;
    CHECK_OK(qn_trainer_create(&o, &trainer));
    if (!trainer)
        exit(checks_finish());
    qn_engine *engine = qn_trainer_engine(trainer);
    if (use)
        *use = qn_engine_get_kernel_tuning(engine);
    for (int i = 0; i < STEPS; i++) {
        qn_step_result result;
        CHECK_OK(qn_trainer_step(trainer, x, y, &result));
    }
    uint64_t hash = 1;
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(engine, i);
        for (size_t j = 0; j < t.bytes; j++)
            hash = (hash ^ ((const unsigned char *)t.data)[j]) * 0x100000001b3u;
    }
    qn_trainer_destroy(trainer);
    return hash;
}

/* ---- the file ---- */

static qn_status find_file(void *context, const char *name, bool is_folder) {
    (void)context;
    if (!is_folder && strncmp(name, "tilings-", 8) == 0)
        snprintf(cache_path, sizeof cache_path, "%s/cache/quern/%s", root, name);
    return QN_OK;
}

static size_t read_kept(char text[TEXT_BYTES]) {
    char folder[128];
    snprintf(folder, sizeof folder, "%s/cache/quern", root);
    CHECK_OK(qn_folder_list(NULL, folder, find_file, NULL));
    FILE *file = fopen(cache_path, "r");
    const size_t bytes = file ? fread(text, 1, TEXT_BYTES - 1, file) : 0;
    text[bytes] = 0;
    if (file)
        fclose(file);
    return bytes;
}

static void write_kept(const char *text, size_t bytes) {
    FILE *file = fopen(cache_path, "w");
    CHECK(file && fwrite(text, 1, bytes, file) == bytes);
    if (file)
        fclose(file);
}

/* Where the lines of products begin. */
static char *entries_of(char *text) {
    char *at = text;
    for (int line = 0; line < 3; line++)
        at = strchr(at, '\n') + 1;
    return at;
}

static void test_parsing(void) {
    static const char head[] = "quern tilings 1\nmachine m\nkernels k 1\n";
    static const struct {
        const char *text;
        int n; /* -1: refused */
    } cases[] = {
        {"", 0},
        {"0000000000000001 323212\n", 1},
        {"0000000000000001 000000\nffffffffffffffff 000001\n", 2},
        {"0000000000000001 000000\n0000000000000001 000000\n", -1},
        {"0000000000000002 000000\n0000000000000001 000000\n", -1},
        {"0000000000000000 000000\n", -1},
        {"000000000000000g 000000\n", -1},
        {"0000000000000001 000003\n", -1},
        {"0000000000000001 400000\n", -1},
        {"0000000000000001 00000\n", -1},
        {"0000000000000001 000000", -1},
        {"0000000000000001-000000\n", -1},
    };
    qn_tiling_entry entries[8];
    size_t n;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        snprintf(text, sizeof text, "%s%s", head, cases[i].text);
        const bool good = qn_tilings_parse(text, strlen(text), "m", "k 1", entries, &n);
        CHECK(good == (cases[i].n >= 0) && n == (size_t)(good ? cases[i].n : 0));
        CHECK(!qn_tilings_parse(text, strlen(text), "other", "k 1", entries, &n) && n == 0);
        CHECK(!qn_tilings_parse(text, strlen(text), "m", "k 2", entries, &n) && n == 0);
    }
    CHECK(qn_tilings_parse("quern tilings 1\nmachine m\nkernels k 1\n0000000000000001 313212\n", 62,
                           "m", "k 1", entries, &n));
    CHECK(entries[0].key == 1 && entries[0].tiling.kinds[QN_TILING_WAY] == 3 &&
          entries[0].tiling.kinds[QN_TILING_TILES] == 2);
}

/* ---- trainers ---- */

/* Off, a first and a second time full, and quick by what is known then. False: nothing can be
 * tuned on these kernels. */
static bool test_same_bits(void) {
    qn_kernel_tuning_use first, again, quick, off;
    const uint64_t hash = train(options_of(QN_TUNE_OFF), &off);
    CHECK(off.tune == QN_TUNE_OFF && off.n_products == 0);
    CHECK(train(options_of(QN_TUNE_FULL), &first) == hash);
    if (first.n_products == 0)
        return false;
    CHECK(first.n_products > 8 && first.n_known == 0 && first.n_left == 0);
    CHECK(first.n_measured == first.n_products && first.n_tiled <= first.n_products);
    CHECK(train(options_of(QN_TUNE_FULL), &again) == hash);
    CHECK(again.n_known == first.n_products && again.n_measured == 0);
    CHECK(again.n_tiled == first.n_tiled && !again.cache_is_damaged);
    CHECK(train(options_of(QN_TUNE_QUICK), &quick) == hash);
    CHECK(quick.n_measured == 0 && quick.n_known == quick.n_products);
    CHECK(quick.n_products < first.n_products); /* evaluation's are left out */
    qn_trainer_options more = options_of(QN_TUNE_QUICK);
    more.engine.n_threads = 3;
    CHECK(train(more, &quick) == hash);
    CHECK(quick.n_known == 0); /* tilings are those of a size of team */
    CHECK(quick.n_measured + quick.n_left == quick.n_products);
    return true;
}

/* Whatever the cache says for each product. */
static void test_any_cuts(void) {
    static char text[TEXT_BYTES];
    const uint64_t hash = train(options_of(QN_TUNE_OFF), NULL);
    qn_kernel_tuning_use use;
    uint64_t drawn = 0;
    for (int round = 0; round < 6; round++) {
        const size_t bytes = read_kept(text);
        for (char *line = entries_of(text); *line; line = strchr(line, '\n') + 1) {
            for (int kind = 0; kind < QN_TILING_COUNT; kind++)
                line[17 + kind] = (char)('0' + qn_rng_below(qn_rng_make(3, 1, 0), drawn++,
                                                            qn_tiling_variants[kind] + 1u));
        }
        write_kept(text, bytes);
        CHECK(train(options_of(QN_TUNE_FULL), &use) == hash);
        CHECK(use.n_known == use.n_products && use.n_tiled > 0 && !use.cache_is_damaged);
    }
}

static void test_damage(void) {
    static char after[TEXT_BYTES];
    const char *text = kept_text;
    const size_t bytes = read_kept(kept_text);
    const uint64_t hash = train(options_of(QN_TUNE_OFF), NULL);
    const size_t lengths[] = {0, 5, bytes - 3};
    qn_kernel_tuning_use use;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        write_kept(text, lengths[i]);
        CHECK(train(options_of(QN_TUNE_FULL), &use) == hash);
        CHECK(use.cache_is_damaged && use.n_known == 0 && use.n_measured == use.n_products);
        CHECK(read_kept(after) > 0);
        CHECK(train(options_of(QN_TUNE_FULL), &use) == hash);
        CHECK(!use.cache_is_damaged && use.n_known == use.n_products);
    }
    setenv("XDG_CACHE_HOME", "/proc/none", 1); /* nothing can be kept */
    setenv("TMPDIR", "/proc/none", 1);
    CHECK(train(options_of(QN_TUNE_FULL), &use) == hash);
    CHECK(!use.cache_is_damaged && use.n_measured == use.n_products);
}

/* Batches in pieces, added up, and gradients that are kept outside of the arena. */
static void test_pieces(void) {
    qn_kernel_tuning_use use;
    qn_trainer_options o = options_of(QN_TUNE_OFF);
    o.engine.micro_batch = 4;
    const uint64_t hash = train(o, NULL);
    o.engine.tune = QN_TUNE_FULL;
    CHECK(train(o, &use) == hash && use.n_measured > 0);
    o = options_of(QN_TUNE_OFF);
    o.engine.update.accumulate = 3;
    const uint64_t sums = train(o, NULL);
    o.engine.tune = QN_TUNE_FULL;
    CHECK(train(o, &use) == sums && use.n_measured > 0);
}

/* A cache of so many other products that reading it takes much of a small budget. */
static void keep_many(void) {
    static char text[1 << 18];
    char *to = text + sprintf(text, "%.*s", (int)(entries_of(kept_text) - kept_text), kept_text);
    for (int key = 1; key <= 4000; key++)
        to += sprintf(to, "%016x 000000\n", (unsigned)key);
    setenv("XDG_CACHE_HOME", cache_folder, 1);
    write_kept(text, (size_t)(to - text));
}

/* The memory of tuning is in the budget; where that is small, nothing is tuned. */
static void test_budgets(void) {
    qn_trainer_options o = options_of(QN_TUNE_OFF);
    qn_trainer *trainer;
    qn_kernel_tuning_use use;
    CHECK_OK(qn_trainer_create(&o, &trainer));
    const size_t usual = qn_engine_get_memory(qn_trainer_engine(trainer)).peak_bytes;
    qn_trainer_destroy(trainer);
    const uint64_t hash = train(o, NULL);
    o.engine.tune = QN_TUNE_FULL;
    for (int part = 1; part <= 3; part++) {
        o.engine.memory_budget_bytes = part == 3 ? usual * 4 : usual * 5 / 4 / (size_t)part;
        if (qn_trainer_create(&o, &trainer) != QN_OK)
            continue;
        const qn_memory_use held = qn_engine_get_memory(qn_trainer_engine(trainer));
        CHECK(held.peak_bytes <= o.engine.memory_budget_bytes);
        qn_trainer_destroy(trainer);
        CHECK(train(o, &use) == hash);
        CHECK(use.is_over_budget == (use.bytes > o.engine.memory_budget_bytes / 64));
        CHECK(use.is_over_budget ? use.n_products == 0 : use.n_measured > 0);
    }
    keep_many();
    o.engine.memory_budget_bytes = usual * 5 / 4;
    CHECK(train(o, &use) == hash);
    CHECK(use.is_over_budget && use.n_products == 0 &&
          use.bytes > o.engine.memory_budget_bytes / 64);
    o.engine.memory_budget_bytes = 0;
    CHECK(train(o, &use) == hash);
    CHECK(!use.is_over_budget && !use.cache_is_damaged && use.n_measured == use.n_products);
    o.engine.plan_only = true;
    CHECK_OK(qn_trainer_create(&o, &trainer));
    CHECK(qn_engine_get_kernel_tuning(qn_trainer_engine(trainer)).n_products == 0);
    qn_trainer_destroy(trainer);
}

static void test_doubles(void) {
    qn_kernel_tuning_use use;
    qn_trainer_options o = options_of(QN_TUNE_FULL);
    qn_trainer *trainer;
    o.engine.real = QN_F64;
    CHECK_OK(qn_trainer_create(&o, &trainer));
    use = qn_engine_get_kernel_tuning(qn_trainer_engine(trainer));
    CHECK(use.tune == QN_TUNE_FULL && use.n_products == 0);
    qn_trainer_destroy(trainer);
}

/* With the rules of a user beside it; the plan is printed twice. */
static void test_rules(void) {
    qn_trainer_options o = options_of(QN_TUNE_OFF);
    qn_trainer *trainer;
    o.engine.rules = "quern rules 1";
    const uint64_t hash = train(o, NULL);
    o.engine.tune = QN_TUNE_FULL;
    CHECK(train(o, NULL) == hash);
    CHECK_OK(qn_trainer_create(&o, &trainer));
    CHECK(qn_engine_print_plan(qn_trainer_engine(trainer), 0) != NULL);
    CHECK(qn_engine_print_plan(qn_trainer_engine(trainer), 0) != NULL);
    qn_trainer_destroy(trainer);
}

/* The n-th allocation fails, for every n. */
static void test_failing(void) {
    qn_trainer_options o = options_of(QN_TUNE_QUICK);
    for (int64_t n = 0;; n++) {
        failing f = {.left = n};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        qn_trainer *trainer = NULL;
        o.engine.allocator = &allocator;
        const qn_status status = qn_trainer_create(&o, &trainer);
        qn_trainer_destroy(trainer);
        CHECK(f.held_bytes == 0);
        if (f.left >= 0) {
            CHECK(status == QN_OK);
            break;
        }
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
    }
}

int main(void) {
    if (!mkdtemp(root))
        return 2;
    snprintf(cache_folder, sizeof cache_folder, "%s/cache", root);
    setenv("XDG_CACHE_HOME", cache_folder, 1);
    for (int i = 0; i < BATCH * SIDE * SIDE * 3; i++)
        x[i] = (float)(i * 7 % 13 - 6) / 8;
    for (int i = 0; i < BATCH; i++)
        y[i] = i % 5;
    test_parsing();
    test_doubles();
    if (test_same_bits()) {
        test_any_cuts();
        test_failing();
        test_damage();
        test_pieces();
        test_budgets();
        test_rules();
    }
    char command[sizeof root + 16];
    snprintf(command, sizeof command, "rm -rf %s", root);
    CHECK(system(command) == 0);
    return checks_finish();
}
