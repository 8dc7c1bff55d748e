/* See measurement.h and recording.h: steps and sums first, then everything derived from them. */
#include "meter/results/measurement.h"

#include "base/status.h"
#include "meter/recording.h"
#include "meter/results/metrics.h"
#include "meter/results/tables.h"
#include "os/heap.h"

static qn_status make(const qn_recording *r, const qn_roofline *roofline, qn_measurement *m) {
    qn_operation_totals sums = {.rows = NULL};
    QN_TRY(qn_operation_totals_take(r, m, &sums));
    QN_TRY(qn_metrics_series(r, m));
    QN_TRY(qn_metrics_fill(r, &sums, roofline, m));
    QN_TRY(qn_tables_make(r, &sums, m));
    m->events = r->events;
    m->n_events = r->n_events;
    m->n_lost_events = r->n_lost_events;
    m->n_ticks = r->sampling.n_ticks;
    m->n_missed_ticks = r->sampling.n_missed;
    m->sampling_s = (double)r->sampling.busy_ns * 1e-9;
    m->meter_bytes = r->meter_bytes;
    m->machine = r->machine;
    m->n_threads = r->n_threads;
    m->others = qn_load_others(&r->begin, &r->end);
    m->n_measurements = 1;
    return qn_metrics_say(r, m);
}

qn_status qn_measurement_init(const qn_recording *recording, qn_measurement *measurement) {
    qn_recording r = *recording;
    qn_measurement made = {.n_steps = 0};
    qn_roofline kept = {.n_peaks = 0};
    r.allocator = qn_allocator_or_default(recording->allocator);
    if (!r.roofline)
        QN_TRY(qn_roofline_load(r.allocator, &kept));
    QN_TRY(qn_allocate(r.allocator, 1, sizeof *made.arena, &made.arena));
    qn_arena_init(made.arena, r.allocator);
    const qn_status status = make(&r, r.roofline ? r.roofline : &kept, &made);
    if (status != QN_OK)
        qn_measurement_deinit(&made);
    else
        *measurement = made;
    return status;
}

void qn_measurement_deinit(qn_measurement *measurement) {
    qn_arena *arena = measurement->arena;
    if (!arena)
        return;
    const qn_allocator *allocator = arena->allocator;
    qn_arena_deinit(arena);
    qn_release(allocator, arena, 1, sizeof *arena);
    measurement->arena = NULL;
}
