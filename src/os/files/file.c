/* Reading files at any offset; see os.h. */
#define _GNU_SOURCE /* O_TMPFILE, memfd_create */

#include "os/files/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "os/files/writer.h"
#include "os/heap.h"
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
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

static qn_status make_file(const qn_allocator *allocator, const char *path, qn_file **file) {
    const size_t path_bytes = strlen(path) + 1;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof **file + path_bytes, file));
    (*file)->allocator = allocator;
    (*file)->path_bytes = path_bytes;
    memcpy((*file)->path, path, path_bytes);
    return QN_OK;
}

qn_status qn_file_open(const qn_allocator *allocator, const char *path, qn_file **file) {
    qn_file *opened;
    QN_TRY(make_file(allocator, path, &opened));
    qn_status status = open_descriptor(path, &opened->descriptor, &opened->bytes);
    if (status != QN_OK) {
        qn_release(opened->allocator, opened, 1, sizeof *opened + opened->path_bytes);
        return status;
    }
    *file = opened;
    return QN_OK;
}

int qn_descriptor_nameless(void) {
    const char *const folders[] = {getenv("TMPDIR"), "/var/tmp", "/tmp"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const int opened =
            folders[i] ? open(folders[i], O_RDWR | O_TMPFILE | O_EXCL | O_CLOEXEC, 0600) : -1;
        if (opened >= 0)
            return opened;
    }
    return memfd_create("quern", MFD_CLOEXEC);
}

qn_status qn_file_make(const qn_allocator *allocator, const char *path,
                       qn_status (*write)(void *context, qn_writer *writer), void *context,
                       qn_file **file) {
    qn_writer writer = {.path = path, .descriptor = qn_descriptor_nameless()};
    struct stat made;
    if (writer.descriptor < 0)
        return fail_at("make a file for", path);
    qn_status status = write(context, &writer);
    if (status == QN_OK)
        status = qn_writer_flush(&writer);
    if (status == QN_OK && fstat(writer.descriptor, &made) != 0)
        status = fail_at("measure what was made for", path);
    if (status == QN_OK)
        status = make_file(allocator, path, file);
    if (status != QN_OK) {
        close(writer.descriptor);
        return status;
    }
    (*file)->descriptor = writer.descriptor;
    (*file)->bytes = made.st_size;
    return QN_OK;
}

void qn_file_limit(qn_file *file, int64_t bytes) {
    if (bytes < file->bytes)
        file->bytes = bytes;
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

int qn_file_descriptor(const qn_file *file) {
    return file->descriptor;
}

const char *qn_file_path(const qn_file *file) {
    return file->path;
}

qn_status qn_file_read(const qn_file *file, int64_t offset, void *data, size_t bytes) {
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
