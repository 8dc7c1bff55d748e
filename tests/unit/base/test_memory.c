/* Allocation: sizes that overflow, zeroed and aligned blocks, the counter, arrays that grow,
 * arenas, and each of them when memory is out. */
#include "base/memory.h"

#include "check.h"
#include "os/heap.h"

/* An allocator that has so many allocations left. */
static void *limited_allocate(void *user, size_t bytes, size_t align) {
    int *left = user;
    if ((*left)-- <= 0)
        return NULL;
    const qn_allocator *heap = qn_allocator_default();
    return heap->allocate(heap->user, bytes, align);
}

static void limited_release(void *user, void *memory, size_t bytes) {
    (void)user;
    const qn_allocator *heap = qn_allocator_default();
    heap->release(heap->user, memory, bytes);
}

static qn_allocator limited(int *left) {
    return (qn_allocator){left, limited_allocate, limited_release};
}

static bool is_zero(const unsigned char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (bytes[i])
            return false;
    return true;
}

static void test_allocate(void) {
    qn_counter counter;
    qn_allocator allocator = qn_counter_init(&counter, qn_allocator_default());
    unsigned char *block = NULL, *second = NULL;
    CHECK_OK(qn_allocate(&allocator, 3, 100, &block));
    CHECK(block && (uintptr_t)block % QN_ALIGNMENT == 0 && is_zero(block, 300));
    CHECK(counter.held_bytes == 300 && counter.peak_bytes == 300 && counter.n_allocations == 1);
    CHECK_OK(qn_allocate(&allocator, 1, 50, &second));
    CHECK(counter.held_bytes == 350);
    qn_release(&allocator, block, 3, 100);
    CHECK(counter.held_bytes == 50 && counter.peak_bytes == 350);
    qn_release(&allocator, second, 1, 50);
    qn_release(&allocator, NULL, 1, 50);
    CHECK(counter.held_bytes == 0 && counter.n_allocations == 2);
}

static void test_counter_limit(void) {
    qn_counter counter;
    qn_allocator allocator = qn_counter_init(&counter, qn_allocator_default());
    unsigned char *block = NULL, *second = NULL;
    CHECK_OK(qn_allocate(&allocator, 1, 100, &block));
    counter.limit_bytes = 150;
    CHECK(qn_allocate(&allocator, 1, 51, &second) == QN_ERROR_MEMORY && counter.n_refused == 1);
    CHECK_OK(qn_allocate(&allocator, 1, 50, &second));
    CHECK(counter.held_bytes == 150 && counter.peak_bytes == 150 && counter.n_refused == 1);
    qn_release(&allocator, second, 1, 50);
    counter.limit_bytes = 0;
    CHECK_OK(qn_allocate(&allocator, 1, 51, &second));
    qn_release(&allocator, second, 1, 51);
    qn_release(&allocator, block, 1, 100);
    CHECK(counter.held_bytes == 0);
}

static void test_allocate_limits(void) {
    const qn_allocator *heap = qn_allocator_default();
    int left = 0;
    qn_allocator none = limited(&left);
    char place;
    void *block = &place;
    CHECK_OK(qn_allocate(heap, 0, 8, &block));
    CHECK(block == NULL);
    block = &place;
    CHECK_FAILS(qn_allocate(heap, SIZE_MAX / 2, 3, &block), QN_ERROR_MEMORY, "allocate");
    CHECK_FAILS(qn_allocate(heap, SIZE_MAX, 1, &block), QN_ERROR_MEMORY, "allocate");
    CHECK_FAILS(qn_allocate(&none, 1, 8, &block), QN_ERROR_MEMORY, "8 bytes");
    CHECK(block == &place);
}

static void test_grow(void) {
    int left = 2;
    qn_allocator two = limited(&left);
    int *items = NULL;
    size_t capacity = 0;
    CHECK_OK(qn_grow(&two, &items, &capacity, 1, sizeof *items));
    CHECK(capacity >= 1 && is_zero((unsigned char *)items, capacity * sizeof *items));
    for (size_t i = 0; i < capacity; i++)
        items[i] = (int)i + 1;
    size_t before = capacity;
    CHECK_OK(qn_grow(&two, &items, &capacity, before, sizeof *items));
    CHECK(capacity == before);
    CHECK_OK(qn_grow(&two, &items, &capacity, before + 1, sizeof *items));
    CHECK(capacity >= 2 * before && items[before - 1] == (int)before && items[before] == 0);
    /* The third allocation fails, and nothing has changed. */
    int *old = items;
    before = capacity;
    CHECK_FAILS(qn_grow(&two, &items, &capacity, before + 1, sizeof *items), QN_ERROR_MEMORY, "");
    CHECK(items == old && capacity == before && items[1] == 2);
    qn_release(&two, items, capacity, sizeof *items);
}

static void test_arena(void) {
    qn_counter counter;
    qn_allocator allocator = qn_counter_init(&counter, qn_allocator_default());
    qn_arena arena;
    qn_arena_init(&arena, &allocator);
    CHECK(counter.held_bytes == 0);
    unsigned char *small[100];
    for (size_t i = 0; i < 100; i++) {
        small[i] = qn_arena_allocate(&arena, i + 1, 7);
        CHECK(small[i] && (uintptr_t)small[i] % 16 == 0 && is_zero(small[i], (i + 1) * 7));
        if (small[i])
            memset(small[i], (int)i + 1, (i + 1) * 7);
    }
    unsigned char *large = qn_arena_allocate(&arena, 1000, 1000);
    CHECK(large && is_zero(large, 1000000));
    for (size_t i = 0; i < 100; i++)
        CHECK(small[i] && small[i][0] == i + 1 && small[i][(i + 1) * 7 - 1] == i + 1);
    CHECK(strcmp(qn_arena_text(&arena, "grist"), "grist") == 0);
    CHECK(strcmp(qn_arena_format(&arena, "%s %d", "mill", 7), "mill 7") == 0);
    CHECK(qn_arena_allocate(&arena, SIZE_MAX, 2) == NULL);
    CHECK(qn_arena_allocate(&arena, SIZE_MAX - 8, 1) == NULL);
    qn_arena_deinit(&arena);
    CHECK(counter.held_bytes == 0);
    qn_arena_deinit(&arena);
}

/* A few texts take no more than a page, more at most twice what they need and the first block. */
static void test_arena_bytes(void) {
    enum { N = 1000, PIECE = 160 };
    qn_counter counter;
    qn_allocator allocator = qn_counter_init(&counter, qn_allocator_default());
    qn_arena arena;
    qn_arena_init(&arena, &allocator);
    for (size_t i = 1; i <= N; i++) {
        CHECK(qn_arena_allocate(&arena, PIECE, 1));
        CHECK(counter.held_bytes <= 4096 + 9 * i * PIECE / 4);
    }
    qn_arena_deinit(&arena);
}

static void test_arena_without_memory(void) {
    int left = 1;
    qn_allocator one = limited(&left);
    qn_arena arena;
    qn_arena_init(&arena, &one);
    char *text = qn_arena_text(&arena, "kept");
    CHECK(text != NULL);
    CHECK(qn_arena_allocate(&arena, 1, 1 << 20) == NULL);
    CHECK(strstr(qn_error_message(), "allocate") != NULL);
    CHECK(text && strcmp(text, "kept") == 0);
    qn_arena_deinit(&arena);
}

int main(void) {
    test_allocate();
    test_counter_limit();
    test_allocate_limits();
    test_grow();
    test_arena();
    test_arena_bytes();
    test_arena_without_memory();
    return checks_finish();
}
