/* See record_file.h. */
#include "os/files/record_file.h"

#include "base/memory.h"
#include "base/status.h"
#include "os/files/writer.h"
#include "os/heap.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

struct qn_record_file {
    const qn_allocator *allocator;
    int descriptor;
    bool is_nameless;
    size_t path_bytes;
    char path[]; /* (path_bytes), for messages */
};

static qn_status fail_at(const char *what, const char *path) {
    return qn_fail(QN_ERROR_IO, "cannot %s %s: %s", what, path, strerror(errno));
}

static qn_status open_descriptor(qn_record_file *f) {
    f->descriptor = f->is_nameless ? qn_descriptor_nameless()
                                   : open(f->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (f->descriptor < 0)
        return fail_at("open", f->path);
    if (flock(f->descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return qn_fail(QN_ERROR_IO, "%s is in use by another process", f->path);
    return f->is_nameless ? QN_OK : qn_entry_sync(f->path, f->descriptor);
}

qn_status qn_record_file_open(const qn_allocator *allocator, const char *path,
                              qn_record_file **file) {
    qn_record_file *f;
    const char *name = path ? path : "a temporary file";
    const size_t path_bytes = strlen(name) + 1;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *f + path_bytes, &f));
    f->allocator = allocator;
    f->is_nameless = !path;
    f->path_bytes = path_bytes;
    memcpy(f->path, name, path_bytes);
    const qn_status status = open_descriptor(f);
    if (status != QN_OK) {
        qn_record_file_close(f);
        return status;
    }
    *file = f;
    return QN_OK;
}

void qn_record_file_close(qn_record_file *f) {
    if (!f)
        return;
    if (f->descriptor >= 0)
        close(f->descriptor);
    qn_release(f->allocator, f, 1, sizeof *f + f->path_bytes);
}

qn_status qn_record_file_read(const qn_record_file *f, int64_t offset, void *data, size_t bytes) {
    char *to = data;
    while (bytes > 0) {
        const ssize_t n = pread(f->descriptor, to, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_at("read", f->path);
        if (n == 0) {
            memset(to, 0, bytes);
            return QN_OK;
        }
        to += n;
        offset += n;
        bytes -= (size_t)n;
    }
    return QN_OK;
}

qn_status qn_record_file_write(const qn_record_file *f, int64_t offset, const void *data,
                               size_t bytes) {
    const char *from = data;
    while (bytes > 0) {
        const ssize_t n = pwrite(f->descriptor, from, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_at("write", f->path);
        from += n;
        offset += n;
        bytes -= (size_t)n;
    }
    return QN_OK;
}

qn_status qn_record_file_clear(const qn_record_file *f) {
    return ftruncate(f->descriptor, 0) == 0 ? QN_OK : fail_at("empty", f->path);
}

qn_status qn_record_file_sync(const qn_record_file *f) {
    if (f->is_nameless || qn_descriptor_sync(f->descriptor))
        return QN_OK;
    return fail_at("sync", f->path);
}
