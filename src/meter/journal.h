/* The journal of a measured run, in memory of a fixed size: the events of an engine's rings, in
 * order, and the marks between steps. When it is full, events of the oldest steps are folded into
 * sums for each operation; when there is no room for marks, the oldest steps are dropped. One
 * thread at a time.
 *
 * Invariants:
 *     events are sorted by begin_ns, and begin at or after floor_ns; marks rise
 *     n_rows > 0 and something was folded => fold.begin_ns <= fold.end_ns <= floor_ns, marks both
 */
#ifndef QN_METER_JOURNAL_H
#define QN_METER_JOURNAL_H

#include "base/events.h"
#include "meter/recording.h"

enum { QN_JOURNAL_AT_ONCE = 64 };

/* Of a ring: what was taken, but is not in the journal yet. */
typedef struct qn_journal_inlet {
    size_t next, n; /* events[next] to events[n - 1] */
    qn_event events[QN_JOURNAL_AT_ONCE];
} qn_journal_inlet;

typedef struct qn_journal {
    const qn_allocator *allocator;
    qn_events *rings; /* the last one: marks; the others: threads of the team */
    int n_inlets;
    qn_journal_inlet *inlets; /* (n_inlets): the rings without that of the marks */
    size_t n_events, event_capacity;
    qn_event *events; /* (event_capacity) */
    int64_t floor_ns; /* what begins before it is not measured */
    int64_t n_lost;   /* that found no room here */

    int64_t n_marks, mark_capacity;
    int64_t skip_steps; /* of those between marks, from the first: not measured */
    int64_t n_left_out; /* measured steps that there was no room for */
    int64_t *marks_ns;  /* (mark_capacity) */
    int64_t *folded_ns; /* (mark_capacity): of qn_recording */

    int n_programs, n_rows;
    int *first_rows;   /* (n_programs + 1) of each program, the update's first */
    qn_fold_row *rows; /* (n_rows): operations in order of program and item */
    qn_fold fold;      /* of rows; n_events 0: nothing is folded */
} qn_journal;

/* A journal over rings, of which the last is that of the marks, within most_bytes beside the rings.
 * engine may be null. */
qn_status qn_journal_init(qn_journal *journal, const qn_allocator *allocator,
                          const qn_engine *engine, qn_events *rings, int64_t skip_steps,
                          size_t most_bytes);
void qn_journal_deinit(qn_journal *journal);

/* Takes all that the rings hold. */
void qn_journal_drain(qn_journal *journal);

/* Points a recording to what was kept. */
void qn_journal_get(const qn_journal *journal, qn_recording *recording);

#endif
