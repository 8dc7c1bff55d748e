/* Folders and properties of paths; see os.h. */
#include "base/memory.h"
#include "base/status.h"
#include "os/heap.h"
#include "os/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool qn_path_is_file(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

bool qn_path_is_folder(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

int64_t qn_file_modified_ns(const char *path) {
    struct stat status;
    if (stat(path, &status) != 0)
        return 0;
    return (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
}

int64_t qn_file_accessed_ns(const char *path) {
    struct stat status;
    if (stat(path, &status) != 0)
        return 0;
    return (int64_t)status.st_atim.tv_sec * 1000000000 + status.st_atim.tv_nsec;
}

int64_t qn_path_bytes(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 ? (int64_t)status.st_size : -1;
}

void qn_file_remove(const char *path) {
    (void)unlink(path);
}

qn_status qn_path_resolve(const char *path, char *resolved, size_t bytes) {
    char *text = realpath(path, NULL);
    if (!text)
        return qn_fail(QN_ERROR_IO, "cannot find %s: %s", path, strerror(errno));
    int length = snprintf(resolved, bytes, "%s", text);
    free(text);
    if ((size_t)length >= bytes)
        return qn_fail(QN_ERROR_ARGUMENT, "%s: the path is too long", path);
    return QN_OK;
}

static qn_status create_one(const char *path, mode_t mode) {
    if (mkdir(path, mode) == 0)
        return QN_OK;
    const int error = errno;
    if (qn_path_is_folder(path))
        return QN_OK;
    return qn_fail(QN_ERROR_IO, "cannot make folder %s: %s", path, strerror(error));
}

qn_status qn_folder_create(const char *path) {
    char part[PATH_MAX];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof part)
        return qn_fail(QN_ERROR_ARGUMENT, "cannot make folder '%s': bad length of path", path);
    memcpy(part, path, length + 1);
    for (size_t i = 1; i < length; i++) {
        if (part[i] != '/')
            continue;
        part[i] = 0;
        QN_TRY(create_one(part, 0777));
        part[i] = '/';
    }
    return create_one(part, 0777);
}

qn_status qn_folder_create_new(const char *path, bool *is_new) {
    *is_new = mkdir(path, 0777) == 0;
    if (*is_new || errno == EEXIST)
        return QN_OK;
    return qn_fail(QN_ERROR_IO, "cannot make folder %s: %s", path, strerror(errno));
}

qn_status qn_path_make_private(const char *path) {
    struct stat status;
    if (stat(path, &status) != 0)
        return qn_fail(QN_ERROR_IO, "cannot find %s: %s", path, strerror(errno));
    const bool is_private = (status.st_mode & 077) == 0;
    if (is_private || status.st_uid != geteuid() || chmod(path, status.st_mode & 0700) == 0)
        return QN_OK;
    return qn_fail(QN_ERROR_IO, "cannot change the rights of %s: %s", path, strerror(errno));
}

qn_status qn_file_make_private(const char *path) {
    const int made = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (made < 0)
        return qn_fail(QN_ERROR_IO, "cannot open %s: %s", path, strerror(errno));
    close(made);
    return qn_path_make_private(path);
}

void qn_rights_narrow(const char *path) {
    struct stat status;
    if (stat(path, &status) != 0 || (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)))
        return;
    const mode_t closed =
        (status.st_mode & S_IRGRP ? 0 : S_IRWXG) | (status.st_mode & S_IROTH ? 0 : S_IRWXO);
    umask(umask(S_IRWXG | S_IRWXO) | closed);
}

void qn_folder_remove_empty(const char *path) {
    (void)rmdir(path);
}

/* ---- listing ---- */

typedef struct entry {
    const char *name;
    bool is_folder;
} entry;

typedef struct listing {
    qn_arena names;
    entry *entries; /* (n_entries) of capacity */
    size_t n_entries, capacity;
} listing;

static int compare_entries(const void *left, const void *right) {
    return strcmp(((const entry *)left)->name, ((const entry *)right)->name);
}

/* Links count as what they point to. */
static bool entry_is_folder(DIR *folder, const struct dirent *item) {
    struct stat status;
    if (item->d_type != DT_UNKNOWN && item->d_type != DT_LNK)
        return item->d_type == DT_DIR;
    return fstatat(dirfd(folder), item->d_name, &status, 0) == 0 && S_ISDIR(status.st_mode);
}

static qn_status add_entry(listing *list, DIR *folder, const struct dirent *item) {
    if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0)
        return QN_OK;
    const char *name = qn_arena_text(&list->names, item->d_name);
    if (!name)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_grow(list->names.allocator, &list->entries, &list->capacity, list->n_entries + 1,
                   sizeof *list->entries));
    list->entries[list->n_entries++] = (entry){name, entry_is_folder(folder, item)};
    return QN_OK;
}

static qn_status read_entries(listing *list, const char *path) {
    DIR *folder = opendir(path);
    if (!folder)
        return qn_fail(QN_ERROR_IO, "cannot list folder %s: %s", path, strerror(errno));
    qn_status status = QN_OK;
    while (status == QN_OK) {
        errno = 0;
        const struct dirent *item = readdir(folder);
        if (!item && errno != 0)
            status = qn_fail(QN_ERROR_IO, "cannot list folder %s: %s", path, strerror(errno));
        if (!item)
            break;
        status = add_entry(list, folder, item);
    }
    closedir(folder);
    return status;
}

qn_status qn_folder_list(const qn_allocator *allocator, const char *path,
                         qn_status (*visit)(void *context, const char *name, bool is_folder),
                         void *context) {
    listing list = {.entries = NULL};
    qn_arena_init(&list.names, qn_allocator_or_default(allocator));
    qn_status status = read_entries(&list, path);
    if (status == QN_OK && list.n_entries > 0)
        qsort(list.entries, list.n_entries, sizeof *list.entries, compare_entries);
    for (size_t i = 0; i < list.n_entries && status == QN_OK; i++)
        status = visit(context, list.entries[i].name, list.entries[i].is_folder);
    qn_release(list.names.allocator, list.entries, list.capacity, sizeof *list.entries);
    qn_arena_deinit(&list.names);
    return status;
}

/* ---- data ---- */

/* The n-th of paths with colons between, from 0; false: there are fewer. */
static bool take_part(const char *paths, int n, char *part, size_t bytes) {
    for (; n > 0 && *paths; n--) {
        paths += strcspn(paths, ":");
        paths += *paths == ':';
    }
    const size_t length = strcspn(paths, ":");
    if (length == 0 || length >= bytes)
        return false;
    memcpy(part, paths, length);
    part[length] = 0;
    return true;
}

bool qn_folder_data(int index, char *path, size_t bytes) {
    const char *own = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    const char *others = getenv("XDG_DATA_DIRS");
    char part[PATH_MAX];
    int length = -1;
    const bool has_own = own && own[0] == '/', has_home = home && home[0] == '/';
    if (index == 0 && has_own)
        length = snprintf(path, bytes, "%s/quern", own);
    else if (index == 0 && has_home)
        length = snprintf(path, bytes, "%s/.local/share/quern", home);
    else if (take_part(others && others[0] ? others : "/usr/local/share:/usr/share",
                       index - (has_own || has_home), part, sizeof part))
        length = snprintf(path, bytes, "%s/quern", part);
    return length >= 0 && (size_t)length < bytes;
}

/* ---- cache ---- */

/* In a folder that everybody can write to, only our own will do: others could have made it. */
static qn_status create_private(const char *path) {
    struct stat status;
    QN_TRY(create_one(path, 0700));
    if (lstat(path, &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != getuid())
        return qn_fail(QN_ERROR_IO, "folder %s belongs to somebody else; set XDG_CACHE_HOME", path);
    return QN_OK;
}

static qn_status create_writable(const char *path) {
    QN_TRY(qn_folder_create(path));
    (void)qn_path_make_private(path); /* some file systems have no rights */
    if (access(path, W_OK | X_OK) == 0)
        return QN_OK;
    return qn_fail(QN_ERROR_IO, "cannot write to folder %s: %s", path, strerror(errno));
}

/* Where the user's folder cannot be had: one of ours among what need not last. */
static qn_status make_temporary(char *path, size_t bytes) {
    const char *folder = getenv("TMPDIR");
    const bool is_told = folder && folder[0] == '/';
    const int length =
        snprintf(path, bytes, "%s/quern-%ld", is_told ? folder : "/tmp", (long)getuid());
    if (length < 0 || (size_t)length >= bytes)
        return qn_fail(QN_ERROR_ARGUMENT, "the path of the cache folder is too long");
    return create_private(path);
}

qn_status qn_folder_cache(char *path, size_t bytes) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = -1;
    if (cache && cache[0] == '/')
        length = snprintf(path, bytes, "%s/quern", cache);
    else if (home && home[0] == '/' && access(home, W_OK | X_OK) == 0)
        length = snprintf(path, bytes, "%s/.cache/quern", home);
    const bool is_there = length >= 0 && (size_t)length < bytes && create_writable(path) == QN_OK;
    return is_there ? QN_OK : make_temporary(path, bytes);
}
