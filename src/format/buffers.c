/* See buffers.h. */
#include "format/buffers.h"

#include "base/status.h"
#include "format/output.h"
#include "os/os.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The columns that are looked at, by what they are. */
typedef enum column { ID, LOWER, UPPER, SIZE, OFFSET, N_COLUMNS } column;

static const char *const names[N_COLUMNS] = {"id", "lower", "upper", "size", "offset"};

typedef struct reader {
    qn_buffers *b;
    const char *path;
    size_t at;
    int64_t line;            /* from 1 */
    int places[N_COLUMNS];   /* of columns among the fields, or -1 */
    int n_fields;            /* in the line of names */
    size_t begin[N_COLUMNS]; /* of this line's fields, quotes and all */
    size_t bytes[N_COLUMNS];
    size_t sum; /* of sizes */
} reader;

/* ---- fields ---- */

static bool is_end(const reader *r) {
    const char c = r->b->text[r->at];
    return r->at >= r->b->text_bytes || c == '\n' ||
           (c == '\r' && (r->at + 1 >= r->b->text_bytes || r->b->text[r->at + 1] == '\n'));
}

/* Goes to the end of a field; a quoted one ends with its closing quote. */
static qn_status skip_field(reader *r) {
    const char *text = r->b->text;
    const int64_t line = r->line;
    if (text[r->at] != '"') {
        while (!is_end(r) && text[r->at] != ',')
            r->at++;
        return QN_OK;
    }
    for (r->at++; r->at < r->b->text_bytes; r->at++) {
        r->line += text[r->at] == '\n';
        if (text[r->at] != '"')
            continue;
        if (text[++r->at] == '"')
            continue;
        if (is_end(r) || text[r->at] == ',')
            return QN_OK;
        break;
    }
    return qn_fail(QN_ERROR_FORMAT, "%s:%lld: a quoted field does not end where it should", r->path,
                   (long long)line);
}

/* Goes past a line's end. */
static void skip_end(reader *r) {
    r->at += r->at < r->b->text_bytes && r->b->text[r->at] == '\r';
    r->at += r->at < r->b->text_bytes;
    r->line++;
}

/* Goes to a line's end; notes where the columns' fields are and how many fields there are. */
static qn_status split(reader *r, qn_buffer_row *row, int *n_fields) {
    *row = (qn_buffer_row){.begin = r->at};
    for (*n_fields = 0;; r->at++) {
        const size_t begin = r->at;
        QN_TRY(skip_field(r));
        for (int c = 0; c < N_COLUMNS; c++) {
            if (r->places[c] == *n_fields) {
                r->begin[c] = begin;
                r->bytes[c] = r->at - begin;
            }
        }
        ++*n_fields;
        if (is_end(r))
            break;
    }
    row->end = row->field = r->at;
    return QN_OK;
}

/* A field without quotes and blanks around it. */
static void trim(const char *text, size_t *begin, size_t *bytes) {
    if (*bytes >= 2 && text[*begin] == '"') {
        ++*begin;
        *bytes -= 2;
    }
    for (; *bytes > 0 && (text[*begin] == ' ' || text[*begin] == '\t'); --*bytes)
        ++*begin;
    while (*bytes > 0 && (text[*begin + *bytes - 1] == ' ' || text[*begin + *bytes - 1] == '\t'))
        --*bytes;
}

/* ---- names ---- */

static qn_status note_name(reader *r, size_t begin, size_t bytes, int place) {
    const char *text = r->b->text;
    trim(text, &begin, &bytes);
    for (int c = 0; c < N_COLUMNS; c++) {
        if (strlen(names[c]) != bytes || memcmp(text + begin, names[c], bytes) != 0)
            continue;
        if (r->places[c] >= 0)
            return qn_fail(QN_ERROR_FORMAT, "%s:1: two columns are named %s", r->path, names[c]);
        r->places[c] = place;
    }
    return QN_OK;
}

static qn_status read_names(reader *r) {
    static const char mark[] = "\xef\xbb\xbf"; /* that some programs begin a text with */
    qn_buffer_row *row = &r->b->rows[0];
    *row = (qn_buffer_row){0};
    if (r->b->text_bytes >= 3 && memcmp(r->b->text, mark, 3) == 0)
        r->at = 3;
    for (;; r->at++) {
        const size_t begin = r->at;
        QN_TRY(skip_field(r));
        QN_TRY(note_name(r, begin, r->at - begin, r->n_fields++));
        if (is_end(r))
            break;
    }
    row->end = row->field = r->at;
    r->b->has_offsets = r->places[OFFSET] >= 0;
    for (int c = 0; c < OFFSET; c++) {
        if (r->places[c] < 0)
            return qn_fail(QN_ERROR_FORMAT,
                           "%s:1: no column is named %s; the first line must name id, lower, "
                           "upper and size",
                           r->path, names[c]);
    }
    skip_end(r);
    return QN_OK;
}

/* ---- buffers ---- */

static qn_status read_number(const reader *r, int64_t line, column c, int64_t least,
                             int64_t *number) {
    char digits[32];
    size_t begin = r->begin[c], bytes = r->bytes[c];
    trim(r->b->text, &begin, &bytes);
    const int shown = bytes < 40 ? (int)bytes : 40;
    const char *text = r->b->text + begin;
    bool is_number = bytes > 0 && bytes < sizeof digits;
    for (size_t i = 0; i < bytes; i++)
        is_number &= (text[i] >= '0' && text[i] <= '9') || (text[i] == '-' && i == 0 && bytes > 1);
    if (is_number) {
        memcpy(digits, text, bytes);
        digits[bytes] = 0;
        errno = 0;
        *number = strtoll(digits, NULL, 10);
        is_number = errno == 0;
    }
    if (!is_number)
        return qn_fail(QN_ERROR_FORMAT, "%s:%lld: %s is \"%.*s\", not a whole number of 64 bits",
                       r->path, (long long)line, names[c], shown, text);
    if (*number < least)
        return qn_fail(QN_ERROR_FORMAT, "%s:%lld: %s is %lld, below %lld", r->path, (long long)line,
                       names[c], (long long)*number, (long long)least);
    return QN_OK;
}

static qn_status read_box(reader *r, int64_t line, qn_box *box) {
    int64_t size;
    *box = (qn_box){0};
    QN_TRY(read_number(r, line, LOWER, INT64_MIN, &box->lower));
    QN_TRY(read_number(r, line, UPPER, INT64_MIN, &box->upper));
    QN_TRY(read_number(r, line, SIZE, 0, &size));
    if (box->lower >= box->upper)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s:%lld: alive in [%lld, %lld), which is never; upper must be above lower",
                       r->path, (long long)line, (long long)box->lower, (long long)box->upper);
    box->bytes = (size_t)size;
    r->sum += box->bytes;
    if (r->sum > INT64_MAX)
        return qn_fail(QN_ERROR_FORMAT, "%s:%lld: the sizes up to here are more than 64 bits hold",
                       r->path, (long long)line);
    return QN_OK;
}

static qn_status read_row(reader *r) {
    qn_buffers *b = r->b;
    const int64_t line = r->line;
    int n_fields;
    if (b->n == INT32_MAX)
        return qn_fail(QN_ERROR_FORMAT, "%s:%lld: too many buffers", r->path, (long long)line);
    QN_TRY(qn_grow(b->allocator, &b->rows, &b->row_capacity, (size_t)b->n + 2, sizeof *b->rows));
    QN_TRY(qn_grow(b->allocator, &b->boxes, &b->box_capacity, (size_t)b->n + 1, sizeof *b->boxes));
    qn_buffer_row *row = &b->rows[b->n + 1];
    QN_TRY(split(r, row, &n_fields));
    if (n_fields != r->n_fields)
        return qn_fail(QN_ERROR_FORMAT, "%s:%lld: %d fields; the first line names %d", r->path,
                       (long long)line, n_fields, r->n_fields);
    if (b->has_offsets) {
        row->field = r->begin[OFFSET];
        row->field_bytes = r->bytes[OFFSET];
    }
    QN_TRY(read_box(r, line, &b->boxes[b->n]));
    b->n++;
    skip_end(r);
    return QN_OK;
}

static qn_status read_all(reader *r) {
    qn_buffers *b = r->b;
    QN_TRY(qn_grow(b->allocator, &b->rows, &b->row_capacity, 1, sizeof *b->rows));
    QN_TRY(read_names(r));
    while (r->at < b->text_bytes) {
        if (is_end(r))
            skip_end(r); /* an empty line */
        else
            QN_TRY(read_row(r));
    }
    return QN_OK;
}

qn_status qn_buffers_parse(const qn_allocator *allocator, const char *path, char *text,
                           size_t bytes, qn_buffers *buffers) {
    qn_buffers read = {
        .allocator = qn_allocator_or_default(allocator), .text = text, .text_bytes = bytes};
    reader r = {.b = &read, .path = path, .line = 1, .places = {-1, -1, -1, -1, -1}};
    const qn_status status = read_all(&r);
    if (status == QN_OK)
        *buffers = read;
    else
        qn_buffers_deinit(&read);
    return status;
}

qn_status qn_buffers_read(const qn_allocator *allocator, const char *path, qn_buffers *buffers) {
    char *text;
    size_t bytes;
    QN_TRY(qn_file_read_whole(allocator, path, &text, &bytes));
    return qn_buffers_parse(allocator, path, text, bytes, buffers);
}

void qn_buffers_deinit(qn_buffers *b) {
    qn_release(b->allocator, b->text, b->text_bytes + 1, 1);
    qn_release(b->allocator, b->rows, b->row_capacity, sizeof *b->rows);
    qn_release(b->allocator, b->boxes, b->box_capacity, sizeof *b->boxes);
    *b = (qn_buffers){.allocator = b->allocator};
}

/* ---- writing ---- */

/* A line with its offset; of the names where box is null. */
static void write_row(qn_output *output, const qn_buffers *b, const qn_buffer_row *row,
                      const qn_box *box) {
    const size_t after = row->field + row->field_bytes;
    const bool has_return = row->end < b->text_bytes && b->text[row->end] == '\r';
    qn_output_bytes(output, b->text + row->begin, row->field - row->begin);
    if (!b->has_offsets)
        qn_output_text(output, ",");
    if (box)
        qn_output_count(output, (int64_t)box->offset);
    else if (!b->has_offsets)
        qn_output_text(output, names[OFFSET]);
    qn_output_bytes(output, b->text + after, row->end - after);
    qn_output_text(output, has_return ? "\r\n" : "\n");
}

static qn_status write_rows(void *context, qn_writer *writer) {
    const qn_buffers *b = context;
    qn_output output = qn_output_to_file(writer);
    write_row(&output, b, &b->rows[0], NULL);
    for (int32_t i = 0; i < b->n; i++)
        write_row(&output, b, &b->rows[1 + i], &b->boxes[i]);
    return output.status;
}

qn_status qn_buffers_write(const qn_buffers *buffers, const char *path) {
    return qn_file_replace(path, write_rows, (void *)(uintptr_t)buffers);
}
