/* The C library's heap, used if no allocator is given. */
#ifndef QN_OS_HEAP_H
#define QN_OS_HEAP_H

#include "base/memory.h"

/* The C library's heap. */
const qn_allocator *qn_allocator_default(void);

/* Asks the system for pages of 2 MiB where a block has room for them; the default allocator's
 * blocks are. Walking down a matrix else misses the translation of addresses at every row, and each
 * 4 KiB are a page fault of their own. */
void qn_prefer_huge_pages(void *block, size_t bytes);

/* allocator, or the default where it is null. */
const qn_allocator *qn_allocator_or_default(const qn_allocator *allocator);

#endif
