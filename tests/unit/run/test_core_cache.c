/* Schedules in the cache folder: an engine begins with the one that is kept for its steps, with the
 * same bits; one in an impossible order is left alone, and so is any where it is measured anew. And
 * schedules that are found, or read, in training's own steps: the same bits in the same arena. */
#include "check.h"
#include "os/heap.h"
#include "os/team.h"
#include "quern/quern.h"
#include "run/cores/cores.h"
#include "run/inspect.h"
#include "run/trainer.h"
#include "small_models.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 40, WEIGHTS = 1 << 14 };

static char folder[] = "/tmp/quern-test-schedules-XXXXXX";

typedef struct run {
    bool is_cached;
    qn_schedule_key key;
    size_t bytes;
    char weights[WEIGHTS]; /* (bytes) */
} run;

static void keep_weights(const qn_engine *e, run *r) {
    for (int i = 0; i < e->store.n_tensors; i++) {
        const qn_stored_tensor *t = &e->store.tensors[i];
        CHECK(r->bytes + t->bytes <= WEIGHTS);
        if (r->bytes + t->bytes > WEIGHTS)
            return;
        memcpy(r->weights + r->bytes, t->data, t->bytes);
        r->bytes += t->bytes;
    }
}

static qn_trainer *make(qn_cores_choice cores, int n_threads) {
    qn_trainer_options o = qn_trainer_options_for(&small_conv);
    qn_trainer *trainer;
    o.engine.n_threads = n_threads;
    o.engine.cores = cores;
    CHECK_OK(qn_trainer_create(&o, &trainer));
    return trainer;
}

static void step(qn_trainer *trainer) {
    static _Alignas(64) float x[6 * 8 * 8 * 3];
    static _Alignas(64) int32_t y[6];
    qn_step_result result;
    for (int i = 0; i < 6 * 8 * 8 * 3; i++)
        x[i] = (float)(i * 7 % 13) / 13;
    CHECK_OK(qn_trainer_step(trainer, x, y, &result));
}

static run train(qn_cores_choice cores) {
    qn_trainer *trainer = make(cores, 2);
    run r = {0};
    const qn_engine *e = qn_trainer_engine(trainer);
    const size_t arena_bytes = e->memory.arena_bytes;
    CHECK(!qn_cores_of(e) || (qn_cores_of(e)->later != NULL) == (cores == QN_CORES_LATER));
    if (cores == QN_CORES_LATER)
        qn_cores_of(e)->parts = 0; /* at once */
    r.is_cached = qn_engine_get_cores(e).is_cached;
    if (qn_cores_of(e))
        r.key = qn_cores_of(e)->key;
    for (int i = 0; i < STEPS; i++)
        step(trainer);
    if (cores == QN_CORES_LATER) {
        const qn_cores_use use = qn_engine_get_cores(e);
        r.is_cached = use.is_cached;
        CHECK(use.n_operations > 0 && use.n_profiled <= 20 && e->memory.arena_bytes == arena_bytes);
        CHECK(use.is_cached || use.n_measured == use.n_operations);
    }
    keep_weights(e, &r);
    qn_trainer_destroy(trainer);
    return r;
}

/* Of other numbers of threads, too. */
static void forget_all(const char *of) {
    char command[sizeof folder + 32];
    snprintf(command, sizeof command, "rm -f %s/quern/schedule-*.txt", of);
    CHECK(system(command) == 0);
}

/* Training that ends while a schedule is being found gives all its memory back (LeakSanitizer). */
static void test_ended_early(void) {
    for (int n_steps = 0; n_steps <= 17; n_steps++) {
        qn_trainer_options o = qn_trainer_options_for(&small_conv);
        qn_trainer *trainer;
        o.engine.n_threads = 2;
        o.engine.cores = QN_CORES_LATER;
        CHECK_OK(qn_trainer_create(&o, &trainer));
        qn_cores_of(qn_trainer_engine(trainer))->parts = 0;
        for (int i = 0; i < n_steps; i++)
            step(trainer);
        CHECK(n_steps > 8 || qn_cores_of(qn_trainer_engine(trainer))->later);
        qn_trainer_destroy(trainer);
    }
}

/* Operations on so many cores by turns, in the plan's order or from its end. */
static void keep(const qn_schedule_key *key, int n_cores, bool is_possible) {
    const qn_schedule_times times = {.rehearsed_ns = 1, .rehearsed_usual_ns = 2};
    qn_timetable t;
    CHECK_OK(qn_timetable_init(qn_allocator_default(), key->n_steps, &t));
    for (int32_t i = 0; i < key->n_steps; i++) {
        const int32_t step = is_possible ? i : key->n_steps - 1 - i;
        t.order[i] = step;
        t.turns[step] = (qn_turn){.first = (int16_t)(i % n_cores), .width = 1, .rank = i};
    }
    qn_schedule_save(key, &times, &t);
    qn_timetable_deinit(&t);
}

/* A limit that comes and goes between steps: so many threads, the same bits, and a schedule of more
 * lanes is not used meanwhile. */
static run train_limited(qn_cores_choice cores) {
    qn_trainer *trainer = make(cores, 3);
    run r = {0};
    qn_engine *e = qn_trainer_engine(trainer);
    if (cores == QN_CORES_LATER)
        qn_cores_of(e)->parts = 0;
    for (int i = 0; i < STEPS; i++) {
        const int most = i < 5 ? 3 : 1 + i / 3 % 4;
        qn_engine_limit_threads(e, most);
        step(trainer);
        CHECK(qn_team_size(e->team) == (most < 3 ? most : 3));
        CHECK(most >= 3 || !qn_cores_of(e) || !qn_cores_of(e)->is_beside);
    }
    keep_weights(e, &r);
    qn_trainer_destroy(trainer);
    return r;
}

static void check_equal(const run *a, const run *b) {
    CHECK(a->bytes > 0 && a->bytes == b->bytes && memcmp(a->weights, b->weights, a->bytes) == 0);
}

int main(void) {
    if (!mkdtemp(folder))
        return 1;
    setenv("XDG_CACHE_HOME", folder, 1);
    const run one = train(QN_CORES_ONE_BY_ONE), first = train(QN_CORES_AUTO);
    CHECK(!first.is_cached && first.key.n_steps > 0 && first.key.n_cores == 2);
    check_equal(&one, &first);
    keep(&first.key, 2, true);
    const run cached = train(QN_CORES_AUTO);
    CHECK(cached.is_cached);
    check_equal(&one, &cached);
    keep(&first.key, 2, true);
    const run anew = train(QN_CORES_MEASURED);
    CHECK(!anew.is_cached);
    check_equal(&one, &anew);
    keep(&first.key, 1, true); /* in no larger arena */
    const run read_later = train(QN_CORES_LATER);
    CHECK(read_later.is_cached);
    check_equal(&one, &read_later);
    qn_schedule_forget(&first.key);
    const run found_later = train(QN_CORES_LATER);
    CHECK(!found_later.is_cached);
    check_equal(&one, &found_later);
    qn_schedule_forget(&first.key);
    test_ended_early();
    for (qn_cores_choice cores = QN_CORES_ONE_BY_ONE; cores <= QN_CORES_LATER; cores++) {
        const run limited = train_limited(cores);
        check_equal(&one, &limited);
        if (cores != QN_CORES_ONE_BY_ONE)
            forget_all(folder);
    }
    keep(&first.key, 2, false);
    const run impossible = train(QN_CORES_AUTO);
    CHECK(!impossible.is_cached);
    check_equal(&one, &impossible);
    qn_schedule_forget(&first.key);
    char path[sizeof folder + 8];
    snprintf(path, sizeof path, "%s/quern", folder);
    CHECK(rmdir(path) == 0 && rmdir(folder) == 0);
    return checks_finish();
}
