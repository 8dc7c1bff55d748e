/* See csv.h. */
#include "format/csv.h"

#include "base/memory.h"
#include "base/status.h"
#include "os/heap.h"

#include <inttypes.h>
#include <string.h>

enum { BUFFER_BYTES = 64 * 1024 };

static const char mark[] = "\xef\xbb\xbf"; /* that some programs begin UTF-8 with */

/* ---- bytes ---- */

static qn_status read_file(qn_csv_reader *r, qn_file *file) {
    const int64_t left = qn_file_bytes(file) - r->passed;
    const size_t n = left < BUFFER_BYTES ? (size_t)left : BUFFER_BYTES;
    QN_TRY(qn_file_read(file, r->passed, r->buffer, n));
    r->used = n;
    return QN_OK;
}

/* Bytes of a file or stream in the place of those that were read. At the beginning so many that a
 * mark is seen whole. */
static qn_status fill_buffer(qn_csv_reader *r) {
    size_t n = 1;
    r->passed += (int64_t)r->used;
    r->at = r->used = 0;
    if (!r->buffer)
        QN_TRY(qn_allocate(r->allocator, BUFFER_BYTES, 1, &r->buffer));
    r->source = r->buffer;
    if (!r->more)
        return read_file(r, r->context);
    do {
        QN_TRY(r->more(r->context, r->buffer + r->used, BUFFER_BYTES - r->used, &n));
        r->used += n;
    } while (n > 0 && r->passed == 0 && r->used < 3 && memcmp(r->buffer, mark, r->used) == 0);
    return QN_OK;
}

/* The next byte without passing it; -1 at the end. */
static int peek(qn_csv_reader *r) {
    if (r->at == r->used && !r->is_memory && r->status == QN_OK)
        r->status = fill_buffer(r);
    if (r->at == 0 && r->passed == 0 && r->used >= 3 && memcmp(r->source, mark, 3) == 0)
        r->at = 3;
    return r->at < r->used && r->status == QN_OK ? (unsigned char)r->source[r->at] : -1;
}

static void fail(qn_csv_reader *r, int64_t line, const char *what) {
    if (r->status == QN_OK)
        r->status = qn_fail(QN_ERROR_FORMAT, "%s: line %" PRId64 ": %s", r->name, line, what);
}

/* ---- fields ---- */

static void append(qn_csv_reader *r, const char *bytes, size_t n) {
    if (n > r->record_bytes - r->length && r->status == QN_OK)
        r->status = qn_fail(QN_ERROR_FORMAT, "%s: line %" PRId64 ": longer than %zu bytes", r->name,
                            r->line, r->record_bytes);
    if (r->status == QN_OK)
        r->status = qn_grow(r->allocator, &r->text, &r->text_capacity, r->length + n + 1, 1);
    if (r->status != QN_OK)
        return;
    memcpy(r->text + r->length, bytes, n);
    r->length += n;
}

static int64_t place(const qn_csv_reader *r) {
    return r->passed + (int64_t)r->at;
}

static bool is_blank(const qn_csv_reader *r, int c) {
    return c == ' ' || (c == '\t' && r->separator != '\t');
}

static void skip_blanks(qn_csv_reader *r) {
    while (is_blank(r, peek(r)))
        r->at++;
}

/* What lies between quotes, the opening one passed. */
static void read_quoted(qn_csv_reader *r) {
    for (;;) {
        const int c = peek(r);
        if (c < 0)
            fail(r, r->line, "a quote is not closed");
        if (c == 0)
            fail(r, r->next_line, "a zero byte; is this CSV?");
        if (r->status != QN_OK)
            return;
        r->at++;
        r->next_line += c == '\n';
        if (c == '"') {
            if (peek(r) != '"')
                return;
            r->at++;
        }
        append(r, &(char){(char)c}, 1);
    }
}

/* Bytes up to a separator, a line's end, or the end. */
static void read_plain(qn_csv_reader *r) {
    while (peek(r) > 0) {
        const char *from = r->source + r->at;
        const size_t most = r->used - r->at;
        size_t n = 0;
        while (n < most && from[n] != r->separator && from[n] != '\n' && from[n] != '\r' &&
               from[n] != 0)
            n++;
        append(r, from, n);
        r->at += n;
        if (n < most || r->status != QN_OK)
            return;
    }
}

/* Takes the blanks off the end of the text that begins at a place. */
static void trim(qn_csv_reader *r, size_t from) {
    while (r->length > from && is_blank(r, r->text[r->length - 1]))
        r->length--;
}

static void read_field(qn_csv_reader *r) {
    qn_csv_field field = {.begin = place(r), .text = r->length};
    skip_blanks(r);
    if (peek(r) == '"') {
        r->at++;
        field.is_quoted = true;
        read_quoted(r);
        skip_blanks(r);
    }
    const size_t from = r->length;
    read_plain(r);
    trim(r, from);
    field.end = place(r);
    field.is_ragged = field.is_quoted && r->length > from;
    if (peek(r) == 0)
        fail(r, r->next_line, "a zero byte; is this CSV?");
    append(r, "", 1);
    if (r->status == QN_OK)
        r->status = qn_grow(r->allocator, &r->fields, &r->field_capacity, r->n_fields + 1,
                            sizeof *r->fields);
    if (r->status == QN_OK)
        r->fields[r->n_fields++] = field;
}

/* ---- records ---- */

/* Goes past a line's end. */
static void end_line(qn_csv_reader *r) {
    const int c = peek(r);
    r->at += c >= 0;
    r->has_return = c == '\r';
    r->next_line++;
}

/* Goes to the beginning of the next line that is no remark. */
static void begin_record(qn_csv_reader *r) {
    for (;;) {
        if (peek(r) == '\n' && r->has_return)
            r->at++;
        r->has_return = false;
        r->line = r->next_line;
        (void)peek(r); /* past the mark */
        r->begin = place(r);
        if (!r->remark)
            return;
        skip_blanks(r);
        if (peek(r) != r->remark)
            return;
        for (int c = peek(r); c >= 0 && c != '\n' && c != '\r'; c = peek(r))
            r->at++;
        end_line(r);
    }
}

static qn_status read_record(qn_csv_reader *r, bool *is_end) {
    r->length = r->n_fields = 0;
    begin_record(r);
    *is_end = peek(r) < 0;
    while (!*is_end && r->status == QN_OK) {
        read_field(r);
        if (peek(r) != r->separator)
            break;
        r->at++;
    }
    r->end = place(r);
    if (!*is_end && r->status == QN_OK)
        end_line(r);
    return r->status;
}

qn_status qn_csv_next(qn_csv_reader *r, bool *is_end) {
    do
        QN_TRY(read_record(r, is_end));
    while (!*is_end && r->n_fields == 1 && !*qn_csv_text(r, 0) && !r->fields[0].is_quoted);
    return QN_OK;
}

const char *qn_csv_text(const qn_csv_reader *r, size_t field) {
    return r->text + r->fields[field].text;
}

/* ---- readers ---- */

static void init(qn_csv_reader *r, const qn_allocator *allocator, const char *name) {
    *r = (qn_csv_reader){.name = name,
                         .separator = ',',
                         .record_bytes = QN_CSV_RECORD_BYTES,
                         .allocator = qn_allocator_or_default(allocator),
                         .next_line = 1};
}

void qn_csv_read_text(qn_csv_reader *r, const qn_allocator *allocator, const char *name,
                      const char *text, size_t bytes) {
    init(r, allocator, name);
    r->is_memory = true;
    r->source = text;
    r->used = bytes;
}

void qn_csv_read_file(qn_csv_reader *r, const qn_allocator *allocator, qn_file *file) {
    init(r, allocator, qn_file_path(file));
    r->context = file;
}

void qn_csv_read_stream(qn_csv_reader *r, const qn_allocator *allocator, const char *name,
                        qn_csv_more *more, void *context) {
    init(r, allocator, name);
    r->more = more;
    r->context = context;
}

void qn_csv_deinit(qn_csv_reader *r) {
    qn_release(r->allocator, r->buffer, r->buffer ? BUFFER_BYTES : 0, 1);
    qn_release(r->allocator, r->text, r->text_capacity, 1);
    qn_release(r->allocator, r->fields, r->field_capacity, sizeof *r->fields);
}

void qn_csv_rewind(qn_csv_reader *r) {
    r->at = 0;
    r->used = r->is_memory ? r->used : 0;
    r->passed = 0;
    r->next_line = 1;
    r->has_return = false;
}
