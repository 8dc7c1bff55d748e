/* See rows.h. */
#include "label/rows.h"

#include "base/print.h"
#include "base/status.h"
#include "base/text.h"
#include "data/table/table.h"

#include <math.h>
#include <string.h>

static bool parse_number(const char *field, char decimal, double *value) {
    return qn_value_number(field, decimal ? decimal : '.', value) && *value > -3.4e38 &&
           *value < 3.4e38;
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

/* The field of column i, or null. */
static const char *field_of(const qn_csv_reader *row, const qn_label_places *places, int i) {
    const size_t at = (size_t)(places->n_fields > 0 ? places->of[i] : i);
    return at < row->n_fields ? qn_csv_text(row, at) : NULL;
}

static qn_status find_decimal(const qn_csv_reader *row, const qn_label_columns *columns,
                              qn_label_places *places) {
    qn_csv_marks seen = {0};
    for (int i = 0; i < columns->n; i++) {
        const char *field = is_text(columns, i) ? NULL : field_of(row, places, i);
        if (field)
            qn_csv_see_marks(&seen, field);
    }
    return qn_csv_choose_decimal(&seen, "the row", &places->decimal);
}

/* "column 3 (length)" */
static const char *print_column(const qn_label_columns *columns, const qn_label_places *places,
                                int i, char text[2 * QN_LABEL_TEXT]) {
    const char *name = columns->names ? columns->names[i] : "";
    const int at = 1 + (places->n_fields > 0 ? places->of[i] : i);
    qn_print(text, 2 * QN_LABEL_TEXT, "column %d%s%s%s", at, *name ? " (" : "", name,
             *name ? ")" : "");
    return text;
}

static qn_status parse_field(const char *field, const qn_label_columns *columns,
                             const qn_label_places *places, int i, float *x) {
    char column[2 * QN_LABEL_TEXT];
    double value = NAN;
    const bool is_missing = !is_text(columns, i) && qn_value_is_missing(field, false);
    if (is_text(columns, i))
        value = qn_label_columns_find(columns, i, field);
    else if (is_missing && !places->takes_gaps)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s: '%.63s' is not a finite number; --missing median takes the median of "
                       "the labelled samples for it, --skip-bad leaves the row out",
                       print_column(columns, places, i, column), field);
    else if (!is_missing && !parse_number(field, places->decimal, &value))
        return qn_fail(QN_ERROR_FORMAT,
                       "%s: '%.63s' is not a finite number; --skip-bad leaves such rows out",
                       print_column(columns, places, i, column), field);
    *x = (float)value;
    return QN_OK;
}

/* Numbers are looked at first: what is none may be why the fields are too many. */
qn_status qn_label_row_parse(const qn_csv_reader *row, const qn_label_columns *columns,
                             qn_label_places *places, float *x) {
    float read[QN_LABEL_MAX_FEATURES];
    if (!places->decimal)
        QN_TRY(find_decimal(row, columns, places));
    for (int i = 0; i < columns->n; i++) {
        const char *field = field_of(row, places, i);
        if (field)
            QN_TRY(parse_field(field, columns, places, i, &read[i]));
    }
    QN_TRY(check_fields(row, columns, places));
    memcpy(x, read, (size_t)columns->n * sizeof *x);
    return QN_OK;
}

/* Texts that stand for a number that is missing: a row with one is a sample, and no header. */
static bool is_missing(const char *field) {
    return qn_value_is_missing(field, false) || strcmp(field, "-") == 0;
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

/* With either decimal mark, as neither may be known yet. */
static bool is_number(const char *field) {
    double value;
    return qn_value_number(field, '.', &value) || qn_value_number(field, ',', &value);
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

/* ---- what separates ---- */

/* How well a record fits the columns: with their names, else with as many fields, of which those of
 * numbers are numbers. */
static int count_record_fit(const qn_csv_reader *row, const qn_label_columns *columns) {
    enum { BEST = 2000, NEARLY = 1000, NAMED = 3000 };
    const int n = columns->n, n_fields = (int)row->n_fields;
    int n_named = 0, n_numbers = 0;
    for (int i = 0; columns->names && i < n; i++)
        n_named += find_field(row, columns->names[i]) >= 0;
    for (int i = 0; i < n && i < n_fields; i++)
        n_numbers += !is_text(columns, i) && is_number(qn_csv_text(row, (size_t)i));
    return n_named > 0         ? NAMED + n_named
           : n_fields == n     ? BEST + n_numbers
           : n_fields == n + 1 ? NEARLY + n_numbers
                               : 0;
}

static int count_fit(const char *text, size_t n, char separator, const qn_label_columns *columns) {
    qn_csv_reader row;
    bool is_end = true;
    int fit = 0;
    qn_csv_read_text(&row, NULL, "the first line", text, n);
    row.separator = separator;
    const bool is_read = qn_csv_next(&row, &is_end) == QN_OK && !is_end;
    if (is_read && (row.n_fields > 1 || separator == ','))
        fit = count_record_fit(&row, columns);
    qn_csv_deinit(&row);
    return fit;
}

char qn_label_row_separator(const char *text, size_t n, const qn_label_columns *columns) {
    static const char separators[] = ",;\t|";
    char best = ',';
    int most = 0;
    for (const char *at = separators; *at; at++) {
        const int fit = count_fit(text, n, *at, columns);
        best = fit > most ? *at : best;
        most = fit > most ? fit : most;
    }
    return best;
}

/* ---- matching ---- */

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
    places->n_fields = columns->names ? header->n_fields : 0;
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
