/* Which byte separates the fields of a table, and whether a comma is the decimal mark. A separator
 * gives each of the first records as many fields, two or more. Of several, it is the one whose
 * fields have none of the others in them, except as a decimal comma, or the only one with numbers.
 * Else both readings are shown. */
#include "base/status.h"
#include "data/table/scan.h"
#include "data/table/values.h"

#include <inttypes.h>
#include <string.h>

enum { RECORDS = 2000, N_SEPARATORS = 4 };

static const char separators[N_SEPARATORS + 1] = ",;\t|";

static const char *separator_name(char separator) {
    return separator == '\t' ? "tab" : separator == ',' ? "," : separator == ';' ? ";" : "|";
}

/* What the first records are with one separator. */
typedef struct reading {
    bool is_even;             /* all have as many fields */
    size_t n_fields;          /* of the first */
    int64_t n_numbers;        /* fields that are numbers */
    bool holds[N_SEPARATORS]; /* fields have these in them, and are no numbers */
    int64_t n_records;
} reading;

static void look_at_field(const char *text, reading *r) {
    const qn_number_marks marks = qn_value_marks(text);
    double value;
    const bool is_number = marks != QN_MARKS_NONE || qn_value_number(text, '.', &value);
    r->n_numbers += is_number;
    for (int i = 0; !is_number && i < N_SEPARATORS; i++)
        r->holds[i] |= strchr(text, separators[i]) != NULL;
}

static reading read_with(csv_table *t, char separator) {
    reading r = {.is_even = true};
    bool is_end = false;
    t->separator = separator;
    qn_csv_begin(t);
    while (r.n_records < RECORDS && qn_csv_next(&t->reader, &is_end) == QN_OK && !is_end) {
        r.n_fields = r.n_records == 0 ? t->reader.n_fields : r.n_fields;
        r.is_even &= t->reader.n_fields == r.n_fields;
        r.n_records++;
        for (size_t i = 0; i < t->reader.n_fields; i++)
            if (!t->reader.fields[i].is_quoted)
                look_at_field(qn_csv_text(&t->reader, i), &r);
    }
    r.is_even &= t->reader.status == QN_OK && r.n_fields > 1;
    return r;
}

static bool is_clean(const reading *readings, int i) {
    for (int k = 0; k < N_SEPARATORS; k++)
        if (k != i && readings[k].is_even && readings[i].holds[k])
            return false;
    return true;
}

static qn_status refuse_both(const csv_table *t, const reading *readings) {
    char text[256] = "";
    size_t used = 0;
    for (int i = 0; i < N_SEPARATORS; i++)
        if (readings[i].is_even)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%zu columns by '%s'",
                                     used ? ", or " : "", readings[i].n_fields,
                                     separator_name(separators[i]));
    return qn_fail(QN_ERROR_FORMAT, "%s can be read in two ways: %s; --separator decides",
                   t->reader.name, text);
}

static qn_status choose_separator(csv_table *t, const reading *readings) {
    int n_even = 0, n_clean = 0, n_with_numbers = 0, even = 0, clean = 0, with_numbers = 0;
    for (int i = 0; i < N_SEPARATORS; i++) {
        if (!readings[i].is_even)
            continue;
        n_even++, even = i;
        if (is_clean(readings, i))
            n_clean++, clean = i;
        if (readings[i].n_numbers > 0)
            n_with_numbers++, with_numbers = i;
    }
    if (n_even > 1 && n_clean != 1 && n_with_numbers != 1)
        return refuse_both(t, readings);
    /* None: records that differ are told of later, with their line. */
    t->separator = n_even == 0    ? ','
                   : n_even == 1  ? separators[even]
                   : n_clean == 1 ? separators[clean]
                                  : separators[with_numbers];
    return QN_OK;
}

/* A first line of sep=; tells the separator, and is no record. */
static bool find_hint(csv_table *t) {
    static const char hint[] = "sep=";
    bool is_end;
    t->separator = 1; /* none: no text has it */
    qn_csv_begin(t);
    if (qn_csv_next(&t->reader, &is_end) != QN_OK || is_end || t->reader.n_fields != 1)
        return false;
    const char *text = qn_csv_text(&t->reader, 0), *mark = text + strlen(hint);
    if (strncmp(text, hint, strlen(hint)) != 0 ||
        (*mark && (!strchr(separators, *mark) || mark[1])))
        return false;
    t->has_hint = true;
    t->separator = *mark ? *mark : '\t'; /* blanks at the end of a field are not its */
    return true;
}

static qn_status find_separator(csv_table *t) {
    reading readings[N_SEPARATORS];
    const bool is_found = find_hint(t);
    const char *told = t->how->separator;
    if (told && *told) {
        t->separator = strcmp(told, "tab") == 0 ? '\t' : told[0];
        return QN_OK;
    }
    if (is_found)
        return QN_OK;
    for (int i = 0; i < N_SEPARATORS; i++)
        readings[i] = read_with(t, separators[i]);
    return choose_separator(t, readings);
}

/* ---- the decimal mark ---- */

void qn_csv_see_marks(qn_csv_marks *seen, const char *text) {
    const qn_number_marks marks = qn_value_marks(text);
    if (marks != QN_MARKS_NONE && !*seen->of[marks])
        snprintf(seen->of[marks], sizeof seen->of[marks], "%.31s", text);
}

qn_status qn_csv_choose_decimal(const qn_csv_marks *seen, const char *name, char *decimal) {
    const char *comma = seen->of[QN_MARKS_COMMA], *point = seen->of[QN_MARKS_POINT];
    const char *either = seen->of[QN_MARKS_COMMA_OR_GROUP];
    *decimal = *comma ? ',' : *point || *seen->of[QN_MARKS_POINT_OR_GROUP] ? '.' : 0;
    if (*comma && *point)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s has numbers such as %s and such as %s; --decimal says which mark is the "
                       "decimal one",
                       name, point, comma);
    if (*either && !*comma && !*point)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s: %s can be %.*s.%s or %.*s%s; --decimal . (thousands are grouped) or "
                       "--decimal , decides",
                       name, either, (int)strcspn(either, ","), either, strchr(either, ',') + 1,
                       (int)strcspn(either, ","), either, strchr(either, ',') + 1);
    return QN_OK;
}

static qn_status find_decimal(csv_table *t) {
    qn_csv_marks seen = {0};
    bool is_end = false;
    const char *told = t->how->decimal;
    if (told && *told) {
        t->decimal = told[0];
        t->shows_decimal = true;
        return QN_OK;
    }
    qn_csv_begin(t);
    for (int i = 0; i < RECORDS && qn_csv_next(&t->reader, &is_end) == QN_OK && !is_end; i++)
        for (size_t k = 0; k < t->reader.n_fields; k++)
            qn_csv_see_marks(&seen, qn_csv_text(&t->reader, k));
    QN_TRY(qn_csv_choose_decimal(&seen, t->reader.name, &t->decimal));
    t->shows_decimal = t->decimal != 0;
    t->decimal = t->shows_decimal ? t->decimal : '.';
    return QN_OK;
}

qn_status qn_csv_find_dialect(csv_table *t) {
    QN_TRY(find_separator(t));
    return find_decimal(t);
}

/* ---- for others ---- */

qn_status qn_csv_find_form(const qn_csv_options *options, qn_file *source, qn_csv_form *form) {
    csv_table *t;
    QN_TRY(qn_csv_open_table(options, source, &t));
    const qn_status status = qn_csv_find_dialect(t);
    *form = (qn_csv_form){.encoding = t->decoder.encoding,
                          .separator = t->separator,
                          .decimal = t->shows_decimal ? t->decimal : 0};
    qn_csv_close_table(t);
    return status;
}

static void tell(const qn_log *log, const char *text) {
    if (log && log->write)
        log->write(log->user, 0, text);
}

void qn_csv_tell_form(const qn_csv_form *form, const qn_log *log, const char *name) {
    char text[1024];
    const char by = form->separator;
    if (form->encoding != QN_ENCODING_UTF8) {
        snprintf(text, sizeof text, "%s is read as %s", name, qn_encoding_name(form->encoding));
        tell(log, text);
    }
    if (by == ',' && form->decimal != ',')
        return;
    snprintf(text, sizeof text, "%s: fields are separated by %s%s", name,
             by == '\t'  ? "tabs"
             : by == ';' ? "semicolons"
             : by == '|' ? "|"
                         : "commas",
             form->decimal == ',' ? ", and a comma is the decimal mark" : "");
    tell(log, text);
}
