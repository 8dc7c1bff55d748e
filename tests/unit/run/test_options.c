/* Options: structs of other sizes than ours, and every field of the engine's on its way through a
 * trainer and a task. */
#include "base/options.h"
#include "check.h"
#include "quern/quern.h"
#include "run/trainer.h"
#include "small_models.h"

#include <string.h>

typedef struct known {
    size_t size;
    int64_t first, second;
} known;

typedef struct newer {
    size_t size;
    int64_t first, second, third;
} newer;

static void test_sizes(void) {
    const newer given = {sizeof(known), 1, 2, 3}, older = {2 * sizeof(size_t), 1, 2, 3};
    newer with_zero = {sizeof(newer), 1, 2, 0}, with_more = {sizeof(newer), 1, 2, 3};
    known taken;
    CHECK_OK(QN_OPTIONS_TAKE(known, &given, &taken));
    CHECK(taken.size == sizeof(known) && taken.first == 1 && taken.second == 2);
    CHECK_OK(QN_OPTIONS_TAKE(known, &older, &taken));
    CHECK(taken.size == sizeof(known) && taken.first == 1 && taken.second == 0);
    CHECK_OK(QN_OPTIONS_TAKE(known, &with_zero, &taken));
    CHECK_FAILS(QN_OPTIONS_TAKE(known, &with_more, &taken), QN_ERROR_UNSUPPORTED, "newer version");
    const size_t garbage[] = {0, 8, 12, 17, 4104, (size_t)1 << 40, SIZE_MAX};
    for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
        with_more.size = garbage[i];
        CHECK_FAILS(QN_OPTIONS_TAKE(known, &with_more, &taken), QN_ERROR_ARGUMENT,
                    "QN_OPTIONS_INIT(known)");
    }
}

typedef struct outer {
    size_t size;
    known inner;
    int64_t own, last;
} outer;

typedef struct other_outer { /* with a longer inner part, and less of its own */
    size_t size;
    newer inner;
    int64_t own;
} other_outer;

static void test_nested(void) {
    other_outer given = {sizeof given, {sizeof(newer), 1, 2, 0}, 5};
    outer taken;
    CHECK_OK(qn_options_take_nested(&given, sizeof taken, sizeof(known), "outer", &taken));
    CHECK(taken.size == sizeof taken && taken.inner.size == sizeof(known));
    CHECK(taken.inner.first == 1 && taken.inner.second == 2 && taken.own == 5 && taken.last == 0);
    given.inner.third = 1;
    CHECK_FAILS(qn_options_take_nested(&given, sizeof taken, sizeof(known), "outer", &taken),
                QN_ERROR_UNSUPPORTED, "newer version");
    const size_t garbage[] = {0, 8, 20, sizeof given, SIZE_MAX};
    for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
        given.inner.size = garbage[i];
        CHECK_FAILS(qn_options_take_nested(&given, sizeof taken, sizeof(known), "outer", &taken),
                    QN_ERROR_ARGUMENT, "never had");
    }
}

/* What is not there is the default, whatever lies behind. */
static void test_older_program(void) {
    qn_engine_options o = {QN_OPTIONS_INIT(qn_engine_options), .n_threads = 1, .seed = 3};
    qn_program_options programs[2];
    qn_engine *engine;
    qn_trainer_options network = qn_trainer_options_for(&small_conv);
    network.batch = network.evaluation_batch = 2;
    network.n_outputs = qn_model_classes(network.model, network.input);
    network.engine.real = QN_F32;
    qn_trainer_describe(&network, programs);
    o.size = offsetof(qn_engine_options, plan_only) / sizeof(size_t) * sizeof(size_t);
    memset((char *)&o + o.size, 0xFF, sizeof o - o.size);
    CHECK_OK(qn_engine_create(&o, programs, 2, &engine));
    CHECK(qn_engine_get_options(engine)->seed == 3);
    CHECK(qn_engine_get_options(engine)->memory_budget_bytes == 0);
    qn_engine_destroy(engine);
    o.size = 12;
    CHECK_FAILS(qn_engine_create(&o, programs, 2, &engine), QN_ERROR_ARGUMENT, "qn_engine_options");
}

/* ---- every field of the engine's options ---- */

#define FIELD(name)                                                                                \
    { #name, offsetof(qn_engine_options, name), sizeof(((qn_engine_options *)0)->name) }

static const struct {
    const char *name;
    size_t offset, bytes;
} fields[] = {
    FIELD(size),
    FIELD(allocator),
    FIELD(real),
    FIELD(update),
    FIELD(tuning),
    FIELD(no_dropout),
    FIELD(micro_batch),
    FIELD(n_threads),
    FIELD(seed),
    FIELD(plan_only),
    FIELD(no_fusion),
    FIELD(rules),
    FIELD(tune),
    FIELD(memory_budget_bytes),
    FIELD(no_least),
    FIELD(saved_plan),
    FIELD(swap_folder),
    FIELD(swap_bytes),
    FIELD(budget_changes),
    FIELD(plan_later),
    FIELD(aligned_inputs),
    FIELD(no_random_values),
    FIELD(numerics),
    FIELD(device),
    FIELD(log),
    FIELD(cores),
    FIELD(ranks),
    FIELD(device_wish.prefer),
    FIELD(device_wish.cpu_watts),
    FIELD(device_wish.device_watts),
    FIELD(device_wish.idle_watts),
    FIELD(foreground_hz),
    FIELD(core_wish.prefer),
    FIELD(core_wish.core_watts),
    FIELD(core_wish.idle_watts),
    FIELD(core_wish.most_watts),
    FIELD(core_facts),
    FIELD(sparse_update),
    FIELD(recompute),
};
enum { N_FIELDS = sizeof fields / sizeof *fields };

/* A field that was added to the struct has to stand in the list: between two of the list is
 * nothing but padding. */
static void test_list(void) {
    for (int i = 0; i < N_FIELDS; i++) {
        const size_t end = fields[i].offset + fields[i].bytes;
        const size_t next = i + 1 < N_FIELDS ? fields[i + 1].offset : sizeof(qn_engine_options);
        CHECK(next >= end && next - end < sizeof(size_t));
        if (next < end || next - end >= sizeof(size_t))
            printf("what is behind %s is not in the list\n", fields[i].name);
    }
}

/* Other than the default in every field that a plan can be made with. */
static qn_engine_options unusual(void) {
    return (qn_engine_options){
        QN_OPTIONS_INIT(qn_engine_options),
        .real = QN_F32,
        .update = {.optimizer = QN_ADAM, .rate = 0.25},
        .tuning = {.freeze = "conv1.weight"},
        .no_dropout = true,
        .micro_batch = 2,
        .n_threads = 3,
        .seed = 7,
        .plan_only = true,
        .no_fusion = true,
        .tune = QN_TUNE_QUICK,
        .memory_budget_bytes = (size_t)1 << 30,
        .no_least = true,
        .swap_folder = "/tmp",
        .swap_bytes = (size_t)1 << 28,
        .budget_changes = true,
        .plan_later = true,
        .aligned_inputs = true,
        .no_random_values = true,
        .cores = QN_CORES_AUTO,
        .recompute = QN_RECOMPUTE_LITTLE,
        .device_wish = {.prefer = QN_PREFER_BALANCED,
                        .cpu_watts = 3,
                        .device_watts = 2,
                        .idle_watts = 1},
        .foreground_hz = 60,
        .core_wish = {
            .prefer = QN_PREFER_BALANCED, .core_watts = 3, .idle_watts = 1, .most_watts = 10}};
}

static bool is_zero(const void *memory, size_t bytes) {
    const char *at = memory;
    for (size_t i = 0; i < bytes; i++) {
        if (at[i])
            return false;
    }
    return true;
}

/* All fields that were given are those of the engine, but for those that `but` names. */
static void check_arrived(const qn_engine_options *given, const qn_engine *engine,
                          const char *const *but) {
    const qn_engine_options *got = qn_engine_get_options(engine);
    for (int i = 0; i < N_FIELDS; i++) {
        const char *a = (const char *)given + fields[i].offset;
        const char *b = (const char *)got + fields[i].offset;
        bool is_left_out = false;
        for (int k = 0; but[k]; k++)
            is_left_out |= strcmp(but[k], fields[i].name) == 0;
        if (is_left_out)
            continue;
        CHECK(!is_zero(a, fields[i].bytes));
        CHECK(memcmp(a, b, fields[i].bytes) == 0);
        if (memcmp(a, b, fields[i].bytes) != 0)
            printf("%s did not arrive\n", fields[i].name);
    }
}

/* Pointers of the engine's own, what its defaults fill in, and what no plan can be made with. */
static void test_trainer(void) {
    static const char *const but[] = {"allocator",   "update",     "rules",         "saved_plan",
                                      "swap_folder", "numerics",   "device",        "log",
                                      "ranks",       "core_facts", "sparse_update", NULL};
    qn_trainer_options o = qn_trainer_options_for(qn_model_find("lenet5"));
    qn_trainer *trainer;
    o.engine = unusual();
    o.batch = 4;
    const qn_status status = qn_trainer_create(&o, &trainer);
    CHECK_OK(status);
    if (status != QN_OK)
        return;
    check_arrived(&o.engine, qn_trainer_engine(trainer), but);
    const qn_engine_options *got = qn_engine_get_options(qn_trainer_engine(trainer));
    CHECK(got->update.optimizer == QN_ADAM && got->update.rate == 0.25);
    CHECK(strcmp(got->swap_folder, "/tmp") == 0 && got->swap_folder != o.engine.swap_folder);
    qn_trainer_destroy(trainer);
}

/* Update, tuning, rules and seed are those of the settings. */
static void test_task(void) {
    static const char *const but[] = {"allocator",
                                      "update",
                                      "tuning",
                                      "rules",
                                      "saved_plan",
                                      "seed",
                                      "swap_folder",
                                      "numerics",
                                      "device",
                                      "log",
                                      "ranks",
                                      "core_facts",
                                      "sparse_update",
                                      "device_wish.prefer",
                                      "device_wish.cpu_watts",
                                      "device_wish.device_watts",
                                      "device_wish.idle_watts",
                                      NULL};
    qn_metadata *settings;
    qn_task *task;
    CHECK_OK(qn_metadata_create(NULL, &settings));
    CHECK_OK(qn_metadata_set(settings, "data", "synthetic"));
    CHECK_OK(qn_metadata_set(settings, "batch", "4"));
    CHECK_OK(qn_metadata_set(settings, "seed", "9"));
    const qn_task_options o = {.size = sizeof o,
                               .engine = unusual(),
                               .model = qn_model_find("lenet5"),
                               .settings = settings,
                               .training = true};
    CHECK_OK(qn_task_open(&o, &task));
    check_arrived(&o.engine, qn_task_engine(task), but);
    const qn_engine_options *got = qn_engine_get_options(qn_task_engine(task));
    CHECK(got->seed == 9 && strcmp(got->swap_folder, "/tmp") == 0);
    qn_task_close(task);
    qn_task_options doubles = {QN_TASK_OPTIONS_INIT, .engine.real = QN_F64, .model = o.model};
    CHECK_FAILS(qn_task_open(&doubles, &task), QN_ERROR_UNSUPPORTED, "floats");
    doubles.engine.size = 0;
    CHECK_FAILS(qn_task_open(&doubles, &task), QN_ERROR_ARGUMENT, "engine");
    qn_metadata_destroy(settings);
}

int main(void) {
    test_sizes();
    test_nested();
    test_older_program();
    test_list();
    test_trainer();
    test_task();
    return checks_finish();
}
