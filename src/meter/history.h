/* Readings of many channels in memory of a fixed size. Nothing is allocated after init. When it is
 * full, the longest channels have their readings merged in pairs, and later readings are merged to
 * the same resolution. */
#ifndef QN_METER_HISTORY_H
#define QN_METER_HISTORY_H

#include "meter/sources/source.h"

typedef struct qn_history_row {
    size_t at, n, capacity; /* readings slab[at, at + n), of capacity */
    bool is_highest;        /* merging keeps the highest value, not the mean over time */
    int64_t fold, n_last;   /* readings in each one kept; in the last one so far */
} qn_history_row;

/*     rows[i].n <= rows[i].capacity;  rows[i].at + rows[i].capacity <= rows[i + 1].at */
typedef struct qn_history {
    const qn_allocator *allocator;
    qn_history_row *rows; /* (n_rows) */
    qn_reading *slab;     /* (n_slab) */
    int n_rows;
    size_t n_slab;
} qn_history;

/* Room for readings in about so many bytes (at least eight readings for each row). */
qn_status qn_history_init(const qn_allocator *allocator, int n_rows, size_t most_bytes,
                          qn_history *history);
void qn_history_deinit(qn_history *history);

/* Adds a reading that begins no earlier than the row's last one ends. */
void qn_history_add(qn_history *history, int row, const qn_reading *reading);

const qn_reading *qn_history_get(const qn_history *history, int row, size_t *n);

/* One reading for two that follow one another: the mean over time, so that value times time stays,
 * or the highest. Time between the two that was not measured stays outside: the first is moved up
 * to the second. */
qn_reading qn_reading_merge(const qn_reading *first, const qn_reading *second, bool is_highest);

#endif
