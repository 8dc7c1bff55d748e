/* The rings of events: what is put comes out in order, from each ring its own; a full ring keeps
 * what it has and counts what it loses; one thread puts while another takes. */
#include "base/events.h"

#include "base/memory.h"
#include "check.h"
#include "failing.h"
#include "os/heap.h"
#include "os/os.h"

static qn_event numbered(int64_t number, int thread) {
    return (qn_event){.begin_ns = number,
                      .end_ns = number * 3,
                      .step = (int32_t)number,
                      .item = (int32_t)(number % 7),
                      .thread = (int16_t)thread};
}

static bool is_numbered(const qn_event *e, int64_t number, int thread) {
    return e->begin_ns == number && e->end_ns == number * 3 && e->step == (int32_t)number &&
           e->item == (int32_t)(number % 7) && e->thread == thread;
}

/* Puts and takes in uneven portions, so that places in the ring are used many times over. */
static void test_order(void) {
    qn_events *events = NULL;
    int64_t n_put[3] = {0}, n_taken[3] = {0};
    bool all = true;
    CHECK_OK(qn_events_create(qn_allocator_default(), 3, 10, &events));
    CHECK(qn_events_thread_count(events) == 3);
    CHECK(qn_events_capacity(events) >= 10);
    for (int round = 0; round < 500; round++) {
        const int thread = round % 3;
        qn_event to[16];
        for (int i = 0; i < 1 + round % 5; i++) {
            const qn_event event = numbered(n_put[thread]++, thread);
            qn_events_put(events, thread, &event);
        }
        all = all && qn_events_waiting(events, thread) == (size_t)(n_put[thread] - n_taken[thread]);
        const size_t n = qn_events_take(events, thread, to, 1 + (size_t)round % 6);
        for (size_t i = 0; i < n; i++)
            all = all && is_numbered(&to[i], n_taken[thread]++, thread);
        while (n_put[thread] - n_taken[thread] > 4)
            n_taken[thread] += (int64_t)qn_events_take(events, thread, to, 1);
    }
    CHECK(all);
    CHECK(n_put[0] > 400 && n_put[2] > 400);
    CHECK(qn_events_lost(events) == 0);
    qn_events_destroy(events);
}

static void test_overflow(void) {
    qn_events *events = NULL;
    qn_event to[64];
    bool all = true;
    CHECK_OK(qn_events_create(qn_allocator_default(), 2, 16, &events));
    const size_t capacity = qn_events_capacity(events);
    for (int64_t i = 0; i < (int64_t)capacity + 5; i++) {
        const qn_event event = numbered(i, 1);
        qn_events_put(events, 1, &event);
    }
    CHECK(qn_events_lost(events) == 5);
    CHECK(qn_events_waiting(events, 1) == capacity && qn_events_waiting(events, 0) == 0);
    CHECK(qn_events_take(events, 0, to, 64) == 0);
    CHECK(qn_events_take(events, 1, to, 64) == capacity);
    for (size_t i = 0; i < capacity; i++)
        all = all && is_numbered(&to[i], (int64_t)i, 1);
    CHECK(all);
    const qn_event event = numbered(1000, 1);
    qn_events_put(events, 1, &event);
    CHECK(qn_events_take(events, 1, to, 64) == 1 && is_numbered(&to[0], 1000, 1));
    CHECK(qn_events_lost(events) == 5);
    qn_events_destroy(events);
}

/* A thread that puts n_wanted records as fast as it can. */
typedef struct producer {
    qn_events *events;
    int64_t n_wanted;
    int done; /* atomic */
} producer;

static void produce(void *context) {
    producer *p = context;
    for (int64_t i = 0; i < p->n_wanted; i++) {
        const qn_event event = numbered(i, 0);
        qn_events_put(p->events, 0, &event);
    }
    __atomic_store_n(&p->done, 1, __ATOMIC_RELEASE);
}

/* What is taken is in order and whole, and with what was lost it is all that was put. */
static void test_concurrent(size_t capacity, int64_t n_wanted) {
    producer p = {.n_wanted = n_wanted};
    qn_thread *thread = NULL;
    int64_t n_taken = 0, last = -1;
    bool all = true;
    CHECK_OK(qn_events_create(qn_allocator_default(), 1, capacity, &p.events));
    CHECK_OK(qn_thread_start(NULL, produce, &p, &thread));
    for (int is_last = 0;;) {
        qn_event to[32];
        const size_t n = qn_events_take(p.events, 0, to, 32);
        for (size_t i = 0; i < n; i++) {
            all = all && to[i].begin_ns > last && is_numbered(&to[i], to[i].begin_ns, 0);
            last = to[i].begin_ns;
        }
        n_taken += (int64_t)n;
        if (n == 0 && is_last)
            break;
        is_last = n == 0 && __atomic_load_n(&p.done, __ATOMIC_ACQUIRE);
    }
    qn_thread_join(thread);
    CHECK(all);
    CHECK(n_taken + qn_events_lost(p.events) == n_wanted);
    CHECK(n_taken >= (int64_t)capacity || n_taken == n_wanted);
    qn_events_destroy(p.events);
}

/* ---- the alarm ---- */

typedef struct rung {
    int n;
    int64_t last_ns, next_ns;
} rung;

static int64_t note_ring(void *user, int64_t now_ns) {
    rung *r = user;
    r->n++;
    r->last_ns = now_ns;
    return r->next_ns;
}

/* Rings after the first record of thread 0 that ends when it is due or later, once; not after
 * others' records, but also when a ring is full. */
static void test_alarm(void) {
    qn_events *events = NULL;
    rung r = {.next_ns = 100};
    CHECK_OK(qn_events_create(qn_allocator_default(), 2, 4, &events));
    for (int64_t i = 0; i < 3; i++)
        qn_events_put(events, 0, &(qn_event){.end_ns = INT64_MAX - 1});
    qn_events_set_alarm(events, &(qn_alarm){.due_ns = 50, .ring = note_ring, .user = &r});
    qn_events_put(events, 0, &(qn_event){.end_ns = 49});
    qn_events_put(events, 1, &(qn_event){.end_ns = 70});
    CHECK(r.n == 0);
    qn_events_put(events, 0, &(qn_event){.end_ns = 60});
    CHECK(r.n == 1 && r.last_ns == 60 && qn_events_lost(events) == 1);
    qn_events_put(events, 0, &(qn_event){.end_ns = 99});
    CHECK(r.n == 1);
    r.next_ns = INT64_MAX;
    qn_events_put(events, 0, &(qn_event){.end_ns = 100});
    qn_events_put(events, 0, &(qn_event){.end_ns = 1000});
    CHECK(r.n == 2 && r.last_ns == 100);
    qn_events_destroy(events);
}

static void test_failures(void) {
    qn_events *events = NULL;
    qn_status status = QN_ERROR_MEMORY;
    for (int n = 0; n < 100 && status != QN_OK; n++) {
        failing f = {.left = n, .and_after = true};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        status = qn_events_create(&allocator, 3, 8, &events);
        CHECK(status == QN_OK || (n < 5 && !events));
        if (status == QN_OK)
            qn_events_destroy(events);
        CHECK(f.held_bytes == 0);
    }
    CHECK(status == QN_OK);
    CHECK_FAILS(qn_events_create(qn_allocator_default(), 0, 8, &events), QN_ERROR_ARGUMENT,
                "0 threads");
    CHECK_FAILS(qn_events_create(qn_allocator_default(), 1, 0, &events), QN_ERROR_ARGUMENT,
                "0 events");
    CHECK_FAILS(qn_events_create(qn_allocator_default(), 1, SIZE_MAX, &events), QN_ERROR_ARGUMENT,
                "events");
    qn_events_destroy(NULL);
}

int main(void) {
    test_order();
    test_overflow();
    test_concurrent(8, 200000);
    test_concurrent(1 << 12, 200000);
    test_alarm();
    test_failures();
    return checks_finish();
}
