/* The reader of CSV: a text and a stream of it in pieces give the same records or the same
 * failure; fields stand where they are said to; memory that runs out is a failure and leaves
 * nothing. The first byte says how large the pieces are, whether there are remarks, which
 * allocation fails, and whether records must be short. */
#define _GNU_SOURCE /* memmem */

#include "failing.h"
#include "format/csv.h"

#include <stdlib.h>
#include <string.h>

typedef struct pieces {
    const uint8_t *data;
    size_t left, piece;
} pieces;

static qn_status next_piece(void *context, void *to, size_t bytes, size_t *n) {
    pieces *p = context;
    *n = p->piece < p->left ? p->piece : p->left;
    *n = *n < bytes ? *n : bytes;
    if (*n > 0)
        memcpy(to, p->data, *n);
    p->data += *n;
    p->left -= *n;
    return QN_OK;
}

static void check_places(const qn_csv_reader *r, const uint8_t *data, size_t size) {
    int64_t at = r->begin;
    for (size_t i = 0; i < r->n_fields; i++) {
        const qn_csv_field *f = &r->fields[i];
        const char *text = qn_csv_text(r, i);
        const size_t bytes = strlen(text);
        if (f->begin < at || f->end < f->begin || f->end > r->end ||
            (f->is_ragged && !f->is_quoted))
            abort();
        if (!f->is_quoted && bytes > 0 &&
            !memmem(data + f->begin, (size_t)(f->end - f->begin), text, bytes))
            abort();
        at = f->end + 1;
    }
    if (r->end > (int64_t)size || r->line < 1)
        abort();
}

static void compare(const qn_csv_reader *left, const qn_csv_reader *right) {
    if (left->n_fields != right->n_fields || left->line != right->line ||
        left->begin != right->begin || left->end != right->end)
        abort();
    for (size_t i = 0; i < left->n_fields; i++) {
        if (strcmp(qn_csv_text(left, i), qn_csv_text(right, i)) != 0 ||
            left->fields[i].is_quoted != right->fields[i].is_quoted)
            abort();
    }
}

static void read_both(qn_csv_reader *text, qn_csv_reader *stream, const uint8_t *data,
                      size_t size) {
    for (;;) {
        bool text_ends = false, stream_ends = false;
        const qn_status status = qn_csv_next(text, &text_ends);
        if (qn_csv_next(stream, &stream_ends) != status)
            abort();
        if (status != QN_OK)
            return;
        if (text_ends != stream_ends)
            abort();
        if (text_ends)
            return;
        check_places(text, data, size);
        compare(text, stream);
    }
}

/* Records until an allocation fails. */
static void read_failing(const uint8_t *data, size_t size, int64_t nth) {
    failing f = {.left = nth};
    const qn_allocator allocator = {&f, failing_allocate, failing_release};
    qn_csv_reader r;
    bool is_end = false;
    qn_csv_read_text(&r, &allocator, "f.csv", (const char *)data, size);
    while (!is_end && qn_csv_next(&r, &is_end) == QN_OK)
        ;
    qn_csv_deinit(&r);
    if (f.held_bytes != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qn_csv_reader text, stream;
    const uint8_t first = size > 0 ? data[0] : 0;
    data += size > 0;
    size -= size > 0;
    pieces p = {data, size, 1 + first % 7};
    qn_csv_read_text(&text, NULL, "f.csv", (const char *)data, size);
    qn_csv_read_stream(&stream, NULL, "f.csv", next_piece, &p);
    text.remark = stream.remark = first & 8 ? '#' : 0;
    text.record_bytes = stream.record_bytes = first & 16 ? 40 : QN_CSV_RECORD_BYTES;
    read_both(&text, &stream, data, size);
    qn_csv_deinit(&text);
    qn_csv_deinit(&stream);
    read_failing(data, size, first >> 5);
    return 0;
}
