/* A disk that is watched and fails, for programs that are started with it in LD_PRELOAD. Of files
 * under the folder $QUERN_DISK_ROOT it writes what is done to them, in order, to $QUERN_DISK_LOG
 * (tests/cli/disk.py reads it and makes the disk as a power cut could leave it at each point);
 * lets call number N of a kind (or "all") fail: QUERN_DISK_FAIL=write:N, sync:N, rename:N, link:N,
 * open:N (to be changed), look:N (to be read), read:N, room:N (blocks set aside), from 1, where
 * paths hold $QUERN_DISK_MATCH if that is set, with the number $QUERN_DISK_ERRNO or one that is
 * usual; knows no files without names where QUERN_DISK_NAMELESS is "no", as vfat and NFS. alloc:N
 * fails one allocation, mmap:N, connect:N and accept:N such a call of the program, whatever it is
 * for. How many calls there were of each kind goes to $QUERN_DISK_COUNTS when the program ends. */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    WRITE,
    SYNC,
    RENAME,
    LINK,
    OPEN,
    ALLOC,
    LOOK,
    READ,
    ROOM,
    MMAP,
    CONNECT,
    ACCEPT,
    KINDS,
    FILES = 1024
};

static const char *const kinds[KINDS] = {"write", "sync", "rename", "link", "open",    "alloc",
                                         "look",  "read", "room",   "mmap", "connect", "accept"};
static int failing_errno; /* 0: the usual one */
static int64_t counts[KINDS];
static int failing_kind = -1;
static int64_t failing_call;
static int log_file = -1;
static const char *root, *match, *counts_path;
static bool has_nameless = true, is_ready;

/* By descriptor: the path of a file or folder under the root that is open to be changed or synced;
 * "" is none. A file without a name has the path "?". */
static char paths[FILES][PATH_MAX];

/* By descriptor: the path of a file under the root that is open to be read; "": none. */
static char read_paths[FILES][PATH_MAX];

/* ---- settings ---- */

__attribute__((constructor)) static void begin(void) {
    const char *fail = getenv("QUERN_DISK_FAIL"), *path = getenv("QUERN_DISK_LOG");
    const char *nameless = getenv("QUERN_DISK_NAMELESS");
    const char *number = getenv("QUERN_DISK_ERRNO");
    failing_errno = number ? atoi(number) : 0;
    root = getenv("QUERN_DISK_ROOT");
    match = getenv("QUERN_DISK_MATCH");
    counts_path = getenv("QUERN_DISK_COUNTS");
    has_nameless = !nameless || strcmp(nameless, "no") != 0;
    for (int i = 0; fail && i < KINDS; i++) {
        const size_t length = strlen(kinds[i]);
        if (strncmp(fail, kinds[i], length) == 0 && fail[length] == ':') {
            failing_kind = i;
            failing_call = strcmp(fail + length, ":all") == 0 ? 0 : atoll(fail + length + 1);
        }
    }
    if (path)
        log_file = (int)syscall(SYS_openat, AT_FDCWD, path,
                                O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    is_ready = true;
}

__attribute__((destructor)) static void end(void) {
    char text[512];
    int n = 0;
    if (!counts_path)
        return;
    for (int i = 0; i < KINDS; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s %lld\n", kinds[i],
                      (long long)counts[i]);
    const int file = (int)syscall(SYS_openat, AT_FDCWD, counts_path,
                                  O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file >= 0 && syscall(SYS_write, file, text, n) == n)
        syscall(SYS_close, file);
}

/* Counts a call; whether it is the one that fails. */
static bool fails(int kind, const char *path) {
    if (path && match && !strstr(path, match))
        return false;
    const int64_t call = __atomic_add_fetch(&counts[kind], 1, __ATOMIC_RELAXED);
    return kind == failing_kind && (call == failing_call || failing_call == 0);
}

static void set_errno(int usual) {
    errno = failing_errno ? failing_errno : usual;
}

static bool is_under(const char *path) {
    return root && path && strncmp(path, root, strlen(root)) == 0;
}

/* From the root of the file system; false: it is none of ours. */
static bool resolve(int folder, const char *path, char resolved[PATH_MAX]) {
    char base[PATH_MAX] = "";
    if (!root || !path)
        return false;
    if (path[0] != '/' && folder == AT_FDCWD && !getcwd(base, sizeof base - 1))
        return false;
    if (path[0] != '/' && folder != AT_FDCWD)
        return false;
    if (strncmp(path, "./", 2) == 0)
        path += 2;
    const int n = path[0] == '/' ? snprintf(resolved, PATH_MAX, "%s", path)
                                 : snprintf(resolved, PATH_MAX, "%s/%s", base, path);
    return n < PATH_MAX && is_under(resolved);
}

static const char *path_of(int descriptor) {
    return descriptor >= 0 && descriptor < FILES && *paths[descriptor] ? paths[descriptor] : NULL;
}

/* ---- the log ---- */

static unsigned long long number_of(int descriptor) {
    struct stat status = {.st_ino = 0};
    fstat(descriptor, &status);
    return (unsigned long long)status.st_ino;
}

static void put(const void *data, size_t bytes, const char *format, ...) {
    char line[3 * PATH_MAX];
    va_list arguments;
    if (log_file < 0)
        return;
    va_start(arguments, format);
    const int n = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    /* At once, since several processes may write the log. */
    const struct iovec parts[] = {{line, (size_t)n}, {(void *)(uintptr_t)data, bytes}};
    if (syscall(SYS_writev, log_file, parts, bytes > 0 ? 2 : 1) != (long)n + (long)bytes)
        abort();
}

/* ---- opening ---- */

static int open_at(int folder, const char *path, int flags, int mode) {
    char full[PATH_MAX];
    const bool is_nameless = (flags & O_TMPFILE) == O_TMPFILE;
    const bool is_changed = (flags & O_ACCMODE) != O_RDONLY;
    const bool is_ours = resolve(folder, path, full);
    if (is_ours && is_nameless && !has_nameless) {
        errno = EOPNOTSUPP;
        return -1;
    }
    if (is_ours && fails(is_changed ? OPEN : LOOK, full)) {
        set_errno(is_changed ? ENOSPC : EMFILE);
        return -1;
    }
    const int opened = (int)syscall(SYS_openat, folder, path, flags, mode);
    if (opened < 0 || opened >= FILES || !is_ours)
        return opened;
    if ((flags & O_ACCMODE) != O_WRONLY && (flags & O_DIRECTORY) == 0)
        snprintf(read_paths[opened], sizeof read_paths[opened], "%s", full);
    const bool is_folder = (flags & O_DIRECTORY) == O_DIRECTORY && !is_nameless;
    if (is_changed || is_folder)
        snprintf(paths[opened], sizeof paths[opened], "%s", is_nameless ? "?" : full);
    if (is_nameless)
        put(NULL, 0, "N %llu\n", number_of(opened));
    else if (is_changed)
        put(NULL, 0, "O %llu %d %s\n", number_of(opened), (flags & O_TRUNC) != 0, full);
    return opened;
}

#define MODE_OF(flags)                                                                             \
    int mode = 0;                                                                                  \
    if ((flags) & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))) {                                        \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode = va_arg(more, int);                                                                  \
        va_end(more);                                                                              \
    }

int open(const char *path, int flags, ...) {
    MODE_OF(flags)
    return open_at(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    MODE_OF(flags)
    return open_at(AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...) {
    MODE_OF(flags)
    return open_at(folder, path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...) {
    MODE_OF(flags)
    return open_at(folder, path, flags, mode);
}

int close(int descriptor) {
    if (descriptor >= 0 && descriptor < FILES) {
        *paths[descriptor] = 0;
        *read_paths[descriptor] = 0;
    }
    return (int)syscall(SYS_close, descriptor);
}

int mkdir(const char *path, mode_t mode) {
    char full[PATH_MAX];
    const int result = (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    if (result == 0 && resolve(AT_FDCWD, path, full))
        put(NULL, 0, "M %s\n", full);
    return result;
}

/* ---- contents ---- */

ssize_t write(int descriptor, const void *data, size_t bytes) {
    const char *path = path_of(descriptor);
    if (path && fails(WRITE, path)) {
        set_errno(ENOSPC);
        return -1;
    }
    const ssize_t n = syscall(SYS_write, descriptor, data, bytes);
    /* From where the file is now: with O_APPEND it was elsewhere before. */
    const off_t offset = path && n > 0 ? lseek(descriptor, 0, SEEK_CUR) - n : 0;
    if (path && n > 0)
        put(data, (size_t)n, "W %llu %lld %zd\n", number_of(descriptor), (long long)offset, n);
    return n;
}

/* SQLite's. */
ssize_t pwrite(int descriptor, const void *data, size_t bytes, off_t offset) {
    const char *path = path_of(descriptor);
    if (path && fails(WRITE, path)) {
        set_errno(ENOSPC);
        return -1;
    }
    const ssize_t n = syscall(SYS_pwrite64, descriptor, data, bytes, offset);
    if (path && n > 0)
        put(data, (size_t)n, "W %llu %lld %zd\n", number_of(descriptor), (long long)offset, n);
    return n;
}

ssize_t pwrite64(int descriptor, const void *data, size_t bytes, off_t offset) {
    return pwrite(descriptor, data, bytes, offset);
}

static bool read_fails(int descriptor) {
    if (descriptor < 0 || descriptor >= FILES || !*read_paths[descriptor] ||
        !fails(READ, read_paths[descriptor]))
        return false;
    set_errno(EIO);
    return true;
}

ssize_t read(int descriptor, void *to, size_t bytes) {
    return read_fails(descriptor) ? -1 : syscall(SYS_read, descriptor, to, bytes);
}

ssize_t pread(int descriptor, void *to, size_t bytes, off_t offset) {
    return read_fails(descriptor) ? -1 : syscall(SYS_pread64, descriptor, to, bytes, offset);
}

ssize_t pread64(int descriptor, void *to, size_t bytes, off_t offset) {
    return pread(descriptor, to, bytes, offset);
}

int ftruncate(int descriptor, off_t bytes) {
    const int result = (int)syscall(SYS_ftruncate, descriptor, bytes);
    if (result == 0 && path_of(descriptor))
        put(NULL, 0, "T %llu %lld\n", number_of(descriptor), (long long)bytes);
    return result;
}

int ftruncate64(int descriptor, off_t bytes) {
    return ftruncate(descriptor, bytes);
}

int fallocate(int descriptor, int mode, off_t offset, off_t bytes) {
    const char *path = path_of(descriptor);
    if (path && fails(ROOM, path)) {
        set_errno(ENOSPC);
        return -1;
    }
    const int result = (int)syscall(SYS_fallocate, descriptor, mode, offset, bytes);
    if (result == 0 && path && !(mode & FALLOC_FL_KEEP_SIZE))
        put(NULL, 0, "T %llu %lld\n", number_of(descriptor), (long long)(offset + bytes));
    return result;
}

int fallocate64(int descriptor, int mode, off_t offset, off_t bytes) {
    return fallocate(descriptor, mode, offset, bytes);
}

int fsync(int descriptor) {
    const char *path = path_of(descriptor);
    struct stat status;
    if (path && fails(SYNC, path)) {
        set_errno(EIO);
        return -1;
    }
    const int result = (int)syscall(SYS_fsync, descriptor);
    if (path && result == 0 && fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode))
        put(NULL, 0, "D %s\n", path);
    else if (path && result == 0)
        put(NULL, 0, "S %llu\n", number_of(descriptor));
    return result;
}

int fdatasync(int descriptor) {
    return fsync(descriptor);
}

int syncfs(int descriptor) {
    const int result = (int)syscall(SYS_syncfs, descriptor);
    if (result == 0 && path_of(descriptor))
        put(NULL, 0, "Y\n");
    return result;
}

/* ---- names ---- */

int linkat(int from, const char *old, int to, const char *new, int flags) {
    char full[PATH_MAX];
    int descriptor = -1;
    const bool is_ours = resolve(to, new, full);
    if (is_ours && fails(LINK, full)) {
        set_errno(ENOSPC);
        return -1;
    }
    const int result = (int)syscall(SYS_linkat, from, old, to, new, flags);
    if (result == 0 && is_ours && sscanf(old, "/proc/self/fd/%d", &descriptor) == 1)
        put(NULL, 0, "L %llu %s\n", number_of(descriptor), full);
    return result;
}

int rename(const char *old, const char *new) {
    char from[PATH_MAX], to[PATH_MAX];
    const bool is_ours = resolve(AT_FDCWD, old, from) && resolve(AT_FDCWD, new, to);
    if (is_ours && fails(RENAME, to)) {
        set_errno(EIO);
        return -1;
    }
    const int result = (int)syscall(SYS_renameat, AT_FDCWD, old, AT_FDCWD, new);
    if (result == 0 && is_ours)
        put(NULL, 0, "R %s\t%s\n", from, to);
    return result;
}

int unlink(const char *path) {
    char full[PATH_MAX];
    const int result = (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    if (result == 0 && resolve(AT_FDCWD, path, full))
        put(NULL, 0, "U %s\n", full);
    return result;
}

/* ---- mappings and connections ---- */

void *mmap(void *address, size_t bytes, int access, int flags, int descriptor, off_t offset) {
    if (is_ready && fails(MMAP, NULL)) {
        set_errno(ENOMEM);
        return MAP_FAILED;
    }
    const long mapped = syscall(SYS_mmap, address, bytes, access, flags, descriptor, offset);
    return (void *)mapped;
}

void *mmap64(void *address, size_t bytes, int access, int flags, int descriptor, off_t offset) {
    return mmap(address, bytes, access, flags, descriptor, offset);
}

int connect(int descriptor, const struct sockaddr *address, socklen_t bytes) {
    if (fails(CONNECT, NULL)) {
        set_errno(ECONNREFUSED);
        return -1;
    }
    return (int)syscall(SYS_connect, descriptor, address, bytes);
}

int accept4(int descriptor, struct sockaddr *address, socklen_t *bytes, int flags) {
    if (fails(ACCEPT, NULL)) {
        set_errno(EMFILE);
        return -1;
    }
    return (int)syscall(SYS_accept4, descriptor, address, bytes, flags);
}

int accept(int descriptor, struct sockaddr *address, socklen_t *bytes) {
    return accept4(descriptor, address, bytes, 0);
}

/* ---- memory ---- */

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);

static bool is_out(void) {
    if (!is_ready || !fails(ALLOC, NULL))
        return false;
    set_errno(ENOMEM);
    return true;
}

void *malloc(size_t bytes) {
    return is_out() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes) {
    return is_out() ? NULL : __libc_calloc(n, bytes);
}

void *realloc(void *memory, size_t bytes) {
    return is_out() ? NULL : __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t align, size_t bytes) {
    return is_out() ? NULL : __libc_memalign(align, bytes);
}

int posix_memalign(void **memory, size_t align, size_t bytes) {
    if (is_out())
        return ENOMEM;
    *memory = __libc_memalign(align, bytes);
    return *memory ? 0 : ENOMEM;
}
