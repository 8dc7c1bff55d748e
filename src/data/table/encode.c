/* See encode.h. */
#include "data/table/encode.h"

#include "base/status.h"
#include "data/columns.h"

#include <math.h>
#include <string.h>

/* ---- laying out ---- */

/* The texts of a file's column as numbers of the table's; null where they are the same. */
static qn_status match_texts(qn_arena *arena, const qn_table_column *column,
                             const qn_csv_record *record, const qn_csv_names_of *names,
                             const int32_t **category) {
    int32_t *numbers = qn_arena_allocate(arena, (size_t)record->n_texts + 1, sizeof *numbers);
    if (!numbers)
        return QN_ERROR_MEMORY;
    for (int32_t i = 0; i < record->n_texts; i++) {
        numbers[i] = -1;
        for (int k = 0; k < column->n_texts && numbers[i] < 0; k++)
            if (strcmp(column->texts[k], names->texts[i]) == 0)
                numbers[i] = k;
    }
    *category = numbers;
    return QN_OK;
}

static void mark(qn_csv_encoder *e, const qn_table_column *column, size_t feature) {
    const size_t n = (size_t)qn_table_value_count(column);
    const bool is_text = column->kind == QN_COLUMN_CATEGORY || column->kind == QN_COLUMN_HASHED;
    for (size_t k = 0; is_text && k < n; k++)
        e->are_marks[feature + k] = true;
    if (column->has_gaps)
        e->are_marks[feature + n] = true;
}

/* The file's column of a name, or at the place that the name says: "column 3". */
static size_t find_record(const char *name, const qn_csv_record *records,
                          const qn_csv_names_of *names, size_t n, qn_csv_role role) {
    char place[32];
    for (size_t i = 0; i < n; i++)
        if (records[i].role == (int32_t)role && strcmp(names[i].name, name) == 0)
            return i;
    for (size_t i = 0; i < n; i++) {
        snprintf(place, sizeof place, "column %zu", i + 1);
        if (records[i].role == (int32_t)role && strcmp(place, name) == 0)
            return i;
    }
    return n;
}

static qn_status place_inputs(qn_arena *arena, const qn_table *table, const qn_csv_record *records,
                              const qn_csv_names_of *names, size_t n, qn_csv_encoder *e) {
    size_t feature = 0;
    for (int k = 0; k < table->n_columns; k++) {
        const qn_table_column *column = &table->columns[k];
        const size_t i = find_record(column->name, records, names, n, QN_CSV_INPUT);
        if (i == n)
            return qn_fail(QN_ERROR_FORMAT, "there is no column '%s'", column->name);
        qn_csv_place *place = &e->places[records[i].place];
        *place = (qn_csv_place){.column = column, .target = -1, .feature = feature};
        if (column->kind == QN_COLUMN_CATEGORY)
            QN_TRY(match_texts(arena, column, &records[i], &names[i], &place->category));
        place->n_categories = records[i].n_texts;
        mark(e, column, feature);
        feature += (size_t)qn_table_feature_count(column);
    }
    return QN_OK;
}

qn_status qn_csv_encoder_make(qn_arena *arena, const qn_table *table, const qn_csv_record *records,
                              const qn_csv_names_of *names, size_t n_columns,
                              qn_csv_encoder *encoder) {
    qn_csv_encoder e = {.n_features = 0};
    for (int k = 0; k < table->n_columns; k++)
        e.n_features += (size_t)qn_table_feature_count(&table->columns[k]);
    for (size_t i = 0; i < n_columns; i++)
        e.n_places += (size_t)qn_csv_places(records[i].role);
    e.places = qn_arena_allocate(arena, e.n_places, sizeof *e.places);
    e.are_marks = qn_arena_allocate(arena, e.n_features, sizeof *e.are_marks);
    if (!e.places || !e.are_marks)
        return QN_ERROR_MEMORY;
    for (size_t i = 0; i < e.n_places; i++)
        e.places[i].target = -1;
    QN_TRY(place_inputs(arena, table, records, names, n_columns, &e));
    const char *const *targets = table->label_column ? &table->label_column : table->targets;
    for (int k = 0; k < (table->label_column ? 1 : table->n_targets); k++) {
        const size_t i = find_record(targets[k], records, names, n_columns, QN_CSV_TARGET);
        if (i < n_columns)
            e.places[records[i].place].target = k;
    }
    *encoder = e;
    return QN_OK;
}

/* ---- writing ---- */

static void put_circle(double turns, float *to) {
    const double angle = 2 * 3.14159265358979323846 * (turns - floor(turns));
    to[0] = (float)sin(angle);
    to[1] = (float)cos(angle);
}

static void put_date(double days, float *to) {
    to[0] = (float)days;
    put_circle(days / 7, to + 1);
    put_circle(days / 365.2425, to + 3);
    put_circle(days, to + 5);
}

void qn_csv_encode(const qn_csv_place *place, float value, float *sample) {
    const qn_table_column *column = place->column;
    const bool is_missing = isnan(value);
    const size_t n = (size_t)qn_table_value_count(column);
    float *to = sample + place->feature;
    const float filled = is_missing ? column->median : value;
    int64_t at = is_missing ? -1 : (int64_t)value;
    if (column->kind == QN_COLUMN_DATE)
        put_date(filled, to);
    else if (column->kind == QN_COLUMN_NUMBER || column->kind == QN_COLUMN_TRUTH)
        to[0] = filled;
    else {
        if (at >= 0 && column->kind == QN_COLUMN_CATEGORY)
            at = at < place->n_categories ? place->category[at] : -1;
        memset(to, 0, n * sizeof *to);
        if (at >= 0 && at < (int64_t)n)
            to[at] = 1.0f;
    }
    if (column->has_gaps)
        to[n] = is_missing;
}
