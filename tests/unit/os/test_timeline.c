/* Timelines: values are reached in order, whoever waits is woken, and failing ends all waiting. */
#include "check.h"
#include "os/os.h"
#include "os/timeline.h"

#include "failing.h"

enum { ROUNDS = 2000 };

/* Two threads that take turns: each waits for the other's last value and raises its own. */
typedef struct turns {
    qn_timeline *mine, *other;
    int *counter; /* plain memory: only the order of turns keeps it whole */
    bool goes_first;
    int n_missed; /* waits that ended early */
} turns;

static void take_turns(void *context) {
    turns *t = context;
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        t->n_missed += !qn_timeline_wait(t->other, t->goes_first ? i - 1 : i);
        ++*t->counter;
        qn_timeline_raise(t->mine, i);
    }
}

static void test_turns(void) {
    qn_timeline *a, *b;
    qn_thread *thread;
    int counter = 0;
    CHECK_OK(qn_timeline_create(NULL, &a));
    CHECK_OK(qn_timeline_create(NULL, &b));
    turns first = {a, b, &counter, true, 0}, second = {b, a, &counter, false, 0};
    CHECK_OK(qn_thread_start(NULL, take_turns, &second, &thread));
    take_turns(&first);
    CHECK(qn_timeline_wait(b, ROUNDS));
    qn_thread_join(thread);
    CHECK(counter == 2 * ROUNDS && first.n_missed == 0 && second.n_missed == 0);
    qn_timeline_destroy(a);
    qn_timeline_destroy(b);
}

typedef struct waiter {
    qn_timeline *timeline;
    uint64_t value;
    bool was_reached;
} waiter;

static void wait_for(void *context) {
    waiter *w = context;
    w->was_reached = qn_timeline_wait(w->timeline, w->value);
}

/* What was reached before it failed stays reached; what was not is told at once and later. */
static void test_failing(void) {
    qn_timeline *timeline;
    qn_thread *threads[3];
    CHECK_OK(qn_timeline_create(NULL, &timeline));
    waiter waiters[3] = {{timeline, 5, true}, {timeline, 6, true}, {timeline, 3, false}};
    for (int i = 0; i < 3; i++)
        CHECK_OK(qn_thread_start(NULL, wait_for, &waiters[i], &threads[i]));
    qn_timeline_raise(timeline, 4);
    qn_timeline_fail(timeline);
    for (int i = 0; i < 3; i++)
        qn_thread_join(threads[i]);
    CHECK(!waiters[0].was_reached && !waiters[1].was_reached && waiters[2].was_reached);
    CHECK(qn_timeline_wait(timeline, 4) && !qn_timeline_wait(timeline, 5));
    CHECK(qn_timeline_has_failed(timeline));
    qn_timeline_reset(timeline);
    CHECK(!qn_timeline_has_failed(timeline) && qn_timeline_value(timeline) == 0);
    qn_timeline_destroy(timeline);
}

static void test_failing_allocations(void) {
    for (int64_t n = 0;; n++) {
        failing f = {.left = n};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        qn_timeline *timeline = NULL;
        const qn_status status = qn_timeline_create(&allocator, &timeline);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        qn_timeline_destroy(timeline);
        CHECK(f.held_bytes == 0);
        if (status == QN_OK)
            break;
    }
}

int main(void) {
    test_turns();
    test_failing();
    test_failing_allocations();
    return checks_finish();
}
