/* See events.h. head and tail only rise. The place of a record is its number modulo the capacity, a
 * power of two. The writer owns head and the reader owns tail. Each caches the other's last known
 * value, so a cache line moves between processors only when a ring looks full or empty.
 *
 * Invariant of a ring: tail <= head <= tail + capacity. */
#include "base/events.h"

#include "base/memory.h"
#include "base/status.h"

typedef struct ring {
    _Alignas(QN_ALIGNMENT) uint64_t head; /* atomic: records put so far */
    uint64_t seen_tail;
    int64_t n_lost;                       /* atomic */
    _Alignas(QN_ALIGNMENT) uint64_t tail; /* atomic: records taken so far */
    qn_event *records;                    /* (capacity) */
} ring;

struct qn_events {
    const qn_allocator *allocator;
    int n_threads;
    uint64_t capacity;
    ring *rings;    /* (n_threads) */
    qn_alarm alarm; /* thread 0's alone */
};

static qn_status allocate_rings(qn_events *e) {
    QN_TRY(qn_allocate(e->allocator, (size_t)e->n_threads, sizeof *e->rings, &e->rings));
    for (int i = 0; i < e->n_threads; i++) {
        ring *r = &e->rings[i];
        QN_TRY(qn_allocate(e->allocator, (size_t)e->capacity, sizeof *r->records, &r->records));
    }
    return QN_OK;
}

qn_status qn_events_create(const qn_allocator *allocator, int n_threads, size_t capacity,
                           qn_events **events) {
    const size_t most = (size_t)1 << 40;
    qn_events *fresh;
    if (n_threads < 1 || capacity < 1 || capacity > most)
        return qn_fail(QN_ERROR_ARGUMENT, "%zu events for %d threads; there must be one at least",
                       capacity, n_threads);
    QN_TRY(qn_allocate(allocator, 1, sizeof *fresh, &fresh));
    fresh->allocator = allocator;
    fresh->n_threads = n_threads;
    fresh->alarm.due_ns = INT64_MAX;
    for (fresh->capacity = 1; fresh->capacity < capacity;)
        fresh->capacity *= 2;
    qn_status status = allocate_rings(fresh);
    if (status != QN_OK) {
        qn_events_destroy(fresh);
        return status;
    }
    *events = fresh;
    return QN_OK;
}

void qn_events_destroy(qn_events *e) {
    if (!e)
        return;
    const qn_allocator *a = e->allocator;
    for (int i = 0; e->rings && i < e->n_threads; i++)
        qn_release(a, e->rings[i].records, (size_t)e->capacity, sizeof(qn_event));
    qn_release(a, e->rings, (size_t)e->n_threads, sizeof *e->rings);
    qn_release(a, e, 1, sizeof *e);
}

int qn_events_thread_count(const qn_events *events) {
    return events->n_threads;
}

size_t qn_events_capacity(const qn_events *events) {
    return (size_t)events->capacity;
}

void qn_events_set_alarm(qn_events *events, const qn_alarm *alarm) {
    events->alarm = *alarm;
}

static void put(qn_events *events, int thread, const qn_event *event) {
    ring *r = &events->rings[thread];
    const uint64_t head = r->head;
    if (head - r->seen_tail == events->capacity) {
        r->seen_tail = __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE);
        if (head - r->seen_tail == events->capacity) {
            __atomic_store_n(&r->n_lost, r->n_lost + 1, __ATOMIC_RELAXED);
            return;
        }
    }
    r->records[head & (events->capacity - 1)] = *event;
    __builtin_prefetch(&r->records[(head + 1) & (events->capacity - 1)], 1); /* it is long cold */
    __atomic_store_n(&r->head, head + 1, __ATOMIC_RELEASE);
}

void qn_events_look(qn_events *events, int64_t now_ns) {
    qn_alarm *alarm = &events->alarm;
    if (__builtin_expect(now_ns >= alarm->due_ns, 0))
        alarm->due_ns = alarm->ring(alarm->user, now_ns);
}

void qn_events_put(qn_events *events, int thread, const qn_event *event) {
    put(events, thread, event);
    if (thread == 0)
        qn_events_look(events, event->end_ns);
}

size_t qn_events_take(qn_events *events, int thread, qn_event *to, size_t most) {
    ring *r = &events->rings[thread];
    const uint64_t tail = r->tail, n_there = __atomic_load_n(&r->head, __ATOMIC_ACQUIRE) - tail;
    const uint64_t n = n_there < most ? n_there : most;
    for (uint64_t i = 0; i < n; i++)
        to[i] = r->records[(tail + i) & (events->capacity - 1)];
    __atomic_store_n(&r->tail, tail + n, __ATOMIC_RELEASE);
    return (size_t)n;
}

size_t qn_events_waiting(const qn_events *events, int thread) {
    const ring *r = &events->rings[thread];
    const uint64_t tail = __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE);
    return (size_t)(__atomic_load_n(&r->head, __ATOMIC_ACQUIRE) - tail);
}

int64_t qn_events_lost(const qn_events *events) {
    int64_t n = 0;
    for (int i = 0; i < events->n_threads; i++)
        n += __atomic_load_n(&events->rings[i].n_lost, __ATOMIC_RELAXED);
    return n;
}
