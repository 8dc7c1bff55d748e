/* See buffers.h. */
#include "format/buffers.h"

#include "base/status.h"
#include "format/csv.h"
#include "format/output.h"
#include "os/heap.h"
#include "os/os.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The columns that are looked at, by what they are. */
typedef enum column { ID, LOWER, UPPER, SIZE, OFFSET, N_COLUMNS } column;

static const char *const names[N_COLUMNS] = {"id", "lower", "upper", "size", "offset"};

typedef struct reader {
    qn_buffers *b;
    qn_csv_reader csv;
    size_t places[N_COLUMNS]; /* of columns among the fields, or none */
    size_t n_fields;          /* in the line of names */
    size_t sum;               /* of sizes */
} reader;

static const size_t none = SIZE_MAX;

/* ---- lines ---- */

/* The next line, whose quoted fields end where they should. */
static qn_status next_line(reader *r, bool *is_end) {
    QN_TRY(qn_csv_next(&r->csv, is_end));
    for (size_t i = 0; i < r->csv.n_fields; i++) {
        if (r->csv.fields[i].is_ragged)
            return qn_fail(QN_ERROR_FORMAT, "%s:%lld: a quoted field does not end where it should",
                           r->csv.name, (long long)r->csv.line);
    }
    return QN_OK;
}

/* Where a line stands, and its offset in it: at its end where it has none. */
static qn_buffer_row row_of(const reader *r) {
    const qn_csv_reader *csv = &r->csv;
    const size_t end = (size_t)csv->end, place = r->places[OFFSET];
    qn_buffer_row row = {.begin = (size_t)csv->begin, .end = end, .field = end};
    if (place != none) {
        row.field = (size_t)csv->fields[place].begin;
        row.field_bytes = (size_t)csv->fields[place].end - row.field;
    }
    return row;
}

/* ---- names ---- */

static qn_status note_name(reader *r, size_t place) {
    for (int c = 0; c < N_COLUMNS; c++) {
        if (strcmp(qn_csv_text(&r->csv, place), names[c]) != 0)
            continue;
        if (r->places[c] != none)
            return qn_fail(QN_ERROR_FORMAT, "%s:%lld: two columns are named %s", r->csv.name,
                           (long long)r->csv.line, names[c]);
        r->places[c] = place;
    }
    return QN_OK;
}

static qn_status read_names(reader *r) {
    bool is_end;
    QN_TRY(next_line(r, &is_end));
    r->n_fields = r->csv.n_fields;
    for (size_t i = 0; i < r->n_fields; i++)
        QN_TRY(note_name(r, i));
    for (int c = 0; c < OFFSET; c++) {
        if (r->places[c] == none)
            return qn_fail(QN_ERROR_FORMAT,
                           "%s:%lld: no column is named %s; the first line must name id, lower, "
                           "upper and size",
                           r->csv.name, (long long)r->csv.line, names[c]);
    }
    r->b->has_offsets = r->places[OFFSET] != none;
    r->b->rows[0] = (qn_buffer_row){.end = (size_t)r->csv.end, .field = (size_t)r->csv.end};
    return QN_OK;
}

/* ---- buffers ---- */

static qn_status read_number(const reader *r, column c, int64_t least, int64_t *number) {
    const char *text = qn_csv_text(&r->csv, r->places[c]);
    char *end;
    errno = 0;
    *number = strtoll(text, &end, 10);
    if (end == text || end[strspn(end, " \t")] || errno != 0)
        return qn_fail(QN_ERROR_FORMAT, "%s:%lld: %s is \"%.40s\", not a whole number of 64 bits",
                       r->csv.name, (long long)r->csv.line, names[c], text);
    if (*number < least)
        return qn_fail(QN_ERROR_FORMAT, "%s:%lld: %s is %lld, below %lld", r->csv.name,
                       (long long)r->csv.line, names[c], (long long)*number, (long long)least);
    return QN_OK;
}

static qn_status read_box(reader *r, qn_box *box) {
    const long long line = r->csv.line;
    int64_t size;
    *box = (qn_box){0};
    QN_TRY(read_number(r, LOWER, INT64_MIN, &box->lower));
    QN_TRY(read_number(r, UPPER, INT64_MIN, &box->upper));
    QN_TRY(read_number(r, SIZE, 0, &size));
    if (box->lower >= box->upper)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s:%lld: alive in [%lld, %lld), which is never; upper must be above lower",
                       r->csv.name, line, (long long)box->lower, (long long)box->upper);
    box->bytes = (size_t)size;
    r->sum += box->bytes;
    if (r->sum > INT64_MAX)
        return qn_fail(QN_ERROR_FORMAT, "%s:%lld: the sizes up to here are more than 64 bits hold",
                       r->csv.name, line);
    return QN_OK;
}

static qn_status read_row(reader *r) {
    qn_buffers *b = r->b;
    if (b->n == INT32_MAX)
        return qn_fail(QN_ERROR_FORMAT, "%s:%lld: too many buffers", r->csv.name,
                       (long long)r->csv.line);
    QN_TRY(qn_grow(b->allocator, &b->rows, &b->row_capacity, (size_t)b->n + 2, sizeof *b->rows));
    QN_TRY(qn_grow(b->allocator, &b->boxes, &b->box_capacity, (size_t)b->n + 1, sizeof *b->boxes));
    if (r->csv.n_fields != r->n_fields)
        return qn_fail(QN_ERROR_FORMAT, "%s:%lld: %zu fields; the first line names %zu",
                       r->csv.name, (long long)r->csv.line, r->csv.n_fields, r->n_fields);
    QN_TRY(read_box(r, &b->boxes[b->n]));
    b->rows[++b->n] = row_of(r);
    return QN_OK;
}

static qn_status read_all(reader *r) {
    qn_buffers *b = r->b;
    QN_TRY(qn_grow(b->allocator, &b->rows, &b->row_capacity, 1, sizeof *b->rows));
    QN_TRY(read_names(r));
    for (;;) {
        bool is_end;
        QN_TRY(next_line(r, &is_end));
        if (is_end)
            return QN_OK;
        QN_TRY(read_row(r));
    }
}

qn_status qn_buffers_parse(const qn_allocator *allocator, const char *path, char *text,
                           size_t bytes, qn_buffers *buffers) {
    qn_buffers read = {
        .allocator = qn_allocator_or_default(allocator), .text = text, .text_bytes = bytes};
    reader r = {.b = &read, .places = {none, none, none, none, none}};
    qn_csv_read_text(&r.csv, read.allocator, path, text, bytes);
    const qn_status status = read_all(&r);
    qn_csv_deinit(&r.csv);
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
    const bool has_both = has_return && b->text[row->end + 1] == '\n';
    qn_output_bytes(output, b->text + row->begin, row->field - row->begin);
    if (!b->has_offsets)
        qn_output_text(output, ",");
    if (box)
        qn_output_count(output, (int64_t)box->offset);
    else if (!b->has_offsets)
        qn_output_text(output, names[OFFSET]);
    qn_output_bytes(output, b->text + after, row->end - after);
    qn_output_text(output, has_both ? "\r\n" : has_return ? "\r" : "\n");
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
    return qn_file_write(path, write_rows, (void *)(uintptr_t)buffers);
}
