/* The thread team: every task once, in the thread's contiguous share, in order; many short rounds
 * in a row, with rests between them so that threads fall asleep, and with more threads than
 * processors. */
#include "os/team.h"

#include "base/memory.h"
#include "check.h"

#include <time.h>

enum { MOST_TASKS = 1000 };

typedef struct tally {
    int n_threads;
    int64_t n_tasks;
    int done[MOST_TASKS];   /* by task; each is written by one thread */
    int thread[MOST_TASKS]; /* that did it */
    int64_t rounds[QN_MAX_THREADS];
} tally;

static void count_task(void *context, int64_t begin, int64_t end, int thread) {
    tally *t = context;
    for (int64_t i = begin; i < end; i++) {
        t->done[i]++;
        t->thread[i] = thread;
    }
    t->rounds[thread]++;
}

static bool is_fair(const tally *t) {
    for (int64_t i = 0; i < t->n_tasks; i++) {
        int64_t first = t->n_tasks * t->thread[i] / t->n_threads;
        int64_t last = t->n_tasks * (t->thread[i] + 1) / t->n_threads;
        if (t->done[i] != 1 || (t->n_tasks > 1 && (i < first || i >= last)))
            return false;
    }
    return true;
}

static void test_shares(int n_threads) {
    qn_team *team = NULL;
    CHECK_OK(qn_team_create(NULL, n_threads, &team));
    CHECK(qn_team_size(team) == n_threads);
    for (int64_t n_tasks = 0; n_tasks <= MOST_TASKS; n_tasks = n_tasks * 3 + 1) {
        tally t = {.n_threads = n_threads, .n_tasks = n_tasks};
        qn_team_run(team, n_tasks, count_task, &t);
        CHECK(is_fair(&t));
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
    bool all = true;
    for (int i = 0; i < n_threads; i++)
        all = all && t.rounds[i] == n_rounds && t.done[i] == n_rounds;
    CHECK(all);
    qn_team_destroy(team);
}

static void test_null_team(void) {
    tally t = {.n_threads = 1, .n_tasks = 9};
    qn_team_run(NULL, 9, count_task, &t);
    CHECK(is_fair(&t) && t.rounds[0] == 1);
    CHECK(qn_team_size(NULL) == 1);
    qn_team_destroy(NULL);
}

/* An allocator whose n-th allocation fails. */
typedef struct failing {
    int left;
} failing;

static void *fail_allocate(void *user, size_t bytes, size_t align) {
    failing *f = user;
    const qn_allocator *heap = qn_allocator_default();
    return f->left-- > 0 ? heap->allocate(heap->user, bytes, align) : NULL;
}

static void fail_release(void *user, void *memory, size_t bytes) {
    (void)user;
    const qn_allocator *heap = qn_allocator_default();
    heap->release(heap->user, memory, bytes);
}

static void test_failures(void) {
    qn_team *team = NULL;
    CHECK_FAILS(qn_team_create(NULL, 0, &team), QN_ERROR_ARGUMENT, "0 threads");
    CHECK_FAILS(qn_team_create(NULL, QN_MAX_THREADS + 1, &team), QN_ERROR_ARGUMENT, "256");
    for (int n = 0; n < 2; n++) {
        failing f = {n};
        const qn_allocator allocator = {&f, fail_allocate, fail_release};
        CHECK_FAILS(qn_team_create(&allocator, 3, &team), QN_ERROR_MEMORY, "cannot allocate");
    }
    CHECK(team == NULL);
}

int main(void) {
    test_null_team();
    test_failures();
    for (int n_threads = 1; n_threads <= 9; n_threads++)
        test_shares(n_threads);
    test_many_rounds(1, 2000);
    test_many_rounds(2, 20000);
    test_many_rounds(8, 5000);
    return checks_finish();
}
