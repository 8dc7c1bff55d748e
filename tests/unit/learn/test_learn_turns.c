/* The service, turn by turn: nothing is done while a rule is broken or somebody wants the device;
 * after that at most the step under way; budgets outlast restarts and clocks that are set back; a
 * full disk and failing allocations lose nothing. QUERN_MOMENTS: at how many random moments the
 * user comes back; the times until the device is free are printed, and what a program at 60 Hz
 * loses beside a service that has yielded. */
#include "base/rng.h"
#include "base/status.h"
#include "image_files.h"
#include "learn/service.h"
#include "os/heap.h"
#include "os/os.h"
#include "quern/checkpoint.h"
#include "quern/learn.h"
#include "quern/trainer.h"
#include "tensor/tensor.h"

enum { SIDE = 28, N_PICTURES = 64, N_CLASSES = 4 };

/* ---- a model and pictures ---- */

static void make_picture(const char *folder, int i, bool is_turned) {
    static unsigned char rows[SIDE * (SIDE + 1)];
    char path[128];
    const qn_rng rng = qn_rng_make(5, is_turned, (uint64_t)i);
    for (int y = 0; y < SIDE; y++) {
        unsigned char *row = rows + (ptrdiff_t)y * (SIDE + 1);
        row[0] = 0;
        for (int x = 0; x < SIDE; x++) {
            const bool is_bar = (is_turned ? y : x) / 7 == i % N_CLASSES;
            const uint64_t place = (uint64_t)(y * SIDE + x);
            row[x + 1] = (unsigned char)(qn_rng_below(rng, place, 100) + (is_bar ? 100 : 0));
        }
    }
    snprintf(path, sizeof path, "@/%s/%d/%d.png", folder, i % N_CLASSES, i);
    write_png(path, SIDE, SIDE, 8, 0, false, rows, sizeof rows);
}

static void make_pictures(const char *folder, bool is_turned) {
    char path[64];
    for (int c = 0; c < N_CLASSES; c++) {
        snprintf(path, sizeof path, "@/%s/%d", folder, c);
        make_folder(path);
    }
    for (int i = 0; i < N_PICTURES; i++)
        make_picture(folder, i, is_turned);
}

/* Untrained weights, which anything is better than. */
static void make_model(const char *name) {
    const qn_preparation preparation = {.sample = {3, {SIDE, SIDE, 1}}, .n_classes = N_CLASSES};
    qn_trainer_options o = qn_trainer_options_for(qn_model_find("lenet5"));
    qn_metadata *pairs;
    qn_trainer *trainer;
    o.n_outputs = N_CLASSES;
    o.batch = 4;
    o.engine.n_threads = 1;
    CHECK_OK(qn_trainer_create(&o, &trainer));
    CHECK_OK(qn_metadata_create(NULL, &pairs));
    CHECK_OK(qn_metadata_set(pairs, "model", "lenet5"));
    CHECK_OK(qn_metadata_set_preparation(pairs, &preparation));
    CHECK_OK(qn_checkpoint_save(qn_trainer_engine(trainer), pairs, at_root(name)));
    qn_metadata_destroy(pairs);
    qn_trainer_destroy(trainer);
}

/* ---- a device ---- */

typedef struct device {
    int64_t second;
    double idle, charging;
    bool is_wanted; /* by somebody; set from another thread */
} device;

static qn_status sense(void *user, qn_moment *m, double *cool) {
    const device *d = user;
    for (int i = 0; i < QN_SENSES; i++)
        m->sense[i] = (double)NAN;
    m->second = d->second;
    m->sense[QN_SENSE_IDLE] = d->idle;
    m->sense[QN_SENSE_CHARGING] = d->charging;
    *cool = 40;
    return QN_OK;
}

static bool should_stop(void *user) {
    return __atomic_load_n(&((device *)user)->is_wanted, __ATOMIC_ACQUIRE);
}

static device resting(void) {
    return (device){.second = 1000 * (int64_t)QN_DAY_SECONDS + 40000, .idle = 60, .charging = 1};
}

static qn_service_options usual(device *d, char folder[PATH_MAX], const char *name) {
    static char model[PATH_MAX], inbox[PATH_MAX];
    snprintf(model, sizeof model, "%s", at_root("@/m.safetensors"));
    snprintf(inbox, sizeof inbox, "%s", at_root("@/inbox"));
    snprintf(folder, PATH_MAX, "%s", at_root(name));
    return (qn_service_options){.folder = folder,
                                .model = model,
                                .inbox = inbox,
                                .n_kept = 48,
                                .batch = 4,
                                .n_threads = 1,
                                .when = "idle,charging",
                                .watts = 5,
                                .user = d,
                                .sense = sense,
                                .should_stop = should_stop};
}

/* Turns until there is nothing to do, or n are done. */
static qn_status turn_on(qn_service *s, int n, qn_learn_turn *turn) {
    int64_t rest_ns;
    *turn = QN_TURN_WORKED;
    for (int i = 0; i < n && *turn == QN_TURN_WORKED; i++)
        QN_TRY(qn_service_turn(s, turn, &rest_ns));
    return QN_OK;
}

/* What a visitor finds; 0: no limit. */
static int64_t limit_of(const char *folder) {
    qn_store store;
    int64_t bytes = -1;
    CHECK_OK(qn_store_open(NULL, folder, true, 0, &store));
    CHECK_OK(qn_store_get(&store, "disk_bytes", 0, &bytes));
    qn_store_close(&store);
    return bytes;
}

/* ---- tests ---- */

static void test_rules(void) {
    char folder[PATH_MAX];
    device d = resting();
    const qn_service_options o = usual(&d, folder, "@/rules");
    const qn_rng rng = qn_rng_make(1, 2, 3);
    qn_service *s, *other;
    qn_learn_turn turn;
    int64_t rest_ns, n_worked = 0;
    CHECK_OK(qn_service_open(&o, &s));
    CHECK_FAILS(qn_service_open(&o, &other), QN_ERROR_IO, "another");
    for (uint64_t i = 0; i < 400; i++) {
        const qn_learning_facts before = qn_service_get_facts(s);
        d.second += 100;
        d.idle = qn_rng_below(rng, 4 * i, 4) ? 60 : 0;
        d.charging = qn_rng_below(rng, 4 * i + 1, 6) ? 1 : 0;
        d.is_wanted = qn_rng_below(rng, 4 * i + 2, 6) == 0;
        CHECK_OK(qn_service_turn(s, &turn, &rest_ns));
        const qn_learning_facts after = qn_service_get_facts(s);
        const bool is_free = d.idle > 0 && d.charging > 0 && !d.is_wanted;
        if (!is_free)
            CHECK(turn == QN_TURN_WAITS && after.step == before.step &&
                  after.n_taken == before.n_taken && after.version == before.version);
        CHECK(after.step <= before.step + 1);
        n_worked += turn == QN_TURN_WORKED;
    }
    CHECK(n_worked > 20 && qn_service_get_facts(s).version == 1);
    qn_service_close(s);
}

static void test_budget(void) {
    char folder[PATH_MAX];
    device d = resting();
    qn_service_options o = usual(&d, folder, "@/budget");
    qn_service *s;
    qn_learn_turn turn;
    o.day_seconds = 1e-5;
    CHECK_OK(qn_service_open(&o, &s));
    CHECK_OK(turn_on(s, 200, &turn));
    CHECK(turn == QN_TURN_WAITS && qn_service_get_facts(s).step == 1);
    qn_service_close(s);
    d.second -= 7200; /* set back: no new budget, and none by a restart */
    CHECK_OK(qn_service_open(&o, &s));
    CHECK_OK(turn_on(s, 200, &turn));
    CHECK(turn == QN_TURN_WAITS && qn_service_get_facts(s).step == 1);
    d.second += QN_DAY_SECONDS + 7200;
    CHECK_OK(turn_on(s, 200, &turn));
    CHECK(qn_service_get_facts(s).step == 2);
    qn_service_close(s);
}

static void test_full_disk(void) {
    char folder[PATH_MAX];
    device d = resting();
    qn_service_options o = usual(&d, folder, "@/full");
    qn_service *s;
    qn_learn_turn turn;
    qn_status status;
    CHECK_OK(qn_service_open(&o, &s));
    qn_service_close(s);
    o.disk_bytes = qn_path_bytes(at_root("@/full/learn.db")) + 70000; /* no room for a round */
    o.n_kept = 0;
    CHECK_OK(qn_service_open(&o, &s));
    status = turn_on(s, 500, &turn);
    CHECK(status == QN_ERROR_IO && strstr(qn_error_message(), "no room"));
    const int64_t n_taken = qn_service_get_facts(s).n_taken;
    CHECK(turn_on(s, 500, &turn) == QN_ERROR_IO); /* as often as it tries */
    CHECK(qn_service_get_facts(s).n_taken == n_taken && qn_service_get_facts(s).version == 0);
    qn_service_close(s);
    const int64_t limit = limit_of(folder);
    CHECK(limit > 0 && limit < o.disk_bytes); /* without what lies beside the store */
    o.disk_bytes = 0;                         /* a start without a limit lifts it */
    CHECK_OK(qn_service_open(&o, &s));
    CHECK_OK(turn_on(s, 500, &turn));
    CHECK(turn == QN_TURN_DONE && qn_service_get_facts(s).n_taken == N_PICTURES);
    CHECK(qn_service_get_facts(s).version == 1);
    qn_service_close(s);
    CHECK(limit_of(folder) == 0);
}

static void test_failures(void) {
    char folder[PATH_MAX];
    device d = resting();
    qn_service_options o = usual(&d, folder, "@/bad");
    qn_service *s;
    make_folder("@/bad");
    write_text("@/bad/learn.db", "This is not a database, but it is long enough to look like one.");
    CHECK_FAILS(qn_service_open(&o, &s), QN_ERROR_FORMAT, "not a database");
    o = usual(&d, folder, "@/new");
    o.model = NULL;
    CHECK_FAILS(qn_service_open(&o, &s), QN_ERROR_ARGUMENT, "--model FILE");
    o = usual(&d, folder, "@/rules");
    o.n_kept = 47;
    CHECK_FAILS(qn_service_open(&o, &s), QN_ERROR_ARGUMENT, "--keep 48, which stays");
}

/* One memory failure after the other; what is held is given back, and the store stays whole. */
static void test_failing_allocations(void) {
    char folder[PATH_MAX];
    device d = resting();
    int n_failed = 0;
    for (int64_t n = 0;; n += n < 30 ? 5 : n / 3) {
        failing f = {.left = n};
        const qn_allocator a = {&f, failing_allocate, failing_release};
        qn_service_options o = usual(&d, folder, "@/memory");
        qn_service *s = NULL;
        qn_learn_turn turn;
        o.allocator = &a;
        qn_status status = qn_service_open(&o, &s);
        if (status == QN_OK)
            status = turn_on(s, 500, &turn);
        qn_service_close(s);
        CHECK(f.held_bytes == 0);
        if (status == QN_OK)
            break;
        CHECK(status == QN_ERROR_MEMORY && n < 100000);
        n_failed++;
    }
    CHECK(n_failed > 8);
    qn_store store;
    int64_t n_taken;
    CHECK_OK(qn_store_open(NULL, folder, true, 0, &store));
    CHECK_OK(qn_store_get(&store, "taken", 0, &n_taken));
    CHECK(n_taken == N_PICTURES);
    qn_store_close(&store);
}

/* ---- as a program has it ---- */

static void get_pixels(int i, uint8_t *pixels) {
    const qn_rng rng = qn_rng_make(7, 3, (uint64_t)i);
    for (int p = 0; p < SIDE * SIDE; p++) {
        const bool is_bar = p / SIDE / 7 == i % N_CLASSES;
        pixels[p] = (uint8_t)(qn_rng_below(rng, (uint64_t)p, 100) + (is_bar ? 100 : 0));
    }
}

static qn_learning_options program_options(const char *name, char folder[PATH_MAX],
                                           char model[PATH_MAX]) {
    snprintf(folder, PATH_MAX, "%s", at_root(name));
    snprintf(model, PATH_MAX, "%s", at_root("@/m.safetensors"));
    return (qn_learning_options){QN_OPTIONS_INIT(qn_learning_options),
                                 .folder = folder,
                                 .model = model,
                                 .n_kept = 48,
                                 .batch = 4,
                                 .n_threads = 1,
                                 .when = "cool:95"};
}

static void learn_all(qn_learning *learning) {
    qn_learn_turn turn = QN_TURN_WORKED;
    int64_t rest_ns;
    for (int i = 0; i < 1000 && turn == QN_TURN_WORKED; i++)
        CHECK_OK(qn_learning_turn(learning, &turn, &rest_ns));
    CHECK(turn == QN_TURN_DONE);
}

/* Samples that are handed over wait in the folder, are learned from, and are taken once. */
static void test_program(void) {
    uint8_t pixels[SIDE * SIDE];
    char folder[PATH_MAX], model[PATH_MAX];
    const qn_learning_options o = program_options("@/program", folder, model);
    qn_learning *learning;
    CHECK_OK(qn_learning_open(&o, &learning));
    CHECK(qn_shape_count(qn_learning_input(learning)) == SIDE * SIDE);
    CHECK_FAILS(qn_learning_offer(learning, pixels, N_CLASSES, "a"), QN_ERROR_ARGUMENT, "class 4");
    CHECK_FAILS(qn_learning_undo(learning), QN_ERROR_ARGUMENT, "no version before 0");
    for (int i = 0; i < N_PICTURES + 4; i++) {
        get_pixels(i % N_PICTURES, pixels); /* the first four twice */
        CHECK_OK(qn_learning_offer(learning, pixels, i % N_CLASSES, "a"));
    }
    qn_learning_close(learning); /* nothing is lost */
    CHECK_OK(qn_learning_open(&o, &learning));
    learn_all(learning);
    qn_learning_facts f = qn_learning_get_facts(learning);
    CHECK(f.n_taken == N_PICTURES && f.version == 1 && f.n_fresh == 0);
    CHECK_OK(qn_learning_undo(learning));
    CHECK(qn_learning_get_facts(learning).version == 0);
    CHECK_OK(qn_learning_set_paused(learning, true));
    qn_learn_turn turn;
    int64_t rest_ns;
    CHECK_OK(qn_learning_turn(learning, &turn, &rest_ns));
    CHECK(turn == QN_TURN_WAITS && rest_ns > 0);
    CHECK_OK(qn_learning_set_paused(learning, false));
    qn_learning_close(learning);
}

/* ---- the world changes ---- */

static void count_changes(void *user, int64_t second, const char *text) {
    (void)second;
    *(int *)user += strncmp(text, "the world changed", 17) == 0;
}

/* Samples of a round are offered; then the classes of what is seen change places. */
static void test_change(void) {
    uint8_t pixels[SIDE * SIDE];
    char folder[PATH_MAX], model[PATH_MAX];
    int n_changes = 0;
    qn_learning_options o = program_options("@/changes", folder, model);
    o.n_kept = 400;
    o.user = &n_changes;
    o.said = count_changes;
    qn_learning *learning;
    CHECK_OK(qn_learning_open(&o, &learning));
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < 120; i++) {
            get_pixels(120 * round + i, pixels);
            const int32_t label = (i + 120 * round + (round == 5)) % N_CLASSES;
            CHECK_OK(qn_learning_offer(learning, pixels, label, "a"));
        }
        if (round % 2) { /* what is counted outlasts a restart */
            qn_learning_close(learning);
            CHECK_OK(qn_learning_open(&o, &learning));
        }
        learn_all(learning);
        CHECK(n_changes == (round == 5));
    }
    qn_learning_close(learning);
}

/* ---- the user comes back ---- */

typedef struct run {
    qn_service *service;
    device *d;
    const char *folder;
    int64_t n_worked;
    bool is_waiting, must_end;
} run;

/* As if the samples were new, so that there is something to learn. */
static void renew(const char *folder) {
    qn_store store;
    int64_t generation;
    CHECK_OK(qn_store_open(NULL, folder, true, 0, &store));
    CHECK_OK(qn_store_get(&store, "generation", 0, &generation));
    CHECK_OK(qn_store_set(&store, "fresh", 100));
    CHECK_OK(qn_store_set(&store, "generation", generation + 1));
    qn_store_close(&store);
}

static void work(void *context) {
    run *r = context;
    bool was_done = false;
    while (!__atomic_load_n(&r->must_end, __ATOMIC_ACQUIRE)) {
        qn_learn_turn turn = QN_TURN_WAITS;
        int64_t rest_ns;
        if (qn_service_turn(r->service, &turn, &rest_ns) != QN_OK)
            CHECK_OK(QN_ERROR_IO);
        if (turn == QN_TURN_DONE && !was_done)
            renew(r->folder);
        was_done = turn == QN_TURN_DONE || (was_done && turn == QN_TURN_WAITS);
        if (turn == QN_TURN_WORKED)
            __atomic_fetch_add(&r->n_worked, 1, __ATOMIC_ACQ_REL);
        __atomic_store_n(&r->is_waiting, turn != QN_TURN_WORKED, __ATOMIC_RELEASE);
    }
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double come_back(run *r, int64_t after_ns) {
    const int64_t n_done = __atomic_load_n(&r->n_worked, __ATOMIC_ACQUIRE);
    while (__atomic_load_n(&r->n_worked, __ATOMIC_ACQUIRE) == n_done)
        ; /* it has begun */
    const int64_t begin = qn_clock_ns();
    while (qn_clock_ns() - begin < after_ns)
        ;
    __atomic_store_n(&r->is_waiting, false, __ATOMIC_RELEASE);
    const int64_t moment = qn_clock_ns();
    __atomic_store_n(&r->d->is_wanted, true, __ATOMIC_RELEASE);
    const int64_t n_before = __atomic_load_n(&r->n_worked, __ATOMIC_ACQUIRE);
    while (!__atomic_load_n(&r->is_waiting, __ATOMIC_ACQUIRE))
        ;
    const double ms = (double)(qn_clock_ns() - moment) / 1e6;
    CHECK(__atomic_load_n(&r->n_worked, __ATOMIC_ACQUIRE) - n_before <= 1);
    __atomic_store_n(&r->d->is_wanted, false, __ATOMIC_RELEASE);
    return ms;
}

static void test_returns(void) {
    enum { MOST = 10000 };
    static double ms[MOST];
    char folder[PATH_MAX];
    device d = resting();
    qn_service_options o = usual(&d, folder, "@/returns");
    const char *given = getenv("QUERN_MOMENTS");
    const int n = given && atoi(given) > 0 && atoi(given) < MOST ? atoi(given) : 12;
    const qn_rng rng = qn_rng_make(9, 9, 9);
    run r = {.d = &d, .folder = folder};
    qn_thread *thread;
    o.batch = given ? 32 : 4;
    CHECK_OK(qn_service_open(&o, &r.service));
    CHECK_OK(qn_thread_start(NULL, work, &r, &thread));
    for (int i = 0; i < n; i++)
        ms[i] = come_back(&r, (int64_t)qn_rng_below(rng, (uint64_t)i, 12000000));
    __atomic_store_n(&r.must_end, true, __ATOMIC_RELEASE);
    qn_thread_join(thread);
    qsort(ms, (size_t)n, sizeof *ms, compare);
    printf("%d returns: the device is free after %.1f ms (median), %.1f (99 %%), %.1f (most); "
           "longest step %.1f ms\n",
           n, ms[n / 2], ms[n * 99 / 100], ms[n - 1],
           1e3 * qn_service_get_facts(r.service).longest_step_seconds);
    qn_service_close(r.service);
}

/* ---- a program of the user at 60 Hz ---- */

enum { N_RETURNS = 40, N_FRAMES = 25 };

/* As quern learn start does it: between turns it rests. */
static void serve(void *context) {
    run *r = context;
    bool was_done = false;
    while (!__atomic_load_n(&r->must_end, __ATOMIC_ACQUIRE)) {
        qn_learn_turn turn = QN_TURN_WAITS;
        int64_t rest_ns;
        CHECK_OK(qn_service_turn(r->service, &turn, &rest_ns));
        if (turn == QN_TURN_DONE && !was_done)
            renew(r->folder);
        was_done = turn == QN_TURN_DONE || (was_done && turn == QN_TURN_WAITS);
        if (turn == QN_TURN_WORKED)
            __atomic_fetch_add(&r->n_worked, 1, __ATOMIC_ACQ_REL);
        usleep(turn == QN_TURN_WORKED ? 0 : 50000);
    }
}

/* Some ms of work; how long it took. */
static double draw_frame(void) {
    static volatile double x = 1;
    const int64_t begin = qn_clock_ns();
    for (int i = 0; i < 2000000; i++)
        x = x * 0.999999 + 1e-6;
    return (double)(qn_clock_ns() - begin) / 1e6;
}

static void draw_frames(double *ms) {
    for (int i = 0; i < N_FRAMES; i++) {
        const int64_t begin = qn_clock_ns();
        ms[i] = draw_frame();
        const int64_t left_us = (16666667 - (qn_clock_ns() - begin)) / 1000;
        usleep(left_us > 0 ? (useconds_t)left_us : 0);
    }
}

static void test_foreground(void) {
    static double with[N_RETURNS * N_FRAMES], alone[N_RETURNS * N_FRAMES];
    const int n = N_RETURNS * N_FRAMES;
    char folder[PATH_MAX];
    device d = resting();
    qn_service_options o = usual(&d, folder, "@/frames");
    run r = {.d = &d, .folder = folder};
    qn_thread *thread;
    o.n_threads = 0;
    if (!getenv("QUERN_MOMENTS"))
        return;
    for (int i = 0; i < N_RETURNS; i++) { /* by turns */
        draw_frames(alone + (ptrdiff_t)i * N_FRAMES);
        CHECK_OK(qn_service_open(&o, &r.service));
        r.must_end = false;
        CHECK_OK(qn_thread_start(NULL, serve, &r, &thread));
        const int64_t n_before = __atomic_load_n(&r.n_worked, __ATOMIC_ACQUIRE);
        while (__atomic_load_n(&r.n_worked, __ATOMIC_ACQUIRE) < n_before + 5)
            usleep(1000);
        __atomic_store_n(&d.is_wanted, true, __ATOMIC_RELEASE);
        draw_frames(with + (ptrdiff_t)i * N_FRAMES);
        __atomic_store_n(&r.must_end, true, __ATOMIC_RELEASE);
        __atomic_store_n(&d.is_wanted, false, __ATOMIC_RELEASE);
        qn_thread_join(thread);
        qn_service_close(r.service);
    }
    qsort(with, (size_t)n, sizeof *with, compare);
    qsort(alone, (size_t)n, sizeof *alone, compare);
    printf("%d frames: %.2f ms alone, %.2f beside the service (median), %.2f and %.2f (99 %%)\n", n,
           alone[n / 2], with[n / 2], alone[n * 99 / 100], with[n * 99 / 100]);
}

/* In memory, where that is to be had: hundreds of changes are synced. What is measured is not. */
static void choose_place(void) {
    static const char place[] = "/dev/shm/quern-learn-XXXXXX";
    if (!getenv("QUERN_MOMENTS") && access("/dev/shm", W_OK) == 0 &&
        sizeof place == sizeof test_root)
        memcpy(test_root, place, sizeof place);
}

int main(void) {
    choose_place();
    files_begin();
    make_pictures("inbox", true);
    make_model("@/m.safetensors");
    test_rules();
    test_budget();
    test_full_disk();
    test_failures();
    test_program();
    test_change();
    test_failing_allocations();
    test_returns();
    test_foreground();
    files_end();
    return checks_finish();
}
