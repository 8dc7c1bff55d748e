/* The thread team: every task once, in shares of contiguous pieces; a thread that is kept from
 * working loses what it has not begun to the others; many short rounds in a row, with rests between
 * them so that threads fall asleep, and with more threads than processors. */
#include "os/team.h"

#include "base/memory.h"
#include "check.h"
#include "failing.h"
#include "os/heap.h"

#include <time.h>

enum { MOST_TASKS = 1000 };

typedef struct tally {
    int n_threads;
    int64_t n_tasks;
    int done[MOST_TASKS]; /* by task; each is written by one thread */
    int64_t pieces;       /* atomic */
    bool is_wrong;        /* atomic: a piece was none of the tasks */
} tally;

static void count_task(void *context, int64_t begin, int64_t end, int thread) {
    tally *t = context;
    if (begin >= end || end > t->n_tasks || thread >= t->n_threads)
        __atomic_store_n(&t->is_wrong, true, __ATOMIC_RELAXED);
    for (int64_t i = begin; i < end; i++)
        t->done[i]++;
    __atomic_add_fetch(&t->pieces, 1, __ATOMIC_RELAXED);
}

static bool are_done(const tally *t, int times) {
    bool all = !t->is_wrong;
    for (int64_t i = 0; i < t->n_tasks; i++)
        all = all && t->done[i] == times;
    return all;
}

/* A share is done in pieces of a quarter of what is left: no more than this many of all. */
static int64_t most_pieces(int64_t n_tasks, int n_threads) {
    int64_t pieces = 0;
    for (int64_t rest = n_tasks / n_threads + 1; rest > 0; rest -= (rest + 3) / 4)
        pieces++;
    return pieces * n_threads;
}

static void test_shares(int n_threads) {
    qn_team *team = NULL;
    CHECK_OK(qn_team_create(NULL, n_threads, &team));
    CHECK(qn_team_size(team) == n_threads);
    for (int64_t n_tasks = 0; n_tasks <= MOST_TASKS; n_tasks = n_tasks * 3 + 1) {
        tally t = {.n_threads = n_threads, .n_tasks = n_tasks};
        qn_team_run(team, n_tasks, count_task, &t);
        CHECK(are_done(&t, 1));
        CHECK(t.pieces <= most_pieces(n_tasks, n_threads));
        CHECK(t.pieces >= n_threads || n_tasks < n_threads);
    }
    qn_team_destroy(team);
}

/* Whoever begins the second share waits until all the rest is done, which the other one must do. */
static void wait_task(void *context, int64_t begin, int64_t end, int thread) {
    tally *t = context;
    while (begin == t->n_tasks / 2 &&
           __atomic_load_n(&t->pieces, __ATOMIC_RELAXED) < t->n_tasks - 1)
        ;
    count_task(t, begin, end, thread);
}

static void test_kept_from_working(void) {
    qn_team *team = NULL;
    CHECK_OK(qn_team_create(NULL, 2, &team));
    for (int round = 0; round < 100; round++) {
        tally t = {.n_threads = 2, .n_tasks = 8};
        qn_team_run(team, t.n_tasks, wait_task, &t);
        CHECK(are_done(&t, 1) && t.pieces == 8);
    }
    qn_team_destroy(team);
}

/* Rounds that follow each other at once, and after longer and longer rests. */
static void test_many_rounds(int n_threads, int n_rounds) {
    qn_team *team = NULL;
    CHECK_OK(qn_team_create(NULL, n_threads, &team));
    tally t = {.n_threads = n_threads, .n_tasks = n_threads};
    for (int round = 0; round < n_rounds; round++) {
        qn_team_run(team, n_threads, count_task, &t);
        if (round % 64 == 63) {
            struct timespec rest = {0, round * 20L % 200000};
            nanosleep(&rest, NULL);
        }
    }
    CHECK(are_done(&t, n_rounds));
    qn_team_destroy(team);
}

/* Each of two tasks waits until the other has begun, so that each has its own thread. */
static void meet_task(void *context, int64_t begin, int64_t end, int thread) {
    tally *t = context;
    count_task(t, begin, end, thread);
    while (__atomic_load_n(&t->pieces, __ATOMIC_RELAXED) < 2)
        ;
}

static void test_watched_share(void) {
    const qn_event label = {.program = 3, .step = 7, .item = 11};
    qn_team *team = NULL;
    qn_events *rings = NULL;
    qn_event share = {0};
    tally t = {.n_threads = 2, .n_tasks = 2};
    CHECK_OK(qn_team_create(NULL, 2, &team));
    CHECK_OK(qn_events_create(qn_allocator_default(), 2, 16, &rings));
    (void)qn_team_watch(team, rings);
    qn_team_label(team, &label);
    qn_team_run(team, 2, meet_task, &t);
    CHECK(qn_events_take(rings, 0, &share, 1) == 0 && qn_events_waiting(rings, 1) == 1);
    CHECK(qn_events_take(rings, 1, &share, 1) == 1 && share.kind == QN_EVENT_SHARE);
    CHECK(share.thread == 1 && share.program == 3 && share.step == 7 && share.item == 11);
    CHECK(share.begin_ns > 0 && share.begin_ns <= share.end_ns);
    qn_events_destroy(rings);
    qn_team_destroy(team);
}

static void test_null_team(void) {
    tally t = {.n_threads = 1, .n_tasks = 9};
    qn_team_run(NULL, 9, count_task, &t);
    CHECK(are_done(&t, 1) && t.pieces == 1);
    CHECK(qn_team_size(NULL) == 1);
    qn_team_destroy(NULL);
}

static void test_failures(void) {
    qn_team *team = NULL;
    CHECK_FAILS(qn_team_create(NULL, 0, &team), QN_ERROR_ARGUMENT, "0 threads");
    CHECK_FAILS(qn_team_create(NULL, QN_MAX_THREADS + 1, &team), QN_ERROR_ARGUMENT, "256");
    for (int n = 0; n < 2; n++) {
        failing f = {.left = n, .and_after = true};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        CHECK_FAILS(qn_team_create(&allocator, 3, &team), QN_ERROR_MEMORY, "cannot allocate");
    }
    CHECK(team == NULL);
}

int main(void) {
    test_null_team();
    test_failures();
    for (int n_threads = 1; n_threads <= 9; n_threads++)
        test_shares(n_threads);
    test_kept_from_working();
    test_watched_share();
    test_many_rounds(1, 2000);
    test_many_rounds(2, 20000);
    test_many_rounds(8, 5000);
    return checks_finish();
}
