/* See target.h. */
#define _GNU_SOURCE /* O_TMPFILE */

#include "os/files/target.h"

#include "base/rng.h"
#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

static const char suffix[] = ".quern-tmp";

/* Temporary names of a target, and rounds over all of them before a writer gives up, with a pause
 * between. */
enum { N_NAMES = 8, N_ROUNDS = 20, PAUSE_NS = 50 * 1000 * 1000 };

static qn_status fail_at(const char *what, const char *path) {
    return qn_fail(QN_ERROR_IO, "cannot %s %s: %s", what, path, strerror(errno));
}

int qn_target_stream(const char *path) {
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    if (strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0)
        return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0)
        return STDERR_FILENO;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const size_t length = strlen(folders[i]);
        char *end;
        if (strncmp(path, folders[i], length) != 0)
            continue;
        const long number = strtol(path + length, &end, 10);
        return end > path + length && !*end && number >= 0 && number <= INT_MAX ? (int)number : -1;
    }
    return -1;
}

/* ---- finding it ---- */

void qn_path_folder(const char *path, char folder[PATH_MAX]) {
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    memcpy(folder, path, length);
    folder[length] = 0;
    if (length == 0)
        strcpy(folder, slash ? "/" : ".");
}

static qn_status fail_long(const char *path) {
    return qn_fail(QN_ERROR_IO, "cannot write %.200s: the name is too long", path);
}

/* Puts what the link at path points to in its place. */
static qn_status follow_link(char path[PATH_MAX]) {
    char to[PATH_MAX], folder[PATH_MAX];
    const ssize_t length = readlink(path, to, sizeof to - 1);
    if (length < 0)
        return fail_at("follow the link", path);
    to[length] = 0;
    qn_path_folder(path, folder);
    const int n = to[0] == '/' ? snprintf(path, PATH_MAX, "%s", to)
                               : snprintf(path, PATH_MAX, "%s/%s", folder, to);
    return n < PATH_MAX ? QN_OK : fail_long(to);
}

static qn_status resolve(qn_target *t) {
    enum { MOST_LINKS = 40 };
    for (int i = 0; i < MOST_LINKS; i++) {
        t->exists = lstat(t->path, &t->old) == 0;
        if (!t->exists)
            return errno == ENOENT ? QN_OK : fail_at("write", t->path);
        if (!S_ISLNK(t->old.st_mode))
            return QN_OK;
        QN_TRY(follow_link(t->path));
    }
    errno = ELOOP;
    return fail_at("write", t->path);
}

/* The i-th temporary name: NAME.quern-tmp, NAME.quern-tmp2, ... */
static void choose_name(qn_target *t, int i) {
    t->temporary[t->n_temporary] = 0;
    if (i > 0)
        snprintf(t->temporary + t->n_temporary, 2, "%d", i + 1);
}

/* Of a name that leaves no space for the suffix, a sum. */
static qn_status name_temporaries(qn_target *t) {
    const char *slash = strrchr(t->path, '/');
    const char *name = slash ? slash + 1 : t->path;
    char short_name[NAME_MAX + 1];
    if (strlen(name) > NAME_MAX)
        return fail_long(t->path);
    if (strlen(name) + sizeof suffix < sizeof short_name)
        memcpy(short_name, name, strlen(name) + 1);
    else
        snprintf(short_name, sizeof short_name, ".%016" PRIx64, qn_hash_text(name));
    qn_path_folder(t->path, t->folder);
    const int n = snprintf(t->temporary, sizeof t->temporary, "%.*s%s%s", (int)(name - t->path),
                           t->path, short_name, suffix);
    t->n_temporary = (size_t)n;
    return n + 1 < PATH_MAX ? QN_OK : fail_long(t->path);
}

/* In a sticky folder only owners may replace a file, whatever its rights say. */
static bool may_rename_over(const qn_target *t) {
    struct stat folder;
    const uid_t own = geteuid();
    return own == 0 || t->old.st_uid == own || stat(t->folder, &folder) != 0 ||
           !(folder.st_mode & S_ISVTX) || folder.st_uid == own;
}

qn_status qn_target_find(const char *path, qn_target *t) {
    if (qn_target_stream(path) >= 0)
        return qn_fail(QN_ERROR_IO, "cannot replace %s: it is a stream; give the name of a file",
                       path);
    if ((size_t)snprintf(t->path, sizeof t->path, "%s", path) >= sizeof t->path)
        return fail_long(path);
    QN_TRY(resolve(t));
    if (t->exists && !S_ISREG(t->old.st_mode))
        return qn_fail(QN_ERROR_IO, "cannot replace %s: it is no regular file", t->path);
    if (t->exists && access(t->path, W_OK) != 0)
        return fail_at("replace", t->path);
    QN_TRY(name_temporaries(t));
    if (t->exists && !may_rename_over(t))
        return qn_fail(QN_ERROR_IO,
                       "cannot replace %s: it belongs to another user, and in its folder only "
                       "owners replace files; choose another name",
                       t->path);
    return QN_OK;
}

/* ---- the temporary file ---- */

static bool is_named_so(int descriptor, const char *path) {
    struct stat ours, named;
    return fstat(descriptor, &ours) == 0 && stat(path, &named) == 0 &&
           ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

/* Frees a temporary name: removes a file that no writer holds. Whoever removes one has its lock, so
 * that nobody's file of the same name goes. False: the name is in use, or not ours to free. */
static bool free_name(const char *path) {
    const int left = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int result;
    if (left < 0)
        return errno == ENOENT || unlink(path) == 0;
    do
        result = flock(left, LOCK_EX | LOCK_NB);
    while (result != 0 && errno == EINTR);
    const bool is_held = result != 0 && errno == EWOULDBLOCK;
    const bool is_free = !is_held && (!is_named_so(left, path) || unlink(path) == 0);
    close(left);
    return is_free;
}

/* Makes the file of a temporary name and locks it; -1: errno says why. Somebody who takes it for a
 * left-over in between removes it. File systems without locks are taken as they are. */
static int make_named(const char *path) {
    const int made = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (made < 0)
        return -1;
    const bool is_held = flock(made, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!is_held && is_named_so(made, path))
        return made;
    close(made);
    errno = EEXIST;
    return -1;
}

static bool take_name(const char *path, int *descriptor) {
    *descriptor = make_named(path);
    return *descriptor >= 0;
}

/* Gives a nameless file a temporary name. */
static bool link_name(const char *path, int *descriptor) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", *descriptor);
    return linkat(AT_FDCWD, link, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0;
}

/* Has a temporary name, freed before where it can be. EEXIST: it is in use. */
static bool have_name(const char *path, bool (*have)(const char *path, int *descriptor),
                      int *descriptor) {
    if (have(path, descriptor))
        return true;
    if (errno != EEXIST)
        return false;
    if (free_name(path))
        return have(path, descriptor);
    errno = EEXIST;
    return false;
}

/* The first temporary name that can be had. */
static qn_status find_name(qn_target *t, bool (*have)(const char *path, int *descriptor),
                           int *descriptor) {
    const struct timespec pause = {0, PAUSE_NS};
    for (int i = 0; i < N_NAMES * N_ROUNDS; i++) {
        choose_name(t, i % N_NAMES);
        if (have_name(t->temporary, have, descriptor))
            return QN_OK;
        if (errno != EEXIST)
            return fail_at("create", t->path);
        if (i % N_NAMES == N_NAMES - 1)
            nanosleep(&pause, NULL);
    }
    choose_name(t, 0);
    return qn_fail(QN_ERROR_IO,
                   "cannot create %s: %s and the %d names after it are in use or belong to others; "
                   "remove them, or choose another name",
                   t->path, t->temporary, N_NAMES - 1);
}

int qn_target_open_nameless(const qn_target *t) {
    if (access("/proc/self/fd", X_OK) != 0)
        return -1; /* it could get no name */
    return open(t->folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
}

qn_status qn_target_open_named(qn_target *t, int *descriptor) {
    return find_name(t, take_name, descriptor);
}

qn_status qn_target_name(qn_target *t, int descriptor) {
    (void)flock(descriptor, LOCK_EX | LOCK_NB);
    return find_name(t, link_name, &descriptor);
}

/* Removes what earlier writers have left. A folder is nobody's left-over: a save would go past it,
 * but who put it there should know. */
qn_status qn_target_clear(qn_target *t) {
    struct stat there;
    for (int i = 0; i < N_NAMES; i++) {
        choose_name(t, i);
        (void)free_name(t->temporary);
    }
    choose_name(t, 0);
    if (lstat(t->temporary, &there) == 0 && S_ISDIR(there.st_mode))
        return qn_fail(QN_ERROR_IO,
                       "cannot create %s: the folder %s has the name that the new file has until "
                       "it is complete; remove or rename it",
                       t->path, t->temporary);
    return QN_OK;
}

bool qn_target_clears(const char *path, qn_file_identity file) {
    qn_target t;
    qn_file_identity left;
    bool is_cleared = false;
    if (qn_target_stream(path) >= 0 || qn_target_find(path, &t) != QN_OK)
        return false;
    for (int i = 0; i < N_NAMES && !is_cleared; i++) {
        choose_name(&t, i);
        is_cleared = qn_file_identify(t.temporary, &left) && qn_file_is_same(left, file);
    }
    return is_cleared;
}
