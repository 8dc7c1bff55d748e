/* The task of answering questions: no allocation in a step, and running out of memory at one
 * allocation after the other while it is opened, trained, measured and asked. */
#include "base/memory.h"
#include "base/status.h"
#include "data_files.h"
#include "quern/quern.h"
#include "quern/task.h"

static const char words[] =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\nwho\nsold\nthe\nred\nbox\notto\nilse\n?\n.\n";
static const char questions[] =
    "{\"data\": [{\"paragraphs\": [{\"context\": \"Otto sold the red box. Ilse sold the box.\", "
    "\"qas\": [{\"question\": \"Who sold the red box?\", \"answers\": [{\"text\": \"Otto\", "
    "\"answer_start\": 0}]}, {\"question\": \"Who sold the box?\", \"answers\": [{\"text\": "
    "\"Ilse\", \"answer_start\": 23}]}]}]}]}";

static qn_status put_settings(qn_metadata *settings) {
    QN_TRY(qn_metadata_set(settings, "data", at_root("squad:@/q.json,@/q.json")));
    QN_TRY(qn_metadata_set(settings, "wordpiece", at_root("@/words.txt")));
    QN_TRY(qn_metadata_set(settings, "batch", "2"));
    return qn_metadata_set(settings, "length", "16");
}

static void ignore_line(void *user, const char *line) {
    (void)user;
    CHECK(line[0] != 0);
}

static qn_status use(qn_task *task) {
    const qn_sample_options sampled = {QN_OPTIONS_INIT(qn_sample_options),
                                       .prompt = "Who sold the box?",
                                       .context = "Otto sold the box.", .put = ignore_line};
    qn_metrics metrics;
    int64_t n;
    QN_TRY(qn_task_step(task, &metrics));
    QN_TRY(qn_task_evaluate(task, QN_TEST, NULL, NULL, &metrics, &n));
    CHECK(n == 2 && metrics.n == 3);
    return qn_task_sample(task, &sampled);
}

static qn_status whole_run(const qn_allocator *allocator, qn_metadata **settings, qn_task **task) {
    QN_TRY(qn_metadata_create(allocator, settings));
    QN_TRY(put_settings(*settings));
    const qn_task_options options = {QN_TASK_OPTIONS_INIT,
                                     .engine.allocator = allocator,
                                     .model = qn_model_find("bert-tiny"),
                                     .settings = *settings,
                                     .training = true,
                                     .engine.n_threads = 1};
    QN_TRY(qn_task_open(&options, task));
    return use(*task);
}

/* Fails allocation n of a whole run; whether it was reached. */
static bool fail_at(int64_t n) {
    failing f = {.left = n};
    const qn_allocator allocator = {&f, failing_allocate, failing_release};
    qn_metadata *settings = NULL;
    qn_task *task = NULL;
    const qn_status status = whole_run(&allocator, &settings, &task);
    CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
    qn_task_close(task);
    qn_metadata_destroy(settings);
    CHECK(f.held_bytes == 0);
    return status != QN_OK;
}

static void test_failures(void) {
    int64_t n = 0;
    while (fail_at(n))
        n++;
    CHECK(n > 100);
}

/* Fewer than none left: none fails, all are counted. */
static void test_steps(void) {
    failing f = {.left = -1};
    const qn_allocator allocator = {&f, failing_allocate, failing_release};
    qn_metadata *settings = NULL;
    qn_task *task = NULL;
    qn_metrics metrics;
    CHECK_OK(whole_run(&allocator, &settings, &task));
    const int64_t before = f.left;
    for (int i = 0; i < 5; i++)
        CHECK_OK(qn_task_step(task, &metrics));
    CHECK(f.left == before);
    CHECK(qn_metrics_get(&metrics, "loss") > 0 && qn_metrics_get(&metrics, "exact_span") >= 0);
    qn_task_close(task);
    qn_metadata_destroy(settings);
    CHECK(f.held_bytes == 0);
}

int main(void) {
    files_begin();
    write_text("@/words.txt", words);
    write_text("@/q.json", questions);
    test_steps();
    test_failures();
    files_end();
    return checks_finish();
}
