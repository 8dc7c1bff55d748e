/* See columns.h. */
#include "label/columns.h"

#include "base/status.h"
#include "data/table/values.h"

#include <math.h>
#include <string.h>

enum { MEDIAN_MOST = 16384 };

void qn_label_columns_init(qn_label_columns *columns, int n) {
    *columns = (qn_label_columns){.n = n, .n_features = n};
}

void qn_label_columns_deinit(qn_label_columns *columns) {
    if (columns->has_arena)
        qn_arena_deinit(&columns->arena);
    qn_label_columns_init(columns, columns->n);
}

static qn_arena *need_arena(qn_label_columns *columns, const qn_allocator *allocator) {
    if (!columns->has_arena)
        qn_arena_init(&columns->arena, allocator);
    columns->has_arena = true;
    return &columns->arena;
}

static qn_status make_column(qn_arena *arena, qn_label_column *c, int32_t n) {
    c->is_text = n >= 0;
    c->n = n > 0 ? n : 0;
    if (c->n == 0)
        return QN_OK;
    c->texts = qn_arena_allocate(arena, (size_t)n, sizeof *c->texts);
    c->number = qn_arena_allocate(arena, (size_t)n, sizeof *c->number);
    return c->texts && c->number ? QN_OK : QN_ERROR_MEMORY;
}

qn_status qn_label_columns_make(qn_label_columns *columns, const qn_allocator *allocator,
                                const int32_t *n_texts) {
    qn_arena *arena = need_arena(columns, allocator);
    qn_label_column *made = qn_arena_allocate(arena, (size_t)columns->n, sizeof *made);
    int n_features = 0;
    if (!made)
        return QN_ERROR_MEMORY;
    for (int i = 0; i < columns->n; i++) {
        QN_TRY(make_column(arena, &made[i], n_texts[i]));
        n_features += qn_label_column_width(&made[i]);
    }
    columns->column = made;
    columns->n_features = n_features;
    return QN_OK;
}

qn_status qn_label_columns_make_names(qn_label_columns *columns, const qn_allocator *allocator) {
    columns->names = qn_arena_allocate(need_arena(columns, allocator), (size_t)columns->n,
                                       sizeof *columns->names);
    return columns->names ? QN_OK : QN_ERROR_MEMORY;
}

/* ---- medians ---- */

qn_status qn_label_columns_make_medians(qn_label_columns *columns, const qn_allocator *allocator) {
    columns->medians = qn_arena_allocate(need_arena(columns, allocator), (size_t)columns->n,
                                         sizeof *columns->medians);
    return columns->medians ? QN_OK : QN_ERROR_MEMORY;
}

qn_status qn_label_columns_median(const qn_allocator *allocator, const float *x, int64_t n, int d,
                                  float *median) {
    const int64_t most = n < MEDIAN_MOST ? n : MEDIAN_MOST;
    float *values;
    size_t n_found = 0;
    QN_TRY(qn_allocate(allocator, (size_t)most, sizeof *values, &values));
    for (int64_t i = 0; i < most; i++) {
        const float value = x[i * n / most * d];
        if (!isnan(value))
            values[n_found++] = value;
    }
    *median = qn_value_median(values, n_found);
    qn_release(allocator, values, (size_t)most, sizeof *values);
    return QN_OK;
}

static qn_status take_medians(qn_label_columns *columns, const qn_allocator *allocator,
                              const qn_data_column *given, const float *x, int64_t n_samples) {
    if (!given)
        return QN_OK;
    QN_TRY(qn_label_columns_make_medians(columns, allocator));
    for (int i = 0; i < columns->n; i++)
        if (given[i].n_texts == 0)
            QN_TRY(qn_label_columns_median(allocator, x + i, n_samples, columns->n,
                                           &columns->medians[i]));
    return QN_OK;
}

/* ---- choosing texts ---- */

/* What is chosen from: count[first[i] + k] samples have text k in column i; 0: it is passed over.
 */
typedef struct choice {
    const qn_data_column *given;
    int n_columns;
    int64_t *first; /* (n_columns + 1) */
    int64_t *count;
    int32_t *kept; /* (n_columns) texts that are kept; below 0: a column of numbers */
} choice;

static void count_texts(choice *c, const float *x, int64_t n_samples) {
    for (int64_t s = 0; s < n_samples; s++, x += c->n_columns)
        for (int i = 0; i < c->n_columns; i++)
            if (c->given[i].n_texts > 0 && x[i] >= 0 && x[i] < (float)c->given[i].n_texts)
                c->count[c->first[i] + (int64_t)x[i]]++;
    for (int i = 0; i < c->n_columns; i++) {
        c->kept[i] = c->given[i].n_texts > 0 ? 0 : -1;
        for (int k = 0; k < c->given[i].n_texts; k++) {
            int64_t *count = &c->count[c->first[i] + k];
            *count = strlen(c->given[i].texts[k]) < QN_LABEL_TEXT ? *count : 0;
            c->kept[i] += *count > 0;
        }
    }
}

static int count_features(const choice *c) {
    int n = 0;
    for (int i = 0; i < c->n_columns; i++)
        n += c->kept[i] > 1 ? c->kept[i] : 1;
    return n;
}

/* Passes over the rarest text of those columns that have others; false: no column has. */
static bool drop_rarest(choice *c) {
    int64_t *rarest = NULL;
    int column = 0;
    for (int i = 0; i < c->n_columns; i++)
        for (int64_t k = c->first[i]; c->kept[i] > 1 && k < c->first[i + 1]; k++)
            if (c->count[k] > 0 && (!rarest || c->count[k] <= *rarest)) {
                rarest = &c->count[k];
                column = i;
            }
    if (!rarest)
        return false;
    *rarest = 0;
    c->kept[column]--;
    return true;
}

static qn_status take_texts(const choice *c, qn_label_columns *columns) {
    for (int i = 0; i < c->n_columns; i++) {
        qn_label_column *to = &columns->column[i];
        for (int32_t k = 0, n = 0; k < c->given[i].n_texts; k++) {
            if (c->count[c->first[i] + k] == 0)
                continue;
            to->number[n] = k;
            to->texts[n] = qn_arena_text(&columns->arena, c->given[i].texts[k]);
            if (!to->texts[n++])
                return QN_ERROR_MEMORY;
        }
    }
    return QN_OK;
}

static qn_status choose(qn_label_columns *columns, const qn_allocator *allocator, choice *c,
                        qn_arena *arena, const float *x, int64_t n_samples, int most_features) {
    const size_t n = (size_t)c->n_columns;
    c->first = qn_arena_allocate(arena, n + 1, sizeof *c->first);
    c->kept = qn_arena_allocate(arena, n, sizeof *c->kept);
    if (!c->first || !c->kept)
        return QN_ERROR_MEMORY;
    for (size_t i = 0; i < n; i++)
        c->first[i + 1] = c->first[i] + c->given[i].n_texts;
    c->count = qn_arena_allocate(arena, (size_t)c->first[n], sizeof *c->count);
    if (!c->count)
        return QN_ERROR_MEMORY;
    count_texts(c, x, n_samples);
    while (count_features(c) > most_features && drop_rarest(c))
        ;
    QN_TRY(qn_label_columns_make(columns, allocator, c->kept));
    return take_texts(c, columns);
}

static qn_status take_names(qn_label_columns *columns, const qn_allocator *allocator,
                            const qn_data_column *given) {
    bool has_names = false;
    for (int i = 0; given && i < columns->n; i++)
        has_names |= given[i].name && *given[i].name;
    if (!has_names)
        return QN_OK;
    QN_TRY(qn_label_columns_make_names(columns, allocator));
    for (int i = 0; i < columns->n; i++) {
        columns->names[i] = qn_arena_text(&columns->arena, given[i].name ? given[i].name : "");
        if (!columns->names[i])
            return QN_ERROR_MEMORY;
    }
    return QN_OK;
}

qn_status qn_label_columns_choose(qn_label_columns *columns, const qn_allocator *allocator,
                                  const qn_data_column *given, const float *x, int64_t n_samples,
                                  int most_features) {
    bool has_texts = false;
    QN_TRY(take_names(columns, allocator, given));
    QN_TRY(take_medians(columns, allocator, given, x, n_samples));
    for (int i = 0; given && i < columns->n; i++)
        has_texts |= given[i].n_texts > 0;
    if (!has_texts)
        return QN_OK;
    choice c = {.given = given, .n_columns = columns->n};
    qn_arena arena;
    qn_arena_init(&arena, allocator);
    const qn_status status = choose(columns, allocator, &c, &arena, x, n_samples, most_features);
    qn_arena_deinit(&arena);
    return status;
}

/* ---- rows ---- */

/* All others lie at the point (z, z, ..., z) that is as far from each unit vector as those are from
 * each other: (1 - z)^2 + (n - 1) z^2 = 2. */
static float others_at(int n) {
    return (1.0f - __builtin_sqrtf(1.0f + (float)n)) / (float)n;
}

void qn_label_columns_encode(const qn_label_columns *columns, const float *x, float *features) {
    if (!columns->column) {
        memcpy(features, x, (size_t)columns->n * sizeof *x);
        return;
    }
    for (int i = 0; i < columns->n; i++) {
        const qn_label_column *c = &columns->column[i];
        const int width = qn_label_column_width(c);
        int at = -1;
        for (int k = 0; k < c->n; k++)
            at = x[i] == (float)c->number[k] ? k : at;
        for (int k = 0; k < width; k++)
            features[k] = c->is_text ? at < 0 ? others_at(width) : (float)(k == at) : x[i];
        features += width;
    }
}

/* The corner that features are nearest to; -1: the one of all others. */
static int nearest_text(const qn_label_column *c, const float *features) {
    const float z = others_at(c->n);
    float sum = 0;
    int best = 0;
    for (int k = 0; k < c->n; k++) {
        sum += features[k];
        best = features[k] > features[best] ? k : best;
    }
    return features[best] - 0.5f > z * sum - 0.5f * (float)c->n * z * z ? best : -1;
}

void qn_label_columns_decode(const qn_label_columns *columns, const float *features, float *x) {
    if (!columns->column) {
        memcpy(x, features, (size_t)columns->n * sizeof *x);
        return;
    }
    for (int i = 0; i < columns->n; i++) {
        const qn_label_column *c = &columns->column[i];
        const int at = c->n > 0 ? nearest_text(c, features) : -1;
        x[i] = !c->is_text ? features[0] : at < 0 ? -1.0f : (float)c->number[at];
        features += qn_label_column_width(c);
    }
}

int32_t qn_label_columns_find(const qn_label_columns *columns, int i, const char *text) {
    const qn_label_column *c = &columns->column[i];
    for (int k = 0; k < c->n; k++)
        if (strcmp(c->texts[k], text) == 0)
            return c->number[k];
    return -1;
}
