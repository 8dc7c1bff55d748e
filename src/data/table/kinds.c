/* What each column of a table is: from the counts of a scan, or from the columns of a checkpoint,
 * which are found by name. */
#include "base/fmath.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/text.h"
#include "data/table/scan.h"
#include "data/table/values.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    FEW_ROWS = 10,      /* too few to say that a column counts rows */
    MANY_CLASSES = 100, /* integers of so many values may be amounts */
    SOME_CLASSES = 20   /* so may these, where most of them come once or twice */
};

/* ---- inputs ---- */

static qn_status decide_dates(const csv_table *t, size_t i, csv_column *c) {
    const char *told = t->how->dates;
    const int64_t n = c->n_numbers + c->n_texts;
    char what[160];
    if (c->n_dates < n) {
        snprintf(what, sizeof what, "is not a date, and %" PRId64 " of %" PRId64 " others are",
                 c->n_dates, n - 1);
        return qn_csv_fail(t, c->odd_day_line, i, c->odd_day, what);
    }
    if (c->n_day_first > 0 && c->n_month_first > 0)
        return qn_csv_fail(t, c->odd_line, i, c->odd,
                           "is a date, but some dates have the day first, others the month");
    if (c->n_either > 0 && c->n_day_first + c->n_month_first == 0 && !(told && *told))
        return qn_csv_fail(t, c->odd_line, i, c->odd,
                           "is a date, whose first number can be the day or the month; --dates dmy "
                           "or --dates mdy decides");
    c->kind = QN_COLUMN_DATE;
    c->is_day_first =
        c->n_day_first + c->n_month_first > 0 ? c->n_month_first == 0 : told && *told == 'd';
    return QN_OK;
}

static qn_status refuse_mixture(const csv_table *t, size_t i, const csv_column *c) {
    char what[200];
    if (c->n_texts == 0)
        return qn_csv_fail(t, c->missing_line, i, "", "among numbers");
    snprintf(what, sizeof what,
             "is not a number, and %" PRId64 " of %" PRId64
             " others are; mend it, or read all of them as texts with --categories",
             c->n_numbers, c->n_numbers + c->n_texts - 1);
    return qn_csv_fail(t, c->odd_line, i, c->odd, what);
}

/* Where texts are read as they are, nothing at all is a text as well, unless gaps are kept. */
static qn_status decide_as_texts(const csv_table *t, size_t i, csv_column *c) {
    const int64_t n_texts = c->n_texts + (t->how->keeps_gaps ? 0 : c->n_missing);
    c->kind = QN_COLUMN_NUMBER;
    if (qn_csv_names(t->how->categories, c->name))
        c->kind = QN_COLUMN_CATEGORY;
    else if (n_texts == 0)
        return QN_OK;
    else if (2 * n_texts < n_texts + c->n_numbers)
        return refuse_mixture(t, i, c);
    c->kind = QN_COLUMN_CATEGORY;
    return QN_OK;
}

static qn_status decide_kind(const csv_table *t, size_t i, csv_column *c) {
    const int64_t n = c->n_numbers + c->n_texts;
    if (c->has_kind)
        return QN_OK;
    if (c->n_huge > 0)
        return qn_csv_fail(t, c->odd_line, i, c->odd, "is beyond what a number of 32 bits can be");
    if (t->how->reads_texts)
        return decide_as_texts(t, i, c);
    c->kind = QN_COLUMN_NUMBER;
    if (qn_csv_names(t->how->categories, c->name))
        c->kind = QN_COLUMN_CATEGORY;
    else if (c->n_texts == 0)
        return QN_OK;
    else if (c->n_truths == n)
        c->kind = QN_COLUMN_TRUTH;
    else if (2 * c->n_dates > n)
        return decide_dates(t, i, c);
    else if (2 * c->n_texts >= n)
        c->kind = QN_COLUMN_CATEGORY;
    else
        return refuse_mixture(t, i, c);
    return QN_OK;
}

/* ---- what is left out ---- */

static bool names_rows(const char *name) {
    static const char *const names[] = {"Unnamed: 0", "index", "id", "row", "rownames",
                                        "row_id",     "rowid", "nr", "no",  "#"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (qn_text_is_same(name, names[i]))
            return true;
    return false;
}

/* A first column that counts, one whose name says that it numbers the rows and which rises (part of
 * a table that was counted), or that has no name among others that have, as programs write it. */
static bool is_index(const csv_table *t, size_t i) {
    const csv_column *c = &t->columns[i];
    if (t->n_rows < FEW_ROWS || c->n_integers < t->n_rows)
        return false;
    if (c->is_counting)
        return i == 0 || names_rows(c->name);
    return t->has_header && ((i == 0 && !*c->first_line) || (c->is_rising && names_rows(c->name)));
}

static void leave_out(csv_column *c, const char *why) {
    c->role = QN_CSV_LEFT_OUT;
    c->left_out = why;
}

static size_t count_inputs(const csv_table *t) {
    size_t n = 0;
    for (size_t i = 0; i < t->n_columns; i++)
        n += t->columns[i].role == QN_CSV_INPUT;
    return n;
}

static void leave_columns_out(csv_table *t) {
    const bool keeps_all = qn_csv_names(t->how->ignore, "none");
    for (size_t i = 0; i < t->n_columns; i++) {
        csv_column *c = &t->columns[i];
        if (c->role != QN_CSV_INPUT)
            continue;
        if (!keeps_all && qn_csv_names(t->how->ignore, c->name))
            leave_out(c, "told to ignore");
        else if (c->n_numbers + c->n_texts == 0 && (!t->how->reads_texts || !*c->first_line))
            leave_out(c, "it has no values");
        else if (!keeps_all && count_inputs(t) > 1 && is_index(t, i))
            leave_out(c, c->is_counting ? "it counts the rows" : "it numbers the rows");
    }
}

/* ---- columns of a checkpoint ---- */

static csv_column *find_column(csv_table *t, const char *name) {
    unsigned place = 0;
    for (size_t i = 0; i < t->n_columns; i++)
        if (t->columns[i].role != QN_CSV_TARGET && strcmp(t->columns[i].name, name) == 0)
            return &t->columns[i];
    const bool is_place = sscanf(name, "column %u", &place) == 1 && place >= 1;
    return is_place && place <= t->n_columns ? &t->columns[place - 1] : NULL;
}

static qn_status refuse_missing(const csv_table *t, const char *name) {
    for (size_t k = 0; k < t->n_targets; k++)
        if (strcmp(t->columns[t->targets[k]].name, name) == 0)
            return qn_fail(QN_ERROR_FORMAT,
                           "%s: column '%s' is an input of the weights, and to be predicted; name "
                           "another one with --target NAME",
                           t->reader.name, name);
    return qn_fail(QN_ERROR_FORMAT, "%s has no column '%s', which the weights need%s",
                   t->reader.name, name, t->has_header ? "" : ", and no header with names");
}

static qn_status take_known_columns(csv_table *t) {
    const qn_table *known = t->how->table;
    for (size_t i = 0; i < t->n_columns; i++)
        if (t->columns[i].role == QN_CSV_INPUT)
            leave_out(&t->columns[i], "the weights do not know it");
    for (int k = 0; k < known->n_columns; k++) {
        csv_column *c = find_column(t, known->columns[k].name);
        if (!c || c->role != QN_CSV_LEFT_OUT)
            return refuse_missing(t, known->columns[k].name);
        if (qn_csv_names(t->how->ignore, c->name))
            return qn_fail(QN_ERROR_ARGUMENT,
                           "%s: column '%s' is an input of the weights, and to be ignored",
                           t->reader.name, c->name);
        c->role = QN_CSV_INPUT;
        c->left_out = NULL;
        c->has_kind = true;
        c->kind = known->columns[k].kind;
        c->is_day_first = known->columns[k].is_day_first;
    }
    return QN_OK;
}

/* A text where the weights have numbers, and likewise, names its line. */
static qn_status check_known(const csv_table *t) {
    for (size_t i = 0; i < t->n_columns; i++) {
        const csv_column *c = &t->columns[i];
        if (c->role != QN_CSV_INPUT || !c->has_kind)
            continue;
        if (c->kind == QN_COLUMN_NUMBER && c->n_texts > 0)
            return qn_csv_fail(t, c->odd_line, i, c->odd, "is not a number");
        if (c->kind == QN_COLUMN_DATE && c->n_dates < c->n_texts + c->n_numbers)
            return qn_csv_fail(t, c->odd_day_line ? c->odd_day_line : t->first_line, i,
                               c->odd_day_line ? c->odd_day : c->first_line, "is not a date");
        if (c->kind == QN_COLUMN_TRUTH && c->n_truths < c->n_texts)
            return qn_csv_fail(t, c->odd_line, i, c->odd, "is neither true nor false");
    }
    return QN_OK;
}

/* Times are numbers or dates. */
static qn_status check_time(const csv_table *t) {
    for (size_t i = 0; i < t->n_columns; i++) {
        const csv_column *c = &t->columns[i];
        if (c->role == QN_CSV_TIME && c->kind != QN_COLUMN_NUMBER && c->kind != QN_COLUMN_DATE)
            return qn_csv_fail(t, c->odd_line, i, c->odd,
                               "is neither a number nor a date, as time is");
    }
    return QN_OK;
}

/* ---- texts of columns ---- */

static qn_status keep_row_texts(csv_table *t) {
    for (size_t i = 0; i < t->n_columns; i++) {
        csv_column *c = &t->columns[i];
        const char *text = qn_csv_text(&t->reader, i);
        csv_text *found;
        if (!c->seen || (!t->how->reads_texts && qn_value_is_missing(text, false)))
            continue;
        const uint64_t bit = qn_hash_text(text) % QN_CSV_SEEN;
        c->seen[bit / 64] |= 1ull << (bit % 64);
        QN_TRY(qn_csv_find_text(t, &c->texts, text, &found));
    }
    return QN_OK;
}

static int compare_texts(const void *left, const void *right) {
    return strcmp(((const csv_text *)left)->text, ((const csv_text *)right)->text);
}

static int compare_values(const void *left, const void *right) {
    const csv_text *a = left, *b = right;
    return a->value != b->value ? (a->value > b->value) - (a->value < b->value)
                                : compare_texts(left, right);
}

/* Sorts texts and numbers them; the hash table finds them at their new places. */
static void sort_texts(csv_texts *l, int (*compare)(const void *, const void *)) {
    if (l->n > 1)
        qsort(l->list, l->n, sizeof *l->list, compare);
    memset(l->slots, 0, 2 * l->most * sizeof *l->slots);
    for (size_t i = 0; i < l->n; i++) {
        size_t slot = qn_hash_text(l->list[i].text) % (2 * l->most);
        while (l->slots[slot])
            slot = (slot + 1) % (2 * l->most);
        l->slots[slot] = (int32_t)i + 1;
        l->list[i].number = (int32_t)i;
    }
}

/* Distinct texts: their number where they are kept, else by linear counting (Whang et al. 1990). */
static int64_t count_values(const csv_column *c) {
    int64_t n_free = 0;
    if (!c->texts.has_too_many)
        return (int64_t)c->texts.n;
    for (size_t i = 0; i < QN_CSV_SEEN / 64; i++)
        n_free += 64 - __builtin_popcountll(c->seen[i]);
    return (int64_t)(-(double)QN_CSV_SEEN *
                     qn_log_f64((double)(n_free > 0 ? n_free : 1) / QN_CSV_SEEN));
}

static qn_status settle_texts(csv_table *t, csv_column *c) {
    const int64_t n = c->n_numbers + c->n_texts;
    c->n_values = count_values(c);
    if (t->how->reads_texts || c->kind == QN_COLUMN_HASHED)
        return QN_OK;
    if (!c->has_kind && !qn_csv_names(t->how->categories, c->name) && n >= SOME_CLASSES &&
        2 * c->n_values > n) {
        leave_out(c, qn_arena_format(&t->arena, "%s%" PRId64 " different texts in %" PRId64 " rows",
                                     c->texts.has_too_many ? "about " : "", c->n_values, n));
        return c->left_out ? QN_OK : QN_ERROR_MEMORY;
    }
    if (!c->has_kind && c->n_values > QN_CSV_ONE_HOT)
        c->kind = QN_COLUMN_HASHED;
    else
        sort_texts(&c->texts, compare_texts);
    return QN_OK;
}

static qn_status begin_texts(csv_table *t, bool *has_any) {
    *has_any = false;
    for (size_t i = 0; i < t->n_columns; i++) {
        csv_column *c = &t->columns[i];
        if (c->role != QN_CSV_INPUT ||
            (c->kind != QN_COLUMN_CATEGORY && c->kind != QN_COLUMN_HASHED))
            continue;
        *has_any = true;
        c->seen = qn_arena_allocate(&t->arena, QN_CSV_SEEN / 64, sizeof *c->seen);
        if (!c->seen)
            return QN_ERROR_MEMORY;
        QN_TRY(qn_csv_keep_texts(t, &c->texts, QN_CSV_MOST_TEXTS));
    }
    return QN_OK;
}

static qn_status find_texts(csv_table *t) {
    bool has_any, is_end;
    QN_TRY(begin_texts(t, &has_any));
    if (!has_any)
        return QN_OK;
    QN_TRY(qn_csv_begin_rows(t));
    for (;;) {
        QN_TRY(qn_csv_next_row(t, &is_end));
        if (is_end)
            break;
        QN_TRY(keep_row_texts(t));
    }
    for (size_t i = 0; i < t->n_columns; i++)
        if (t->columns[i].seen)
            QN_TRY(settle_texts(t, &t->columns[i]));
    return QN_OK;
}

/* ---- targets ---- */

static qn_status refuse_amounts(const csv_table *t, const csv_column *c) {
    return qn_fail(QN_ERROR_FORMAT,
                   "%s: column '%s' has %s%zu different integers in %" PRId64
                   " rows: they can be classes or amounts; --task classification or --task "
                   "regression decides",
                   t->reader.name, c->name, c->texts.has_too_many ? "more than " : "", c->texts.n,
                   c->n_numbers);
}

/* Whether labels stand side by side in a column: a|b. */
static bool lists_labels(const csv_column *c) {
    for (size_t i = 0; i < c->texts.n; i++)
        if (strchr(c->texts.list[i].text, '|'))
            return true;
    return false;
}

/* Whether all targets are 0 and 1, or true and false. */
static bool are_zeros_and_ones(const csv_table *t) {
    for (size_t k = 0; k < t->n_targets; k++) {
        const csv_column *c = &t->columns[t->targets[k]];
        const bool are_bits =
            c->n_texts == 0 && c->n_integers == c->n_numbers && c->least >= 0 && c->most <= 1;
        if (!are_bits && (c->n_numbers > 0 || c->n_truths < c->n_texts))
            return false;
    }
    return true;
}

/* The task of a checkpoint's table, or the one that was told; null: none. */
static const char *told_task(const csv_table *t) {
    const qn_table *known = t->how->table;
    if (known && known->n_targets > 0)
        return known->are_labels ? "labels" : known->are_numbers ? "regression" : "classification";
    return t->how->task && strcmp(t->how->task, "auto") != 0 ? t->how->task : NULL;
}

static qn_status decide_labels(csv_table *t, csv_column *c) {
    t->are = QN_CSV_LABELS;
    if (t->n_targets > 1 ||
        (t->how->table && t->how->table->n_targets > 0 && !t->how->table->label_column))
        return are_zeros_and_ones(t) || t->how->is_unlabelled
                   ? QN_OK
                   : qn_fail(QN_ERROR_FORMAT,
                             "%s: several columns of labels hold 0 and 1, or true and false",
                             t->reader.name);
    if (c->texts.has_too_many)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s: column '%s' has more than %d different lists of labels", t->reader.name,
                       c->name, QN_CSV_MOST_LABELS);
    sort_texts(&c->texts, compare_texts);
    c->n_classes = (int32_t)c->texts.n;
    return QN_OK;
}

static qn_status decide_one(csv_table *t, csv_column *c) {
    const char *task = told_task(t);
    const size_t n = c->texts.n;
    const bool are_integers = c->n_texts == 0 && c->n_integers == c->n_numbers;
    t->are = c->n_texts == 0 && !are_integers ? QN_CSV_NUMBERS : QN_CSV_CLASSES;
    if (!task && !t->how->reads_texts && c->n_texts > 0 && lists_labels(c))
        task = "labels";
    if (task && strcmp(task, "labels") == 0)
        return decide_labels(t, c);
    if (task)
        t->are = strcmp(task, "regression") == 0 ? QN_CSV_NUMBERS : QN_CSV_CLASSES;
    else if (are_integers && c->n_padded == 0 && !t->how->reads_texts && !t->how->is_unlabelled &&
             (c->texts.has_too_many || n >= MANY_CLASSES ||
              (n >= SOME_CLASSES && 3 * n > (size_t)c->n_numbers)))
        return refuse_amounts(t, c);
    if (t->are == QN_CSV_CLASSES && c->texts.has_too_many && !t->how->is_unlabelled)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s: column '%s' has more than %d different labels; name another one with "
                       "--target NAME",
                       t->reader.name, c->name, QN_CSV_MOST_LABELS);
    return QN_OK;
}

static qn_status check_amounts(const csv_table *t) {
    for (size_t k = 0; k < t->n_targets; k++) {
        const csv_column *c = &t->columns[t->targets[k]];
        if (c->n_texts > 0 && !t->how->is_unlabelled)
            return qn_csv_fail(t, c->odd_line, t->targets[k], c->odd,
                               "is not a number, as targets of regression are");
    }
    return QN_OK;
}

/* Classes in the order of their numbers, or of their texts. Integers that are written in several
 * ways (1, 1.0) are one class, unless zeros in front make texts of them: 01 and 1 are two. */
static void number_classes(csv_column *c) {
    csv_texts *l = &c->texts;
    const bool are_texts = c->n_texts > 0 || c->n_padded > 0;
    int32_t class = -1;
    sort_texts(l, are_texts ? compare_texts : compare_values);
    for (size_t i = 0; i < l->n; i++) {
        class += i == 0 || are_texts || l->list[i].value != l->list[i - 1].value;
        l->list[i].number = class;
    }
    c->n_classes = class + 1;
    c->n_values = c->n_classes;
}

static qn_status check_any_target(const csv_table *t) {
    for (size_t k = 0; k < t->n_targets; k++) {
        const csv_column *c = &t->columns[t->targets[k]];
        if (c->n_numbers + c->n_texts == 0 && !t->how->is_unlabelled)
            return qn_fail(QN_ERROR_FORMAT, "%s: no row has a target; column %zu is empty",
                           t->reader.name, t->targets[k] + 1);
    }
    return QN_OK;
}

static qn_status decide_targets(csv_table *t) {
    if (t->n_targets == 0)
        return QN_OK;
    QN_TRY(check_any_target(t));
    csv_column *c = &t->columns[t->targets[0]];
    if (t->how->reads_texts && !t->how->keeps_gaps && c->n_missing > 0)
        return qn_csv_fail(t, c->missing_line, t->targets[0], "", "instead of a label");
    const char *task = told_task(t);
    if (t->n_targets > 1 && (task ? strcmp(task, "labels") == 0 : are_zeros_and_ones(t)))
        return decide_labels(t, c);
    if (t->n_targets > 1 && task && strcmp(task, "classification") == 0)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%s: classes are in one column, and %zu are to be "
                       "predicted; leave --task out, or name one column",
                       t->reader.name, t->n_targets);
    t->are = QN_CSV_NUMBERS;
    if (t->n_targets == 1)
        QN_TRY(decide_one(t, c));
    if (t->are == QN_CSV_NUMBERS)
        return check_amounts(t);
    if (t->are == QN_CSV_CLASSES)
        number_classes(c);
    return QN_OK;
}

/* ---- all ---- */

qn_status qn_csv_find_kinds(csv_table *t) {
    const char *ignored = t->how->ignore;
    for (size_t k = 0; k < t->n_targets; k++)
        if (qn_csv_names(ignored, t->columns[t->targets[k]].name))
            return qn_fail(QN_ERROR_ARGUMENT,
                           "%s: column '%s' is to be predicted, and to be ignored", t->reader.name,
                           t->columns[t->targets[k]].name);
    if (t->how->table)
        QN_TRY(take_known_columns(t));
    else
        leave_columns_out(t);
    QN_TRY(check_known(t));
    for (size_t i = 0; i < t->n_columns; i++)
        if (t->columns[i].role == QN_CSV_INPUT || t->columns[i].role == QN_CSV_TIME)
            QN_TRY(decide_kind(t, i, &t->columns[i]));
    QN_TRY(check_time(t));
    QN_TRY(find_texts(t));
    QN_TRY(decide_targets(t));
    if (count_inputs(t) == 0)
        return qn_fail(QN_ERROR_FORMAT, "%s: no column is left to predict from", t->reader.name);
    for (size_t i = 0; i < t->n_columns; i++) {
        csv_column *c = &t->columns[i];
        c->place = c->role == QN_CSV_LEFT_OUT ? -1 : (int32_t)t->n_stored;
        c->n_values = c->role == QN_CSV_GROUP ? (int64_t)c->texts.n : c->n_values;
        t->n_stored += (size_t)qn_csv_places((int32_t)c->role);
    }
    return QN_OK;
}
