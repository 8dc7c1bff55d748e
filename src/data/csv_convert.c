/* CSV to rows of numbers; see csv.h. Fields may be quoted (with "" for a quote, and line breaks
 * within), lines end in LF, CRLF or CR, blank lines are passed over. The first line is a header if
 * one of its fields is text where the second line has a number, or if the label is named. */
#include "base/memory.h"
#include "base/rng.h"
#include "base/status.h"
#include "data/csv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 64 * 1024, MAX_RECORD_BYTES = 1 << 24, MAX_LABELS = 65536 };

/* ---- numbers ---- */

/* value * 10^exponent; exact where both are small, which is nearly always. */
static double scale_decimal(double value, int exponent) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    for (; exponent > 22 && value < 1e300; exponent -= 22)
        value *= 1e22;
    for (; exponent < -22 && value > 0; exponent += 22)
        value /= 1e22;
    if (exponent > 22)
        return value * 1e300;
    if (exponent < -22)
        return value;
    return exponent < 0 ? value / powers[-exponent] : value * powers[exponent];
}

/* Digits with at most one point; *exponent: what the digits have to be scaled by. */
static const char *parse_digits(const char *at, uint64_t *digits, int *exponent, int *n_digits) {
    bool has_point = false;
    for (;; at++) {
        if (*at == '.' && !has_point) {
            has_point = true;
            continue;
        }
        if (*at < '0' || *at > '9')
            return at;
        ++*n_digits;
        bool fits = *digits < UINT64_MAX / 10 - 1;
        if (fits)
            *digits = *digits * 10 + (uint64_t)(*at - '0');
        *exponent += !fits - has_point;
    }
}

/* e and a power of ten, if that comes here. */
static const char *parse_exponent(const char *at, int *exponent) {
    if (*at != 'e' && *at != 'E')
        return at;
    bool is_negative = at[1] == '-';
    const char *digit = at + 1 + (at[1] == '-' || at[1] == '+');
    if (*digit < '0' || *digit > '9')
        return at;
    int power = 0;
    for (; *digit >= '0' && *digit <= '9'; digit++)
        power = power < 10000 ? power * 10 + (*digit - '0') : power;
    *exponent += is_negative ? -power : power;
    return digit;
}

bool qn_number_parse(const char *text, double *value) {
    uint64_t digits = 0;
    int exponent = 0, n_digits = 0;
    text += strspn(text, " \t");
    bool is_negative = *text == '-';
    text += *text == '-' || *text == '+';
    text = parse_digits(text, &digits, &exponent, &n_digits);
    if (n_digits == 0)
        return false;
    text = parse_exponent(text, &exponent);
    double size = scale_decimal((double)digits, exponent);
    *value = is_negative ? -size : size;
    return text[strspn(text, " \t")] == 0;
}

/* ---- records ---- */

/* The record last read is fields[0..n_fields), offsets of texts with a closing zero. */
typedef struct csv_reader {
    qn_file *file;
    const qn_allocator *allocator;
    qn_status status; /* the first failure; nothing is read after it */
    int64_t offset, line, record_line;
    size_t at, used; /* buffer[at..used) is yet to be read */
    char *text;      /* (length) of capacity */
    size_t length, text_capacity;
    size_t *fields;
    size_t n_fields, field_capacity;
    bool is_quoted; /* the field being read is */
    unsigned char buffer[BUFFER_BYTES];
} csv_reader;

static void rewind_reader(csv_reader *r) {
    r->offset = 0;
    r->line = 1;
    r->at = r->used = 0;
}

static qn_status fill_buffer(csv_reader *r) {
    int64_t left = qn_file_bytes(r->file) - r->offset;
    r->at = 0;
    r->used = left < BUFFER_BYTES ? (size_t)left : BUFFER_BYTES;
    QN_TRY(qn_file_read(r->file, r->offset, r->buffer, r->used));
    if (r->offset == 0 && r->used >= 3 && memcmp(r->buffer, "\xef\xbb\xbf", 3) == 0)
        r->at = 3; /* the mark that some programs begin UTF-8 with */
    r->offset += (int64_t)r->used;
    return QN_OK;
}

/* The next byte without passing it; -1 at the end. */
static int peek(csv_reader *r) {
    if (r->at == r->used && r->status == QN_OK)
        r->status = fill_buffer(r);
    return r->at < r->used && r->status == QN_OK ? r->buffer[r->at] : -1;
}

static void append(csv_reader *r, char c) {
    if (r->length == MAX_RECORD_BYTES && r->status == QN_OK)
        r->status = qn_fail(QN_ERROR_FORMAT, "%s: line %" PRId64 ": longer than %d bytes",
                            qn_file_path(r->file), r->record_line, MAX_RECORD_BYTES);
    if (r->status == QN_OK)
        r->status = qn_grow(r->allocator, &r->text, &r->text_capacity, r->length + 1, 1);
    if (r->status == QN_OK)
        r->text[r->length++] = c;
}

static void begin_field(csv_reader *r) {
    r->is_quoted = false;
    if (r->status == QN_OK)
        r->status = qn_grow(r->allocator, &r->fields, &r->field_capacity, r->n_fields + 1,
                            sizeof *r->fields);
    if (r->status == QN_OK)
        r->fields[r->n_fields++] = r->length;
}

static void end_field(csv_reader *r) {
    size_t begin = r->status == QN_OK ? r->fields[r->n_fields - 1] : r->length;
    while (!r->is_quoted && r->length > begin && strchr(" \t", r->text[r->length - 1]))
        r->length--;
    append(r, 0);
}

/* What lies between quotes, the opening one passed. */
static void read_quoted(csv_reader *r) {
    r->is_quoted = true;
    for (;;) {
        int c = peek(r);
        if (c < 0 && r->status == QN_OK)
            r->status = qn_fail(QN_ERROR_FORMAT, "%s: line %" PRId64 ": a quote is not closed",
                                qn_file_path(r->file), r->record_line);
        if (c < 0)
            return;
        r->at++;
        r->line += c == '\n';
        if (c == '"') {
            if (peek(r) != '"')
                return;
            r->at++;
        }
        append(r, (char)c);
    }
}

/* An ordinary byte of a field. */
static void read_plain(csv_reader *r, int c) {
    bool is_empty = r->status == QN_OK && r->length == r->fields[r->n_fields - 1];
    if (is_empty && (c == ' ' || c == '\t'))
        return;
    if (is_empty && c == '"' && !r->is_quoted)
        read_quoted(r);
    else if (c == 0 && r->status == QN_OK)
        r->status = qn_fail(QN_ERROR_FORMAT, "%s: line %" PRId64 ": a zero byte; is this CSV?",
                            qn_file_path(r->file), r->line);
    else if (!r->is_quoted || (c != ' ' && c != '\t'))
        append(r, (char)c);
}

static void end_line(csv_reader *r, int c) {
    if (c == '\r' && peek(r) == '\n')
        r->at++;
    r->line++;
}

/* One line's record. *is_end: there was none. */
static qn_status read_record(csv_reader *r, bool *is_end) {
    r->length = r->n_fields = 0;
    r->record_line = r->line;
    *is_end = peek(r) < 0;
    begin_field(r);
    while (r->status == QN_OK) {
        int c = peek(r);
        if (c < 0)
            break;
        r->at++;
        if (c == '\n' || c == '\r') {
            end_line(r, c);
            break;
        }
        if (c != ',') {
            read_plain(r, c);
            continue;
        }
        end_field(r);
        begin_field(r);
    }
    end_field(r);
    return r->status;
}

/* The next record that is not blank. */
static qn_status next_record(csv_reader *r, bool *is_end) {
    do
        QN_TRY(read_record(r, is_end));
    while (!*is_end && r->n_fields == 1 && r->length == 1 && !r->is_quoted);
    return QN_OK;
}

static const char *get_field(const csv_reader *r, size_t i) {
    return r->text + r->fields[i];
}

/* ---- labels ---- */

typedef struct csv_label {
    const char *text; /* whole numbers in their plain form */
    double value;
    int32_t id;
} csv_label;

/* labels[id]; slots are a hash table of id + 1 with twice the places. */
typedef struct csv_labels {
    csv_label *labels; /* (n) of capacity */
    size_t n, capacity;
    int32_t *slots; /* (2 * MAX_LABELS), 0: free */
    bool has_text, has_fraction, has_too_many;
} csv_labels;

/* ---- conversion ---- */

typedef struct csv_converter {
    csv_reader reader;
    qn_arena arena;
    qn_sink sink;
    csv_labels labels;
    size_t n_columns;   /* of the file, the label's included */
    size_t label;       /* column of the label */
    const char **names; /* (n_columns), or null: no header */
    float *row;         /* (n_columns + 1): columns without the label, id, value */
    int64_t n_rows;
} csv_converter;

static qn_status fail_field(const csv_converter *v, size_t column, const char *text) {
    return qn_fail(QN_ERROR_FORMAT, "%s: line %" PRId64 ", column %zu%s%s%s: %s%.40s%s",
                   qn_file_path(v->reader.file), v->reader.record_line, column + 1,
                   v->names ? " (" : "", v->names ? v->names[column] : "", v->names ? ")" : "",
                   *text ? "'" : "", *text ? text : "empty field", *text ? "' is no number" : "");
}

/* The id of a label's text, a new one if it was not met before. */
static qn_status find_label(csv_converter *v, const char *text, double value, int32_t *id) {
    csv_labels *l = &v->labels;
    size_t slot = qn_hash_text(text) % (2 * MAX_LABELS);
    for (; l->slots[slot]; slot = (slot + 1) % (2 * MAX_LABELS)) {
        *id = l->slots[slot] - 1;
        if (strcmp(l->labels[*id].text, text) == 0)
            return QN_OK;
    }
    *id = -1;
    l->has_too_many |= l->n == MAX_LABELS;
    if (l->has_too_many)
        return QN_OK;
    const char *kept = qn_arena_text(&v->arena, text);
    if (!kept)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_grow(v->reader.allocator, &l->labels, &l->capacity, l->n + 1, sizeof *l->labels));
    *id = (int32_t)l->n++;
    l->labels[*id] = (csv_label){kept, value, *id};
    l->slots[slot] = *id + 1;
    return QN_OK;
}

static qn_status convert_label(csv_converter *v, int32_t *id, float *value) {
    const char *text = get_field(&v->reader, v->label);
    char plain[32];
    double number = 0;
    bool is_number = qn_number_parse(text, &number);
    bool is_whole =
        is_number && number > -1e15 && number < 1e15 && number == (double)(int64_t)number;
    if (!*text)
        return fail_field(v, v->label, text);
    v->labels.has_text |= !is_number;
    v->labels.has_fraction |= is_number && !is_whole;
    *value = (float)number;
    snprintf(plain, sizeof plain, "%" PRId64, is_whole ? (int64_t)number : 0);
    return find_label(v, is_whole ? plain : text, number, id);
}

static qn_status convert_row(csv_converter *v) {
    const csv_reader *r = &v->reader;
    float *to = v->row;
    int32_t id = -1;
    if (r->n_fields != v->n_columns)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s: line %" PRId64 " has %zu fields, the first line has %zu",
                       qn_file_path(r->file), r->record_line, r->n_fields, v->n_columns);
    for (size_t i = 0; i < v->n_columns; i++) {
        double value;
        if (i == v->label)
            continue;
        if (!qn_number_parse(get_field(r, i), &value) || !(value > -3.4e38 && value < 3.4e38))
            return fail_field(v, i, get_field(r, i));
        *to++ = (float)value;
    }
    QN_TRY(convert_label(v, &id, to + 1));
    memcpy(to, &id, sizeof id);
    v->n_rows++;
    return v->sink.put(v->sink.context, v->row, (v->n_columns + 1) * sizeof *v->row);
}

/* ---- header ---- */

static qn_status keep_names(csv_converter *v) {
    for (size_t i = 0; i < v->n_columns; i++) {
        v->names[i] = qn_arena_text(&v->arena, get_field(&v->reader, i));
        if (!v->names[i])
            return QN_ERROR_MEMORY;
    }
    return QN_OK;
}

/* Whether the names kept of the first record are text where the second one has numbers. */
static bool is_header(const csv_converter *v) {
    const csv_reader *r = &v->reader;
    double value;
    for (size_t i = 0; i < v->n_columns && i < r->n_fields; i++)
        if (!qn_number_parse(v->names[i], &value) && qn_number_parse(get_field(r, i), &value))
            return true;
    return false;
}

static qn_status find_named_label(csv_converter *v, const char *label) {
    for (size_t i = 0; i < v->n_columns; i++)
        if (strcmp(v->names[i], label) == 0) {
            v->label = i;
            return QN_OK;
        }
    return qn_fail(QN_ERROR_ARGUMENT,
                   "%s: no column is named '%s'; the first is '%.40s', the last '%.40s'",
                   qn_file_path(v->reader.file), label, v->names[0], v->names[v->n_columns - 1]);
}

/* Learns columns, header and label, and leaves the reader before the first row. */
static qn_status read_header(csv_converter *v, const char *label) {
    csv_reader *r = &v->reader;
    bool is_end;
    QN_TRY(next_record(r, &is_end));
    if (is_end)
        return qn_fail(QN_ERROR_FORMAT, "%s: no rows", qn_file_path(r->file));
    if (r->n_fields < 2)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s: line %" PRId64 ": one field; they are separated by commas",
                       qn_file_path(r->file), r->record_line);
    v->n_columns = r->n_fields;
    v->label = v->n_columns - 1;
    v->names = qn_arena_allocate(&v->arena, v->n_columns, sizeof *v->names);
    v->row = qn_arena_allocate(&v->arena, v->n_columns + 1, sizeof *v->row);
    if (!v->names || !v->row)
        return QN_ERROR_MEMORY;
    QN_TRY(keep_names(v));
    if (label)
        QN_TRY(find_named_label(v, label));
    QN_TRY(next_record(r, &is_end));
    bool has_header = label || (!is_end && is_header(v));
    rewind_reader(r);
    if (has_header)
        return next_record(r, &is_end);
    v->names = NULL;
    return QN_OK;
}

/* ---- end of the file ---- */

static int compare_values(const void *left, const void *right) {
    double a = ((const csv_label *)left)->value, b = ((const csv_label *)right)->value;
    return (a > b) - (a < b);
}

static int compare_texts(const void *left, const void *right) {
    return strcmp(((const csv_label *)left)->text, ((const csv_label *)right)->text);
}

/* Sorts the labels, gives each its class, and writes both and the names. Labels that are 0 to n - 1
 * are their own names. */
static qn_status put_classes(csv_converter *v, qn_csv_footer *footer) {
    csv_labels *l = &v->labels;
    int32_t *class_of = qn_arena_allocate(&v->arena, l->n, sizeof *class_of);
    if (!class_of)
        return QN_ERROR_MEMORY;
    qsort(l->labels, l->n, sizeof *l->labels, l->has_text ? compare_texts : compare_values);
    bool are_numbered = !l->has_text;
    for (size_t i = 0; i < l->n; i++) {
        class_of[l->labels[i].id] = (int32_t)i;
        are_numbered &= l->labels[i].value == (double)i;
    }
    footer->n_ids = (int64_t)l->n;
    QN_TRY(v->sink.put(v->sink.context, class_of, l->n * sizeof *class_of));
    for (size_t i = 0; i < l->n && !are_numbered; i++) {
        size_t bytes = strlen(l->labels[i].text) + 1;
        footer->names_bytes += (int64_t)bytes;
        QN_TRY(v->sink.put(v->sink.context, l->labels[i].text, bytes));
    }
    return QN_OK;
}

static qn_status put_end(csv_converter *v) {
    const csv_labels *l = &v->labels;
    qn_csv_footer footer = {QN_CSV_MAGIC, v->n_rows, (int64_t)v->n_columns - 1, 0, 0, 0};
    if (v->n_rows == 0)
        return qn_fail(QN_ERROR_FORMAT, "%s: a header, but no rows", qn_file_path(v->reader.file));
    footer.are_targets = l->has_fraction && !l->has_text;
    if (l->has_too_many && !footer.are_targets)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s: column %zu has more than %d different labels; name another one with "
                       ",label=NAME",
                       qn_file_path(v->reader.file), v->label + 1, MAX_LABELS);
    if (!footer.are_targets)
        QN_TRY(put_classes(v, &footer));
    return v->sink.put(v->sink.context, &footer, sizeof footer);
}

static qn_status convert_all(csv_converter *v, const char *label) {
    v->labels.slots = qn_arena_allocate(&v->arena, 2 * MAX_LABELS, sizeof *v->labels.slots);
    if (!v->labels.slots)
        return QN_ERROR_MEMORY;
    QN_TRY(read_header(v, label));
    for (;;) {
        bool is_end;
        QN_TRY(next_record(&v->reader, &is_end));
        if (is_end)
            return put_end(v);
        QN_TRY(convert_row(v));
    }
}

qn_status qn_csv_convert(void *context, qn_file *source, qn_sink sink) {
    const qn_csv_options *options = context;
    const qn_allocator *allocator = options->allocator;
    csv_converter *v;
    QN_TRY(qn_allocate(allocator, 1, sizeof *v, &v));
    v->reader.file = source;
    v->reader.allocator = allocator;
    v->sink = sink;
    qn_arena_init(&v->arena, allocator);
    rewind_reader(&v->reader);
    qn_status status = convert_all(v, options->label);
    qn_release(allocator, v->reader.text, v->reader.text_capacity, 1);
    qn_release(allocator, v->reader.fields, v->reader.field_capacity, sizeof *v->reader.fields);
    qn_release(allocator, v->labels.labels, v->labels.capacity, sizeof *v->labels.labels);
    qn_arena_deinit(&v->arena);
    qn_release(allocator, v, 1, sizeof *v);
    return status;
}
