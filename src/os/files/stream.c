/* See stream.h. */
#include "os/files/stream.h"

#include "base/memory.h"
#include "base/status.h"
#include "os/files/writer.h"
#include "os/heap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PAUSE_NS = 50000000, LOOK_MS = 200 };

struct qn_in_stream {
    const qn_allocator *allocator;
    const char *path;
    int descriptor;
};

struct qn_out_stream {
    const qn_allocator *allocator;
    qn_writer writer;
};

static qn_status fail_at(const char *what, const char *path) {
    return qn_fail(QN_ERROR_IO, "cannot %s %s: %s", what, path, strerror(errno));
}

/* ---- input ---- */

qn_status qn_in_stream_open(const qn_allocator *allocator, const char *path,
                            qn_in_stream **stream) {
    qn_in_stream *s;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *s, &s));
    *s = (qn_in_stream){allocator, path ? path : "standard input", STDIN_FILENO};
    if (path) /* without waiting for the other end of a pipe, which no signal would end */
        s->descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (s->descriptor < 0) {
        const qn_status status = fail_at("open", path);
        qn_release(allocator, s, 1, sizeof *s);
        return status;
    }
    if (path)
        fcntl(s->descriptor, F_SETFL, 0);
    *stream = s;
    return QN_OK;
}

void qn_in_stream_close(qn_in_stream *s) {
    if (!s)
        return;
    if (s->descriptor != STDIN_FILENO)
        close(s->descriptor);
    qn_release(s->allocator, s, 1, sizeof *s);
}

qn_status qn_in_stream_read(qn_in_stream *s, void *to, size_t bytes, size_t *n, bool *is_end) {
    struct pollfd ready = {.fd = s->descriptor, .events = POLLIN};
    *n = 0;
    *is_end = false;
    /* Unlike read, never begun again after a signal; looked at now and then, as one may have come
     * just before. */
    const int n_ready = poll(&ready, 1, LOOK_MS);
    if (n_ready == 0 || (n_ready < 0 && errno == EINTR))
        return QN_OK;
    const ssize_t n_read = read(s->descriptor, to, bytes);
    if (n_read < 0 && errno == EINTR)
        return QN_OK;
    if (n_read < 0)
        return fail_at("read", s->path);
    *n = (size_t)n_read;
    *is_end = n_read == 0;
    return QN_OK;
}

void qn_in_stream_pause(void) {
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

/* ---- output ---- */

/* Opens behind the bytes that are kept; on failure nothing stays open and the file is as it was. */
static qn_status open_behind(const char *path, int64_t kept, int *descriptor) {
    struct stat status;
    const int made = O_CREAT | O_TRUNC;
    const int opened = open(path, O_WRONLY | O_CLOEXEC | (kept > 0 ? 0 : made), 0666);
    if (opened < 0)
        return fail_at("write", path);
    if (kept > 0 && (fstat(opened, &status) != 0 || status.st_size < kept ||
                     lseek(opened, (off_t)kept, SEEK_SET) < 0)) {
        close(opened);
        return qn_fail(QN_ERROR_ARGUMENT, "%s: has not the %lld bytes that were written before",
                       path, (long long)kept);
    }
    *descriptor = opened;
    return QN_OK;
}

static bool is_file(int descriptor) {
    struct stat status;
    return fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

qn_status qn_out_stream_open(const qn_allocator *allocator, const char *path, int64_t kept,
                             qn_out_stream **stream) {
    qn_out_stream *s;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *s, &s));
    s->allocator = allocator;
    s->writer.path = path ? path : "standard output";
    s->writer.descriptor = STDOUT_FILENO;
    qn_status status = path ? open_behind(path, kept, &s->writer.descriptor) : QN_OK;
    if (status == QN_OK && path && kept == 0 && is_file(s->writer.descriptor)) {
        status = qn_entry_sync(path, s->writer.descriptor);
        if (status != QN_OK)
            close(s->writer.descriptor);
    }
    if (status != QN_OK) {
        qn_release(allocator, s, 1, sizeof *s);
        return status;
    }
    *stream = s;
    return QN_OK;
}

qn_status qn_out_stream_put(qn_out_stream *s, const void *data, size_t bytes) {
    return qn_writer_put(&s->writer, data, bytes);
}

qn_status qn_out_stream_flush(qn_out_stream *s) {
    return qn_writer_flush(&s->writer);
}

qn_status qn_out_stream_sync(qn_out_stream *s) {
    return qn_writer_sync(&s->writer);
}

qn_status qn_out_stream_close(qn_out_stream *s) {
    if (!s)
        return QN_OK;
    qn_status status = qn_out_stream_flush(s);
    if (s->writer.descriptor != STDOUT_FILENO && close(s->writer.descriptor) != 0 &&
        status == QN_OK)
        status = fail_at("write", s->writer.path);
    qn_release(s->allocator, s, 1, sizeof *s);
    return status;
}
