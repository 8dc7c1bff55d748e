/* Tables in text files as a source: csv:FILE[,label=NAME], FILE.csv.gz, DIR (join.c), or - for
 * standard input. What the file is understood as is told where it is not plain: a separator other
 * than the comma, a decimal comma, an encoding, columns that are left out, missing values, texts
 * that become categories. The columns are those of options.table, by name, or are found from the
 * file, and are then source->preparation.table. */
#include "data/table/csv.h"
#include "base/decimal.h"
#include "base/status.h"
#include "data/split/divide.h"
#include "data/table/join.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MEDIAN_NUMBERS = 1 << 18, /* that are held to find medians */
    MEDIAN_LEAST = 64,        /* of a column */
    MEDIAN_MOST = 16384
};

static qn_status fail_damaged(const qn_csv_source *csv) {
    return qn_fail(QN_ERROR_FORMAT, "%s: damaged; remove it", qn_file_path(csv->file));
}

/* ---- reading ---- */

void qn_csv_put_target(const qn_csv_source *csv, int target, float value, void *y) {
    const int32_t class = isnan(value) ? 0 : (int32_t)value;
    const float number = isnan(value) ? 0.0f : value;
    if (csv->lists) {
        for (int k = 0; k < csv->n_labels; k++)
            ((float *)y)[k] = value >= 0 && value < (float)csv->n_lists
                                  ? csv->lists[(int64_t)value * csv->n_labels + k]
                                  : 0.0f;
        return;
    }
    if (csv->footer.targets >= QN_CSV_NUMBERS)
        memcpy((float *)y + target, &number, sizeof number);
    else
        memcpy(y, &class, sizeof class);
}

void qn_csv_put_values(const qn_csv_source *csv, const float *values, int64_t from, int64_t n,
                       float *x, void *y) {
    for (int64_t i = 0; i < n; i++) {
        const qn_csv_place *place = &csv->encoder.places[from + i];
        if (place->target >= 0)
            qn_csv_put_target(csv, place->target, values[i], y);
        else if (csv->are_raw)
            x[place->feature] = values[i];
        else if (place->column)
            qn_csv_encode(place, values[i], x);
    }
}

static qn_status csv_read(void *self, qn_split split, int64_t index, void *x, void *y) {
    qn_csv_source *csv = self;
    float piece[QN_CSV_PIECE];
    const int64_t row = index * csv->row_bytes;
    (void)split;
    if (csv->footer.targets == QN_CSV_NO_TARGETS)
        memset(y, 0, sizeof(int32_t));
    for (int64_t at = 0; at < csv->footer.n_stored; at += QN_CSV_PIECE) {
        const int64_t left = csv->footer.n_stored - at,
                      n = left < QN_CSV_PIECE ? left : QN_CSV_PIECE;
        QN_TRY(qn_file_read(csv->file, row + 4 * at, piece, (size_t)n * sizeof *piece));
        qn_csv_put_values(csv, piece, at, n, x, y);
    }
    return QN_OK;
}

/* What a value is, whatever else the file has: a text by itself, not by its number. */
static uint64_t hash_value(const qn_csv_source *csv, int64_t place, float value) {
    const int32_t column = csv->column_of[place];
    const qn_csv_record *r = &csv->records[column];
    const float number = isnan(value) ? NAN : value;
    const bool is_text = r->n_texts > 0 && value >= 0 && value < (float)r->n_texts;
    const uint64_t pair[2] = {qn_hash_text(csv->names[column].name),
                              is_text ? qn_hash_text(csv->names[column].texts[(int)value])
                                      : qn_hash_bytes(&number, sizeof number)};
    return qn_hash_bytes(pair, sizeof pair);
}

/* The sum over a row's inputs by name: columns that are moved or left out change nothing. */
uint64_t qn_csv_hash_values(const qn_csv_source *csv, const float *values, int64_t from,
                            int64_t n) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i++)
        if (csv->records[csv->column_of[from + i]].role == QN_CSV_INPUT)
            sum += hash_value(csv, from + i, values[i]);
    return sum;
}

static void find_class(const qn_csv_source *csv, const float *values, int64_t from, int64_t n,
                       int32_t *class) {
    for (int64_t i = 0; i < n; i++)
        if (csv->encoder.places[from + i].target >= 0 && csv->footer.targets == QN_CSV_CLASSES)
            qn_csv_put_target(csv, 0, values[i], class);
}

/* Rows of one group are one content, and so on one side. */
static qn_status csv_look(qn_source_base *base, int64_t index, uint64_t *content, int32_t *class) {
    const qn_csv_source *csv = (const qn_csv_source *)base;
    const int64_t row = index * csv->row_bytes;
    float piece[QN_CSV_PIECE];
    *content = 0;
    for (int64_t at = 0; at < csv->footer.n_stored; at += QN_CSV_PIECE) {
        const int64_t left = csv->footer.n_stored - at,
                      n = left < QN_CSV_PIECE ? left : QN_CSV_PIECE;
        QN_TRY(qn_file_read(csv->file, row + 4 * at, piece, (size_t)n * sizeof *piece));
        *content += qn_csv_hash_values(csv, piece, at, n);
        find_class(csv, piece, at, n, class);
    }
    if (csv->group < 0)
        return QN_OK;
    QN_TRY(qn_file_read(csv->file, row + 4 * csv->group, piece, 2 * sizeof *piece));
    *content = qn_csv_group_of(piece);
    return QN_OK;
}

/* ---- what is in the parsed file ---- */

/* Reads the footer and checks that the sizes in it make up the file. */
static qn_status read_footer(qn_csv_source *csv) {
    qn_csv_footer *f = &csv->footer;
    const int64_t bytes = qn_file_bytes(csv->file), end = bytes - (int64_t)sizeof *f;
    int64_t rows = -1;
    if (end >= 0)
        QN_TRY(qn_file_read(csv->file, end, f, sizeof *f));
    csv->row_bytes = f->n_stored * 4;
    const bool is_sound =
        end >= 0 && memcmp(f->magic, QN_CSV_MAGIC, sizeof f->magic) == 0 && f->n_stored > 0 &&
        2 * f->n_columns >= f->n_stored && f->n_columns < INT_MAX / 64 && f->texts_bytes > 0 &&
        f->texts_bytes < INT_MAX && f->n_rows > 0 && f->targets >= QN_CSV_NO_TARGETS &&
        f->targets <= QN_CSV_LABELS && f->encoding >= 0 && f->encoding <= QN_ENCODING_UTF16_BE &&
        !__builtin_mul_overflow(f->n_rows, csv->row_bytes, &rows) &&
        rows == end - f->texts_bytes - f->n_columns * (int64_t)sizeof(qn_csv_record);
    return is_sound ? QN_OK : fail_damaged(csv);
}

static qn_status number_places(qn_csv_source *csv) {
    int32_t *column_of =
        qn_arena_allocate(&csv->base.arena, (size_t)csv->footer.n_stored, sizeof *column_of);
    if (!column_of)
        return QN_ERROR_MEMORY;
    for (int64_t i = 0; i < csv->footer.n_columns; i++)
        for (int k = 0; k < qn_csv_places(csv->records[i].role); k++)
            column_of[csv->records[i].place + k] = (int32_t)i;
    csv->column_of = column_of;
    return QN_OK;
}

/* Of each place of a row one column, and counts that can be. */
static qn_status check_records(const qn_csv_source *csv) {
    int64_t n_stored = 0;
    for (int64_t i = 0; i < csv->footer.n_columns; i++) {
        const qn_csv_record *r = &csv->records[i];
        const bool is_stored = r->role != QN_CSV_LEFT_OUT;
        if (r->role < QN_CSV_INPUT || r->role > QN_CSV_TIME || r->kind < QN_COLUMN_NUMBER ||
            r->kind > QN_COLUMN_DATE || r->place != (is_stored ? n_stored : -1) || r->n_texts < 0 ||
            r->n_texts > QN_CSV_MOST_LABELS || r->n_classes < 0 ||
            r->n_classes > QN_CSV_MOST_LABELS)
            return fail_damaged(csv);
        n_stored += qn_csv_places(r->role);
    }
    return n_stored == csv->footer.n_stored ? QN_OK : fail_damaged(csv);
}

/* The next text of those up to end, or "" beyond it. */
static const char *next_text(const char **at, const char *end) {
    const char *text = *at;
    *at += *at < end ? strlen(text) + 1 : 0;
    return text;
}

static qn_status read_columns(qn_csv_source *csv) {
    const qn_csv_footer *f = &csv->footer;
    qn_arena *arena = &csv->base.arena;
    const size_t n = (size_t)f->n_columns, bytes = (size_t)f->texts_bytes;
    qn_csv_record *records = qn_arena_allocate(arena, n, sizeof *records);
    qn_csv_names_of *names = qn_arena_allocate(arena, n, sizeof *names);
    char *block = qn_arena_allocate(arena, bytes + 1, 1);
    if (!records || !names || !block)
        return QN_ERROR_MEMORY;
    const int64_t at_records = f->n_rows * csv->row_bytes;
    QN_TRY(qn_file_read(csv->file, at_records, records, n * sizeof *records));
    QN_TRY(qn_file_read(csv->file, at_records + (int64_t)(n * sizeof *records), block, bytes));
    csv->records = records;
    csv->names = names;
    QN_TRY(check_records(csv));
    QN_TRY(number_places(csv));
    const char *at = block, *end = block + bytes;
    for (size_t i = 0; i < n; i++) {
        names[i].name = next_text(&at, end);
        names[i].left_out = next_text(&at, end);
        names[i].texts = qn_arena_allocate(arena, (size_t)records[i].n_texts + 1, sizeof(char *));
        if (!names[i].texts)
            return QN_ERROR_MEMORY;
        for (int32_t k = 0; k < records[i].n_texts; k++)
            names[i].texts[k] = next_text(&at, end);
    }
    return QN_OK;
}

/* ---- columns ---- */

/* ---- lists of labels ---- */

/* The column of lists, or null. */
static const qn_csv_names_of *find_lists(const qn_csv_source *csv, int64_t *n_lists) {
    for (int64_t i = 0; csv->footer.targets == QN_CSV_LABELS && i < csv->footer.n_columns; i++)
        if (csv->records[i].role == QN_CSV_TARGET && csv->records[i].n_texts > 0) {
            *n_lists = csv->records[i].n_texts;
            return &csv->names[i];
        }
    return NULL;
}

static const char *skip_blanks(const char *text) {
    while (*text == ' ')
        text++;
    return text;
}

/* The next label of a list, without blanks around it; *n: its length. */
static const char *take_label(const char **list, size_t *n) {
    const char *label = skip_blanks(*list);
    size_t length = strcspn(label, "|");
    *list = label[length] ? label + length + 1 : NULL;
    while (length > 0 && label[length - 1] == ' ')
        length--;
    *n = length;
    return label;
}

static int compare_labels(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* All labels of all lists, sorted, each once. */
static qn_status collect_labels(qn_csv_source *csv, const qn_csv_names_of *lists, int64_t n_lists,
                                qn_table *table) {
    qn_arena *arena = &csv->base.arena;
    const char **labels = qn_arena_allocate(arena, QN_CSV_MOST_OF_SAMPLE, sizeof *labels);
    int n = 0;
    if (!labels)
        return QN_ERROR_MEMORY;
    for (int64_t i = 0; i < n_lists; i++)
        for (const char *at = lists->texts[i]; at;) {
            size_t length;
            const char *label = take_label(&at, &length);
            int k = 0;
            while (k < n && !(strlen(labels[k]) == length && memcmp(labels[k], label, length) == 0))
                k++;
            if (k < n || length == 0)
                continue;
            if (n == QN_CSV_MOST_OF_SAMPLE)
                return qn_fail(QN_ERROR_FORMAT, "column '%s' has more than %d labels", lists->name,
                               QN_CSV_MOST_OF_SAMPLE);
            labels[n] = qn_arena_format(arena, "%.*s", (int)length, label);
            if (!labels[n++])
                return QN_ERROR_MEMORY;
        }
    qsort(labels, (size_t)n, sizeof *labels, compare_labels);
    table->targets = labels;
    table->n_targets = n;
    table->label_column = lists->name;
    return QN_OK;
}

/* Which labels of a table each list of the file has. */
static qn_status read_lists(qn_csv_source *csv, const qn_table *table) {
    int64_t n_lists = 0;
    const qn_csv_names_of *lists = find_lists(csv, &n_lists);
    csv->n_labels = table->n_targets;
    if (!lists)
        return QN_OK;
    uint8_t *bits = qn_arena_allocate(&csv->base.arena, (size_t)(n_lists * table->n_targets), 1);
    if (!bits)
        return QN_ERROR_MEMORY;
    for (int64_t i = 0; i < n_lists; i++)
        for (const char *at = lists->texts[i]; at;) {
            size_t length;
            const char *label = take_label(&at, &length);
            for (int k = 0; k < table->n_targets; k++)
                if (strlen(table->targets[k]) == length &&
                    memcmp(table->targets[k], label, length) == 0)
                    bits[i * table->n_targets + k] = 1;
        }
    csv->lists = bits;
    csv->n_lists = n_lists;
    return QN_OK;
}

static qn_status make_table(qn_csv_source *csv, qn_table **made) {
    qn_arena *arena = &csv->base.arena;
    const size_t n = (size_t)csv->footer.n_stored;
    qn_table *table = qn_arena_allocate(arena, 1, sizeof *table);
    qn_table_column *columns = qn_arena_allocate(arena, n, sizeof *columns);
    const char **targets = qn_arena_allocate(arena, n, sizeof *targets);
    if (!table || !columns || !targets)
        return QN_ERROR_MEMORY;
    *table = (qn_table){.columns = columns,
                        .targets = targets,
                        .are_numbers = csv->footer.targets == QN_CSV_NUMBERS,
                        .are_labels = csv->footer.targets == QN_CSV_LABELS};
    for (int64_t i = 0; i < csv->footer.n_columns; i++) {
        const qn_csv_record *r = &csv->records[i];
        if (r->role == QN_CSV_TARGET)
            targets[table->n_targets++] = csv->names[i].name;
        if (r->role == QN_CSV_INPUT)
            columns[table->n_columns++] = (qn_table_column){
                .name = csv->names[i].name,
                .kind = (qn_column_kind)r->kind,
                .has_gaps = r->n_missing > 0,
                .is_day_first = r->is_day_first,
                .n_texts = r->n_texts,
                .texts = csv->names[i].texts,
            };
    }
    *made = table;
    int64_t n_lists = 0;
    const qn_csv_names_of *lists = find_lists(csv, &n_lists);
    return lists ? collect_labels(csv, lists, n_lists, table) : QN_OK;
}

/* The medians of columns of numbers over training rows that lie evenly; of few rows, over all. */
static qn_status find_medians(qn_csv_source *csv, int64_t n_training, qn_table *table) {
    qn_table_column *columns = (qn_table_column *)table->columns;
    const int64_t stored = csv->footer.n_stored, fit = MEDIAN_NUMBERS / stored;
    const int64_t most = fit < MEDIAN_LEAST ? MEDIAN_LEAST : fit > MEDIAN_MOST ? MEDIAN_MOST : fit;
    const int64_t n = n_training < most ? n_training : most;
    const qn_allocator *allocator = csv->base.options.allocator;
    const size_t count = (size_t)(n * stored);
    float *rows, *values;
    QN_TRY(qn_allocate(allocator, count, sizeof *rows, &rows));
    qn_status status = qn_allocate(allocator, (size_t)n, sizeof *values, &values);
    for (int64_t i = 0; status == QN_OK && i < n; i++) {
        int64_t row;
        status = qn_csv_row_of(csv, i * n_training / n, &row);
        if (status == QN_OK)
            status = qn_file_read(csv->file, row * csv->row_bytes, rows + i * stored,
                                  (size_t)csv->row_bytes);
    }
    for (int64_t at = 0, column = 0; status == QN_OK && at < stored; at++) {
        if (!csv->encoder.places[at].column)
            continue;
        size_t n_found = 0;
        for (int64_t i = 0; i < n; i++)
            if (!isnan(rows[i * stored + at]))
                values[n_found++] = rows[i * stored + at];
        columns[column++].median = qn_value_median(values, n_found);
    }
    qn_release(allocator, rows, count, sizeof *rows);
    if (values)
        qn_release(allocator, values, (size_t)n, sizeof *values);
    return status;
}

/* Once it is known which rows are trained on. */
static qn_status csv_divided(qn_source_base *base, const qn_data_source *source) {
    qn_csv_source *csv = (qn_csv_source *)base;
    return csv->table ? find_medians(csv, source->n_samples[QN_TRAIN], csv->table) : QN_OK;
}

/* Rows as they are, for who chooses features himself: a column of the source for each. */
static qn_status lay_out_raw(qn_csv_source *csv, qn_data_source *source) {
    qn_arena *arena = &csv->base.arena;
    qn_csv_encoder *e = &csv->encoder;
    const size_t n = (size_t)csv->footer.n_stored;
    e->n_places = n;
    e->places = qn_arena_allocate(arena, n, sizeof *e->places);
    qn_data_column *columns = qn_arena_allocate(arena, n, sizeof *columns);
    if (!e->places || !columns)
        return QN_ERROR_MEMORY;
    for (int64_t i = 0; i < csv->footer.n_columns; i++) {
        const qn_csv_record *r = &csv->records[i];
        if (r->place < 0)
            continue;
        const bool is_target = r->role == QN_CSV_TARGET;
        e->places[r->place] =
            (qn_csv_place){.target = is_target ? 0 : -1, .feature = e->n_features};
        if (!is_target)
            columns[e->n_features++] = (qn_data_column){
                csv->footer.has_header ? csv->names[i].name : "", r->n_texts, csv->names[i].texts};
    }
    csv->are_raw = true;
    source->columns = columns;
    return QN_OK;
}

/* The table that the source is of: found here, or known, or known but for its targets. */
static qn_status find_table(qn_csv_source *csv, const qn_table **found) {
    const qn_table *known = csv->base.options.table;
    qn_table *table = NULL;
    *found = known;
    if (known && (known->n_targets > 0 || csv->footer.targets == QN_CSV_NO_TARGETS))
        return QN_OK;
    QN_TRY(make_table(csv, &table));
    *found = table;
    if (known) {
        table->columns = known->columns;
        table->n_columns = known->n_columns;
    } else {
        csv->table = table;
    }
    return QN_OK;
}

static qn_status lay_out(qn_csv_source *csv, qn_data_source *source) {
    const qn_table *table = NULL;
    if (csv->base.options.reads_texts)
        return lay_out_raw(csv, source);
    QN_TRY(find_table(csv, &table));
    QN_TRY(qn_csv_encoder_make(&csv->base.arena, table, csv->records, csv->names,
                               (size_t)csv->footer.n_columns, &csv->encoder));
    if (csv->footer.targets == QN_CSV_LABELS)
        QN_TRY(read_lists(csv, table));
    csv->base.are_marks = csv->encoder.are_marks;
    source->preparation.table = table;
    return QN_OK;
}

/* ---- targets ---- */

static void find_targets(const qn_csv_source *csv, qn_data_source *source) {
    for (int64_t i = 0; i < csv->footer.n_columns; i++) {
        const qn_csv_record *r = &csv->records[i];
        if (r->role != QN_CSV_TARGET)
            continue;
        if (csv->footer.targets >= QN_CSV_NUMBERS) {
            source->n_targets += csv->lists ? csv->n_labels : 1;
            continue;
        }
        source->preparation.n_classes = r->n_classes;
        if (r->n_texts > 0)
            source->preparation.class_names = csv->names[i].texts;
    }
}

/* ---- telling ---- */

/* Adds ", NAME" to a list that has room for some. */
static void list_name(char *list, size_t bytes, const char *name, int n) {
    const size_t used = strlen(list);
    if (n < 6)
        snprintf(list + used, bytes - used, "%s%.40s", n > 0 ? ", " : "", name);
    else if (n == 6)
        snprintf(list + used, bytes - used, ", ...");
}

static void tell_dialect(const qn_csv_source *csv, const char *path) {
    const qn_csv_footer *f = &csv->footer;
    const qn_source_base *base = &csv->base;
    const qn_csv_form form = {(qn_encoding)f->encoding, f->separator, f->decimal};
    qn_csv_tell_form(&form, base->options.log, path);
    double number;
    if (f->has_header && qn_decimal_parse(csv->names[0].name, &number))
        qn_data_tell(base, 0, "%s: the first line (%s, ...) is taken for names of columns", path,
                     csv->names[0].name);
    if (f->n_dropped > 0)
        qn_data_tell(base, 1, "%s: %" PRId64 " rows without a target are left out", path,
                     f->n_dropped);
}

static void tell_columns(const qn_csv_source *csv, const char *path) {
    char gaps[320] = "", texts[320] = "", hashed[320] = "";
    int64_t n_missing = 0;
    int n_gaps = 0, n_texts = 0, n_hashed = 0;
    for (int64_t i = 0; i < csv->footer.n_columns; i++) {
        const qn_csv_record *r = &csv->records[i];
        const char *name = csv->names[i].name;
        if (r->role == QN_CSV_LEFT_OUT)
            qn_data_tell(&csv->base, 0, "%s: column '%s' is left out: %s", path, name,
                         csv->names[i].left_out);
        if (r->role != QN_CSV_INPUT)
            continue;
        if (csv->are_raw) /* the caller does with gaps what he likes */
            continue;
        n_missing += r->n_missing;
        if (r->n_missing > 0)
            list_name(gaps, sizeof gaps, name, n_gaps++);
        if (r->kind == QN_COLUMN_CATEGORY)
            list_name(texts, sizeof texts, name, n_texts++);
        if (r->kind == QN_COLUMN_HASHED)
            list_name(hashed, sizeof hashed, name, n_hashed++);
    }
    if (n_gaps > 0)
        qn_data_tell(&csv->base, 0,
                     "%s: %" PRId64
                     " values are missing, in %d column%s (%s): the median stands in "
                     "for them",
                     path, n_missing, n_gaps, n_gaps == 1 ? "" : "s", gaps);
    if (n_texts > 0)
        qn_data_tell(&csv->base, 0, "%s: categories: %s", path, texts);
    if (n_hashed > 0)
        qn_data_tell(&csv->base, 0, "%s: categories of more than %d texts, by their hashes: %s",
                     path, QN_CSV_ONE_HOT, hashed);
}

static void tell_labels(const qn_csv_source *csv, const qn_data_source *source, const char *path) {
    const qn_table *table = source->preparation.table;
    char list[320] = "";
    if (csv->footer.targets != QN_CSV_LABELS || !table)
        return;
    for (int k = 0; k < table->n_targets; k++)
        list_name(list, sizeof list, table->targets[k], k);
    qn_data_tell(&csv->base, 0,
                 "%s: %d labels, of which a sample may have several: %s (--task says otherwise)",
                 path, table->n_targets, list);
}

/* Texts that the weights have not met. */
static void tell_unknown(const qn_csv_source *csv, const char *path) {
    for (size_t i = 0; i < csv->encoder.n_places; i++) {
        const qn_csv_place *place = &csv->encoder.places[i];
        char list[320] = "";
        int n = 0;
        for (int64_t c = 0; place->category && c < csv->footer.n_columns; c++)
            for (int32_t k = 0; csv->records[c].place == (int32_t)i && k < csv->records[c].n_texts;
                 k++)
                if (place->category[k] < 0)
                    list_name(list, sizeof list, csv->names[c].texts[k], n++);
        if (n > 0)
            qn_data_tell(&csv->base, 1,
                         "%s: column '%s' has texts that the weights do not know: %s", path,
                         place->column->name, list);
    }
}

/* ---- facts ---- */

static const char *kind_of(const qn_csv_source *csv, const qn_csv_record *r) {
    static const char *const kinds[] = {[QN_COLUMN_NUMBER] = "numbers",
                                        [QN_COLUMN_TRUTH] = "true or false",
                                        [QN_COLUMN_CATEGORY] = "categories",
                                        [QN_COLUMN_HASHED] = "many categories",
                                        [QN_COLUMN_DATE] = "dates"};
    if (r->role == QN_CSV_GROUP || r->role == QN_CSV_TIME)
        return r->role == QN_CSV_GROUP ? "group" : "time";
    if (r->role != QN_CSV_TARGET)
        return kinds[r->kind];
    return csv->footer.targets == QN_CSV_NUMBERS  ? "target, a number"
           : csv->footer.targets == QN_CSV_LABELS ? "target, labels"
                                                  : "target, a class";
}

static qn_status fill_column(qn_csv_source *csv, int64_t i) {
    const qn_csv_record *r = &csv->records[i];
    const qn_csv_names_of *of = &csv->names[i];
    const qn_column_fact fact = {.name = of->name,
                                 .kind = kind_of(csv, r),
                                 .n_missing = r->n_missing,
                                 .n_values = r->n_values,
                                 .left_out = *of->left_out ? of->left_out : NULL};
    return qn_data_facts_add_column(&csv->base, &fact);
}

static qn_status fill_facts(qn_csv_source *csv) {
    const qn_csv_footer *f = &csv->footer;
    qn_data_facts *facts = &csv->base.facts;
    facts->encoding = qn_encoding_name((qn_encoding)f->encoding);
    facts->separator = f->separator;
    facts->decimal = f->decimal;
    facts->has_header = f->has_header ? QN_ANSWER_YES : QN_ANSWER_NO;
    facts->target_kind = f->targets == QN_CSV_LABELS    ? QN_TARGET_LABELS
                         : f->targets == QN_CSV_NUMBERS ? QN_TARGET_NUMBERS
                         : f->targets == QN_CSV_CLASSES ? QN_TARGET_CLASSES
                                                        : QN_TARGET_NONE;
    for (int64_t i = 0; i < f->n_columns; i++) {
        QN_TRY(fill_column(csv, i));
        if (csv->records[i].role != QN_CSV_TARGET)
            continue;
        QN_TRY(qn_data_facts_set(&csv->base, &facts->target, "%s%s%s",
                                 facts->target ? facts->target : "", facts->target ? ", " : "",
                                 csv->names[i].name));
    }
    if (f->n_dropped == 0)
        return QN_OK;
    return qn_data_facts_count(&csv->base, &facts->dropped, "rows", "no target", NULL,
                               f->n_dropped);
}

/* ---- opening ---- */

/* FILE[,label=NAME]; *label is null where none is given. */
static qn_status split_argument(qn_source_base *base, const char **path, const char **label) {
    static const char mark[] = ",label=";
    const char *at = strstr(base->argument, mark);
    *path = base->argument;
    *label = NULL;
    if (!at)
        return QN_OK;
    *label = at + strlen(mark);
    *path = qn_arena_format(&base->arena, "%.*s", (int)(at - base->argument), base->argument);
    return *path ? QN_OK : QN_ERROR_MEMORY;
}

/* All that the parsed file depends on, beside its source. */
static qn_status name_variant(qn_source_base *base, const char *label, const char **variant) {
    const qn_data_options *o = &base->options;
    uint64_t known = 0;
    for (int k = 0; o->table && k < o->table->n_columns; k++)
        known = known * 31 + qn_hash_text(o->table->columns[k].name) +
                (uint64_t)o->table->columns[k].kind * 2 + o->table->columns[k].is_day_first;
    for (int k = 0; o->table && k < o->table->n_targets; k++)
        known = known * 31 + qn_hash_text(o->table->targets[k]) + o->table->are_numbers +
                2 * o->table->are_labels + 4 * (o->table->label_column != NULL);
    const char *told[] = {label ? label : o->target,
                          o->ignore,
                          o->categories,
                          o->task,
                          o->header,
                          o->separator,
                          o->decimal,
                          o->dates,
                          qn_source_group(base),
                          o->window > 0 ? "windows" : NULL,
                          o->time,
                          o->keeps_gaps ? "gaps" : NULL};
    const int64_t width = o->is_unlabelled && !o->table ? qn_shape_count(o->sample) : 0;
    const char *text = qn_arena_format(&base->arena, QN_CSV_MAGIC "%d%d|%" PRId64 "|%016" PRIx64,
                                       o->reads_texts, o->is_unlabelled, width, known);
    for (size_t i = 0; text && i < sizeof told / sizeof *told; i++)
        text = qn_arena_format(&base->arena, "%s\n%s", text, told[i] ? told[i] : "");
    *variant = text;
    return text ? QN_OK : QN_ERROR_MEMORY;
}

static qn_status open_parsed(qn_csv_source *csv, const char **path) {
    qn_source_base *base = &csv->base;
    qn_csv_options options = {.allocator = base->options.allocator, .how = &base->options};
    const char *variant;
    qn_file *plain;
    QN_TRY(split_argument(base, path, &options.target));
    QN_TRY(name_variant(base, options.target, &variant));
    const bool is_input = strcmp(*path, "-") == 0;
    QN_TRY(is_input ? qn_data_open_input(base, &plain) : qn_data_open_file(base, *path, &plain));
    *path = is_input ? "standard input" : *path;
    options.name = *path;
    const qn_status status =
        is_input ? qn_cache_make(base, plain, qn_csv_convert, &options, &csv->file)
                 : qn_cache_open_of(base, plain, variant, qn_csv_convert, &options, &csv->file);
    qn_file_close(plain);
    return status;
}

/* A folder of tables, each a recording. The footer tells how they are written. */
static qn_status open_folder(qn_csv_source *csv, const char *path, const char *label) {
    qn_source_base *base = &csv->base;
    qn_csv_joined joined;
    const char *variant;
    QN_TRY(name_variant(base, label, &variant));
    QN_TRY(qn_csv_join(base, path, label, variant, &joined));
    base->options.group = joined.group ? joined.group : base->options.group;
    csv->file = joined.file;
    csv->starts = joined.starts;
    csv->n_starts = joined.n_starts;
    QN_TRY(read_footer(csv));
    csv->footer.separator = joined.separator;
    csv->footer.encoding = (int32_t)joined.encoding;
    return QN_OK;
}

static qn_status open_any(qn_csv_source *csv, const char **path) {
    const char *label;
    QN_TRY(split_argument(&csv->base, path, &label));
    if (qn_path_is_folder(*path))
        return open_folder(csv, *path, label);
    QN_TRY(open_parsed(csv, path));
    return read_footer(csv);
}

static qn_status csv_open(qn_source_base *base, qn_data_source *source) {
    qn_csv_source *csv = (qn_csv_source *)base;
    const char *path;
    csv->group = csv->time = -1;
    QN_TRY(open_any(csv, &path));
    QN_TRY(read_columns(csv));
    source->n_samples[QN_TRAIN] = csv->footer.n_rows;
    QN_TRY(lay_out(csv, source));
    find_targets(csv, source);
    source->sample = source->preparation.sample = QN_SHAPE((int64_t)csv->encoder.n_features);
    source->dtype = QN_F32;
    source->read = csv_read;
    base->look = csv_look;
    base->divided = csv_divided;
    base->wants_statistics = true;
    QN_TRY(qn_csv_find_recordings(csv, path, source));
    QN_TRY(fill_facts(csv));
    tell_dialect(csv, path);
    tell_columns(csv, path);
    tell_labels(csv, source, path);
    tell_unknown(csv, path);
    return QN_OK;
}

static void csv_release(qn_source_base *base) {
    qn_csv_source *csv = (qn_csv_source *)base;
    qn_windows_close(&csv->windows);
    qn_file_close(csv->file);
}

const qn_data_format qn_format_csv = {.name = "csv",
                                      .usage = "FILE[,label=NAME]",
                                      .self_bytes = sizeof(qn_csv_source),
                                      .open = csv_open,
                                      .release = csv_release,
                                      .has_groups = true,
                                      .has_labels = true,
                                      .has_windows = true};
