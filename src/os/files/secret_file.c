/* See secret_file.h. */
#include "os/files/secret_file.h"

#include "base/status.h"
#include "os/files/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static qn_status fail(const char *what, const char *path) {
    return qn_fail(QN_ERROR_IO, "cannot %s %s: %s", what, path, strerror(errno));
}

static qn_status write_lasting(int file, const char *path, const void *data, size_t bytes) {
    QN_TRY(qn_descriptor_write(file, path, data, bytes));
    if (!qn_descriptor_sync(file))
        return fail("write", path);
    return qn_entry_sync(path, file);
}

qn_status qn_secret_file_create(const char *path, const void *data, size_t bytes) {
    const int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return fail("make", path);
    const qn_status status = write_lasting(file, path, data, bytes);
    close(file);
    if (status != QN_OK)
        unlink(path);
    return status;
}

static qn_status read_open(int file, const char *path, char *text, size_t room) {
    struct stat about;
    size_t used = 0;
    ssize_t n;
    if (fstat(file, &about) != 0)
        return fail("read", path);
    if (!S_ISREG(about.st_mode))
        return qn_fail(QN_ERROR_ARGUMENT, "%s is no regular file", path);
    if (about.st_mode & (S_IRWXG | S_IRWXO))
        return qn_fail(QN_ERROR_ARGUMENT, "other users of this machine may open %s: chmod 600 %s",
                       path, path);
    do {
        n = read(file, text + used, room - used);
        used += n > 0 ? (size_t)n : 0;
    } while ((n > 0 && used < room) || (n < 0 && errno == EINTR));
    if (n < 0)
        return fail("read", path);
    if (used == room)
        return qn_fail(QN_ERROR_ARGUMENT, "%s is larger than it should be", path);
    text[used] = '\0';
    return QN_OK;
}

qn_status qn_secret_file_read(const char *path, char *text, size_t room) {
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return fail("open", path);
    const qn_status status = read_open(file, path, text, room);
    close(file);
    return status;
}
