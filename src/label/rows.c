/* See rows.h. */
#include "label/rows.h"

#include "base/decimal.h"
#include "base/print.h"
#include "base/status.h"
#include "base/text.h"

#include <string.h>

static bool parse_number(const char *field, double *value) {
    return qn_decimal_parse(field, value) && *value > -3.4e38 && *value < 3.4e38;
}

static bool is_text(const qn_label_columns *columns, int i) {
    return columns->column && columns->column[i].is_text;
}

/* Whether a record has the fields that it must have. */
static qn_status check_fields(const qn_csv_reader *row, const qn_label_columns *columns,
                              const qn_label_places *places) {
    const int n_fields = (int)row->n_fields, n = columns->n;
    if (places->n_fields > 0 && row->n_fields != places->n_fields)
        return qn_fail(QN_ERROR_FORMAT, "%d columns, but the first line names %zu", n_fields,
                       places->n_fields);
    if (places->n_fields == 0 && n_fields != n)
        return qn_fail(
            QN_ERROR_FORMAT, "%d columns, but the labelled samples have %d%s", n_fields, n,
            n_fields == n + 1 ? " without the label column; leave the label out here" : "");
    return QN_OK;
}

/* Numbers are looked at first: what is none may be why the fields are too many. */
qn_status qn_label_row_parse(const qn_csv_reader *row, const qn_label_columns *columns,
                             const qn_label_places *places, float *x) {
    float read[QN_LABEL_MAX_FEATURES];
    const int n_fields = (int)row->n_fields, n = columns->n;
    for (int i = 0; i < n; i++) {
        const int at = places->n_fields > 0 ? places->of[i] : i;
        if (at >= n_fields)
            continue;
        const char *field = qn_csv_text(row, (size_t)at);
        double value = 0;
        if (is_text(columns, i))
            value = qn_label_columns_find(columns, i, field);
        else if (!parse_number(field, &value))
            return qn_fail(QN_ERROR_FORMAT, "column %d: '%.63s' is not a finite number", at + 1,
                           field);
        read[i] = (float)value;
    }
    QN_TRY(check_fields(row, columns, places));
    memcpy(x, read, (size_t)n * sizeof *x);
    return QN_OK;
}

/* Texts that stand for a number that is missing: a row with one is a sample, and no header. */
static bool is_missing(const char *field) {
    static const char *const words[] = {"nan", "na", "n/a", "null", "none",
                                        "?",   "-",  "inf", "-inf", "infinity"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (qn_text_is_same(field, words[i]))
            return true;
    return false;
}

/* ---- names of columns ---- */

/* The name of a header's field, as the labelled samples' columns got theirs: of equal ones the
 * second is NAME.2, and one that is empty is named by its place. */
static bool has_name(const qn_csv_reader *header, size_t field, const char *name) {
    const char *text = qn_csv_text(header, field);
    char apart[QN_LABEL_TEXT];
    int n_before = 0;
    for (size_t i = 0; i < field; i++)
        n_before += strcmp(qn_csv_text(header, i), text) == 0;
    if (!*text)
        qn_print(apart, sizeof apart, "column %zu", field + 1);
    else if (n_before > 0)
        qn_print(apart, sizeof apart, "%s.%d", text, n_before + 1);
    return strcmp(!*text || n_before > 0 ? apart : text, name) == 0;
}

/* The field of a header with this name, or -1. */
static int find_field(const qn_csv_reader *header, const char *name) {
    for (size_t i = 0; i < header->n_fields; i++)
        if (has_name(header, i, name))
            return (int)i;
    return -1;
}

static bool is_number(const char *field) {
    double value;
    return qn_decimal_parse(field, &value);
}

/* Whether names of the labelled samples show that a record has names. */
static bool has_names(const qn_csv_reader *row, const qn_label_columns *columns) {
    bool has_all = true, has_plain = false;
    for (int i = 0; i < columns->n; i++) {
        const char *name = columns->names[i];
        const bool is_there = find_field(row, name) >= 0;
        has_all &= is_there;
        has_plain |= is_there && !is_text(columns, i) && !is_number(name) && !is_missing(name);
    }
    return has_all || has_plain;
}

bool qn_label_row_is_header(const qn_csv_reader *row, const qn_label_columns *columns) {
    const bool are_columns = row->n_fields == (size_t)columns->n;
    bool has_text = false, are_texts = columns->names != NULL, has_numbers = false;
    for (size_t i = 0; i < row->n_fields; i++) {
        const char *field = qn_csv_text(row, i);
        const bool is_name = *field && !is_missing(field) && !is_number(field);
        has_text |= are_columns && !is_text(columns, (int)i) && is_name;
        are_texts &= is_name;
    }
    for (int i = 0; i < columns->n; i++)
        has_numbers |= !is_text(columns, i);
    return has_text || (are_texts && has_numbers) || (columns->names && has_names(row, columns));
}

static void tell(const qn_log *log, const char *text) {
    if (log && log->write)
        log->write(log->user, 0, text);
}

static void tell_extra(const qn_csv_reader *header, const qn_label_columns *columns,
                       const qn_label_places *places, const qn_log *log) {
    qn_text_names extra = {.n = 0};
    char text[2 * QN_TEXT_NAMES];
    for (size_t i = 0; i < header->n_fields; i++) {
        bool is_taken = false;
        for (int k = 0; k < columns->n; k++)
            is_taken |= places->of[k] == (int)i;
        if (!is_taken)
            qn_text_names_add(&extra, qn_csv_text(header, i));
    }
    if (extra.n == 0)
        return;
    qn_print(text, sizeof text, "%s: columns that the labelled samples do not have are ignored: %s",
             header->name, qn_text_names_finish(&extra));
    tell(log, text);
}

qn_status qn_label_row_match(const qn_csv_reader *header, const qn_label_columns *columns,
                             const qn_log *log, qn_label_places *places) {
    qn_text_names missing = {.n = 0}, there = {.n = 0};
    *places = (qn_label_places){.n_fields = columns->names ? header->n_fields : 0};
    for (int i = 0; columns->names && i < columns->n; i++) {
        places->of[i] = find_field(header, columns->names[i]);
        if (places->of[i] < 0)
            qn_text_names_add(&missing, columns->names[i]);
    }
    for (size_t i = 0; i < header->n_fields; i++)
        qn_text_names_add(&there, qn_csv_text(header, i));
    if (missing.n > 0)
        return qn_fail(QN_ERROR_FORMAT,
                       "no column %s, which the labelled samples have; there are %s: rename them, "
                       "or leave the line of names out and give the columns in their order",
                       qn_text_names_finish(&missing), qn_text_names_finish(&there));
    if (columns->names)
        tell_extra(header, columns, places, log);
    return QN_OK;
}
