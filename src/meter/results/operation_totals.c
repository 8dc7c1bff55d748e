/* See operation_totals.h. Steps are processed one after another, so only one step's spans need
 * memory. */
#include "meter/results/operation_totals.h"

#include "base/status.h"
#include "meter/results/attribution.h"
#include "meter/results/readings.h"

#include <math.h>

/* events[next] has not begun; spans[0..n_spans) run in the step at hand, sorted by begin. */
typedef struct walk {
    const qn_recording *recording;
    qn_measurement *m;
    qn_operation_totals *sums;
    size_t next;
    qn_span *spans;
    size_t n_spans, capacity;
    qn_part core_part;
    int fold;        /* folds before it are done */
    double fold_j;   /* energy of operations of folds[fold] so far */
    double fold_use; /* core seconds, likewise */
} walk;

/* Whose utilisation tells how many cores are busy: the watched process, or where that is not known
 * the device's cores. */
static qn_part find_core_part(const qn_recording *recording) {
    for (int i = 0; i < recording->n_series; i++) {
        const qn_channel *c = &recording->series[i].channel;
        if (c->quantity == QN_QUANTITY_UTILISATION && c->part == QN_PART_PROCESS &&
            recording->series[i].n > 0)
            return QN_PART_PROCESS;
    }
    return QN_PART_CORE;
}

static bool is_core(const walk *w, const qn_series *series) {
    return series->channel.quantity == QN_QUANTITY_UTILISATION &&
           series->channel.part == w->core_part;
}

/* ---- spans of a step ---- */

static qn_status add_span(walk *w, qn_span span) {
    QN_TRY(qn_grow(w->recording->allocator, &w->spans, &w->capacity, w->n_spans + 1,
                   sizeof *w->spans));
    w->spans[w->n_spans++] = span;
    return QN_OK;
}

static void count_event(const qn_event *e, qn_fold_row *sums) {
    const int64_t length_ns = e->end_ns - e->begin_ns;
    const bool is_call = e->kind != QN_EVENT_SHARE;
    sums->core_ns += e->kind != QN_EVENT_QUEUED ? length_ns : 0;
    sums->calls += is_call;
    sums->total_ns += is_call ? length_ns : 0;
}

/* Events that reach beyond the step before stay; those that begin in this one are added. */
static qn_status find_spans(walk *w, const qn_step_row *step) {
    const qn_recording *r = w->recording;
    size_t n = 0;
    for (size_t i = 0; i < w->n_spans; i++) {
        if (w->spans[i].end_ns > step->begin_ns)
            w->spans[n++] = w->spans[i];
    }
    w->n_spans = n;
    for (; w->next < r->n_events && r->events[w->next].begin_ns < step->end_ns; w->next++) {
        const qn_event *e = &r->events[w->next];
        const int row = qn_recording_row(r, e);
        if (row < 0 || e->end_ns <= step->begin_ns)
            continue;
        if (e->kind != QN_EVENT_QUEUED)
            QN_TRY(add_span(w, (qn_span){e->begin_ns, e->end_ns, row, 1}));
        if (e->begin_ns >= step->begin_ns) /* else of the steps that are left out */
            count_event(e, &w->sums->rows[row]);
    }
    return QN_OK;
}

/* Time with an operation, and between operations, each from the events' own moments. */
static void lay_spans(const walk *w, qn_step_row *step) {
    int64_t reached = step->begin_ns, covered_ns = 0, idle_ns = 0;
    for (size_t i = 0; i < w->n_spans; i++) {
        const qn_span *span = &w->spans[i];
        const int64_t end = span->end_ns < step->end_ns ? span->end_ns : step->end_ns;
        const int64_t begin = span->begin_ns > reached ? span->begin_ns : reached;
        if (end <= begin)
            continue;
        idle_ns += begin - reached;
        covered_ns += end - begin;
        reached = end;
    }
    idle_ns += step->end_ns - reached;
    step->operations_ms = (double)covered_ns * 1e-6;
    step->idle_ms = (double)idle_ns * 1e-6;
}

/* ---- readings over a step ---- */

/* Shares out what the channels of one sort read. Spans null: to idle. *seen: there was something.
 */
static qn_status share_out(const walk *w, const qn_step_row *step, bool is_energy,
                           const qn_span *spans, qn_shares *shares, bool *seen) {
    const qn_recording *r = w->recording;
    for (int i = 0; i < r->n_series; i++) {
        const qn_series *s = &r->series[i];
        int64_t seen_ns;
        if (is_energy ? !s->counts : !is_core(w, s))
            continue;
        qn_readings_integral(s->readings, s->n, step->begin_ns, step->end_ns, &seen_ns);
        if (seen_ns == 0)
            continue;
        *seen = true;
        QN_TRY(qn_attribute(r->allocator, s->readings, s->n, spans, spans ? w->n_spans : 0,
                            step->begin_ns, step->end_ns, shares));
    }
    return QN_OK;
}

static qn_status take_readings(walk *w, qn_step_row *step, const qn_span *spans, qn_shares *energy,
                               qn_shares *use) {
    bool has_energy = false, has_core = false;
    QN_TRY(share_out(w, step, true, spans, energy, &has_energy));
    QN_TRY(share_out(w, step, false, spans, use, &has_core));
    step->energy_mj = has_energy ? energy->total * 1e3 : NAN;
    w->sums->has_energy |= has_energy;
    w->sums->has_core |= has_core;
    return QN_OK;
}

static qn_status take_kept(walk *w, qn_step_row *step) {
    qn_shares energy = {.rows = w->sums->energy_j}, use = {.rows = w->sums->core_s};
    QN_TRY(find_spans(w, step));
    lay_spans(w, step);
    QN_TRY(take_readings(w, step, w->spans, &energy, &use));
    w->sums->idle_j += energy.idle;
    return QN_OK;
}

/* ---- steps whose events were folded ---- */

/* Operations get the part of a step in which they ran; which one what, end_fold says. */
static qn_status take_folded(walk *w, qn_step_row *step, int64_t covered_ns) {
    const int64_t length_ns = step->end_ns - step->begin_ns;
    const double part = length_ns > 0 ? (double)covered_ns / (double)length_ns : 0;
    qn_shares energy = {.rows = NULL}, use = {.rows = NULL};
    w->n_spans = 0;
    step->operations_ms = (double)covered_ns * 1e-6;
    step->idle_ms = (double)(length_ns - covered_ns) * 1e-6;
    QN_TRY(take_readings(w, step, NULL, &energy, &use));
    w->fold_j += energy.total * part;
    w->fold_use += use.total * part;
    w->sums->idle_j += energy.total * (1 - part);
    return QN_OK;
}

/* Shares out what the operations of a fold got, in proportion to their core time. */
static void end_fold(walk *w) {
    const qn_fold *fold = &w->recording->folds[w->fold++];
    qn_operation_totals *sums = w->sums;
    double core_ns = 0;
    for (int i = 0; i < w->recording->n_operations; i++)
        core_ns += (double)fold->rows[i].core_ns;
    for (int i = 0; i < w->recording->n_operations && core_ns > 0; i++) {
        const double part = (double)fold->rows[i].core_ns / core_ns;
        sums->rows[i].calls += fold->rows[i].calls;
        sums->rows[i].total_ns += fold->rows[i].total_ns;
        sums->rows[i].core_ns += fold->rows[i].core_ns;
        sums->energy_j[i] += w->fold_j * part;
        sums->core_s[i] += w->fold_use * part;
    }
    if (!(core_ns > 0))
        sums->idle_j += w->fold_j;
    w->fold_j = w->fold_use = 0;
    w->m->n_folded_events += fold->n_events;
}

static qn_status take_step(walk *w, int64_t index, qn_step_row *step) {
    const qn_recording *r = w->recording;
    if (w->fold >= r->n_folds || step->begin_ns < r->folds[w->fold].begin_ns)
        return take_kept(w, step);
    QN_TRY(take_folded(w, step, r->folded_ns[index]));
    if (step->end_ns >= r->folds[w->fold].end_ns)
        end_fold(w);
    return QN_OK;
}

/* ---- all ---- */

/* Where calls are given, they count, and not the pieces that events are. */
static void take_calls(const qn_recording *r, qn_operation_totals *sums) {
    for (int i = 0; i < r->n_operations && r->calls; i++)
        sums->rows[i].calls = sums->rows[i].total_ns = 0;
    for (size_t i = 0; i < r->n_calls && r->calls; i++) {
        sums->rows[r->calls[i].row].calls++;
        sums->rows[r->calls[i].row].total_ns += r->calls[i].total_ns;
    }
}

static qn_status take_steps(walk *w, qn_step_row *steps) {
    const qn_recording *r = w->recording;
    for (int i = 0; i < w->m->n_steps; i++) {
        const int64_t index = r->skip_steps + i;
        steps[i].begin_ns = r->marks_ns[index];
        steps[i].end_ns = r->marks_ns[index + 1];
        QN_TRY(take_step(w, index, &steps[i]));
    }
    take_calls(r, w->sums);
    return QN_OK;
}

static qn_status check_steps(const qn_recording *r) {
    if (r->n_marks - 1 > r->skip_steps)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT,
                   "no step was measured: %lld were run, and the first %lld are skipped; run more, "
                   "or skip fewer",
                   (long long)(r->n_marks > 0 ? r->n_marks - 1 : 0), (long long)r->skip_steps);
}

qn_status qn_operation_totals_take(const qn_recording *r, qn_measurement *m,
                                   qn_operation_totals *sums) {
    const size_t n = (size_t)r->n_operations;
    walk w = {.recording = r, .m = m, .sums = sums, .core_part = find_core_part(r)};
    QN_TRY(check_steps(r));
    m->n_steps = (int)(r->n_marks - 1 - r->skip_steps);
    m->skipped_steps = r->skip_steps;
    m->begin_ns = r->marks_ns[r->skip_steps];
    m->end_ns = r->marks_ns[r->n_marks - 1];
    qn_step_row *steps = qn_arena_allocate(m->arena, (size_t)m->n_steps, sizeof *steps);
    sums->rows = qn_arena_allocate(m->arena, n + 1, sizeof *sums->rows);
    sums->energy_j = qn_arena_allocate(m->arena, n + 1, sizeof *sums->energy_j);
    sums->core_s = qn_arena_allocate(m->arena, n + 1, sizeof *sums->core_s);
    if (!steps || !sums->rows || !sums->energy_j || !sums->core_s)
        return QN_ERROR_MEMORY;
    m->steps = steps;
    const qn_status status = take_steps(&w, steps);
    qn_release(r->allocator, w.spans, w.capacity, sizeof *w.spans);
    return status;
}
