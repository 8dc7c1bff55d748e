/* See rows.h. */
#include "label/rows.h"

#include "base/decimal.h"
#include "base/status.h"
#include "base/text.h"

#include <string.h>

static bool parse_number(const char *field, double *value) {
    return qn_decimal_parse(field, value) && *value > -3.4e38 && *value < 3.4e38;
}

static bool is_text(const qn_label_columns *columns, int i) {
    return columns->column && columns->column[i].is_text;
}

qn_status qn_label_row_parse(const qn_csv_reader *row, const qn_label_columns *columns, float *x) {
    float read[QN_LABEL_MAX_FEATURES];
    const int n_fields = (int)row->n_fields, n = columns->n;
    for (int i = 0; i < n_fields && i < n; i++) {
        const char *field = qn_csv_text(row, (size_t)i);
        double value = 0;
        if (is_text(columns, i))
            value = qn_label_columns_find(columns, i, field);
        else if (!parse_number(field, &value))
            return qn_fail(QN_ERROR_FORMAT, "column %d: '%.63s' is not a finite number", i + 1,
                           field);
        read[i] = (float)value;
    }
    if (n_fields != n)
        return qn_fail(
            QN_ERROR_FORMAT, "%d columns, but the labelled samples have %d%s", n_fields, n,
            n_fields == n + 1 ? " without the label column; leave the label out here" : "");
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

bool qn_label_row_is_header(const qn_csv_reader *row, const qn_label_columns *columns) {
    bool has_text = false, are_names = columns->column != NULL;
    if (row->n_fields != (size_t)columns->n)
        return false;
    for (int i = 0; i < columns->n; i++) {
        const char *field = qn_csv_text(row, (size_t)i);
        double value;
        has_text |= !is_text(columns, i) && *field && !is_missing(field) &&
                    !qn_decimal_parse(field, &value);
        are_names &= columns->column && strcmp(columns->column[i].name, field) == 0;
    }
    return has_text || are_names;
}
