/* A copy of a whole file; see os.h. */
#include "base/status.h"
#include "os/os.h"

enum { PIECE = 64 * 1024 };

static qn_status write_all(void *context, qn_writer *writer) {
    qn_file *from = context;
    char piece[PIECE];
    const int64_t n = qn_file_bytes(from);
    for (int64_t at = 0; at < n; at += PIECE) {
        const size_t bytes = n - at < PIECE ? (size_t)(n - at) : PIECE;
        QN_TRY(qn_file_read(from, at, piece, bytes));
        QN_TRY(qn_writer_put(writer, piece, bytes));
    }
    return QN_OK;
}

qn_status qn_file_copy(const char *from, const char *to) {
    qn_file *file;
    QN_TRY(qn_file_open(NULL, from, &file));
    const qn_status status = qn_file_replace(to, write_all, file);
    qn_file_close(file);
    return status;
}
