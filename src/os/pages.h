/* Memory of whole pages from the system that can grow and shrink. Pages beyond a smaller size are
 * returned at once, and growing needs no copy if the system supports it. Pages are allocated when
 * they are first written. */
#ifndef QN_OS_PAGES_H
#define QN_OS_PAGES_H

#include "quern/base.h"

#include <stddef.h>

/* bytes of zeros, aligned to a page. 0 bytes are null. */
qn_status qn_pages_open(size_t bytes, void **memory);
void qn_pages_close(void *memory, size_t bytes);

/* *memory may move; what it holds below the smaller size stays. On failure all is as it was. */
qn_status qn_pages_resize(void **memory, size_t bytes, size_t new_bytes);

/* Memory that is seen at two places: at one it can always be read and written, at the other only
 * while it is shown. bytes: rounded up to whole pages. */
typedef struct qn_twin_pages {
    size_t bytes;
    char *open, *guarded;
} qn_twin_pages;

qn_status qn_twin_pages_open(size_t bytes, qn_twin_pages *pages);
void qn_twin_pages_close(qn_twin_pages *pages);

/* Shows or hides the pages that hold these bytes of the guarded place. */
qn_status qn_twin_pages_show(const qn_twin_pages *pages, size_t offset, size_t bytes, bool shown);

/* Memory that a process which is given its file can map too (qn_process_start_with). Of pages that
 * were never written, or given back, there is none. */
typedef struct qn_shared_pages {
    size_t bytes;
    char *memory;
    int file;
} qn_shared_pages;

qn_status qn_shared_pages_open(size_t bytes, qn_shared_pages *pages);
void qn_shared_pages_close(qn_shared_pages *pages);
void qn_shared_pages_give_back(const qn_shared_pages *pages, size_t offset, size_t bytes);

#endif
