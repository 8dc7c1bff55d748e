/* A folder into which an app or a user puts pictures, CLASS/FILE. It is listed as a whole, sorted
 * by name in bytes, so that the same files come in the same order however often the listing is
 * begun anew. */
#ifndef QN_LEARN_INBOX_H
#define QN_LEARN_INBOX_H

#include "base/memory.h"
#include "quern/data.h"

typedef struct qn_inbox_file {
    const char *path;
    const char *name; /* CLASS/FILE, in path */
    int32_t label;
    uint64_t key; /* of name, size and time of change */
} qn_inbox_file;

typedef struct qn_inbox {
    qn_arena arena;
    const qn_allocator *allocator;
    qn_inbox_file *files; /* (n) of capacity */
    size_t n, capacity;
    const char *stranger; /* the first folder that is none of the classes, or null */
} qn_inbox;

/* Classes are those of preparation: by their names, or numbers where it has none. A folder that is
 * not there is QN_ERROR_IO. */
qn_status qn_inbox_list(const qn_allocator *allocator, const char *folder,
                        const qn_preparation *preparation, qn_inbox *inbox);
void qn_inbox_deinit(qn_inbox *inbox);

#endif
