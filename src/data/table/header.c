/* Whether the first line of a table has the names of its columns. It has where names that were told
 * stand in it, where one of its fields is text above numbers or dates, or where all of it is text
 * of which nothing comes again. A line that counts (0, 1, 2 or 2019, 2020, 2021) may be either: it
 * is a header above columns of fractions, a row where everything in it comes again, and else
 * refused. */
#include "base/status.h"
#include "data/table/scan.h"
#include "data/table/values.h"

#include <inttypes.h>
#include <string.h>

/* ---- what the first line shows ---- */

typedef struct first_line {
    size_t n_over;          /* texts above columns of numbers or dates */
    size_t n_fractions;     /* numbers with a fraction above numbers */
    size_t n_again;         /* fields that come again in their columns */
    size_t n_texts;         /* neither numbers nor missing */
    size_t text;            /* the first text above numbers */
    bool counts;            /* each is an integer, one more than the one before */
    bool is_over_fractions; /* an integer above a column with nearly no other */
} first_line;

static void look_at(const csv_table *t, size_t i, first_line *f) {
    const csv_column *c = &t->columns[i];
    const char *text = c->first_line;
    double value = 0, before = 0;
    const bool is_number = qn_value_number(text, t->decimal, &value);
    const bool is_missing = qn_value_is_missing(text, false);
    const bool is_integer =
        is_number && value == (double)(int64_t)(value > -1e15 && value < 1e15 ? value : 0);
    const bool has_numbers = c->n_numbers > c->n_texts;
    const bool has_dates = c->n_numbers == 0 && c->n_texts > 0 && c->n_dates == c->n_texts;
    qn_value_day day;
    f->n_texts += !is_number && !is_missing;
    f->n_again += c->n_again > 0;
    if (!is_number && !is_missing &&
        (has_numbers || (has_dates && !qn_value_date(text, true, &day)))) {
        f->text = f->n_over == 0 ? i : f->text;
        f->n_over++;
    }
    f->n_fractions += is_number && !is_integer && has_numbers;
    f->counts &= is_integer && !strchr(text, '.');
    if (i > 0 && f->counts)
        f->counts &= qn_value_number(t->columns[i - 1].first_line, t->decimal, &before) &&
                     value == before + 1;
    f->is_over_fractions |=
        is_integer && has_numbers && c->n_numbers >= 5 && 20 * c->n_integers < c->n_numbers;
}

static qn_status refuse_either(const csv_table *t, const char *why) {
    return qn_fail(QN_ERROR_FORMAT,
                   "%s: line %" PRId64 " can be names of columns or a row: %s; --header yes or "
                   "--header no decides",
                   t->reader.name, t->first_line, why);
}

static qn_status decide_counting(csv_table *t, const first_line *f) {
    char why[160];
    if (f->is_over_fractions)
        t->has_header = true;
    else if (f->n_again < t->n_columns) {
        snprintf(why, sizeof why, "%.40s, %.40s and on count, but the columns hold such numbers",
                 t->columns[0].first_line, t->columns[1].first_line);
        return refuse_either(t, why);
    }
    return QN_OK;
}

static qn_status decide(csv_table *t) {
    first_line f = {.counts = t->n_columns > 1};
    char why[160];
    for (size_t i = 0; i < t->n_columns; i++)
        look_at(t, i, &f);
    if (t->n_rows == 0) {
        t->has_header = f.n_texts > 0;
        return QN_OK;
    }
    if (f.n_over > 0 && f.n_fractions > 0) {
        snprintf(why, sizeof why, "'%.40s' is text above numbers, and others of it are numbers",
                 t->columns[f.text].first_line);
        return refuse_either(t, why);
    }
    if (f.counts)
        return decide_counting(t, &f);
    t->has_header = f.n_over > 0 || (t->n_rows > 1 && f.n_texts == t->n_columns && f.n_again == 0);
    return QN_OK;
}

/* ---- names ---- */

/* Of equal names the second becomes NAME.2, and so on. */
static qn_status name_apart(csv_table *t, csv_texts *names, csv_column *c, size_t i) {
    csv_text *found;
    size_t n = names->n;
    QN_TRY(qn_csv_find_text(t, names, c->name, &found));
    for (int k = 2; names->n == n; k++) {
        c->name = qn_arena_format(&t->arena, "%s.%d", t->columns[i].first_line, k);
        if (!c->name)
            return QN_ERROR_MEMORY;
        QN_TRY(qn_csv_find_text(t, names, c->name, &found));
    }
    return QN_OK;
}

static qn_status name_columns(csv_table *t, csv_texts *names) {
    QN_TRY(qn_csv_keep_texts(t, names, t->n_columns));
    for (size_t i = 0; i < t->n_columns; i++) {
        csv_column *c = &t->columns[i];
        if (!t->has_header || !*c->first_line)
            c->name = qn_arena_format(&t->arena, "column %zu", i + 1);
        if (!c->name)
            return QN_ERROR_MEMORY;
        QN_TRY(name_apart(t, names, c, i));
    }
    return QN_OK;
}

qn_status qn_csv_find_header(csv_table *t) {
    const char *told = t->how->header;
    csv_texts names = {.list = NULL};
    if (told && *told && strcmp(told, "auto") != 0) {
        t->has_header = strcmp(told, "yes") == 0;
        if (!t->has_header && t->is_named)
            return qn_fail(QN_ERROR_ARGUMENT,
                           "%s: --header no leaves the columns without names, and others were told",
                           t->reader.name);
    } else if (t->is_named)
        t->has_header = true;
    else
        QN_TRY(decide(t));
    const qn_status status = name_columns(t, &names);
    qn_release(t->options->allocator, names.list, names.capacity, sizeof *names.list);
    return status;
}
