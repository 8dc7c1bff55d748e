/* Reading files at any offset and replacing them as a whole; see os.h. A replaced file is either
 * the old one or all of the new one, also after a full disk, a kill or a power cut: the new one is
 * written to a file without a name in the same folder, synced, named PATH.tmp-ID and renamed over
 * it, so that a kill leaves nothing behind. Where the file system knows no files without names, it
 * is PATH.tmp-ID from the beginning, and stays after a kill. */
#define _GNU_SOURCE /* gettid, O_TMPFILE */

#include "base/memory.h"
#include "base/status.h"
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct qn_file {
    const qn_allocator *allocator;
    int descriptor;
    int64_t bytes;
    size_t path_bytes;
    char path[]; /* (path_bytes) */
};

static qn_status fail_at(const char *what, const char *path) {
    return qn_fail(QN_ERROR_IO, "cannot %s %s: %s", what, path, strerror(errno));
}

/* Opens and measures; on failure nothing stays open. */
static qn_status open_descriptor(const char *path, int *descriptor, int64_t *bytes) {
    struct stat status;
    /* Without O_NONBLOCK a named pipe would wait for its writer. */
    int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (opened < 0)
        return fail_at("open", path);
    if (fstat(opened, &status) != 0 || !S_ISREG(status.st_mode)) {
        close(opened);
        return qn_fail(QN_ERROR_IO, "cannot read %s: it is no regular file", path);
    }
    *descriptor = opened;
    *bytes = status.st_size;
    return QN_OK;
}

qn_status qn_file_open(const qn_allocator *allocator, const char *path, qn_file **file) {
    qn_file *opened;
    size_t path_bytes = strlen(path) + 1;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *opened + path_bytes, &opened));
    opened->allocator = allocator;
    opened->path_bytes = path_bytes;
    memcpy(opened->path, path, path_bytes);
    qn_status status = open_descriptor(path, &opened->descriptor, &opened->bytes);
    if (status != QN_OK) {
        qn_release(allocator, opened, 1, sizeof *opened + path_bytes);
        return status;
    }
    *file = opened;
    return QN_OK;
}

void qn_file_close(qn_file *file) {
    if (!file)
        return;
    close(file->descriptor);
    qn_release(file->allocator, file, 1, sizeof *file + file->path_bytes);
}

int64_t qn_file_bytes(const qn_file *file) {
    return file->bytes;
}

const char *qn_file_path(const qn_file *file) {
    return file->path;
}

qn_status qn_file_read(qn_file *file, int64_t offset, void *data, size_t bytes) {
    char *to = data;
    while (bytes > 0) {
        ssize_t n_read = pread(file->descriptor, to, bytes, (off_t)offset);
        if (n_read < 0 && errno == EINTR)
            continue;
        if (n_read < 0)
            return fail_at("read", file->path);
        if (n_read == 0)
            return qn_fail(QN_ERROR_FORMAT, "%s: ends at byte %lld, %zu more were expected",
                           file->path, (long long)offset, bytes);
        to += n_read;
        offset += n_read;
        bytes -= (size_t)n_read;
    }
    return QN_OK;
}

qn_status qn_file_map(const qn_file *file, const void **memory) {
    *memory = NULL;
    if (file->bytes == 0)
        return QN_OK;
    if ((uint64_t)file->bytes > SIZE_MAX)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s is larger than this machine can address",
                       file->path);
    void *mapped = mmap(NULL, (size_t)file->bytes, PROT_READ, MAP_PRIVATE, file->descriptor, 0);
    if (mapped == MAP_FAILED)
        return fail_at("map", file->path);
    *memory = mapped;
    return QN_OK;
}

void qn_file_unmap(const void *memory, size_t bytes) {
    if (memory)
        munmap((void *)memory, bytes);
}

qn_status qn_file_read_whole(const qn_allocator *allocator, const char *path, char **text,
                             size_t *bytes) {
    qn_file *file;
    char *read = NULL;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_file_open(allocator, path, &file));
    const size_t n = (size_t)file->bytes;
    qn_status status = qn_allocate(allocator, n + 1, 1, &read);
    if (status == QN_OK)
        status = qn_file_read(file, 0, read, n);
    qn_file_close(file);
    if (status != QN_OK) {
        qn_release(allocator, read, n + 1, 1);
        return status;
    }
    *text = read;
    *bytes = n;
    return QN_OK;
}

/* ---- replacing ---- */

enum { WRITER_BYTES = 32 * 1024 };

struct qn_writer {
    const char *path; /* the temporary file */
    int descriptor;
    bool is_nameless;
    size_t used; /* <= WRITER_BYTES */
    char buffer[WRITER_BYTES];
};

static qn_status write_all(qn_writer *writer, const char *data, size_t bytes) {
    while (bytes > 0) {
        ssize_t n_written = write(writer->descriptor, data, bytes);
        if (n_written < 0 && errno == EINTR)
            continue;
        if (n_written < 0)
            return fail_at("write", writer->path);
        data += n_written;
        bytes -= (size_t)n_written;
    }
    return QN_OK;
}

static qn_status flush(qn_writer *writer) {
    size_t used = writer->used;
    writer->used = 0;
    return write_all(writer, writer->buffer, used);
}

qn_status qn_writer_put(qn_writer *writer, const void *data, size_t bytes) {
    if (bytes > WRITER_BYTES - writer->used)
        QN_TRY(flush(writer));
    if (bytes >= WRITER_BYTES)
        return write_all(writer, data, bytes);
    memcpy(writer->buffer + writer->used, data, bytes);
    writer->used += bytes;
    return QN_OK;
}

/* The folder that a path's entry is in. */
static void folder_of(const char *path, char folder[PATH_MAX]) {
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    memcpy(folder, path, length);
    folder[length] = 0;
    if (length == 0)
        strcpy(folder, slash ? "/" : ".");
}

/* Makes the entry of path in its folder lasting; some file systems know no such thing, and say so
 * with EINVAL or ENOTSUP. */
static qn_status sync_folder_of(const char *path) {
    char name[PATH_MAX];
    folder_of(path, name);
    int descriptor = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0)
        return fail_at("open folder", name);
    bool is_refused = fsync(descriptor) != 0 && errno != EINVAL && errno != ENOTSUP;
    qn_status status = is_refused ? fail_at("sync folder", name) : QN_OK;
    close(descriptor);
    return status;
}

/* Opens what is written to: without a name yet, where the system can do that. */
static qn_status open_writer(qn_writer *writer) {
    char folder[PATH_MAX];
    folder_of(writer->path, folder);
    writer->descriptor = -1;
    if (access("/proc/self/fd", X_OK) == 0)
        writer->descriptor = open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
    writer->is_nameless = writer->descriptor >= 0;
    if (!writer->is_nameless)
        writer->descriptor =
            open(writer->path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    return writer->descriptor < 0 ? fail_at("create", writer->path) : QN_OK;
}

/* Gives a nameless file its name; one of that name is left over and goes. */
static qn_status give_name(qn_writer *writer) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", writer->descriptor);
    if (!writer->is_nameless)
        return QN_OK;
    int result = linkat(AT_FDCWD, link, AT_FDCWD, writer->path, AT_SYMLINK_FOLLOW);
    if (result != 0 && errno == EEXIST && unlink(writer->path) == 0)
        result = linkat(AT_FDCWD, link, AT_FDCWD, writer->path, AT_SYMLINK_FOLLOW);
    return result != 0 ? fail_at("create", writer->path) : QN_OK;
}

static qn_status fill(qn_writer *writer, qn_status (*write)(void *, qn_writer *), void *context) {
    QN_TRY(open_writer(writer));
    qn_status status = write(context, writer);
    if (status == QN_OK)
        status = flush(writer);
    if (status == QN_OK && fsync(writer->descriptor) != 0)
        status = fail_at("sync", writer->path);
    if (status == QN_OK)
        status = give_name(writer);
    if (close(writer->descriptor) != 0 && status == QN_OK)
        status = fail_at("close", writer->path);
    return status;
}

qn_status qn_file_replace(const char *path, qn_status (*write)(void *context, qn_writer *writer),
                          void *context) {
    char temporary[PATH_MAX];
    struct stat old;
    int length = snprintf(temporary, sizeof temporary, "%s.tmp-%ld", path, (long)gettid());
    if (length < 0 || (size_t)length >= sizeof temporary)
        return qn_fail(QN_ERROR_ARGUMENT, "cannot create %s: the path is too long", path);
    if (stat(path, &old) == 0 && !S_ISREG(old.st_mode))
        return qn_fail(QN_ERROR_IO, "cannot replace %s: it is no regular file", path);
    qn_writer writer = {.path = temporary};
    qn_status status = fill(&writer, write, context);
    if (status == QN_OK && rename(temporary, path) != 0)
        status =
            qn_fail(QN_ERROR_IO, "cannot rename %s to %s: %s", temporary, path, strerror(errno));
    if (status != QN_OK) {
        unlink(temporary);
        return status;
    }
    return sync_folder_of(path);
}
