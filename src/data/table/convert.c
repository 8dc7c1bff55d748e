/* A table's file to rows of numbers; see table.h. The file is read two or three times: to see what
 * its columns are, what texts they have, and to write the rows. */
#include "base/rng.h"
#include "base/status.h"
#include "data/columns.h"
#include "data/table/scan.h"
#include "data/table/values.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- rows ---- */

static qn_status convert_text(csv_table *t, csv_column *c, const char *text, float *to) {
    csv_text *found;
    if (c->kind == QN_COLUMN_HASHED) {
        *to = (float)(qn_hash_text(text) % QN_TABLE_HASHES);
        return QN_OK;
    }
    QN_TRY(qn_csv_find_text(t, &c->texts, text, &found));
    *to = found ? (float)found->number : -1.0f;
    return QN_OK;
}

static qn_status convert_input(csv_table *t, csv_column *c, const char *text, float *to) {
    const bool is_text = c->kind == QN_COLUMN_CATEGORY || c->kind == QN_COLUMN_HASHED;
    qn_value_day day;
    double value = NAN;
    *to = NAN;
    if (!(is_text && t->how->reads_texts) && qn_value_is_missing(text, false))
        return QN_OK;
    if (is_text)
        return convert_text(t, c, text, to);
    if (c->kind == QN_COLUMN_DATE) {
        if (qn_value_date(text, c->is_day_first, &day))
            value = day.days;
    } else if (c->kind != QN_COLUMN_TRUTH || !qn_value_truth(text, &value))
        if (!qn_value_number(text, t->decimal, &value))
            value = NAN;
    *to = (float)value;
    return QN_OK;
}

static qn_status convert_target(csv_table *t, csv_column *c, const char *text, float *to) {
    csv_text *found;
    double value = NAN;
    *to = NAN;
    if (t->are == QN_CSV_LABELS && !*text && c->n_classes > 0)
        *to = -1.0f; /* a sample without labels */
    if (qn_value_is_missing(text, true))
        return QN_OK;
    if (t->are == QN_CSV_LABELS && c->n_classes == 0 && qn_value_truth(text, &value)) {
        *to = (float)value;
        return QN_OK;
    }
    if (t->are == QN_CSV_CLASSES || (t->are == QN_CSV_LABELS && c->n_classes > 0)) {
        QN_TRY(qn_csv_find_text(t, &c->texts, text, &found));
        *to = found ? (float)found->number : NAN;
        return QN_OK;
    }
    if (qn_value_number(text, t->decimal, &value))
        *to = (float)value;
    return QN_OK;
}

/* The step since the row before. Days are seconds; floats would not tell times themselves apart. */
static void convert_time(csv_table *t, csv_column *c, const char *text, float *to) {
    const double seconds = 24 * 3600;
    qn_value_day day;
    double value = NAN;
    if (c->kind == QN_COLUMN_DATE) {
        if (qn_value_date(text, c->is_day_first, &day))
            value = day.days * seconds;
    } else if (!qn_value_number(text, t->decimal, &value))
        value = NAN;
    *to = (float)(value - c->time_before);
    c->time_before = value;
}

static qn_status convert_mark(csv_table *t, size_t i, const char *text, float *row) {
    csv_column *c = &t->columns[i];
    if (c->role == QN_CSV_TIME)
        convert_time(t, c, text, &row[c->place]);
    if (c->role != QN_CSV_GROUP)
        return QN_OK;
    if (!*text)
        return qn_csv_fail(t, t->reader.line, i, "", "instead of a group");
    qn_csv_group_put(text, &row[c->place]);
    return QN_OK;
}

/* A row without a target counts for nothing, unless it is to be predicted on, or is a step of time.
 */
static qn_status convert_row(csv_table *t, float *row, bool *is_dropped) {
    *is_dropped = false;
    for (size_t i = 0; i < t->n_columns; i++) {
        csv_column *c = &t->columns[i];
        const char *text = qn_csv_text(&t->reader, i);
        if (c->role == QN_CSV_INPUT)
            QN_TRY(convert_input(t, c, text, &row[c->place]));
        else if (c->role == QN_CSV_TARGET)
            QN_TRY(convert_target(t, c, text, &row[c->place]));
        else
            QN_TRY(convert_mark(t, i, text, row));
        *is_dropped |= c->role == QN_CSV_TARGET && isnan(row[c->place]) && !t->how->is_unlabelled &&
                       t->how->window == 0;
    }
    return QN_OK;
}

static qn_status put_rows(csv_table *t) {
    bool is_end, is_dropped;
    float *row = qn_arena_allocate(&t->arena, t->n_stored, sizeof *row);
    if (!row)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_csv_begin_rows(t));
    for (;;) {
        QN_TRY(qn_csv_next_row(t, &is_end));
        if (is_end)
            return QN_OK;
        QN_TRY(convert_row(t, row, &is_dropped));
        t->n_dropped += is_dropped;
        if (!is_dropped)
            QN_TRY(t->sink.put(t->sink.context, row, t->n_stored * sizeof *row));
    }
}

/* ---- columns ---- */

/* Classes 0 to n - 1 are their own names. */
static bool are_numbered(const csv_column *c) {
    const csv_texts *l = &c->texts;
    for (size_t i = 0; i < l->n; i++)
        if (c->n_texts > 0 || c->n_padded > 0 || l->list[i].value != (double)l->list[i].number)
            return false;
    return true;
}

static bool has_texts(const csv_table *t, const csv_column *c) {
    if (c->role == QN_CSV_TARGET && t->are == QN_CSV_LABELS)
        return c->n_classes > 0;
    if (c->role == QN_CSV_TARGET)
        return t->are == QN_CSV_CLASSES && !are_numbered(c);
    if (c->role == QN_CSV_GROUP)
        return !c->texts.has_too_many;
    return c->role == QN_CSV_INPUT && c->kind == QN_COLUMN_CATEGORY;
}

static qn_status put_records(csv_table *t) {
    for (size_t i = 0; i < t->n_columns; i++) {
        const csv_column *c = &t->columns[i];
        const int32_t n_texts = c->role == QN_CSV_TARGET ? c->n_classes : (int32_t)c->texts.n;
        const qn_csv_record record = {
            .role = (int32_t)c->role,
            .kind = (int32_t)c->kind,
            .place = c->place,
            .n_texts = has_texts(t, c) ? n_texts : 0,
            .n_missing = c->n_missing,
            .n_values = c->n_values,
            .is_day_first = c->is_day_first,
            .n_classes = c->n_classes,
        };
        QN_TRY(t->sink.put(t->sink.context, &record, sizeof record));
    }
    return QN_OK;
}

static qn_status put_text(csv_table *t, const char *text, int64_t *bytes) {
    const size_t n = strlen(text) + 1;
    *bytes += (int64_t)n;
    return t->sink.put(t->sink.context, text, n);
}

/* The name of an integer's class is its plain form. */
static qn_status put_label(csv_table *t, const csv_column *c, const csv_text *label,
                           int64_t *bytes) {
    char plain[32];
    const bool is_integer = t->are == QN_CSV_CLASSES && c->n_texts == 0 && c->n_padded == 0 &&
                            c->n_integers == c->n_numbers;
    snprintf(plain, sizeof plain, "%" PRId64, is_integer ? (int64_t)label->value : 0);
    return put_text(t, is_integer ? plain : label->text, bytes);
}

static qn_status put_texts(csv_table *t, int64_t *bytes) {
    for (size_t i = 0; i < t->n_columns; i++) {
        const csv_column *c = &t->columns[i];
        const csv_text *list = c->texts.list;
        QN_TRY(put_text(t, c->name, bytes));
        QN_TRY(put_text(t, c->left_out ? c->left_out : "", bytes));
        for (size_t k = 0; has_texts(t, c) && k < c->texts.n; k++) {
            if (c->role != QN_CSV_TARGET)
                QN_TRY(put_text(t, list[k].text, bytes));
            else if (k == 0 || list[k].number != list[k - 1].number)
                QN_TRY(put_label(t, c, &list[k], bytes));
        }
    }
    return QN_OK;
}

static qn_status put_end(csv_table *t) {
    qn_csv_footer footer = {
        .magic = QN_CSV_MAGIC,
        .n_rows = t->n_rows - t->n_dropped,
        .n_stored = (int64_t)t->n_stored,
        .n_columns = (int64_t)t->n_columns,
        .n_dropped = t->n_dropped,
        .encoding = (int32_t)t->decoder.encoding,
        .targets = (int32_t)t->are,
        .has_header = t->has_header,
        .separator = t->separator,
        .decimal = t->decimal,
    };
    if (footer.n_rows == 0)
        return qn_fail(QN_ERROR_FORMAT, "%s: no row has a target", t->reader.name);
    QN_TRY(put_records(t));
    QN_TRY(put_texts(t, &footer.texts_bytes));
    return t->sink.put(t->sink.context, &footer, sizeof footer);
}

/* ---- all ---- */

static qn_status convert_all(csv_table *t) {
    QN_TRY(qn_csv_find_dialect(t));
    QN_TRY(qn_csv_read_first(t));
    QN_TRY(qn_csv_find_marks(t));
    QN_TRY(qn_csv_find_targets(t));
    QN_TRY(qn_csv_scan(t));
    QN_TRY(qn_csv_find_header(t));
    if (!t->has_header)
        QN_TRY(qn_csv_scan_first(t));
    QN_TRY(qn_csv_find_time(t));
    if (t->n_rows == 0)
        return qn_fail(QN_ERROR_FORMAT, "%s: a header, but no rows", t->reader.name);
    QN_TRY(qn_csv_find_kinds(t));
    QN_TRY(put_rows(t));
    return put_end(t);
}

void qn_csv_close_table(csv_table *t) {
    const qn_allocator *allocator = t->options->allocator;
    qn_csv_deinit(&t->reader);
    for (size_t i = 0; t->columns && i < t->n_columns; i++) {
        const csv_texts *texts = &t->columns[i].texts;
        qn_release(allocator, texts->list, texts->capacity, sizeof *texts->list);
    }
    qn_arena_deinit(&t->arena);
    qn_release(allocator, t, 1, sizeof *t);
}

qn_status qn_csv_open_table(const qn_csv_options *options, qn_file *source, csv_table **table) {
    const char *name = options->name ? options->name : qn_file_path(source);
    csv_table *t;
    QN_TRY(qn_allocate(options->allocator, 1, sizeof *t, &t));
    t->options = options;
    t->how = options->how;
    t->decoder.file = source;
    qn_arena_init(&t->arena, options->allocator);
    qn_csv_read_file(&t->reader, options->allocator, source);
    const qn_status status = qn_encoding_find(source, &t->decoder.encoding);
    if (t->decoder.encoding != QN_ENCODING_UTF8)
        qn_csv_read_stream(&t->reader, options->allocator, name, qn_decoder_more, &t->decoder);
    t->reader.name = name;
    if (status == QN_OK)
        *table = t;
    else
        qn_csv_close_table(t);
    return status;
}

qn_status qn_csv_convert(void *context, qn_file *source, qn_sink sink) {
    csv_table *t;
    QN_TRY(qn_csv_open_table(context, source, &t));
    t->sink = sink;
    const qn_status status = convert_all(t);
    qn_csv_close_table(t);
    return status;
}
