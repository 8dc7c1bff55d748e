/* Allocation through the caller's allocator: checked sizes, zeroed memory, a counter of what is
 * held and what was held at most, and arenas whose contents are released together. */
#ifndef QN_BASE_MEMORY_H
#define QN_BASE_MEMORY_H

#include "quern/base.h"

/* Alignment of every block: a cache line, and the widest vector. */
enum { QN_ALIGNMENT = 64 };

/* count * size zeroed bytes at QN_ALIGNMENT into *memory; a count of 0 gives null and QN_OK. */
qn_status qn_allocate(const qn_allocator *allocator, size_t count, size_t size, void *memory);

/* The same without the zeros: what the memory holds is not known, and it is not touched, so that it
 * is taken from the system where it is first written, by all threads that write. */
qn_status qn_allocate_unset(const qn_allocator *allocator, size_t count, size_t size, void *memory);

/* Gives back what either gave for the same count and size; null is fine. */
void qn_release(const qn_allocator *allocator, void *memory, size_t count, size_t size);

/* Grows the array *items of *capacity elements to at least wanted (at least doubling). The new
 * part is zeroed. On failure the array is as it was. */
qn_status qn_grow(const qn_allocator *allocator, void *items, size_t *capacity, size_t wanted,
                  size_t size);

/* Counts what passes through to another allocator. Safe to use from several threads.
 *     held_bytes <= peak_bytes
 * While a limit is set, which one thread at a time may allocate under, what would go above it fails
 * as if memory were out, and is counted in n_refused; refused_bytes: what would have been held. */
typedef struct qn_counter {
    const qn_allocator *below;
    size_t held_bytes, peak_bytes, n_allocations, n_refused;
    size_t limit_bytes; /* 0: none */
    size_t refused_bytes;
} qn_counter;

/* An allocator that counts in *counter, which must outlive all it allocates. */
qn_allocator qn_counter_init(qn_counter *counter, const qn_allocator *below);

/* Count memory that does not come from below. */
void qn_counter_add(qn_counter *counter, size_t bytes);
void qn_counter_subtract(qn_counter *counter, size_t bytes);

/* Bytes held now, where others may allocate and release meanwhile. */
size_t qn_counter_held(const qn_counter *counter);

/* Sets the limit, 0: none, where others may allocate meanwhile. */
void qn_counter_set_limit(qn_counter *counter, size_t bytes);

/* Memory released all at once. Pointers stay valid until deinit. */
typedef struct qn_arena {
    const qn_allocator *allocator;
    struct qn_arena_block *block;
} qn_arena;

void qn_arena_init(qn_arena *arena, const qn_allocator *allocator);
void qn_arena_deinit(qn_arena *arena);

/* count * size zeroed bytes, or null when memory is out (the message is set). */
void *qn_arena_allocate(qn_arena *arena, size_t count, size_t size);

/* A copy of a text in the arena, or null when memory is out. */
char *qn_arena_text(qn_arena *arena, const char *text);

/* A formatted text in the arena, or null when memory is out. */
char *qn_arena_format(qn_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
