/* The file that a path means when it is replaced: links followed, checked, with the names that the
 * new file may have until it is complete. Each target has a few of those. A writer takes the first
 * that is free and locks it, so the next writer recognises and removes what a kill left behind, and
 * goes past what others hold or what it may not remove. No wait here is without an end. */
#ifndef QN_OS_FILES_TARGET_H
#define QN_OS_FILES_TARGET_H

#include "os/files/identity.h"

#include <limits.h>
#include <sys/stat.h>

/* path: no link; exists: then old is what is there. */
typedef struct qn_target {
    char path[PATH_MAX], folder[PATH_MAX], temporary[PATH_MAX];
    size_t n_temporary; /* of the first temporary name */
    bool exists;
    struct stat old;
} qn_target;

/* The descriptor that "-", /dev/stdout and /dev/fd/N mean; -1: it is no such name. */
int qn_target_stream(const char *path);

/* Fails for what cannot be replaced. */
qn_status qn_target_find(const char *path, qn_target *target);

/* Opens a file without a name in the target's folder, which can get one; -1: errno says why. */
int qn_target_open_nameless(const qn_target *target);

/* Opens a file of the first temporary name that is free, or gives a nameless file that name. */
qn_status qn_target_open_named(qn_target *target, int *descriptor);
qn_status qn_target_name(qn_target *target, int descriptor);

/* Removes what earlier writers have left under the temporary names. */
qn_status qn_target_clear(qn_target *target);

/* Whether a file is one of those that writing to path would clear: it has a temporary name. */
bool qn_target_clears(const char *path, qn_file_identity file);

/* The folder that a path's entry is in. */
void qn_path_folder(const char *path, char folder[PATH_MAX]);

#endif
