/* See journal.h. Rings are merged by begin_ns; late records (a run after its operations) are moved
 * back to their place. Marks are taken before the other rings. So all events of the steps that the
 * marks end are in the rings or the journal, and nothing begins before a mark up to which events
 * were folded. */
#include "meter/journal.h"

#include "base/memory.h"
#include "base/status.h"

#include <string.h>

/* ---- making ---- */

static qn_status count_rows(qn_journal *j, const qn_engine *engine) {
    j->n_programs = engine ? qn_engine_program_count(engine) : 0;
    QN_TRY(qn_allocate(j->allocator, (size_t)j->n_programs + 1, sizeof *j->first_rows,
                       &j->first_rows));
    for (int p = QN_PROGRAM_UPDATE; engine && p < j->n_programs; p++) {
        j->first_rows[p + 1] = j->n_rows;
        j->n_rows += qn_engine_operation_count(engine, p);
    }
    return qn_allocate(j->allocator, (size_t)j->n_rows, sizeof *j->rows, &j->rows);
}

static qn_status allocate(qn_journal *j, const qn_engine *engine, size_t most_bytes) {
    QN_TRY(count_rows(j, engine));
    j->mark_capacity = (int64_t)(most_bytes / 4 / (2 * sizeof(int64_t))) + 4;
    const size_t n_marks = (size_t)j->mark_capacity;
    QN_TRY(qn_allocate(j->allocator, n_marks, sizeof *j->marks_ns, &j->marks_ns));
    QN_TRY(qn_allocate(j->allocator, n_marks, sizeof *j->folded_ns, &j->folded_ns));
    QN_TRY(qn_allocate(j->allocator, (size_t)j->n_inlets, sizeof *j->inlets, &j->inlets));
    const size_t used = 2 * n_marks * sizeof(int64_t) + (size_t)j->n_rows * sizeof *j->rows +
                        (size_t)j->n_inlets * sizeof *j->inlets;
    const size_t least = 1024;
    j->event_capacity = (most_bytes > used ? most_bytes - used : 0) / sizeof *j->events;
    j->event_capacity = j->event_capacity > least ? j->event_capacity : least;
    return qn_allocate(j->allocator, j->event_capacity, sizeof *j->events, &j->events);
}

qn_status qn_journal_init(qn_journal *j, const qn_allocator *allocator, const qn_engine *engine,
                          qn_events *rings, int64_t skip_steps, size_t most_bytes) {
    *j = (qn_journal){.allocator = allocator,
                      .rings = rings,
                      .n_inlets = qn_events_thread_count(rings) - 1,
                      .floor_ns = INT64_MIN,
                      .skip_steps = skip_steps};
    qn_status status = allocate(j, engine, most_bytes);
    if (status != QN_OK)
        qn_journal_deinit(j);
    return status;
}

void qn_journal_deinit(qn_journal *j) {
    const qn_allocator *a = j->allocator;
    qn_release(a, j->first_rows, (size_t)j->n_programs + 1, sizeof *j->first_rows);
    qn_release(a, j->rows, (size_t)j->n_rows, sizeof *j->rows);
    qn_release(a, j->marks_ns, (size_t)j->mark_capacity, sizeof *j->marks_ns);
    qn_release(a, j->folded_ns, (size_t)j->mark_capacity, sizeof *j->folded_ns);
    qn_release(a, j->inlets, (size_t)j->n_inlets, sizeof *j->inlets);
    qn_release(a, j->events, j->event_capacity, sizeof *j->events);
    *j = (qn_journal){0};
}

/* ---- room ---- */

/* Number of events that begin before a moment. */
static size_t count_before(const qn_journal *j, int64_t moment_ns) {
    size_t low = 0, high = j->n_events;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (j->events[middle].begin_ns < moment_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The first mark after a moment, or n_marks. */
static int64_t mark_after(const qn_journal *j, int64_t moment_ns) {
    int64_t low = 0, high = j->n_marks;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (j->marks_ns[middle] <= moment_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void remove_events(qn_journal *j, size_t n, int64_t floor_ns) {
    j->n_events -= n;
    memmove(j->events, j->events + n, j->n_events * sizeof *j->events);
    j->floor_ns = floor_ns;
}

static void fold_event(qn_journal *j, const qn_event *e) {
    const int row = j->first_rows[e->program + 1] + e->item;
    if (e->kind == QN_EVENT_RUN || row >= j->n_rows)
        return;
    const int64_t ns = e->end_ns - e->begin_ns;
    j->rows[row].core_ns += e->kind == QN_EVENT_QUEUED ? 0 : ns;
    if (e->kind != QN_EVENT_SHARE) {
        j->rows[row].calls++;
        j->rows[row].total_ns += ns;
    }
}

/* Folds all events before a mark into the sums. */
static void fold_until(qn_journal *j, int64_t mark) {
    const int64_t end_ns = j->marks_ns[mark];
    size_t next = 0;
    if (j->fold.n_events == 0)
        j->fold = (qn_fold){.begin_ns = j->marks_ns[j->skip_steps], .rows = j->rows};
    for (int64_t step = mark_after(j, j->events[0].begin_ns) - 1; step < mark; step++) {
        const size_t begin = next;
        while (next < j->n_events && j->events[next].begin_ns < j->marks_ns[step + 1])
            fold_event(j, &j->events[next++]);
        j->folded_ns[step] = qn_covered_ns(j->events + begin, next - begin, j->marks_ns[step],
                                           j->marks_ns[step + 1]);
    }
    j->fold.n_events += (int64_t)next;
    j->fold.end_ns = end_ns;
    remove_events(j, next, end_ns);
}

/* Makes room for an event: those of steps that are not measured go first, then the oldest steps are
 * folded, a quarter of all events at once, but none that ends after the event begins: more of it
 * may come. False: there are not even whole steps. */
static bool make_room(qn_journal *j, int64_t begin_ns) {
    const int64_t last = mark_after(j, begin_ns) - 1;
    const int64_t first = j->skip_steps < last ? j->skip_steps : last;
    if (last < 0)
        return false;
    const size_t n_skipped = count_before(j, j->marks_ns[first]);
    if (n_skipped > 0) {
        remove_events(j, n_skipped, j->marks_ns[first]);
        return true;
    }
    int64_t mark = mark_after(j, j->events[j->n_events / 4].begin_ns);
    mark = mark < last ? mark : last;
    if (mark <= first || j->marks_ns[mark] <= j->events[0].begin_ns)
        return false;
    fold_until(j, mark);
    return true;
}

/* Leaves out half of the steps, the oldest: they are not measured then, and nothing of them stays.
 */
static void leave_out_steps(qn_journal *j) {
    int64_t first = j->n_marks / 2;
    while (first < j->n_marks - 1 && j->fold.n_events > 0 && j->marks_ns[first] < j->fold.end_ns)
        first++;
    const int64_t first_ns = j->marks_ns[first], n_skipped = j->skip_steps;
    const size_t n_kept = (size_t)(j->n_marks - first);
    remove_events(j, count_before(j, first_ns), first_ns);
    for (int i = 0; i < j->n_rows; i++)
        j->rows[i] = (qn_fold_row){0};
    j->fold = (qn_fold){0};
    j->skip_steps = n_skipped > first ? n_skipped - first : 0;
    j->n_left_out += first - (n_skipped - j->skip_steps);
    memmove(j->marks_ns, j->marks_ns + first, n_kept * sizeof *j->marks_ns);
    memmove(j->folded_ns, j->folded_ns + first, n_kept * sizeof *j->folded_ns);
    memset(j->folded_ns + n_kept, 0, (size_t)first * sizeof *j->folded_ns);
    j->n_marks = (int64_t)n_kept;
}

/* ---- taking ---- */

static void take_marks(qn_journal *j) {
    qn_event marks[QN_JOURNAL_AT_ONCE];
    size_t n;
    while ((n = qn_events_take(j->rings, j->n_inlets, marks, QN_JOURNAL_AT_ONCE)) > 0) {
        for (size_t i = 0; i < n; i++) {
            if (j->n_marks == j->mark_capacity)
                leave_out_steps(j);
            j->marks_ns[j->n_marks++] = marks[i].begin_ns;
        }
    }
}

static void append(qn_journal *j, const qn_event *event) {
    if (event->begin_ns < j->floor_ns)
        return;
    if (j->n_events == j->event_capacity && !make_room(j, event->begin_ns)) {
        j->n_lost++;
        return;
    }
    size_t at = j->n_events++;
    for (; at > 0 && j->events[at - 1].begin_ns > event->begin_ns; at--)
        j->events[at] = j->events[at - 1];
    j->events[at] = *event;
}

/* The oldest event that was taken or can be, or null. */
static const qn_event *next_event(qn_journal *j) {
    qn_journal_inlet *oldest = NULL;
    for (int i = 0; i < j->n_inlets; i++) {
        qn_journal_inlet *inlet = &j->inlets[i];
        if (inlet->next == inlet->n) {
            inlet->next = 0;
            inlet->n = qn_events_take(j->rings, i, inlet->events, QN_JOURNAL_AT_ONCE);
        }
        if (inlet->n > 0 && (!oldest || inlet->events[inlet->next].begin_ns <
                                            oldest->events[oldest->next].begin_ns))
            oldest = inlet;
    }
    return oldest ? &oldest->events[oldest->next++] : NULL;
}

void qn_journal_drain(qn_journal *j) {
    const qn_event *event;
    take_marks(j);
    while ((event = next_event(j)) != NULL)
        append(j, event);
}

void qn_journal_get(const qn_journal *j, qn_recording *recording) {
    recording->n_marks = j->n_marks;
    recording->skip_steps = j->skip_steps;
    recording->marks_ns = j->marks_ns;
    recording->n_events = j->n_events;
    recording->events = j->events;
    recording->n_lost_events = j->n_lost + qn_events_lost(j->rings);
    recording->n_folds = j->fold.n_events > 0;
    recording->folds = &j->fold;
    recording->folded_ns = j->fold.n_events > 0 ? j->folded_ns : NULL;
}
