/* Columns that are no inputs but say what rows belong together: groups, which are on one side of
 * the split, and time. */
#include "base/rng.h"
#include "base/status.h"
#include "base/text.h"
#include "data/table/scan.h"

#include <math.h>
#include <string.h>

enum { HALF_BITS = 24 }; /* so many are exact in a float */

int qn_csv_places(int32_t role) {
    return role == QN_CSV_LEFT_OUT ? 0 : role == QN_CSV_GROUP ? 2 : 1;
}

void qn_csv_group_put(const char *text, float *places) {
    const uint64_t hash = qn_hash_text(text), mask = (UINT64_C(1) << HALF_BITS) - 1;
    places[0] = (float)(hash & mask);
    places[1] = (float)(hash >> HALF_BITS & mask);
}

uint64_t qn_csv_group_of(const float *places) {
    return (uint64_t)places[0] | (uint64_t)places[1] << HALF_BITS;
}

static bool is_told(const char *name) {
    return name && *name && strcmp(name, "none") != 0;
}

/* Other data than the checkpoint's need not have them. */
static qn_status find_one(csv_table *t, const char *name, const char *option, qn_csv_role role) {
    if (!is_told(name))
        return QN_OK;
    for (size_t i = 0; i < t->n_columns; i++) {
        csv_column *c = &t->columns[i];
        if (strcmp(c->first_line, name) != 0)
            continue;
        if (c->role != QN_CSV_INPUT)
            return qn_fail(QN_ERROR_ARGUMENT, "%s: column '%s' cannot be the group and time",
                           t->reader.name, name);
        c->role = role;
        t->is_named = true;
        return role == QN_CSV_GROUP ? qn_csv_keep_texts(t, &c->texts, QN_CSV_MOST_TEXTS) : QN_OK;
    }
    if (t->how->table)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT,
                   "%s: no column is named '%s' (%s); the first is '%.40s', the "
                   "last '%.40s'",
                   t->reader.name, name, option, t->columns[0].first_line,
                   t->columns[t->n_columns - 1].first_line);
}

qn_status qn_csv_find_marks(csv_table *t) {
    QN_TRY(find_one(t, t->how->group, "--group", QN_CSV_GROUP));
    if (t->how->window > 0)
        return find_one(t, t->how->time, "--time", QN_CSV_TIME);
    return QN_OK;
}

static bool names_time(const char *name) {
    static const char *const names[] = {"time", "timestamp", "datetime",
                                        "date", "date_time", "seconds",
                                        "ms",   "time_ms",   "timestamps"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (qn_text_is_same(name, names[i]))
            return true;
    return false;
}

static bool is_known(const csv_table *t, const char *name) {
    const qn_table *known = t->how->table;
    for (int k = 0; known && k < known->n_columns; k++)
        if (strcmp(known->columns[k].name, name) == 0)
            return true;
    return false;
}

qn_status qn_csv_find_time(csv_table *t) {
    for (size_t i = 0; i < t->n_columns; i++)
        t->columns[i].time_before = NAN;
    if (t->how->window == 0 || t->how->time)
        return QN_OK;
    for (size_t i = 0; i < t->n_columns; i++) {
        csv_column *c = &t->columns[i];
        const bool is_time = c->n_texts == 0 ? c->n_numbers > 0 : c->n_dates == c->n_texts;
        if (c->role != QN_CSV_INPUT || !is_time || !names_time(c->name) || is_known(t, c->name))
            continue;
        c->role = QN_CSV_TIME;
        return QN_OK;
    }
    return QN_OK;
}
