/* See writer.h. */
#include "os/files/writer.h"

#include "base/status.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

qn_status qn_descriptor_write(int descriptor, const char *path, const void *from, size_t bytes) {
    const char *data = from;
    while (bytes > 0) {
        ssize_t n_written = write(descriptor, data, bytes);
        if (n_written < 0 && errno == EINTR)
            continue;
        if (n_written < 0 && errno == EFAULT)
            QN_TRY(qn_file_map_check(data));
        if (n_written < 0)
            return qn_fail(QN_ERROR_IO, "cannot write %s: %s", path, strerror(errno));
        data += n_written;
        bytes -= (size_t)n_written;
    }
    return QN_OK;
}

qn_status qn_writer_flush(qn_writer *writer) {
    size_t used = writer->used;
    writer->used = 0;
    return qn_descriptor_write(writer->descriptor, writer->path, writer->buffer, used);
}

qn_status qn_writer_put(qn_writer *writer, const void *data, size_t bytes) {
    if (bytes > QN_WRITER_BYTES - writer->used)
        QN_TRY(qn_writer_flush(writer));
    if (bytes >= QN_WRITER_BYTES)
        return qn_descriptor_write(writer->descriptor, writer->path, data, bytes) == QN_OK
                   ? qn_file_map_check(data)
                   : QN_ERROR_IO;
    memcpy(writer->buffer + writer->used, data, bytes);
    writer->used += bytes;
    return qn_file_map_check(data);
}

bool qn_descriptor_sync(int descriptor) {
    int result;
    do
        result = fsync(descriptor);
    while (result != 0 && errno == EINTR);
    return result == 0 || errno == EINVAL || errno == ENOTSUP || errno == ENOSYS;
}

qn_status qn_writer_sync(qn_writer *writer) {
    QN_TRY(qn_writer_flush(writer));
    if (!qn_descriptor_sync(writer->descriptor))
        return qn_fail(QN_ERROR_IO, "cannot sync %s: %s", writer->path, strerror(errno));
    return QN_OK;
}
