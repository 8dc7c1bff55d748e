/* See memory.h. */
#include "base/memory.h"

#include "base/print.h"
#include "base/status.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

qn_status qn_allocate_unset(const qn_allocator *allocator, size_t count, size_t size,
                            void *memory) {
    size_t bytes;
    void *block = NULL;
    if (__builtin_mul_overflow(count, size, &bytes))
        return qn_fail_memory(SIZE_MAX);
    if (bytes > 0) {
        block = allocator->allocate(allocator->user, bytes, QN_ALIGNMENT);
        if (!block)
            return qn_fail_memory(bytes);
    }
    memcpy(memory, &block, sizeof block);
    return QN_OK;
}

qn_status qn_allocate(const qn_allocator *allocator, size_t count, size_t size, void *memory) {
    void *block;
    QN_TRY(qn_allocate_unset(allocator, count, size, &block));
    if (block)
        memset(block, 0, count * size);
    memcpy(memory, &block, sizeof block);
    return QN_OK;
}

void qn_release(const qn_allocator *allocator, void *memory, size_t count, size_t size) {
    if (memory)
        allocator->release(allocator->user, memory, count * size);
}

qn_status qn_grow(const qn_allocator *allocator, void *items, size_t *capacity, size_t wanted,
                  size_t size) {
    if (wanted <= *capacity)
        return QN_OK;
    size_t grown = *capacity < 8 ? 8 : *capacity * 2;
    if (grown < wanted)
        grown = wanted;
    void *old, *block = NULL;
    memcpy(&old, items, sizeof old);
    QN_TRY(qn_allocate(allocator, grown, size, &block));
    if (old)
        memcpy(block, old, *capacity * size);
    qn_release(allocator, old, *capacity, size);
    memcpy(items, &block, sizeof block);
    *capacity = grown;
    return QN_OK;
}

void qn_counter_add(qn_counter *counter, size_t bytes) {
    size_t held = __atomic_add_fetch(&counter->held_bytes, bytes, __ATOMIC_RELAXED);
    size_t peak = __atomic_load_n(&counter->peak_bytes, __ATOMIC_RELAXED);
    while (peak < held && !__atomic_compare_exchange_n(&counter->peak_bytes, &peak, held, true,
                                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

void qn_counter_subtract(qn_counter *counter, size_t bytes) {
    __atomic_sub_fetch(&counter->held_bytes, bytes, __ATOMIC_RELAXED);
}

size_t qn_counter_held(const qn_counter *counter) {
    return __atomic_load_n(&counter->held_bytes, __ATOMIC_RELAXED);
}

void qn_counter_set_limit(qn_counter *counter, size_t bytes) {
    __atomic_store_n(&counter->limit_bytes, bytes, __ATOMIC_RELAXED);
}

static void *counter_allocate(void *user, size_t bytes, size_t align) {
    qn_counter *counter = user;
    const size_t limit = __atomic_load_n(&counter->limit_bytes, __ATOMIC_RELAXED);
    const size_t wanted = qn_counter_held(counter) + bytes;
    if (limit > 0 && wanted > limit) {
        __atomic_add_fetch(&counter->n_refused, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&counter->refused_bytes, wanted, __ATOMIC_RELAXED);
        return NULL;
    }
    void *memory = counter->below->allocate(counter->below->user, bytes, align);
    if (!memory)
        return NULL;
    __atomic_add_fetch(&counter->n_allocations, 1, __ATOMIC_RELAXED);
    qn_counter_add(counter, bytes);
    return memory;
}

static void counter_release(void *user, void *memory, size_t bytes) {
    qn_counter *counter = user;
    counter->below->release(counter->below->user, memory, bytes);
    qn_counter_subtract(counter, bytes);
}

qn_allocator qn_counter_init(qn_counter *counter, const qn_allocator *below) {
    *counter = (qn_counter){.below = below};
    return (qn_allocator){counter, counter_allocate, counter_release};
}

/* Blocks form a list; the newest is filled first. used + what is left = bytes. */
struct qn_arena_block {
    struct qn_arena_block *next;
    size_t bytes, used;
};

/* Blocks double from the first size to the last: many an arena holds a few short texts. */
enum { ARENA_FIRST_BYTES = 4 * 1024, ARENA_LAST_BYTES = 64 * 1024, ARENA_UNIT = 16 };

void qn_arena_init(qn_arena *arena, const qn_allocator *allocator) {
    *arena = (qn_arena){.allocator = allocator};
}

void qn_arena_deinit(qn_arena *arena) {
    struct qn_arena_block *block = arena->block;
    while (block) {
        struct qn_arena_block *next = block->next;
        qn_release(arena->allocator, block, 1, block->bytes);
        block = next;
    }
    arena->block = NULL;
}

/* The size of the next block that is not made for one large piece. */
static size_t next_bytes(const qn_arena *arena) {
    const size_t last = arena->block ? arena->block->bytes : ARENA_FIRST_BYTES / 2;
    return last < ARENA_LAST_BYTES / 2 ? 2 * last : ARENA_LAST_BYTES;
}

/* A new block for a piece of so many bytes, its own head included. One made for a large piece goes
 * behind the newest, which has room for more. */
static struct qn_arena_block *add_block(qn_arena *arena, size_t head, size_t bytes) {
    const size_t usual = next_bytes(arena);
    struct qn_arena_block *block, **place = &arena->block;
    if (qn_allocate(arena->allocator, 1, bytes > usual ? bytes : usual, &block) != QN_OK)
        return NULL;
    block->bytes = bytes > usual ? bytes : usual;
    block->used = head;
    if (*place && bytes > usual)
        place = &(*place)->next;
    block->next = *place;
    *place = block;
    return block;
}

void *qn_arena_allocate(qn_arena *arena, size_t count, size_t size) {
    const size_t head = (sizeof(struct qn_arena_block) + ARENA_UNIT - 1) / ARENA_UNIT * ARENA_UNIT;
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2) {
        qn_fail_memory(SIZE_MAX);
        return NULL;
    }
    bytes = (bytes + ARENA_UNIT - 1) / ARENA_UNIT * ARENA_UNIT;
    struct qn_arena_block *block = arena->block;
    if (!block || block->bytes - block->used < bytes) {
        block = add_block(arena, head, head + bytes);
        if (!block)
            return NULL;
    }
    void *memory = (char *)block + block->used;
    block->used += bytes;
    return memory;
}

char *qn_arena_text(qn_arena *arena, const char *text) {
    return qn_arena_format(arena, "%s", text);
}

char *qn_arena_format(qn_arena *arena, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = qn_print_list(NULL, 0, format, arguments);
    va_end(arguments);
    const size_t bytes = length < 0 ? 1 : (size_t)length + 1;
    char *text = qn_arena_allocate(arena, bytes, 1);
    if (!text)
        return NULL;
    va_start(arguments, format);
    qn_print_list(text, bytes, format, arguments);
    va_end(arguments);
    return text;
}
