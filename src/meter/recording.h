/* The input of a measurement: operations, marks, events and readings, either of an engine with a
 * sampler or of another program's trace. It owns nothing; everything that it points to must outlive
 * the measurement. */
#ifndef QN_METER_RECORDING_H
#define QN_METER_RECORDING_H

#include "meter/load.h"
#include "meter/results/measurement.h"
#include "meter/roofline.h"
#include "meter/sampler.h"
#include "run/watch.h"

/* An operation that events may name. */
typedef struct qn_recorded_operation {
    qn_operation operation;
    int32_t program, item;
} qn_recorded_operation;

/* What the events of one operation came to. */
typedef struct qn_fold_row {
    int64_t calls, total_ns; /* of QN_EVENT_OPERATION and QN_EVENT_QUEUED */
    int64_t core_ns;         /* of QN_EVENT_OPERATION and QN_EVENT_SHARE */
} qn_fold_row;

/* Events of a stretch of whole measured steps that were not kept one by one. */
typedef struct qn_fold {
    int64_t begin_ns, end_ns; /* marks */
    int64_t n_events;
    const qn_fold_row *rows; /* (n_operations) */
} qn_fold;

/* A call whose events are its pieces: what it called itself lies between them. */
typedef struct qn_recorded_call {
    int32_t row;
    int64_t total_ns;
} qn_recorded_call;

typedef struct qn_recording {
    const qn_allocator *allocator;
    const char *machine; /* null: this one */
    int n_operations;
    const qn_recorded_operation *operations; /* ascending by (program, item) */
    int n_threads;                           /* of the team: what the roofline is taken for */
    const char *dtype;                       /* "f32", "f64"; null: unknown, so no roofline */
    const qn_roofline *roofline;             /* null: the one kept for this machine */
    qn_memory_use memory;

    /* Moments of qn_meter_mark, the first being the start: step k is from mark k to mark k + 1. */
    int64_t n_marks, skip_steps;
    const int64_t *marks_ns; /* (n_marks), rising */
    double samples_per_step; /* 0: unknown */

    size_t n_events;
    const qn_event *events; /* sorted by begin_ns */
    int64_t n_lost_events;
    /* Where events are pieces of calls: the measured calls, by which operations are counted and
     * timed. Null: every QN_EVENT_OPERATION is a call. */
    size_t n_calls;
    const qn_recorded_call *calls; /* (n_calls) */
    int n_folds;
    const qn_fold *folds; /* rising, disjoint; no event lies in them */
    /* By step: its time with an operation (qn_covered_ns), where its events were folded. */
    const int64_t *folded_ns; /* (n_marks - 1); null: no fold */

    int n_series;
    const qn_series *series; /* of each: channel, counts, n, readings; the rest is worked out */
    int n_said;
    const char *const *said; /* what sources said: "rapl: ..." */
    qn_sampler_cost sampling;
    qn_load begin, end; /* of the machine, around the run */
    size_t meter_bytes; /* most memory that the meter held */
} qn_recording;

/* Fill a recording's operations, threads, type and memory from an engine; its series, texts and
 * cost from a sampler. What they need beyond that is in the arena. */
qn_status qn_recording_add_engine(qn_recording *recording, qn_arena *arena,
                                  const qn_engine *engine);
qn_status qn_recording_add_sampler(qn_recording *recording, qn_arena *arena,
                                   const qn_sampler *sampler);

/* Row of an event's operation, or -1: no operation, or one that the recording does not know. */
int qn_recording_row(const qn_recording *recording, const qn_event *event);

/* Time of [begin_ns, end_ns) in which at least one of the events (sorted by begin_ns) ran;
 * operations and shares count, whole runs and marks do not. */
int64_t qn_covered_ns(const qn_event *events, size_t n_events, int64_t begin_ns, int64_t end_ns);

/* Fills a measurement from a recording; its arena is created here. Fails where no step is left to
 * measure. */
qn_status qn_measurement_init(const qn_recording *recording, qn_measurement *measurement);
void qn_measurement_deinit(qn_measurement *measurement);

#endif
