/* CSV to rows of numbers; see csv.h. The first line is a header if one of its fields is text where
 * the second line has a number, or if the label is given by name. */
#include "base/decimal.h"
#include "base/memory.h"
#include "base/rng.h"
#include "base/status.h"
#include "data/csv.h"
#include "format/csv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LABELS = 65536 };

/* ---- labels ---- */

typedef struct csv_label {
    const char *text; /* whole numbers in their plain form */
    double value;
    int32_t id;
} csv_label;

/* labels[id]; slots are a hash table of id + 1 with twice the places. */
typedef struct csv_labels {
    csv_label *labels; /* (n) of capacity */
    size_t n, capacity, most;
    int32_t *slots; /* (2 * most), 0: free */
    bool has_text, has_fraction, has_too_many;
} csv_labels;

/* What is known of a column before its rows are converted, where texts are read. */
typedef struct csv_column {
    int64_t n_texts;   /* fields that are no numbers */
    bool is_text;      /* those are half of them or more */
    bool has_it_again; /* a row has what the first line has */
    csv_labels texts;  /* if is_text */
} csv_column;

/* ---- conversion ---- */

typedef struct csv_converter {
    qn_csv_reader reader;
    qn_arena arena;
    qn_sink sink;
    csv_labels labels;
    size_t n_columns;    /* of the file, the label's included */
    size_t label;        /* column of the label */
    const char **names;  /* (n_columns), or null: no header */
    csv_column *columns; /* (n_columns), or null: all are numbers */
    float *row;          /* (n_columns + 1): columns without the label, id, value */
    int64_t n_rows;
} csv_converter;

static qn_status fail_field(const csv_converter *v, size_t column, const char *text) {
    return qn_fail(QN_ERROR_FORMAT, "%s: line %" PRId64 ", column %zu%s%s%s: %s%.40s%s",
                   v->reader.name, v->reader.line, column + 1, v->names ? " (" : "",
                   v->names ? v->names[column] : "", v->names ? ")" : "", *text ? "'" : "",
                   *text ? text : "empty field", *text ? "' is not a number" : "");
}

static qn_status begin_labels(csv_converter *v, csv_labels *labels, size_t most) {
    labels->most = most;
    labels->slots = qn_arena_allocate(&v->arena, 2 * most, sizeof *labels->slots);
    return labels->slots ? QN_OK : QN_ERROR_MEMORY;
}

/* The id of a label's text, a new one if it was not met before; -1: there are too many. */
static qn_status find_label(csv_converter *v, csv_labels *l, const char *text, double value,
                            int32_t *id) {
    size_t slot = qn_hash_text(text) % (2 * l->most);
    for (; l->slots[slot]; slot = (slot + 1) % (2 * l->most)) {
        *id = l->slots[slot] - 1;
        if (strcmp(l->labels[*id].text, text) == 0)
            return QN_OK;
    }
    *id = -1;
    l->has_too_many |= l->n == l->most;
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
    const char *text = qn_csv_text(&v->reader, v->label);
    char plain[32];
    double number = 0;
    bool is_number = qn_decimal_parse(text, &number);
    bool is_whole =
        is_number && number > -1e15 && number < 1e15 && number == (double)(int64_t)number;
    if (!*text)
        return fail_field(v, v->label, text);
    v->labels.has_text |= !is_number;
    v->labels.has_fraction |= is_number && !is_whole;
    *value = (float)number;
    snprintf(plain, sizeof plain, "%" PRId64, is_whole ? (int64_t)number : 0);
    return find_label(v, &v->labels, is_whole ? plain : text, number, id);
}

static qn_status check_fields(const csv_converter *v) {
    const qn_csv_reader *r = &v->reader;
    if (r->n_fields != v->n_columns)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s: line %" PRId64 " has %zu fields, the first line has %zu", r->name,
                       r->line, r->n_fields, v->n_columns);
    return QN_OK;
}

static bool parse_number(const char *text, double *value) {
    return qn_decimal_parse(text, value) && *value > -3.4e38 && *value < 3.4e38;
}

static qn_status convert_field(csv_converter *v, size_t column, float *to) {
    const char *text = qn_csv_text(&v->reader, column);
    double value;
    int32_t id;
    if (v->columns && v->columns[column].is_text) {
        QN_TRY(find_label(v, &v->columns[column].texts, text, 0.0, &id));
        *to = (float)id;
        return QN_OK;
    }
    if (!parse_number(text, &value))
        return fail_field(v, column, text);
    *to = (float)value;
    return QN_OK;
}

static qn_status convert_row(csv_converter *v) {
    float *to = v->row;
    int32_t id = -1;
    QN_TRY(check_fields(v));
    for (size_t i = 0; i < v->n_columns; i++)
        if (i != v->label)
            QN_TRY(convert_field(v, i, to++));
    QN_TRY(convert_label(v, &id, to + 1));
    memcpy(to, &id, sizeof id);
    v->n_rows++;
    return v->sink.put(v->sink.context, v->row, (v->n_columns + 1) * sizeof *v->row);
}

/* ---- header ---- */

static qn_status keep_names(csv_converter *v) {
    for (size_t i = 0; i < v->n_columns; i++) {
        v->names[i] = qn_arena_text(&v->arena, qn_csv_text(&v->reader, i));
        if (!v->names[i])
            return QN_ERROR_MEMORY;
    }
    return QN_OK;
}

/* Whether the names kept of the first record are text where the second one has numbers. */
static bool is_header(const csv_converter *v) {
    const qn_csv_reader *r = &v->reader;
    double value;
    for (size_t i = 0; i < v->n_columns && i < r->n_fields; i++)
        if (!qn_decimal_parse(v->names[i], &value) && qn_decimal_parse(qn_csv_text(r, i), &value))
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
                   v->reader.name, label, v->names[0], v->names[v->n_columns - 1]);
}

/* ---- columns of texts ---- */

static void count_texts(csv_converter *v) {
    for (size_t i = 0; i < v->n_columns; i++) {
        const char *text = qn_csv_text(&v->reader, i);
        double value;
        v->columns[i].n_texts += !parse_number(text, &value);
        v->columns[i].has_it_again |= strcmp(text, v->names[i]) == 0;
    }
}

/* Whether the first line can be told from all others: all of it is text, and nothing of it is found
 * again in its column. */
static bool stands_alone(const csv_converter *v) {
    for (size_t i = 0; i < v->n_columns; i++) {
        double value;
        if (v->columns[i].has_it_again || qn_decimal_parse(v->names[i], &value))
            return false;
    }
    return true;
}

/* Looks at all rows behind the first line, and tells columns of texts from those of numbers. */
static qn_status find_texts(csv_converter *v, bool *has_header) {
    bool is_end = false;
    int64_t n = 0;
    v->columns = qn_arena_allocate(&v->arena, v->n_columns, sizeof *v->columns);
    if (!v->columns)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_csv_next(&v->reader, &is_end));
    for (;; n++) {
        QN_TRY(qn_csv_next(&v->reader, &is_end));
        if (is_end)
            break;
        QN_TRY(check_fields(v));
        count_texts(v);
    }
    *has_header |= n > 1 && stands_alone(v);
    for (size_t i = 0; i < v->n_columns; i++) {
        csv_column *c = &v->columns[i];
        double value;
        const bool begins = !*has_header && !parse_number(v->names[i], &value);
        c->is_text = i != v->label && 2 * (c->n_texts + begins) >= n + !*has_header &&
                     c->n_texts + begins > 0;
        if (c->is_text)
            QN_TRY(begin_labels(v, &c->texts, QN_CSV_MOST_TEXTS));
    }
    return QN_OK;
}

/* Learns columns, header and label, and leaves the reader before the first row. */
static qn_status read_header(csv_converter *v, const char *label, bool reads_texts) {
    qn_csv_reader *r = &v->reader;
    bool is_end;
    QN_TRY(qn_csv_next(r, &is_end));
    if (is_end)
        return qn_fail(QN_ERROR_FORMAT, "%s: no rows", r->name);
    if (r->n_fields < 2)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s: line %" PRId64 ": one field; they are separated by commas", r->name,
                       r->line);
    v->n_columns = r->n_fields;
    v->label = v->n_columns - 1;
    v->names = qn_arena_allocate(&v->arena, v->n_columns, sizeof *v->names);
    v->row = qn_arena_allocate(&v->arena, v->n_columns + 1, sizeof *v->row);
    if (!v->names || !v->row)
        return QN_ERROR_MEMORY;
    QN_TRY(keep_names(v));
    if (label)
        QN_TRY(find_named_label(v, label));
    QN_TRY(qn_csv_next(r, &is_end));
    bool has_header = label || (!is_end && is_header(v));
    qn_csv_rewind(r);
    if (reads_texts) {
        QN_TRY(find_texts(v, &has_header));
        qn_csv_rewind(r);
    }
    if (has_header)
        return qn_csv_next(r, &is_end);
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

static qn_status put(csv_converter *v, const void *data, size_t bytes, int64_t *all) {
    *all += (int64_t)bytes;
    return v->sink.put(v->sink.context, data, bytes);
}

/* Writes names and texts of the columns. */
static qn_status put_texts(csv_converter *v, int64_t *bytes) {
    for (size_t i = 0; i < v->n_columns; i++) {
        const int32_t n = (int32_t)v->columns[i].texts.n;
        if (i != v->label)
            QN_TRY(put(v, &n, sizeof n, bytes));
    }
    for (size_t i = 0; i < v->n_columns; i++) {
        const csv_labels *texts = &v->columns[i].texts;
        const char *name = v->names ? v->names[i] : "";
        if (i == v->label)
            continue;
        QN_TRY(put(v, name, strlen(name) + 1, bytes));
        for (size_t k = 0; k < texts->n; k++)
            QN_TRY(put(v, texts->labels[k].text, strlen(texts->labels[k].text) + 1, bytes));
    }
    return QN_OK;
}

static qn_status put_end(csv_converter *v) {
    const csv_labels *l = &v->labels;
    qn_csv_footer footer = {QN_CSV_MAGIC, v->n_rows, (int64_t)v->n_columns - 1, 0, 0, 0, 0};
    if (v->n_rows == 0)
        return qn_fail(QN_ERROR_FORMAT, "%s: a header, but no rows", v->reader.name);
    footer.are_targets = l->has_fraction && !l->has_text;
    if (l->has_too_many && !footer.are_targets)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s: column %zu has more than %d different labels; name another one with "
                       ",label=NAME",
                       v->reader.name, v->label + 1, MAX_LABELS);
    if (!footer.are_targets)
        QN_TRY(put_classes(v, &footer));
    if (v->columns)
        QN_TRY(put_texts(v, &footer.texts_bytes));
    return v->sink.put(v->sink.context, &footer, sizeof footer);
}

static qn_status convert_all(csv_converter *v, const qn_csv_options *options) {
    QN_TRY(begin_labels(v, &v->labels, MAX_LABELS));
    QN_TRY(read_header(v, options->label, options->reads_texts));
    for (;;) {
        bool is_end;
        QN_TRY(qn_csv_next(&v->reader, &is_end));
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
    v->sink = sink;
    qn_csv_read_file(&v->reader, allocator, source);
    qn_arena_init(&v->arena, allocator);
    qn_status status = convert_all(v, options);
    qn_csv_deinit(&v->reader);
    qn_release(allocator, v->labels.labels, v->labels.capacity, sizeof *v->labels.labels);
    for (size_t i = 0; v->columns && i < v->n_columns; i++) {
        const csv_labels *texts = &v->columns[i].texts;
        qn_release(allocator, texts->labels, texts->capacity, sizeof *texts->labels);
    }
    qn_arena_deinit(&v->arena);
    qn_release(allocator, v, 1, sizeof *v);
    return status;
}
