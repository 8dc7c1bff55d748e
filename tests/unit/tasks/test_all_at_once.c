/* The whole trainer with all of its threads at once: batches are loaded ahead, operations run on a
 * team, a meter samples, the budget changes again and again, and checkpoints are written. The
 * weights are those of a run with nothing of it. Run under the thread sanitizer too. */
#include "base/status.h"
#include "check.h"
#include "os/os.h"
#include "quern/quern.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

enum { STEPS = 40, CHANGES = 6 };

static char root[] = "/tmp/quern-test-all-XXXXXX";

typedef struct run {
    qn_metadata *settings;
    qn_task *task;
    qn_meter *meter;
    size_t budgets[2];
    bool is_ending; /* the steps are done */
    int n_changed;  /* budgets that were taken */
} run;

static void open_run(run *r, bool changes, int n_threads) {
    static const char *const pairs[][2] = {{"data", "synthetic"}, {"batch", "16"},
                                           {"steps", "40"},       {"augment", "crop,flip"},
                                           {"optimizer", "adam"}, {"validation", "0.01"}};
    *r = (run){.settings = NULL};
    CHECK_OK(qn_metadata_create(NULL, &r->settings));
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        CHECK_OK(qn_metadata_set(r->settings, pairs[i][0], pairs[i][1]));
    const qn_task_options options = {
        QN_TASK_OPTIONS_INIT, .model = qn_model_find("lenet5"), .settings = r->settings,
        .training = true,     .engine.n_threads = n_threads,    .engine.budget_changes = changes};
    CHECK_OK(qn_task_open(&options, &r->task));
}

static void close_run(run *r) {
    qn_task_close(r->task);
    qn_metadata_destroy(r->settings);
}

/* Between two budgets and none, until the steps are done. */
static void change_budgets(void *context) {
    run *r = context;
    qn_engine *engine = qn_task_engine(r->task);
    for (int i = 0; i < CHANGES || !__atomic_load_n(&r->is_ending, __ATOMIC_ACQUIRE); i++) {
        const size_t bytes = i % 3 == 2 ? 0 : r->budgets[i % 3];
        r->n_changed += qn_engine_set_budget(engine, bytes) == QN_OK;
    }
}

static void note(void *user, const qn_training_event *event) {
    run *r = user;
    if (event->kind == QN_TRAINING_STEP)
        qn_meter_mark(r->meter);
}

static qn_status train(run *r, const char *save) {
    qn_training *training;
    const qn_training_options options = {QN_OPTIONS_INIT(qn_training_options),
                                         .task = r->task,
                                         .settings = r->settings,
                                         .save = save,
                                         .save_every = 7,
                                         .no_test = true,
                                         .user = r,
                                         .tell = note};
    QN_TRY(qn_training_create(&options, &training));
    const qn_status status = qn_training_run(training);
    qn_training_destroy(training);
    return status;
}

/* is_watched: the meter records every operation, and budgets wait for its end. */
static void run_all(const char *save, bool is_watched) {
    qn_thread *thread;
    run r;
    open_run(&r, true, 2);
    const qn_memory_use use = qn_engine_get_memory(qn_task_engine(r.task));
    r.budgets[0] = 2 * (use.held_bytes + use.mapped_bytes);
    r.budgets[1] = r.budgets[0] + (1 << 20);
    const qn_meter_options measured = {QN_OPTIONS_INIT(qn_meter_options),
                                       .engine = is_watched ? qn_task_engine(r.task) : NULL,
                                       .interval_ns = 1000000};
    CHECK_OK(qn_meter_start(&measured, &r.meter));
    CHECK_OK(qn_thread_start(NULL, change_budgets, &r, &thread));
    CHECK_OK(train(&r, save));
    __atomic_store_n(&r.is_ending, true, __ATOMIC_RELEASE);
    qn_meter_stop(r.meter);
    qn_thread_join(thread);
    CHECK(r.n_changed >= CHANGES);
    qn_meter_destroy(r.meter);
    close_run(&r);
}

static bool are_equal(const char *left, const char *right) {
    char *a = NULL, *b = NULL;
    size_t n_a = 0, n_b = 0;
    CHECK_OK(qn_file_read_whole(NULL, left, &a, &n_a));
    CHECK_OK(qn_file_read_whole(NULL, right, &b, &n_b));
    const bool is_equal = a && b && n_a == n_b && memcmp(a, b, n_a) == 0;
    free(a);
    free(b);
    return is_equal;
}

int main(void) {
    char plain[PATH_MAX], all[PATH_MAX], command[PATH_MAX];
    run r;
    CHECK(mkdtemp(root));
    snprintf(plain, sizeof plain, "%s/plain", root);
    snprintf(all, sizeof all, "%s/all", root);
    open_run(&r, false, 1);
    CHECK_OK(train(&r, plain));
    close_run(&r);
    for (int i = 0; i < 2; i++) {
        run_all(all, i > 0);
        CHECK(are_equal(plain, all));
    }
    snprintf(command, sizeof command, "rm -rf %s", root);
    CHECK(system(command) == 0);
    return checks_finish();
}
