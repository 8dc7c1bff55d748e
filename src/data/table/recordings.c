/* What makes rows of a table belong together: a column of groups, which are on one side of the
 * split, and windows over rows that are steps of time. */
#include "base/status.h"
#include "data/split/divide.h"
#include "data/table/csv.h"
#include "os/heap.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- groups ---- */

static const char *name_group(const qn_source_base *base, uint64_t content) {
    const qn_csv_source *csv = (const qn_csv_source *)base;
    for (int32_t i = 0; i < csv->n_groups; i++) {
        float places[2];
        qn_csv_group_put(csv->groups->texts[i], places);
        if (qn_csv_group_of(places) == content)
            return csv->groups->texts[i];
    }
    return NULL;
}

static qn_status find_marks(qn_csv_source *csv, const char *path) {
    qn_source_base *base = &csv->base;
    for (int64_t i = 0; i < csv->footer.n_columns; i++) {
        const qn_csv_record *r = &csv->records[i];
        if (r->role == QN_CSV_TIME)
            csv->time = r->place;
        if (r->role != QN_CSV_GROUP)
            continue;
        csv->group = r->place;
        csv->groups = &csv->names[i];
        csv->n_groups = r->n_texts;
        base->units = qn_arena_format(&base->arena, "values of '%s'", csv->names[i].name);
        base->name_unit = name_group;
        if (!base->units)
            return QN_ERROR_MEMORY;
    }
    if (qn_source_group(base) && csv->group < 0)
        qn_data_tell(base, 0, "%s has no column '%s', which would tell what belongs together", path,
                     qn_source_group(base));
    return QN_OK;
}

/* ---- rows of recordings ---- */

/* Rows that are read one after the other, many at a time. */
typedef struct rows {
    const qn_csv_source *csv;
    float *values; /* (most, n_stored) */
    int64_t first, n, most;
} rows;

static qn_status find_row(rows *r, int64_t index, const float **row) {
    const qn_csv_source *csv = r->csv;
    if (index < r->first || index >= r->first + r->n) {
        const int64_t left = csv->footer.n_rows - index;
        r->first = index;
        r->n = left < r->most ? left : r->most;
        QN_TRY(qn_file_read(csv->file, index * csv->row_bytes, r->values,
                            (size_t)(r->n * csv->row_bytes)));
    }
    *row = r->values + (index - r->first) * csv->footer.n_stored;
    return QN_OK;
}

static void put_targets(const qn_csv_source *csv, const float *row, float *targets) {
    for (int64_t i = 0; i < csv->footer.n_stored; i++) {
        const int target = csv->encoder.places[i].target;
        if (target < 0)
            continue;
        if (csv->footer.targets == QN_CSV_CLASSES || !csv->lists)
            targets[target] = row[i];
        else if (isnan(row[i]))
            for (int k = 0; k < csv->n_labels; k++)
                targets[k] = NAN;
        else
            qn_csv_put_target(csv, target, row[i], targets);
    }
}

static qn_status read_row(void *context, int64_t index, qn_window_row *to, float *targets) {
    rows *r = context;
    const qn_csv_source *csv = r->csv;
    const float *row;
    QN_TRY(find_row(r, index, &row));
    to->group = csv->group >= 0 ? qn_csv_group_of(row + csv->group) : 0;
    to->step = csv->time >= 0 ? row[csv->time] : NAN;
    put_targets(csv, row, targets);
    return QN_OK;
}

static qn_status look_at_row(void *context, int64_t index, uint64_t *content) {
    rows *r = context;
    const float *row;
    QN_TRY(find_row(r, index, &row));
    *content = qn_csv_hash_values(r->csv, row, 0, r->csv->footer.n_stored);
    return QN_OK;
}

/* ---- windows ---- */

static qn_status read_window(void *self, qn_split split, int64_t index, void *x, void *y) {
    const qn_csv_source *csv = self;
    const int64_t stored = csv->footer.n_stored, end = csv->windows.length * stored;
    const int64_t width = (int64_t)csv->encoder.n_features;
    float piece[QN_CSV_PIECE], *to = x;
    int64_t row;
    (void)split;
    QN_TRY(qn_windows_read(&csv->windows, index, &row, NULL, NULL));
    for (int64_t at = 0, place = 0; at < end;) {
        const int64_t some = end - at < QN_CSV_PIECE ? end - at : QN_CSV_PIECE;
        QN_TRY(qn_file_read(csv->file, row * csv->row_bytes + 4 * at, piece,
                            (size_t)some * sizeof *piece));
        for (int64_t i = 0, n; i < some; i += n, place += n) {
            if (place == stored) {
                place = 0;
                to += width;
            }
            n = stored - place < some - i ? stored - place : some - i;
            qn_csv_put_values(csv, piece + i, place, n, to, y);
        }
        at += some;
    }
    return qn_windows_read(&csv->windows, index, &row, y, NULL);
}

static qn_status read_class(void *self, qn_split split, int64_t index, int32_t *class) {
    const qn_csv_source *csv = self;
    int64_t row;
    (void)split;
    return qn_windows_read(&csv->windows, index, &row, class, NULL);
}

static qn_status look_at_window(qn_source_base *base, int64_t index, uint64_t *content,
                                int32_t *class) {
    const qn_csv_source *csv = (const qn_csv_source *)base;
    int64_t row;
    const bool is_class = csv->windows.are_classes;
    return qn_windows_read(&csv->windows, index, &row, is_class ? class : NULL, content);
}

static qn_status rows_of(qn_source_base *base, int64_t index, int64_t *first, int64_t *n) {
    const qn_csv_source *csv = (const qn_csv_source *)base;
    *n = csv->windows.length;
    return qn_windows_read(&csv->windows, index, first, NULL, NULL);
}

static const char *name_of(const qn_csv_source *csv, int32_t place) {
    return place >= 0 ? csv->names[csv->column_of[place]].name : NULL;
}

static qn_status make_windows(qn_csv_source *csv, rows *r, const char *path,
                              const qn_data_source *source) {
    const int32_t targets = csv->footer.targets;
    const qn_window_rows of = {
        .n = csv->footer.n_rows,
        .n_values = targets == QN_CSV_NO_TARGETS ? 0
                    : targets == QN_CSV_CLASSES  ? 1
                                                 : source->n_targets,
        .are_classes = targets == QN_CSV_CLASSES,
        .are_labels = targets == QN_CSV_LABELS,
        .may_lack = csv->base.options.is_unlabelled,
        .group = name_of(csv, csv->group),
        .time = name_of(csv, csv->time),
        .starts = csv->starts,
        .n_starts = csv->n_starts,
        .context = r,
        .read = read_row,
        .look = look_at_row,
    };
    return qn_windows_open(&csv->base, csv->file, path, &of, &csv->windows);
}

static qn_status open_windows(qn_csv_source *csv, const char *path, qn_data_source *source) {
    enum { BYTES = 1 << 16 };
    const int64_t fit = BYTES / csv->row_bytes;
    rows r = {.csv = csv, .most = fit > 1 ? fit : 1};
    const qn_allocator *allocator = csv->base.options.allocator;
    const size_t n = (size_t)(r.most * csv->footer.n_stored);
    QN_TRY(qn_allocate(allocator, n, sizeof *r.values, &r.values));
    const qn_status status = make_windows(csv, &r, path, source);
    qn_release(allocator, r.values, n, sizeof *r.values);
    return status;
}

qn_status qn_csv_find_recordings(qn_csv_source *csv, const char *path, qn_data_source *source) {
    qn_source_base *base = &csv->base;
    QN_TRY(find_marks(csv, path));
    if (base->options.window == 0)
        return QN_OK;
    QN_TRY(open_windows(csv, path, source));
    source->n_samples[QN_TRAIN] = csv->windows.n;
    source->sample = source->preparation.sample =
        QN_SHAPE(csv->windows.length, 1, (int64_t)csv->encoder.n_features);
    source->read = read_window;
    source->read_class = csv->windows.are_classes ? read_class : NULL;
    base->look = look_at_window;
    base->rows_of = rows_of;
    base->facts.axes = "ntc";
    base->facts.are_windows = true;
    return QN_OK;
}

qn_status qn_csv_row_of(const qn_csv_source *csv, int64_t index, int64_t *row) {
    *row = qn_source_training_sample(&csv->base, index);
    if (!csv->windows.file)
        return QN_OK;
    QN_TRY(qn_windows_read(&csv->windows, *row, row, NULL, NULL));
    *row += index % csv->windows.length;
    return QN_OK;
}
