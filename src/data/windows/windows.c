/* See windows.h. */
#include "data/windows/windows.h"

#include "base/print.h"
#include "base/rng.h"
#include "base/status.h"
#include "data/cache.h"
#include "os/heap.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_WINDOWS = 8, STEPS = 4096, GAP = 3 };

/* How a window is kept; behind it its targets. */
typedef struct window_record {
    int64_t first;
    uint64_t unit;
} window_record;

typedef struct building {
    qn_source_base *base;
    const qn_window_rows *rows;
    qn_windows *windows;
    qn_window_label rule;
    qn_sink sink;
    float usual_step, most_step; /* infinite: nothing is known of time */
    int64_t block;               /* rows; 0: recordings are not cut */
    float *ring;                 /* (length, n_values): the targets of the last rows */
    char *record;                /* (record_bytes) */
    size_t record_bytes;
    int64_t begin; /* first row of the recording */
    uint64_t group;
    size_t next_start;  /* of rows->starts, at the row or behind it */
    int64_t unit_block; /* the block that unit is of; -1: none */
    uint64_t unit;
    int64_t n_recordings, n_gaps, n_long, longest, n_without;
    int64_t n_cut;           /* windows that would lie in two blocks */
    int64_t n_used, used_to; /* rows that are in windows, and what follows the last of them */
} building;

/* ---- what is asked for ---- */

static qn_status find_rule(const qn_window_rows *rows, const char *asked, qn_window_label *rule) {
    static const char *const names[] = {"majority", "last", "mean", "same"};
    *rule = rows->are_classes || rows->are_labels ? QN_WINDOW_MAJORITY : QN_WINDOW_LAST;
    for (int i = 0; asked && *asked && i < 4; i++)
        if (strcmp(asked, names[i]) == 0)
            *rule = (qn_window_label)i;
    const bool are_amounts = !rows->are_classes && !rows->are_labels;
    if (rows->n_values > 0 && are_amounts &&
        (*rule == QN_WINDOW_MAJORITY || *rule == QN_WINDOW_SAME))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--window-label %s is for classes; amounts are the last row's, or the mean",
                       asked);
    if (*rule == QN_WINDOW_MEAN && !are_amounts)
        return qn_fail(QN_ERROR_ARGUMENT, "--window-label mean is for amounts; classes are the "
                                          "majority's, the last row's, or the same of all");
    return QN_OK;
}

/* ---- the usual step of time ---- */

static int compare_floats(const void *left, const void *right) {
    const float a = *(const float *)left, b = *(const float *)right;
    return (a > b) - (a < b);
}

static qn_status find_step(building *b, float *steps) {
    const qn_window_rows *rows = b->rows;
    const int64_t n = rows->n < STEPS ? rows->n : STEPS;
    size_t n_found = 0;
    for (int64_t i = 0; i < n; i++) {
        qn_window_row row;
        QN_TRY(rows->read(rows->context, i * rows->n / n, &row, b->ring));
        if (row.step > 0)
            steps[n_found++] = row.step;
    }
    if (n_found == 0)
        return qn_fail(QN_ERROR_FORMAT,
                       "column '%s' does not rise from row to row, as time does; name another one "
                       "with --time, or none",
                       rows->time);
    qsort(steps, n_found, sizeof *steps, compare_floats);
    b->usual_step = steps[n_found / 2];
    b->most_step = GAP * b->usual_step;
    return QN_OK;
}

/* ---- targets ---- */

static const float *targets_of(const building *b, int64_t row) {
    return b->ring + row % b->windows->length * b->rows->n_values;
}

/* The commonest class of the rows from first to last: each class is counted where it comes last. */
static float find_majority(const building *b, int64_t first, int64_t last) {
    float best = NAN;
    int64_t n_best = 0;
    for (int64_t i = last; i >= first && n_best <= i - first; i--) {
        const float class = *targets_of(b, i);
        int64_t n = 0;
        bool is_counted = isnan(class) || class == best;
        for (int64_t k = i + 1; k <= last && !is_counted; k++)
            is_counted = *targets_of(b, k) == class;
        for (int64_t k = first; k <= i && !is_counted; k++)
            n += *targets_of(b, k) == class;
        if (n > n_best) {
            n_best = n;
            best = class;
        }
    }
    return best;
}

static float find_mean(const building *b, int64_t first, int64_t last, int value) {
    double sum = 0;
    int64_t n = 0;
    for (int64_t i = first; i <= last; i++) {
        const float x = targets_of(b, i)[value];
        n += !isnan(x);
        sum += isnan(x) ? 0 : (double)x;
    }
    return n > 0 ? (float)(sum / (double)n) : NAN;
}

static float find_target(const building *b, int64_t first, int64_t last, int value) {
    if (b->rule == QN_WINDOW_LAST || b->rule == QN_WINDOW_SAME)
        return targets_of(b, last)[value];
    if (b->rows->are_classes)
        return find_majority(b, first, last);
    const float mean = find_mean(b, first, last, value);
    return b->rule == QN_WINDOW_MEAN || isnan(mean) ? mean : (float)(mean >= 0.5f);
}

/* To the record; false: one is missing. */
static bool put_targets(const building *b, int64_t first, int64_t last) {
    char *to = b->record + sizeof(window_record);
    bool has_all = true;
    for (int k = 0; k < b->rows->n_values; k++) {
        const float target = find_target(b, first, last, k), number = isnan(target) ? 0 : target;
        const int32_t class = (int32_t)number;
        has_all &= !isnan(target);
        memcpy(to + 4 * k, b->rows->are_classes ? (const void *)&class : &number, 4);
    }
    return has_all || b->rows->may_lack;
}

/* ---- windows ---- */

/* The first window of a block gives all of it what it is held out by. */
static qn_status find_unit(building *b, int64_t first, int64_t last) {
    const int64_t block = b->block > 0 ? (first - b->begin) / b->block : 0;
    if (block == b->unit_block)
        return QN_OK;
    b->unit_block = block;
    b->unit = 0;
    for (int64_t i = first; i <= last; i++) {
        uint64_t pair[2] = {b->unit, 0};
        QN_TRY(b->rows->look(b->rows->context, i, &pair[1]));
        b->unit = qn_hash_bytes(pair, sizeof pair);
    }
    return QN_OK;
}

static qn_status put_window(building *b, int64_t first, int64_t last) {
    if (b->block > 0 && (first - b->begin) / b->block != (last - b->begin) / b->block) {
        b->n_cut++;
        return QN_OK;
    }
    if (!put_targets(b, first, last)) {
        b->n_without++;
        return QN_OK;
    }
    if (b->rows->group)
        b->unit = b->group;
    else
        QN_TRY(find_unit(b, first, last));
    b->n_used += last + 1 - (first > b->used_to ? first : b->used_to);
    b->used_to = last + 1;
    const window_record record = {first, b->unit};
    memcpy(b->record, &record, sizeof record);
    b->windows->n++;
    return b->sink.put(b->sink.context, b->record, b->record_bytes);
}

static bool ends_by_time(const building *b, const qn_window_row *row) {
    return b->rows->time && !(row->step >= 0 && row->step <= b->most_step);
}

/* Whether a recording ends before a row. */
static bool ends(building *b, int64_t i, const qn_window_row *row, const float *targets) {
    const int64_t length = b->windows->length;
    while (b->next_start < b->rows->n_starts && b->rows->starts[b->next_start] < i)
        b->next_start++;
    if (b->next_start < b->rows->n_starts && b->rows->starts[b->next_start] == i)
        return true;
    if (b->rows->group && row->group != b->group)
        return true;
    if (ends_by_time(b, row)) {
        b->n_gaps++;
        return true;
    }
    const float *before = b->ring + (i - 1) % length * b->rows->n_values;
    for (int k = 0; b->rule == QN_WINDOW_SAME && k < b->rows->n_values; k++)
        if (targets[k] != before[k] && !(isnan(targets[k]) && isnan(before[k])))
            return true;
    return false;
}

static void end_recording(building *b, int64_t end) {
    const int64_t n = end - b->begin;
    b->n_recordings++;
    b->n_long += n >= b->windows->length;
    b->longest = n > b->longest ? n : b->longest;
}

static qn_status add_row(building *b, int64_t i, float *targets) {
    const int64_t length = b->windows->length;
    qn_window_row row;
    QN_TRY(b->rows->read(b->rows->context, i, &row, targets));
    if (i > 0 && ends(b, i, &row, targets)) {
        end_recording(b, i);
        b->begin = i;
        b->unit_block = -1;
    }
    b->group = row.group;
    memcpy(b->ring + i % length * b->rows->n_values, targets,
           (size_t)b->rows->n_values * sizeof *targets);
    const int64_t first = i - length + 1;
    if (first < b->begin || (first - b->begin) % b->windows->stride != 0)
        return QN_OK;
    return put_window(b, first, i);
}

/* A qn_derive. */
static qn_status put_windows(void *context, qn_file *source, qn_sink sink) {
    building *b = context;
    (void)source;
    b->sink = sink;
    b->unit_block = -1;
    b->windows->n = 0;
    float *targets = b->ring + b->windows->length * b->rows->n_values;
    for (int64_t i = 0; i < b->rows->n; i++)
        QN_TRY(add_row(b, i, targets));
    end_recording(b, b->rows->n);
    return QN_OK;
}

/* ---- telling ---- */

static qn_status fail_none(const building *b, const char *name) {
    if (b->n_without > 0)
        return qn_fail(QN_ERROR_FORMAT, "%s: none of %" PRId64 " windows has a target", name,
                       b->n_without);
    return qn_fail(QN_ERROR_FORMAT,
                   "%s: no recording has the %" PRId64 " rows of a window; the longest of %" PRId64
                   " has %" PRId64 "%s%s%s",
                   name, b->windows->length, b->n_recordings, b->longest,
                   b->rows->group ? "; rows of one " : "", b->rows->group ? b->rows->group : "",
                   b->rows->group ? " have to follow each other, in the order of time" : "");
}

static void describe_ends(const building *b, char *text, size_t bytes) {
    size_t used = 0;
    text[0] = 0;
    if (b->rows->n_starts > 0)
        used += (size_t)qn_print(text, bytes, "its file ends");
    else if (b->rows->group)
        used += (size_t)qn_print(text, bytes, "'%.60s' changes", b->rows->group);
    if (b->rows->time && used < bytes)
        used += (size_t)qn_print(text + used, bytes - used,
                                 "%s'%.60s' goes back or jumps by more than %.4g",
                                 used > 0 ? ", or " : "", b->rows->time, (double)b->most_step);
    if (b->n_gaps > 0 && used < bytes)
        used += (size_t)qn_print(text + used, bytes - used, ", as it does %" PRId64 " times",
                                 b->n_gaps);
    if (b->rule == QN_WINDOW_SAME && used < bytes)
        qn_print(text + used, bytes - used, "%sthe label changes", used > 0 ? ", or " : "");
}

/* Rows that no window has: at ends of recordings, between blocks, where strides pass over them. */
static qn_status tell_unused(const building *b, const char *name) {
    const int64_t n = b->rows->n - b->n_used;
    if (b->n_cut > 0)
        qn_data_tell(b->base, 0,
                     "%s: %" PRId64 " windows that would lie in two blocks are left out", name,
                     b->n_cut);
    if (n == 0)
        return QN_OK;
    qn_data_tell(b->base, 0, "%s: %" PRId64 " of %" PRId64 " rows are in no window", name, n,
                 b->rows->n);
    return qn_data_facts_count(b->base, &b->base->facts.dropped, "rows", "in no window", NULL, n);
}

static qn_status tell(const building *b, const char *name) {
    static const char *const rules[] = {"the commonest of its rows", "the last row's",
                                        "the mean of its rows", "the same in all its rows"};
    const qn_windows *w = b->windows;
    char ends_at[320], text[800];
    describe_ends(b, ends_at, sizeof ends_at);
    qn_print(text, sizeof text,
             "%" PRId64 " windows of %" PRId64 " rows, one every %" PRId64 ", in %" PRId64
             " recording%s%s%s%s; a window's target is %s%s",
             w->n, w->length, w->stride, b->n_long, b->n_long == 1 ? "" : "s",
             *ends_at ? " (one ends where " : "", ends_at, *ends_at ? ")" : "", rules[b->rule],
             b->block > 0 ? "; what is held out are blocks of rows, and no window lies in two"
                          : "");
    qn_data_tell(b->base, 0, "%s: %s", name, text);
    if (b->n_without > 0)
        qn_data_tell(b->base, 1, "%s: %" PRId64 " windows without a target are left out", name,
                     b->n_without);
    if (b->n_long < b->n_recordings)
        qn_data_tell(b->base, 0,
                     "%s: %" PRId64 " of %" PRId64 " recordings are shorter than a "
                     "window and are left out",
                     name, b->n_recordings - b->n_long, b->n_recordings);
    QN_TRY(tell_unused(b, name));
    return qn_data_facts_note(b->base, "%s", text);
}

/* ---- opening ---- */

static qn_status build(building *b, qn_file *of, const char *name, float *steps) {
    const qn_data_options *o = &b->base->options;
    qn_windows *w = b->windows;
    if (b->rows->time)
        QN_TRY(find_step(b, steps));
    const bool is_divided = o->holdout > 0 || o->validation > 0;
    if (is_divided && !b->rows->group)
        b->block = (BLOCK_WINDOWS * w->length + w->stride - 1) / w->stride * w->stride;
    QN_TRY(qn_cache_make(b->base, of, put_windows, b, &w->file));
    return w->n > 0 ? tell(b, name) : fail_none(b, name);
}

qn_status qn_windows_open(qn_source_base *base, qn_file *of, const char *name,
                          const qn_window_rows *rows, qn_windows *windows) {
    const qn_data_options *o = &base->options;
    const qn_allocator *allocator = o->allocator;
    *windows = (qn_windows){.length = o->window,
                            .stride = o->stride > 0 ? o->stride : o->window,
                            .n_values = rows->n_values,
                            .are_classes = rows->are_classes};
    building b = {.base = base, .rows = rows, .windows = windows, .most_step = INFINITY};
    b.record_bytes = sizeof(window_record) + 4 * (size_t)rows->n_values;
    const size_t ring = (size_t)((windows->length + 1) * rows->n_values) + 1;
    float *steps = NULL;
    QN_TRY(find_rule(rows, o->window_label, &b.rule));
    qn_status status = qn_allocate(allocator, ring, sizeof *b.ring, &b.ring);
    if (status == QN_OK)
        status = qn_allocate(allocator, b.record_bytes, 1, &b.record);
    if (status == QN_OK)
        status = qn_allocate(allocator, STEPS, sizeof *steps, &steps);
    if (status == QN_OK)
        status = build(&b, of, name, steps);
    qn_release(allocator, steps, STEPS, sizeof *steps);
    qn_release(allocator, b.record, b.record_bytes, 1);
    qn_release(allocator, b.ring, ring, sizeof *b.ring);
    base->units = rows->group ? base->units : b.block > 0 ? "blocks of rows" : "recordings";
    return status;
}

void qn_windows_close(qn_windows *windows) {
    qn_file_close(windows->file);
    windows->file = NULL;
}

qn_status qn_windows_read(const qn_windows *windows, int64_t index, int64_t *first, void *y,
                          uint64_t *unit) {
    const size_t bytes = 4 * (size_t)windows->n_values;
    const int64_t at = index * (int64_t)(sizeof(window_record) + bytes);
    window_record record;
    QN_TRY(qn_file_read(windows->file, at, &record, sizeof record));
    *first = record.first;
    if (unit)
        *unit = record.unit;
    if (y && bytes > 0)
        return qn_file_read(windows->file, at + (int64_t)sizeof record, y, bytes);
    if (y)
        memset(y, 0, sizeof(int32_t));
    return QN_OK;
}
