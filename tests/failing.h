/* An allocator that fails when it is told to, and counts what is held; for any thread. */
#ifndef FAILING_H
#define FAILING_H

#include "base/memory.h"
#include "os/heap.h"

/* Fails allocation number `left` (from 0), and, where and_after is set, all that follow. */
typedef struct failing {
    int64_t left, held_bytes;
    bool and_after;
} failing;

static inline void *failing_allocate(void *user, size_t bytes, size_t align) {
    failing *f = user;
    const qn_allocator *heap = qn_allocator_default();
    const int64_t left = __atomic_fetch_sub(&f->left, 1, __ATOMIC_RELAXED);
    if (left == 0 || (left < 0 && f->and_after))
        return NULL;
    __atomic_fetch_add(&f->held_bytes, (int64_t)bytes, __ATOMIC_RELAXED);
    return heap->allocate(heap->user, bytes, align);
}

static inline void failing_release(void *user, void *memory, size_t bytes) {
    failing *f = user;
    const qn_allocator *heap = qn_allocator_default();
    __atomic_fetch_sub(&f->held_bytes, (int64_t)bytes, __ATOMIC_RELAXED);
    heap->release(heap->user, memory, bytes);
}

#endif
