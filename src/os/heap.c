/* See heap.h. */
#define _DEFAULT_SOURCE
#include "os/heap.h"

#include <stdlib.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

enum { HUGE_PAGE = 2 << 20 };

void qn_prefer_huge_pages(void *block, size_t bytes) {
#ifdef MADV_HUGEPAGE
    if (bytes >= HUGE_PAGE)
        madvise(block, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE); /* else ordinary ones */
#else
    (void)block;
    (void)bytes;
#endif
}

static void *heap_allocate(void *user, size_t bytes, size_t align) {
    (void)user;
    if (bytes >= HUGE_PAGE && align < HUGE_PAGE)
        align = HUGE_PAGE;
    /* aligned_alloc wants a multiple of the alignment. */
    if (bytes > SIZE_MAX - align)
        return NULL;
    void *block = aligned_alloc(align, (bytes + align - 1) / align * align);
    if (block)
        qn_prefer_huge_pages(block, bytes);
    return block;
}

static void heap_release(void *user, void *memory, size_t bytes) {
    (void)user;
    (void)bytes;
    free(memory);
}

const qn_allocator *qn_allocator_default(void) {
    static const qn_allocator heap = {NULL, heap_allocate, heap_release};
    return &heap;
}

const qn_allocator *qn_allocator_or_default(const qn_allocator *allocator) {
    return allocator ? allocator : qn_allocator_default();
}
