/* See timeline.h. Before sleeping, a thread announces it and checks once more; the one that raises
 * looks for sleepers after its store. One of the two always sees the other (both orders are
 * sequentially consistent), as in team.c. */
#include "os/timeline.h"

#include "base/memory.h"
#include "base/status.h"
#include "os/heap.h"
#include "os/os.h"
#include "os/process/pause.h"

/* Times to look before going to sleep: some microseconds, about what waking costs. */
enum { LOOKS = 2000, LOOKS_TO_YIELD = 64 };

struct qn_timeline {
    const qn_allocator *allocator;
    qn_monitor *monitor;
    uint64_t value;   /* atomic */
    uint64_t wake_at; /* atomic: the least value that a thread sleeps for; UINT64_MAX: none does */
    bool has_failed;  /* atomic */
    bool may_spin;
};

qn_status qn_timeline_create(const qn_allocator *allocator, qn_timeline **timeline) {
    qn_timeline *created;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *created, &created));
    created->allocator = allocator;
    created->may_spin = qn_cpu_count() > 1;
    created->wake_at = UINT64_MAX;
    const qn_status status = qn_monitor_create(allocator, &created->monitor);
    if (status != QN_OK) {
        qn_release(allocator, created, 1, sizeof *created);
        return status;
    }
    *timeline = created;
    return QN_OK;
}

void qn_timeline_destroy(qn_timeline *timeline) {
    if (!timeline)
        return;
    qn_monitor_destroy(timeline->monitor);
    qn_release(timeline->allocator, timeline, 1, sizeof *timeline);
}

uint64_t qn_timeline_value(const qn_timeline *timeline) {
    return __atomic_load_n(&timeline->value, __ATOMIC_SEQ_CST);
}

bool qn_timeline_has_failed(const qn_timeline *timeline) {
    return __atomic_load_n(&timeline->has_failed, __ATOMIC_SEQ_CST);
}

/* All who sleep look again, and say anew what they sleep for. */
static void wake(qn_timeline *timeline, uint64_t value) {
    if (value < __atomic_load_n(&timeline->wake_at, __ATOMIC_SEQ_CST))
        return;
    qn_monitor_lock(timeline->monitor);
    __atomic_store_n(&timeline->wake_at, UINT64_MAX, __ATOMIC_SEQ_CST);
    qn_monitor_notify(timeline->monitor);
    qn_monitor_unlock(timeline->monitor);
}

void qn_timeline_raise(qn_timeline *timeline, uint64_t value) {
    __atomic_store_n(&timeline->value, value, __ATOMIC_SEQ_CST);
    wake(timeline, value);
}

void qn_timeline_fail(qn_timeline *timeline) {
    __atomic_store_n(&timeline->has_failed, true, __ATOMIC_SEQ_CST);
    wake(timeline, UINT64_MAX);
}

static bool is_over(const qn_timeline *timeline, uint64_t value) {
    return qn_timeline_value(timeline) >= value || qn_timeline_has_failed(timeline);
}

/* Under the monitor. */
static void announce(qn_timeline *timeline, uint64_t value) {
    if (value < __atomic_load_n(&timeline->wake_at, __ATOMIC_SEQ_CST))
        __atomic_store_n(&timeline->wake_at, value, __ATOMIC_SEQ_CST);
}

bool qn_timeline_sleep(qn_timeline *timeline, uint64_t value) {
    if (!is_over(timeline, value)) {
        qn_monitor_lock(timeline->monitor);
        announce(timeline, value);
        while (!is_over(timeline, value)) {
            qn_monitor_wait(timeline->monitor);
            announce(timeline, value);
        }
        qn_monitor_unlock(timeline->monitor);
    }
    return qn_timeline_value(timeline) >= value;
}

bool qn_timeline_wait(qn_timeline *timeline, uint64_t value) {
    for (int i = 0; timeline->may_spin && i < LOOKS && !is_over(timeline, value); i++) {
        qn_pause();
        if (i % LOOKS_TO_YIELD == LOOKS_TO_YIELD - 1)
            qn_yield(); /* whoever is waited for may need this processor */
    }
    return qn_timeline_sleep(timeline, value);
}

void qn_timeline_reset(qn_timeline *timeline) {
    __atomic_store_n(&timeline->wake_at, UINT64_MAX, __ATOMIC_SEQ_CST);
    __atomic_store_n(&timeline->value, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&timeline->has_failed, false, __ATOMIC_SEQ_CST);
}
