/* See probe.h. */
#define _GNU_SOURCE

#include "os/probe.h"

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A read of no more than this gives all that there is: the kernel makes texts in pages, and cuts
 * only what does not fit into one. That saves asking whether there is more. */
enum { SMALL = 1024 };

bool qn_path_is_there(const char *path) {
    return faccessat(AT_FDCWD, path, F_OK, AT_EACCESS) == 0 || errno == EACCES;
}

qn_status qn_probe_open(const char *path, qn_probe *probe) {
    /* Without O_NONBLOCK a named pipe in a recorded tree would wait for its writer. */
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor >= 0) {
        probe->handle = descriptor + 1;
        return QN_OK;
    }
    const bool is_denied = errno == EACCES || errno == EPERM;
    return qn_fail(QN_ERROR_IO, "%s: %s%s", path, strerror(errno),
                   is_denied ? "; run as root, or give it read permission" : "");
}

void qn_probe_close(qn_probe *probe) {
    if (probe->handle > 0)
        close(probe->handle - 1);
    probe->handle = 0;
}

qn_status qn_probe_text(const qn_probe *probe, char *text, size_t bytes) {
    size_t used = 0;
    while (used + 1 < bytes) {
        const ssize_t n = pread(probe->handle - 1, text + used, bytes - 1 - used, (off_t)used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return qn_fail(QN_ERROR_IO, "cannot be read: %s", strerror(errno));
        const bool is_whole = n == 0 || (bytes <= SMALL && (size_t)n < bytes - 1 - used);
        used += n > 0 ? (size_t)n : 0;
        if (is_whole)
            break;
    }
    while (used > 0 && qn_text_is_space(text[used - 1]))
        used--;
    text[used] = 0;
    return QN_OK;
}

qn_status qn_probe_number(const qn_probe *probe, int64_t *value) {
    char text[64], *end;
    QN_TRY(qn_probe_text(probe, text, sizeof text));
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    if (end == text || *end || errno)
        return qn_fail(QN_ERROR_FORMAT, "says \"%.40s\", which is not a whole number", text);
    *value = number;
    return QN_OK;
}

qn_status qn_probe_text_at(const char *path, char *text, size_t bytes) {
    qn_probe probe = {0};
    QN_TRY(qn_probe_open(path, &probe));
    const qn_status status = qn_probe_text(&probe, text, bytes);
    qn_probe_close(&probe);
    return status == QN_OK ? QN_OK : qn_fail_within(status, "%s", path);
}

qn_status qn_probe_number_at(const char *path, int64_t *value) {
    qn_probe probe = {0};
    QN_TRY(qn_probe_open(path, &probe));
    const qn_status status = qn_probe_number(&probe, value);
    qn_probe_close(&probe);
    return status == QN_OK ? QN_OK : qn_fail_within(status, "%s", path);
}

qn_status qn_probe_whole(const qn_allocator *allocator, const char *path, char **text,
                         size_t *capacity) {
    qn_probe probe = {0};
    char *read = NULL;
    size_t bytes = 0;
    QN_TRY(qn_probe_open(path, &probe));
    qn_status status;
    do {
        status = qn_grow(allocator, &read, &bytes, bytes < 2048 ? 4096 : bytes * 2, 1);
        if (status == QN_OK)
            status = qn_probe_text(&probe, read, bytes);
    } while (status == QN_OK && strlen(read) + 1 == bytes);
    qn_probe_close(&probe);
    if (status != QN_OK) {
        qn_release(allocator, read, bytes, 1);
        return qn_fail_within(status, "%s", path);
    }
    *text = read;
    *capacity = bytes;
    return QN_OK;
}
