/* CSV to rows of numbers: sizes, classes, names and texts of what is written fit together. A + in
 * front says that columns may be of texts; the first line, if it begins with a #, names the column
 * of the label. */
#define _GNU_SOURCE /* memfd_create */

#include "base/status.h"
#include "data/csv.h"
#include "os/heap.h"

#include "memory_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 20 };

typedef struct written {
    size_t bytes;
    char data[MOST_BYTES];
} written;

static qn_status keep(void *context, const void *data, size_t bytes) {
    written *to = context;
    if (bytes > MOST_BYTES - to->bytes)
        return qn_fail(QN_ERROR_IO, "full");
    memcpy(to->data + to->bytes, data, bytes);
    to->bytes += bytes;
    return QN_OK;
}

/* Names and texts of columns: as many as their sizes say, which use up all of the block. */
static void check_texts(const char *block, size_t bytes, size_t n_columns) {
    int64_t wanted = 0, found = 0;
    for (size_t i = 0; i < n_columns; i++) {
        int32_t n;
        if (bytes < 4 * n_columns)
            abort();
        memcpy(&n, block + 4 * i, sizeof n);
        if (n < 0 || n > QN_CSV_MOST_TEXTS)
            abort();
        wanted += 1 + n;
    }
    for (size_t i = 4 * n_columns; i < bytes; i++)
        found += block[i] == 0;
    if (found != wanted || block[bytes - 1] != 0)
        abort();
}

static void check_rows(const written *w, const qn_csv_footer *f) {
    size_t row = (size_t)f->n_columns + 2;
    for (int64_t i = 0; i < f->n_rows; i++)
        for (size_t k = 0; k < row; k++) {
            float value;
            int32_t id;
            memcpy(&value, w->data + ((size_t)i * row + k) * 4, 4);
            memcpy(&id, &value, 4);
            if (k + 2 == row ? !f->are_targets && (id < 0 || id >= f->n_ids)
                             : k + 2 < row && !isfinite(value))
                abort();
        }
}

static void check(const written *w) {
    qn_csv_footer f;
    if (w->bytes < sizeof f)
        abort();
    memcpy(&f, w->data + w->bytes - sizeof f, sizeof f);
    int64_t rows = f.n_rows * (f.n_columns + 2) * 4;
    if (memcmp(f.magic, QN_CSV_MAGIC, sizeof f.magic) != 0 || f.n_rows < 1 || f.n_columns < 1 ||
        rows + 4 * f.n_ids + f.names_bytes + f.texts_bytes + (int64_t)sizeof f != (int64_t)w->bytes)
        abort();
    int64_t n_names = 0;
    for (int64_t i = 0; i < f.names_bytes; i++)
        n_names += w->data[rows + 4 * f.n_ids + i] == 0;
    if (n_names != 0 && n_names != f.n_ids)
        abort();
    for (int64_t i = 0; i < f.n_ids; i++) {
        int32_t class;
        memcpy(&class, w->data + rows + 4 * i, 4);
        if (class < 0 || class >= f.n_ids)
            abort();
    }
    if (f.texts_bytes > 0)
        check_texts(w->data + rows + 4 * f.n_ids + f.names_bytes, (size_t)f.texts_bytes,
                    (size_t)f.n_columns);
    check_rows(w, &f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static written to;
    int descriptor;
    char label[32] = "";
    size_t n = 0;
    const bool reads_texts = size > 0 && data[0] == '+';
    data += reads_texts;
    size -= reads_texts;
    if (size > 0 && data[0] == '#') {
        while (n + 1 < sizeof label && n + 1 < size && data[n + 1] != '\n' && data[n + 1]) {
            label[n] = (char)data[n + 1];
            n++;
        }
        n = n + 2 < size ? n + 2 : size;
    }
    qn_csv_options options = {.allocator = qn_allocator_default(),
                              .label = n > 0 ? label : NULL,
                              .reads_texts = reads_texts};
    qn_file *file = memory_file_open(data + n, size - n, &descriptor);
    to.bytes = 0;
    if (file && qn_csv_convert(&options, file, (qn_sink){&to, keep}) == QN_OK)
        check(&to);
    qn_file_close(file);
    close(descriptor);
    return 0;
}
