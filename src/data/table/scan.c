/* See scan.h. */
#include "data/table/scan.h"

#include "base/rng.h"
#include "base/status.h"
#include "data/table/values.h"
#include "tensor/tensor.h"

#include <inttypes.h>
#include <string.h>

/* ---- records ---- */

void qn_csv_begin(csv_table *t) {
    bool is_end;
    t->reader.separator = t->separator;
    t->reader.status = QN_OK;
    t->decoder.at = 0;
    qn_csv_rewind(&t->reader);
    if (t->has_hint)
        (void)qn_csv_next(&t->reader, &is_end); /* a failure is that of the next record, too */
}

qn_status qn_csv_next_row(csv_table *t, bool *is_end) {
    const qn_csv_reader *r = &t->reader;
    QN_TRY(qn_csv_next(&t->reader, is_end));
    if (!*is_end && r->n_fields != t->n_columns)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s: line %" PRId64 " has %zu fields, the first line has %zu", r->name,
                       r->line, r->n_fields, t->n_columns);
    return QN_OK;
}

qn_status qn_csv_begin_rows(csv_table *t) {
    bool is_end;
    qn_csv_begin(t);
    return t->has_header ? qn_csv_next(&t->reader, &is_end) : QN_OK;
}

qn_status qn_csv_fail(const csv_table *t, int64_t line, size_t column, const char *text,
                      const char *what) {
    const char *name = t->has_header ? t->columns[column].name : "";
    return qn_fail(QN_ERROR_FORMAT, "%s: line %" PRId64 ", column %zu%s%s%s: %s%.40s%s %s",
                   t->reader.name, line, column + 1, *name ? " (" : "", name, *name ? ")" : "",
                   *text ? "'" : "", *text ? text : "empty field", *text ? "'" : "", what);
}

/* ---- texts ---- */

qn_status qn_csv_keep_texts(csv_table *t, csv_texts *texts, size_t most) {
    texts->most = most;
    texts->slots = qn_arena_allocate(&t->arena, 2 * most, sizeof *texts->slots);
    return texts->slots ? QN_OK : QN_ERROR_MEMORY;
}

qn_status qn_csv_find_text(csv_table *t, csv_texts *l, const char *text, csv_text **found) {
    size_t slot = qn_hash_text(text) % (2 * l->most);
    for (; l->slots[slot]; slot = (slot + 1) % (2 * l->most)) {
        *found = &l->list[l->slots[slot] - 1];
        if (strcmp((*found)->text, text) == 0)
            return QN_OK;
    }
    *found = NULL;
    l->has_too_many |= l->n == l->most;
    if (l->has_too_many)
        return QN_OK;
    const char *kept = qn_arena_text(&t->arena, text);
    if (!kept)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_grow(t->options->allocator, &l->list, &l->capacity, l->n + 1, sizeof *l->list));
    *found = &l->list[l->n];
    **found = (csv_text){.text = kept, .number = (int32_t)l->n++};
    l->slots[slot] = (int32_t)l->n;
    return QN_OK;
}

bool qn_csv_names(const char *list, const char *name) {
    const size_t n = strlen(name);
    if (!list || n == 0)
        return false;
    if (strcmp(list, name) == 0)
        return true;
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, n) == 0 && (at[n] == ',' || !at[n]))
            return true;
    return false;
}

/* ---- the first record ---- */

static qn_status take_first(csv_table *t) {
    for (size_t i = 0; i < t->n_columns; i++) {
        csv_column *c = &t->columns[i];
        c->first_line = c->name = qn_arena_text(&t->arena, qn_csv_text(&t->reader, i));
        if (!c->name)
            return QN_ERROR_MEMORY;
        c->is_counting = c->is_rising = true;
    }
    return QN_OK;
}

qn_status qn_csv_read_first(csv_table *t) {
    const qn_csv_reader *r = &t->reader;
    bool is_end;
    qn_csv_begin(t);
    QN_TRY(qn_csv_next(&t->reader, &is_end));
    if (is_end)
        return qn_fail(QN_ERROR_FORMAT, "%s: no rows", r->name);
    if (r->n_fields < 2 && !t->how->is_unlabelled)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s: line %" PRId64 ": one field; they are separated by commas, semicolons, "
                       "tabs or |",
                       r->name, r->line);
    t->n_columns = r->n_fields;
    t->first_line = r->line;
    t->columns = qn_arena_allocate(&t->arena, t->n_columns, sizeof *t->columns);
    t->targets = qn_arena_allocate(&t->arena, t->n_columns, sizeof *t->targets);
    return t->columns && t->targets ? take_first(t) : QN_ERROR_MEMORY;
}

/* ---- the targets ---- */

static qn_status add_target(csv_table *t, size_t column) {
    if (t->columns[column].role != QN_CSV_INPUT)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%s: column '%s' is to be predicted, and tells groups or time; --target "
                       "names another one",
                       t->reader.name, t->columns[column].first_line);
    t->columns[column].role = QN_CSV_TARGET;
    t->targets[t->n_targets++] = column;
    return QN_OK;
}

/* Each name of a list must be a column's. */
static qn_status check_names(const csv_table *t, const char *list, const char *option) {
    for (const char *at = list; at && *at;) {
        const size_t n = strcspn(at, ",");
        bool is_there = false;
        for (size_t i = 0; i < t->n_columns && !is_there; i++) {
            const char *name = t->columns[i].first_line;
            is_there = strcmp(name, list) == 0 || (strlen(name) == n && memcmp(name, at, n) == 0);
        }
        if (!is_there)
            return qn_fail(QN_ERROR_ARGUMENT,
                           "%s: no column is named '%.*s' (%s); the first is '%.40s', the last "
                           "'%.40s'",
                           t->reader.name, (int)n, at, option, t->columns[0].first_line,
                           t->columns[t->n_columns - 1].first_line);
        at += n + (at[n] == ',');
    }
    return QN_OK;
}

/* The targets of a checkpoint, as far as the file has them. */
static qn_status find_known_targets(csv_table *t) {
    const qn_table *known = t->how->table;
    const char *const *names = known->label_column ? &known->label_column : known->targets;
    const int n_names = known->label_column ? 1 : known->n_targets;
    for (int k = 0; k < n_names; k++) {
        char place[32];
        size_t i = 0;
        for (; i < t->n_columns; i++) {
            snprintf(place, sizeof place, "column %zu", i + 1);
            if (strcmp(t->columns[i].first_line, names[k]) == 0 || strcmp(place, names[k]) == 0)
                break;
        }
        if (i < t->n_columns)
            QN_TRY(add_target(t, i));
        else if (!t->how->is_unlabelled)
            return qn_fail(QN_ERROR_FORMAT, "%s has no column '%s', which the weights predict",
                           t->reader.name, names[k]);
    }
    if (t->n_targets < (size_t)n_names)
        for (size_t i = 0; i < t->n_targets; i++)
            t->columns[t->targets[i]].role = QN_CSV_INPUT;
    t->n_targets = t->n_targets < (size_t)n_names ? 0 : t->n_targets;
    return QN_OK;
}

/* Whether the first line holds the name of a column of the checkpoint. */
static bool has_known_name(const csv_table *t) {
    const qn_table *known = t->how->table;
    for (int k = 0; known && k < known->n_columns; k++)
        for (size_t i = 0; i < t->n_columns; i++)
            if (strcmp(t->columns[i].first_line, known->columns[k].name) == 0)
                return true;
    return false;
}

/* Of a table to predict on, all columns are inputs unless there is one more than the network has.
 */
static bool is_input_alone(const csv_table *t) {
    const qn_shape *sample = &t->how->sample;
    return t->how->is_unlabelled &&
           (sample->rank == 0 || (int64_t)t->n_columns != qn_shape_count(*sample) + 1);
}

/* The last column that has anything in it: lines may end in separators. */
static qn_status find_last(csv_table *t, size_t *last) {
    bool is_end;
    *last = 0;
    qn_csv_begin(t);
    while (*last + 1 < t->n_columns) {
        QN_TRY(qn_csv_next_row(t, &is_end));
        if (is_end)
            return QN_OK;
        for (size_t i = t->n_columns; i-- > *last + 1;)
            if (*qn_csv_text(&t->reader, i))
                *last = i;
    }
    return QN_OK;
}

qn_status qn_csv_find_targets(csv_table *t) {
    size_t last = t->n_columns - 1;
    const char *told = t->options->target ? t->options->target : t->how->target;
    const bool ignores = t->how->ignore && strcmp(t->how->ignore, "none") != 0;
    t->is_named |= told || ignores || t->how->categories || has_known_name(t);
    if (told)
        QN_TRY(check_names(t, told, "--target"));
    if (ignores)
        QN_TRY(check_names(t, t->how->ignore, "--ignore"));
    QN_TRY(check_names(t, t->how->categories, "--categories"));
    if (!told && t->how->table && t->how->table->n_targets > 0)
        return find_known_targets(t);
    if (!told && is_input_alone(t))
        return QN_OK;
    if (!told && !*t->columns[last].first_line)
        QN_TRY(find_last(t, &last));
    if (!told)
        return add_target(t, last);
    for (size_t i = 0; i < t->n_columns; i++)
        if (qn_csv_names(told, t->columns[i].first_line))
            QN_TRY(add_target(t, i));
    return QN_OK;
}

/* ---- counting ---- */

static void count_number(csv_column *c, const char *text, double value, int64_t row) {
    const bool is_integer = value > -1e15 && value < 1e15 && value == (double)(int64_t)value;
    const char *digits = text + (*text == '-' || *text == '+');
    if (c->n_numbers == 0)
        c->first = value - (double)row;
    c->is_rising &= row < 0 ? value < c->least : c->n_numbers == 0 || value > c->last;
    c->last = value;
    c->least = c->n_numbers == 0 || value < c->least ? value : c->least;
    c->most = c->n_numbers == 0 || value > c->most ? value : c->most;
    c->is_counting &= is_integer && value == c->first + (double)row;
    c->n_numbers++;
    c->n_integers += is_integer;
    c->n_padded += is_integer && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9';
}

static void count_text(csv_column *c, const char *text, int64_t line) {
    qn_value_day day;
    double truth;
    const bool is_date = qn_value_date(text, true, &day);
    c->is_counting = false;
    if (c->odd_line == 0) {
        c->odd_line = line;
        snprintf(c->odd, sizeof c->odd, "%.40s", text);
    }
    if (!is_date && c->odd_day_line == 0) {
        c->odd_day_line = line;
        snprintf(c->odd_day, sizeof c->odd_day, "%.40s", text);
    }
    c->n_dates += is_date;
    c->n_day_first += is_date && day.is_day_first;
    c->n_month_first += is_date && day.is_month_first;
    c->n_either += is_date && day.has_either_order;
    c->n_truths += !is_date && qn_value_truth(text, &truth);
    c->n_texts++;
}

/* A label's text; numbers have their value. */
static qn_status keep_label(csv_table *t, csv_column *c, const char *text, double value) {
    csv_text *found;
    QN_TRY(qn_csv_find_text(t, &c->texts, text, &found));
    if (found)
        found->value = value;
    return QN_OK;
}

static qn_status scan_field(csv_table *t, csv_column *c, const char *text, int64_t row,
                            int64_t line) {
    double value = 0;
    if (qn_value_is_missing(text, c->role == QN_CSV_TARGET)) {
        c->missing_line = c->n_missing++ == 0 ? line : c->missing_line;
        c->is_counting = false;
        return QN_OK;
    }
    if (!qn_value_number(text, t->decimal, &value))
        count_text(c, text, line);
    else if (!(value > -3.4e38 && value < 3.4e38))
        c->n_huge++, count_text(c, text, line);
    else
        count_number(c, text, value, row);
    return c->texts.slots ? keep_label(t, c, text, value) : QN_OK;
}

qn_status qn_csv_scan(csv_table *t) {
    bool is_end;
    for (size_t i = 0; i < t->n_targets; i++)
        QN_TRY(qn_csv_keep_texts(t, &t->columns[t->targets[i]].texts, QN_CSV_MOST_LABELS));
    qn_csv_begin(t);
    QN_TRY(qn_csv_next(&t->reader, &is_end));
    for (;; t->n_rows++) {
        QN_TRY(qn_csv_next_row(t, &is_end));
        if (is_end)
            return QN_OK;
        for (size_t i = 0; i < t->n_columns; i++) {
            csv_column *c = &t->columns[i];
            const char *text = qn_csv_text(&t->reader, i);
            c->n_again += strcmp(text, c->first_line) == 0;
            QN_TRY(scan_field(t, c, text, t->n_rows, t->reader.line));
        }
    }
}

qn_status qn_csv_scan_first(csv_table *t) {
    for (size_t i = 0; i < t->n_columns; i++) {
        csv_column *c = &t->columns[i];
        QN_TRY(scan_field(t, c, c->first_line, -1, t->first_line));
    }
    t->n_rows++;
    return QN_OK;
}
