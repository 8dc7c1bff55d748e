/* See npy_write.h. The header is as NumPy documents its format: a magic word, the length, and a
 * Python dictionary that is padded to a multiple of 64 bytes. */
#include "data/npy_write.h"

#include "base/memory.h"
#include "base/status.h"
#include "os/heap.h"
#include "os/os.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { HEAD_BYTES = 256, BEFORE_TEXT = 10, ALIGNMENT = 64 };

static void make_head(const qn_npy_rows *rows, char head[HEAD_BYTES], size_t *bytes) {
    char shape[120];
    int n = snprintf(shape, sizeof shape, "%" PRId64 ",", rows->n_rows);
    for (int i = 0; i < rows->row.rank; i++)
        n += snprintf(shape + n, sizeof shape - (size_t)n, " %" PRId64 ",", rows->row.dims[i]);
    n = snprintf(head + BEFORE_TEXT, HEAD_BYTES - BEFORE_TEXT,
                 "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", rows->kind, shape);
    *bytes = (BEFORE_TEXT + (size_t)n + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
    memset(head + BEFORE_TEXT + n, ' ', *bytes - BEFORE_TEXT - (size_t)n);
    head[*bytes - 1] = '\n';
    memcpy(head, "\x93NUMPY\x01\x00", 8);
    head[8] = (char)((*bytes - BEFORE_TEXT) & 255);
    head[9] = (char)((*bytes - BEFORE_TEXT) >> 8);
}

typedef struct writing {
    const qn_npy_rows *rows;
    void *row;
} writing;

static qn_status write_all(void *context, qn_writer *writer) {
    const writing *w = context;
    char head[HEAD_BYTES];
    size_t bytes;
    make_head(w->rows, head, &bytes);
    QN_TRY(qn_writer_put(writer, head, bytes));
    for (int64_t i = 0; i < w->rows->n_rows; i++) {
        QN_TRY(w->rows->read(w->rows->user, i, w->row));
        QN_TRY(qn_writer_put(writer, w->row, w->rows->row_bytes));
    }
    return QN_OK;
}

qn_status qn_npy_write(const char *path, const qn_npy_rows *rows) {
    const qn_allocator *heap = qn_allocator_default();
    writing w = {.rows = rows};
    QN_TRY(qn_allocate(heap, rows->row_bytes, 1, &w.row));
    const qn_status status = qn_file_replace(path, write_all, &w);
    qn_release(heap, w.row, rows->row_bytes, 1);
    return status;
}
