/* Tasks without the command line: of text, every allocation failing in turn, from opening to
 * drawing, and a step that allocates nothing; of every kind, that running forward between steps
 * changes none. */
#include "base/memory.h"
#include "data_files.h"
#include "os/heap.h"
#include "quern/quern.h"

static void ignore_line(void *user, const char *line) {
    (void)user;
    (void)line;
}

static qn_status set_all(qn_metadata *settings, const char *const *pairs) {
    for (; *pairs; pairs += 2) {
        const qn_status status = qn_metadata_set(settings, pairs[0], at_root(pairs[1]));
        if (status != QN_OK)
            return status;
    }
    return QN_OK;
}

/* Two steps, a measurement and a sample. */
static qn_status use(qn_task *task) {
    qn_metrics metrics;
    int64_t n;
    const qn_sample_options sampled = {QN_OPTIONS_INIT(qn_sample_options), .length = 3,
                                       .temperature = 1, .put = ignore_line};
    qn_status status = QN_OK;
    for (int i = 0; i < 2 && status == QN_OK; i++)
        status = qn_task_step(task, &metrics);
    if (status == QN_OK)
        status = qn_task_check(task);
    if (status == QN_OK)
        status = qn_task_evaluate(task, QN_TEST, NULL, NULL, &metrics, &n);
    if (status == QN_OK)
        status = qn_task_sample(task, &sampled);
    return status;
}

static qn_status whole_run(const qn_allocator *allocator, const char *model,
                           const char *const *pairs) {
    qn_metadata *settings = NULL;
    qn_task *task = NULL;
    qn_status status = qn_metadata_create(allocator, &settings);
    if (status == QN_OK)
        status = set_all(settings, pairs);
    const qn_task_options options = {QN_TASK_OPTIONS_INIT,
                                     .engine.allocator = allocator,
                                     .model = qn_model_find(model),
                                     .settings = settings,
                                     .training = true,
                                     .engine.n_threads = 2};
    if (status == QN_OK)
        status = qn_task_open(&options, &task);
    if (status == QN_OK)
        status = use(task);
    qn_task_close(task);
    qn_metadata_destroy(settings);
    return status;
}

static void check_failures(const char *model, const char *const *pairs) {
    qn_status status = QN_ERROR_MEMORY;
    int64_t n = 0;
    for (; status != QN_OK && n < 100000; n++) {
        failing f = {.left = n};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        status = whole_run(&allocator, model, pairs);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        CHECK(f.held_bytes == 0);
    }
    CHECK_OK(status);
    printf("%s: %lld allocations failed in turn\n", model, (long long)n - 1);
}

/* A step asks the allocator for nothing. */
static void check_steps(const char *model, const char *const *pairs) {
    failing f = {.left = -1};
    const qn_allocator allocator = {&f, failing_allocate, failing_release};
    qn_metadata *settings;
    qn_metrics metrics;
    qn_task *task;
    CHECK_OK(qn_metadata_create(NULL, &settings));
    CHECK_OK(set_all(settings, pairs));
    const qn_task_options options = {QN_TASK_OPTIONS_INIT,
                                     .engine.allocator = &allocator,
                                     .model = qn_model_find(model),
                                     .settings = settings,
                                     .training = true,
                                     .engine.n_threads = 1};
    CHECK_OK(qn_task_open(&options, &task));
    const int64_t left = f.left;
    for (int i = 0; i < 5; i++)
        CHECK_OK(qn_task_step(task, &metrics));
    CHECK(f.left == left);
    qn_task_close(task);
    qn_metadata_destroy(settings);
}

/* Loss of the fourth of four steps, with or without running forward after each. */
static double fourth_loss(const char *model, const char *const *pairs, bool infers) {
    qn_metadata *settings;
    qn_metrics metrics = {0};
    qn_task *task;
    CHECK_OK(qn_metadata_create(NULL, &settings));
    CHECK_OK(set_all(settings, pairs));
    const qn_task_options options = {QN_TASK_OPTIONS_INIT, .model = qn_model_find(model),
                                     .settings = settings, .training = true, .engine.n_threads = 1};
    CHECK_OK(qn_task_open(&options, &task));
    CHECK_OK(qn_task_infer(task));
    for (int i = 0; i < 4; i++) {
        CHECK_OK(qn_task_step(task, &metrics));
        if (infers)
            CHECK_OK(qn_task_infer(task));
    }
    qn_task_close(task);
    qn_metadata_destroy(settings);
    return qn_metrics_get(&metrics, "loss");
}

static void check_infer(const char *model) {
    static const char *const pairs[] = {"data",   "synthetic", "batch", "2",   "length", "16",
                                        "hidden", "8",         "net",   "mlp", NULL};
    const double loss = fourth_loss(model, pairs, false);
    CHECK(isfinite(loss));
    CHECK(fourth_loss(model, pairs, true) == loss);
}

/* Bytes that an open task holds, or, where it only plans, would hold. */
static size_t held_bytes(const char *model, bool plan_only) {
    static const char *const pairs[] = {"data", "synthetic", "batch", "2", "accumulate", "1", NULL};
    qn_counter counter;
    const qn_allocator allocator = qn_counter_init(&counter, qn_allocator_default());
    qn_metadata *settings;
    qn_task *task;
    CHECK_OK(qn_metadata_create(&allocator, &settings));
    CHECK_OK(set_all(settings, pairs));
    const qn_task_options options = {QN_TASK_OPTIONS_INIT,
                                     .engine.allocator = &allocator,
                                     .model = qn_model_find(model),
                                     .settings = settings,
                                     .training = true,
                                     .engine.n_threads = 2,
                                     .engine.plan_only = plan_only};
    CHECK_OK(qn_task_open(&options, &task));
    const qn_memory_use use = qn_engine_get_memory(qn_task_engine(task));
    const size_t held = counter.held_bytes + use.planned_bytes;
    CHECK((use.planned_bytes > use.arena_bytes) == plan_only);
    if (plan_only) {
        qn_metrics metrics;
        CHECK_FAILS(qn_task_step(task, &metrics), QN_ERROR_UNSUPPORTED, "only plans");
    }
    qn_task_close(task);
    qn_metadata_destroy(settings);
    CHECK(counter.held_bytes == 0);
    return held;
}

int main(void) {
    static const char *const language[] = {"data", "text:@/text", "length", "4", "hidden",
                                           "3",    "batch",       "2",      NULL};
    static const char *const translation[] = {
        "data", "pairs:@/text,@/text", "length", "4", "hidden", "3", "batch", "2", NULL};
    static const char *const models[] = {"char-lstm", "char-cnn", "seq2seq"};
    files_begin();
    write_text("@/text", "a b\nb c\nc\na a b\nb\nc a b\na\nb c b\na b\nc\nb b b\na\nb c\nc c\nb a\n"
                         "a b c\nb\nc a\nb b\na\nc\nb a\na\nb\n");
    for (int i = 0; i < 3; i++) {
        check_failures(models[i], i < 2 ? language : translation);
        check_steps(models[i], i < 2 ? language : translation);
    }
    static const char *const kinds[] = {"lenet5", "char-lstm", "seq2seq",
                                        "dcgan",  "dqn",       "bert-tiny"};
    for (int i = 0; i < 6; i++)
        check_infer(kinds[i]);
    for (int i = 0; i < 6; i++)
        CHECK(held_bytes(kinds[i], true) == held_bytes(kinds[i], false));
    files_end();
    return checks_finish();
}
