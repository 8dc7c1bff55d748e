/* See gguf_write.h. */
#include "format/pretrained/gguf_write.h"

#include "base/status.h"
#include "format/pretrained/gguf.h"
#include "os/os.h"

#include <string.h>

enum { ALIGNMENT = 32, VERSION = 3, TYPE_F32 = 0 };

typedef struct writing {
    const qn_gguf_entry *entries;
    const qn_pretrained_tensor *tensors;
    size_t n_entries, n_tensors;
    qn_writer *writer;
    uint64_t n_bytes; /* put so far */
} writing;

static qn_status put(writing *w, const void *data, size_t bytes) {
    w->n_bytes += bytes;
    return qn_writer_put(w->writer, data, bytes);
}

/* A whole number of so many bytes, little-endian. */
static qn_status put_number(writing *w, uint64_t number, size_t bytes) {
    uint8_t raw[8];
    for (size_t i = 0; i < bytes; i++)
        raw[i] = (uint8_t)(number >> 8 * i);
    return put(w, raw, bytes);
}

static qn_status put_text(writing *w, const char *text) {
    QN_TRY(put_number(w, strlen(text), 8));
    return put(w, text, strlen(text));
}

static qn_status put_padding(writing *w) {
    static const char zeros[ALIGNMENT];
    return put(w, zeros, (size_t)(-w->n_bytes % ALIGNMENT));
}

static qn_status put_entry(writing *w, const qn_gguf_entry *entry) {
    uint32_t bits;
    memcpy(&bits, &entry->number, sizeof bits);
    QN_TRY(put_text(w, entry->key));
    QN_TRY(put_number(w, entry->text ? QN_GGUF_TEXT : QN_GGUF_F32, 4));
    return entry->text ? put_text(w, entry->text) : put_number(w, bits, 4);
}

static uint64_t bytes_of(const qn_pretrained_tensor *tensor) {
    return (uint64_t)qn_shape_count(tensor->shape) * sizeof(float);
}

/* Extents, the quickest axis first. */
static qn_status put_tensor(writing *w, const qn_pretrained_tensor *tensor, uint64_t offset) {
    QN_TRY(put_text(w, tensor->name));
    QN_TRY(put_number(w, (uint64_t)tensor->shape.rank, 4));
    for (int axis = tensor->shape.rank - 1; axis >= 0; axis--)
        QN_TRY(put_number(w, (uint64_t)tensor->shape.dims[axis], 8));
    QN_TRY(put_number(w, TYPE_F32, 4));
    return put_number(w, offset, 8);
}

static qn_status put_data(writing *w, const qn_pretrained_tensor *tensor) {
    const uint8_t *from = tensor->data;
    QN_TRY(put_padding(w));
    for (int64_t i = 0; i < qn_shape_count(tensor->shape); i++) {
        uint32_t bits;
        memcpy(&bits, from + 4 * i, sizeof bits);
        QN_TRY(put_number(w, bits, 4));
    }
    return QN_OK;
}

static qn_status write_all(void *context, qn_writer *writer) {
    writing *w = context;
    uint64_t offset = 0;
    w->writer = writer;
    w->n_bytes = 0;
    QN_TRY(put(w, "GGUF", 4));
    QN_TRY(put_number(w, VERSION, 4));
    QN_TRY(put_number(w, w->n_tensors, 8));
    QN_TRY(put_number(w, w->n_entries, 8));
    for (size_t i = 0; i < w->n_entries; i++)
        QN_TRY(put_entry(w, &w->entries[i]));
    for (size_t i = 0; i < w->n_tensors; i++) {
        QN_TRY(put_tensor(w, &w->tensors[i], offset));
        offset += (bytes_of(&w->tensors[i]) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    for (size_t i = 0; i < w->n_tensors; i++)
        QN_TRY(put_data(w, &w->tensors[i]));
    return put_padding(w);
}

qn_status qn_gguf_write(const char *path, const qn_gguf_entry *entries, size_t n_entries,
                        const qn_pretrained_tensor *tensors, size_t n_tensors) {
    writing w = {
        .entries = entries, .tensors = tensors, .n_entries = n_entries, .n_tensors = n_tensors};
    return qn_file_replace_private(path, write_all, &w);
}
