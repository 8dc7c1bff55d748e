/* The loop over steps: a run that is stopped and goes on ends with the same file as one that is
 * not; checkpoints come by themselves and take less than a hundredth of the time; what a failed
 * step has spoiled is never saved; wrong options and every failing allocation leave nothing behind.
 */
#include "base/status.h"
#include "check.h"
#include "failing.h"
#include "os/os.h"
#include "quern/quern.h"

#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

static char root[] = "/tmp/quern-test-training-XXXXXX";

static const char *in_root(const char *name) {
    static char paths[4][PATH_MAX];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, PATH_MAX, "%s/%s", root, name);
    return path;
}

/* A model and its settings: pairs of name and value, null at the end. */
typedef struct setup {
    const char *model;
    const char *pairs[16];
} setup;

static const setup setups[] = {
    {"mlp", {"data", "synthetic", "batch", "100", "epochs", "1", "steps", "12", "seed", "3"}},
    {"char-lstm",
     {"data", "synthetic", "batch", "4", "length", "8", "steps", "6", "optimizer", "adam"}},
    {"dqn",
     {"data", "cartpole", "net", "mlp", "fill", "40", "replay", "100", "steps", "10", "batch", "4",
      "episodes", "1"}},
};

enum { N_SETUPS = sizeof setups / sizeof setups[0] };

/* A task with its settings, and what was told of its training. */
typedef struct run {
    qn_metadata *settings;
    qn_task *task;
    qn_training *training;
    int64_t n_steps, n_epochs, n_warnings, stops_after; /* 0: never */
    int64_t clock_ns, tick_ns;                          /* of a clock that ticks when it is read */
} run;

static void open_run(run *r, const setup *s, const char *name, const char *value) {
    *r = (run){.settings = NULL};
    CHECK_OK(qn_metadata_create(NULL, &r->settings));
    for (int i = 0; s->pairs[i]; i += 2)
        CHECK_OK(qn_metadata_set(r->settings, s->pairs[i], s->pairs[i + 1]));
    if (name)
        CHECK_OK(qn_metadata_set(r->settings, name, value));
    const qn_task_options options = {QN_TASK_OPTIONS_INIT, .model = qn_model_find(s->model),
                                     .settings = r->settings, .training = true,
                                     .engine.n_threads = 1};
    CHECK_OK(qn_task_open(&options, &r->task));
}

static void close_run(run *r) {
    qn_training_destroy(r->training);
    qn_task_close(r->task);
    qn_metadata_destroy(r->settings);
}

static void note(void *user, const qn_training_event *event) {
    run *r = user;
    r->n_steps += event->kind == QN_TRAINING_STEP;
    r->n_epochs += event->kind == QN_TRAINING_EPOCH;
    r->n_warnings += event->kind == QN_TRAINING_WARNING;
    CHECK(event->step == qn_engine_steps(qn_task_engine(r->task)));
}

static bool should_stop(void *user) {
    const run *r = user;
    return r->stops_after > 0 && r->n_steps >= r->stops_after;
}

static int64_t read_clock(void *user) {
    run *r = user;
    r->clock_ns += r->tick_ns;
    return r->clock_ns;
}

static qn_training_options options_of(run *r, const char *save) {
    return (qn_training_options){QN_OPTIONS_INIT(qn_training_options),
                                 .task = r->task,
                                 .settings = r->settings,
                                 .save = save,
                                 .user = r,
                                 .should_stop = should_stop,
                                 .tell = note,
                                 .replaces_longer = true};
}

static qn_status train(run *r, const qn_training_options *options) {
    QN_TRY(qn_training_create(options, &r->training));
    return qn_training_run(r->training);
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

/* ---- stopping and going on ---- */

static void check_going_on(const setup *s) {
    char whole[PATH_MAX], stopped[PATH_MAX];
    run r;
    snprintf(whole, sizeof whole, "%s", in_root("whole"));
    snprintf(stopped, sizeof stopped, "%s", in_root("stopped"));
    open_run(&r, s, NULL, NULL);
    qn_training_options o = options_of(&r, whole);
    CHECK_OK(train(&r, &o));
    const qn_training_state done = qn_training_get_state(r.training);
    CHECK(done.is_trained && done.saved_step == done.total_steps && done.n_saved == 1);
    CHECK(r.n_steps == done.total_steps && r.n_epochs >= 1 && r.n_warnings == 0);
    close_run(&r);
    for (int64_t step = 2; step < done.total_steps; step += 3) {
        open_run(&r, s, NULL, NULL);
        if (step > 2)
            CHECK_OK(qn_task_load(r.task, stopped, true));
        r.stops_after = step - qn_engine_steps(qn_task_engine(r.task));
        o = options_of(&r, stopped);
        CHECK_FAILS(train(&r, &o), QN_ERROR_INTERRUPTED, "stopped after step");
        CHECK(qn_training_get_state(r.training).saved_step == step);
        CHECK(!qn_training_get_state(r.training).is_trained);
        close_run(&r);
    }
    open_run(&r, s, NULL, NULL);
    CHECK_OK(qn_task_load(r.task, stopped, true));
    o = options_of(&r, stopped);
    CHECK_OK(train(&r, &o));
    close_run(&r);
    CHECK(are_equal(whole, stopped));
}

/* Stopped by signals wherever they come, between two operations of a step too: what goes on comes
 * to the same bits. The last run is not stopped, however slow the machine is. */
static volatile int signal_flag;

static void raise_flag(int number) {
    (void)number;
    signal_flag = 1;
}

static void check_signals(const setup *s) {
    enum { RUNS = 24 };
    char whole[PATH_MAX], stopped[PATH_MAX];
    qn_status status = QN_ERROR_INTERRUPTED;
    run r;
    snprintf(whole, sizeof whole, "%s", in_root("whole-signals"));
    snprintf(stopped, sizeof stopped, "%s", in_root("stopped-signals"));
    (void)unlink(stopped);
    open_run(&r, s, NULL, NULL);
    qn_training_options o = options_of(&r, whole);
    CHECK_OK(train(&r, &o));
    close_run(&r);
    signal(SIGALRM, raise_flag);
    for (int i = 0; status == QN_ERROR_INTERRUPTED && i < RUNS; i++) {
        const struct itimerval soon = {.it_value = {.tv_usec = i + 1 < RUNS ? 400 << i / 2 : 0}};
        open_run(&r, s, NULL, NULL);
        if (qn_path_is_file(stopped))
            CHECK_OK(qn_task_load(r.task, stopped, true));
        o = options_of(&r, stopped);
        o.stop_flag = (const int *)(uintptr_t)&signal_flag;
        signal_flag = i == 0;
        CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
        status = train(&r, &o);
        if (status != QN_ERROR_INTERRUPTED)
            CHECK_OK(status);
        CHECK(i > 0 || (status == QN_ERROR_INTERRUPTED && r.n_steps == 0));
        CHECK(status != QN_ERROR_INTERRUPTED || qn_engine_is_sound(qn_task_engine(r.task)));
        CHECK(setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {0}}, NULL) == 0);
        close_run(&r);
    }
    CHECK_OK(status);
    CHECK(are_equal(whole, stopped));
}

/* Stopped while its end is measured: the last step is saved before anybody knows how good it is.
 * The run that goes on finds out, and keeps the best weights. */
static void check_stopped_at_end(void) {
    const char *const names[] = {"whole", "whole-best", "part", "part-best"};
    char paths[4][PATH_MAX];
    run r;
    for (int i = 0; i < 4; i++)
        snprintf(paths[i], PATH_MAX, "%s", in_root(names[i]));
    for (int i = 0; i < 3; i++) { /* whole; stopped; going on */
        open_run(&r, &setups[0], NULL, NULL);
        if (i == 2)
            CHECK_OK(qn_task_load(r.task, paths[2], true));
        qn_training_options o = options_of(&r, paths[i == 0 ? 0 : 2]);
        o.save_best = paths[i == 0 ? 1 : 3];
        r.stops_after = i == 1 ? 12 : 0;
        const qn_status status = train(&r, &o);
        const qn_training_state state = qn_training_get_state(r.training);
        CHECK(status == (i == 1 ? QN_ERROR_INTERRUPTED : QN_OK) && state.saved_step == 12);
        CHECK(state.best.measured == (i == 1 ? -1 : 12));
        close_run(&r);
    }
    CHECK(are_equal(paths[0], paths[2]) && are_equal(paths[1], paths[3]));
}

/* ---- checkpoints by time ---- */

/* By a clock that ticks once for a checkpoint and four times for a step. */
static void check_time(int64_t tick_ns, int64_t every, int64_t n_least, int64_t n_most) {
    run r;
    open_run(&r, &setups[0], "batch", "4");
    r.tick_ns = tick_ns;
    qn_training_options o = options_of(&r, in_root("timed"));
    o.total_steps = 1000;
    o.no_test = true;
    o.clock_ns = read_clock;
    o.save_every = every;
    CHECK_OK(train(&r, &o));
    const qn_training_state s = qn_training_get_state(r.training);
    CHECK(s.n_saved - 1 >= n_least && s.n_saved - 1 <= n_most);
    CHECK(s.saving_ns * 100 <= r.clock_ns);
    close_run(&r);
}

/* ---- what is spoiled, what fails ---- */

static void check_spoiled(void) {
    run r;
    open_run(&r, &setups[0], "lr", "1e12");
    qn_training_options o = options_of(&r, in_root("spoiled"));
    CHECK(qn_engine_is_sound(qn_task_engine(r.task)));
    CHECK_FAILS(train(&r, &o), QN_ERROR_NUMERIC, "nothing was changed"); /* by the failed step */
    CHECK(qn_engine_is_sound(qn_task_engine(r.task)));
    CHECK(!qn_path_is_file(in_root("spoiled"))); /* the loss of such weights is not finite */
    close_run(&r);
    open_run(&r, &setups[0], NULL, NULL);
    o = options_of(&r, in_root("spoiled"));
    qn_stored_tensor tensor = {0};
    for (int i = 0; !tensor.trainable; i++)
        tensor = qn_engine_tensor_at(qn_task_engine(r.task), i);
    *(float *)tensor.data = NAN;
    CHECK_FAILS(train(&r, &o), QN_ERROR_NUMERIC, "not finite any more");
    CHECK(!qn_engine_is_sound(qn_task_engine(r.task)));
    CHECK(!qn_path_is_file(in_root("spoiled")));
    CHECK_FAILS(qn_checkpoint_save(qn_task_engine(r.task), NULL, in_root("spoiled")),
                QN_ERROR_NUMERIC, "not written");
    close_run(&r);
    open_run(&r, &setups[0], NULL, NULL);
    o = options_of(&r, in_root("sound"));
    CHECK_OK(train(&r, &o));
    CHECK_OK(qn_task_load(r.task, in_root("sound"), true));
    CHECK(qn_engine_is_sound(qn_task_engine(r.task)));
    close_run(&r);
}

static void check_options(void) {
    run r;
    open_run(&r, &setups[0], NULL, NULL);
    qn_training *none = NULL;
    qn_training_options o = options_of(&r, NULL);
    CHECK_FAILS(qn_training_create(NULL, &none), QN_ERROR_ARGUMENT, "options");
    CHECK_FAILS(qn_training_create(&o, NULL), QN_ERROR_ARGUMENT, "place");
    o.size = 3;
    CHECK_FAILS(qn_training_create(&o, &none), QN_ERROR_ARGUMENT, "size");
    o = options_of(&r, NULL);
    CHECK_FAILS(qn_training_run(NULL), QN_ERROR_ARGUMENT, "training");
    CHECK_FAILS(qn_task_load(r.task, NULL, true), QN_ERROR_ARGUMENT, "path");
    o.save_every = -2;
    CHECK_FAILS(qn_training_create(&o, &none), QN_ERROR_ARGUMENT, "save_every");
    o = options_of(&r, in_root("none/file"));
    CHECK_FAILS(qn_training_create(&o, &none), QN_ERROR_IO, "none/file");
    o = options_of(&r, in_root("same"));
    o.save_best = in_root("same");
    CHECK_FAILS(qn_training_create(&o, &none), QN_ERROR_ARGUMENT, "two files");
    o = options_of(&r, NULL);
    o.patience = 2;
    o.no_test = true;
    CHECK_FAILS(qn_training_create(&o, &none), QN_ERROR_ARGUMENT, "measure by");
    CHECK(!none && qn_training_get_state(NULL).saved_step == -1);
    qn_training_destroy(NULL);
    close_run(&r);
}

static void check_allocations(void) {
    failing f = {.left = -1};
    const qn_allocator allocator = {&f, failing_allocate, failing_release};
    run r;
    open_run(&r, &setups[0], NULL, NULL);
    qn_training_options o = options_of(&r, in_root("sound"));
    o.allocator = &allocator;
    qn_status status = QN_ERROR_MEMORY;
    for (int i = 0; status == QN_ERROR_MEMORY && i < 100; i++) {
        f.left = i;
        status = qn_training_create(&o, &r.training);
        CHECK(status == QN_OK || f.held_bytes == 0);
    }
    CHECK(status == QN_OK);
    close_run(&r);
    CHECK(f.held_bytes == 0);
}

int main(void) {
    const int64_t s = 1000000000;
    CHECK(mkdtemp(root));
    for (int i = 0; i < N_SETUPS; i++)
        check_going_on(&setups[i]);
    check_stopped_at_end();
    check_signals(&setups[0]);
    check_signals(&setups[1]);
    check_time(s / 10, 0, 6, 8);     /* 400 s: 5, 10, 20, 40, 80, 160, 280 s */
    check_time(10 * s, 0, 20, 40);   /* a checkpoint takes 10 s: every 1000 s of 40000 */
    check_time(10 * s, -1, 0, 0);    /* none but the last */
    check_time(s / 1000, 100, 9, 9); /* by steps */
    check_spoiled();
    check_options();
    check_allocations();
    char command[PATH_MAX];
    snprintf(command, sizeof command, "rm -rf %s", root);
    CHECK(system(command) == 0);
    return checks_finish();
}
