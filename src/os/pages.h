/* Memory of whole pages from the system that can grow and shrink: what it has beyond its new size
 * goes back at once, and it grows without a copy where the system can. Pages are taken when they
 * are first written. */
#ifndef QN_OS_PAGES_H
#define QN_OS_PAGES_H

#include "quern/base.h"

#include <stddef.h>

/* bytes of zeros, aligned to a page. 0 bytes are null. */
qn_status qn_pages_open(size_t bytes, void **memory);
void qn_pages_close(void *memory, size_t bytes);

/* *memory may move; what it holds below the smaller size stays. On failure all is as it was. */
qn_status qn_pages_resize(void **memory, size_t bytes, size_t new_bytes);

#endif
