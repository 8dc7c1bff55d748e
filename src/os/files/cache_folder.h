/* What is kept in the user's cache folder (qn_folder_cache): listing, removing, and the bound on
 * what is derived from data. Only regular files of the folder itself are read, written or removed;
 * links that somebody put there are removed as links, never followed. Removing is safe beside
 * processes that use the files: what is open stays readable, what is gone is made again. Where each
 * file is from is noted in a file of the folder; a note that is lost costs no more than that. */
#ifndef QN_OS_FILES_CACHE_FOLDER_H
#define QN_OS_FILES_CACHE_FOLDER_H

#include "base/memory.h"
#include "os/os.h"

typedef struct qn_cached {
    const char *name, *kind; /* kind: in words, "decoded pictures" */
    const char *source;      /* "": not known, or measured on this machine */
    int64_t bytes, used_ns;  /* the last use, since 1970 */
    double days;             /* since then */
    bool is_derived;         /* from data; else measured */
    bool is_removed;
} qn_cached;

typedef struct qn_cache_list {
    qn_arena texts;
    char *folder;
    qn_cached *files; /* (n), the last used first */
    size_t n, capacity;
} qn_cache_list;

/* What fails leaves nothing to close. */
qn_status qn_cache_list_open(const qn_allocator *allocator, qn_cache_list *list);
void qn_cache_list_close(qn_cache_list *list);

/* False: it could not be removed; one that is gone already is fine. Then notes of what was removed
 * are to be dropped, too. */
bool qn_cache_remove(const qn_cache_list *list, qn_cached *file);
qn_status qn_cache_drop_notes(const qn_cache_list *list);

/* Bytes that what is derived from data may have together: as kept, else 5 GiB. */
int64_t qn_cache_limit(void);
qn_status qn_cache_keep_limit(int64_t bytes);

/* Removes what was not used for longest until the rest is within the bound. Failures are silent:
 * the next one tries again. */
void qn_cache_apply_limit(const qn_allocator *allocator);

/* A path of the folder is going to be read: a link there is removed. */
void qn_cache_clear_path(const char *path);

/* Writes a file of the folder, for its owner alone. */
qn_status qn_cache_replace(const char *path, qn_status (*write)(void *context, qn_writer *writer),
                           void *context);

/* After a file was made of the source, and whenever it is used. */
void qn_cache_note(const qn_allocator *allocator, const char *path, const char *source);
void qn_cache_use(const char *path);

#endif
