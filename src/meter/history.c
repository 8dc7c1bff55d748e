/* See history.h. The rows are stored one after the other in one block. A full row makes all rows
 * move, each with room in proportion to its length, so that moves become rare as rows grow. */
#include "meter/history.h"

#include "base/memory.h"
#include "base/status.h"

#include <string.h>

enum { LEAST_READINGS = 8 }; /* for each row */

qn_reading qn_reading_merge(const qn_reading *first, const qn_reading *second, bool is_highest) {
    const int64_t first_ns = first->end_ns - first->begin_ns;
    const int64_t second_ns = second->end_ns - second->begin_ns, both_ns = first_ns + second_ns;
    qn_reading merged = {second->begin_ns - first_ns, second->end_ns, second->value};
    if (is_highest)
        merged.value = first->value > second->value ? first->value : second->value;
    else if (both_ns > 0)
        merged.value =
            (first->value * (double)first_ns + second->value * (double)second_ns) / (double)both_ns;
    return merged;
}

qn_status qn_history_init(const qn_allocator *allocator, int n_rows, size_t most_bytes,
                          qn_history *history) {
    const size_t rows = (size_t)n_rows, wanted = most_bytes / sizeof(qn_reading);
    qn_history made = {.allocator = allocator, .n_rows = n_rows};
    made.n_slab = wanted > rows * LEAST_READINGS ? wanted : rows * LEAST_READINGS;
    QN_TRY(qn_allocate(allocator, rows, sizeof *made.rows, &made.rows));
    const qn_status status = qn_allocate(allocator, made.n_slab, sizeof *made.slab, &made.slab);
    if (status != QN_OK) {
        qn_release(allocator, made.rows, rows, sizeof *made.rows);
        return status;
    }
    for (size_t i = 0; i < rows; i++) {
        const size_t share = made.n_slab / rows;
        made.rows[i] = (qn_history_row){.at = i * share, .capacity = share, .fold = 1};
    }
    *history = made;
    return QN_OK;
}

void qn_history_deinit(qn_history *history) {
    qn_release(history->allocator, history->rows, (size_t)history->n_rows, sizeof *history->rows);
    qn_release(history->allocator, history->slab, history->n_slab, sizeof *history->slab);
    *history = (qn_history){0};
}

const qn_reading *qn_history_get(const qn_history *history, int row, size_t *n) {
    *n = history->rows[row].n;
    return history->slab + history->rows[row].at;
}

/* ---- making room ---- */

static void merge_row(qn_history *history, qn_history_row *row) {
    qn_reading *readings = history->slab + row->at;
    const size_t n = row->n;
    for (size_t i = 0; i + 1 < n; i += 2)
        readings[i / 2] = qn_reading_merge(&readings[i], &readings[i + 1], row->is_highest);
    if (n % 2 == 1)
        readings[n / 2] = readings[n - 1];
    else
        row->n_last += row->fold;
    row->n = (n + 1) / 2;
    row->fold *= 2;
}

static size_t count_readings(const qn_history *history, size_t *most) {
    size_t sum = 0;
    *most = 0;
    for (int i = 0; i < history->n_rows; i++) {
        const size_t n = history->rows[i].n;
        sum += n;
        *most = n > *most ? n : *most;
    }
    return sum;
}

/* Halves the fullest rows until a quarter of the slab is free: what a slow sensor said is worth as
 * much as what a fast one did, and takes little room. */
static size_t merge_fullest(qn_history *history) {
    size_t most, used = count_readings(history, &most);
    while (used > history->n_slab / 4 * 3) {
        for (int i = 0; i < history->n_rows; i++)
            if (history->rows[i].n >= 2 && history->rows[i].n > most / 2)
                merge_row(history, &history->rows[i]);
        used = count_readings(history, &most);
    }
    return used;
}

static void move_row(qn_history *history, qn_history_row *row, size_t at) {
    memmove(history->slab + at, history->slab + row->at, row->n * sizeof *history->slab);
    row->at = at;
}

/* Rows are moved to the front in order, and then, last first, to where they belong. */
static void make_room(qn_history *history) {
    const size_t used = merge_fullest(history);
    const size_t spare = history->n_slab - used - (size_t)history->n_rows;
    size_t at = 0;
    for (int i = 0; i < history->n_rows; i++) {
        move_row(history, &history->rows[i], at);
        at += history->rows[i].n;
    }
    at = history->n_slab;
    for (int i = history->n_rows - 1; i >= 0; i--) {
        qn_history_row *row = &history->rows[i];
        const double part = used > 0 ? (double)row->n / (double)used : 0;
        row->capacity = row->n + 1 + (size_t)((double)spare * part);
        at -= row->capacity;
        move_row(history, row, at);
    }
}

static bool is_last_full(const qn_history_row *row) {
    return row->n == 0 || row->n_last >= row->fold;
}

void qn_history_add(qn_history *history, int row, const qn_reading *reading) {
    qn_history_row *r = &history->rows[row];
    if (is_last_full(r) && r->n == r->capacity)
        make_room(history);
    if (is_last_full(r)) {
        history->slab[r->at + r->n++] = *reading;
        r->n_last = 1;
        return;
    }
    qn_reading *last = &history->slab[r->at + r->n - 1];
    *last = qn_reading_merge(last, reading, r->is_highest);
    r->n_last++;
}
