/* Chrome trace events (the Trace Event Format's JSON object form), which Perfetto opens: writing
 * them, and reading those of other frameworks. Times are microseconds in the file and nanoseconds
 * here. */
#ifndef QN_FORMAT_TRACE_H
#define QN_FORMAT_TRACE_H

#include "quern/base.h"

#include <stddef.h>
#include <stdint.h>

/* ---- writing: calls within qn_trace_write's body, each one event ---- */
typedef struct qn_trace qn_trace;

/* Writes a trace file, whole or not at all; body puts the events. */
qn_status qn_trace_write(const char *path, qn_status (*body)(void *user, qn_trace *trace),
                         void *user);

qn_status qn_trace_process_name(qn_trace *trace, int pid, const char *name);
qn_status qn_trace_thread_name(qn_trace *trace, int pid, int tid, const char *name);
/* A complete event (ph X). names and values (n_args) are further facts: numbers; one that is not
 * finite is left out. */
qn_status qn_trace_slice(qn_trace *trace, int pid, int tid, const char *name, const char *category,
                         int64_t begin_ns, int64_t end_ns, int n_args, const char *const *names,
                         const double *values);
/* A counter (ph C) at a moment; a value that is not finite is a gap, and is not written. */
qn_status qn_trace_counter(qn_trace *trace, int pid, const char *name, const char *unit,
                           int64_t at_ns, double value);

/* ---- reading ---- */

/* A stretch of work of a file: ph X, or a B with its E. Texts are the reading's. */
typedef struct qn_trace_slice_read {
    const char *name, *category; /* "" where there is none */
    int64_t begin_ns, end_ns;    /* of the file's own clock */
    int32_t track;
    uint32_t order; /* in the file: of two with equal times, the later is inside the earlier */
} qn_trace_slice_read;

/* Where slices lie one after or inside another: a thread, a stream of a GPU. */
typedef struct qn_trace_track {
    const char *pid, *tid; /* as the file has them: numbers or names */
} qn_trace_track;

typedef struct qn_trace_reading qn_trace_reading;

/* Reads a file of either form (an object with traceEvents, or the bare array, which may be cut
 * off; gzipped or not). An error names the place. Instants, flows, counters and metadata are
 * passed over, and so is a B or E without the other; a negative duration counts as 0. */
qn_status qn_trace_read(const qn_allocator *allocator, const char *path,
                        qn_trace_reading **reading);
void qn_trace_reading_destroy(qn_trace_reading *reading);

/* Slices sorted by (track, begin, longest first, order). */
const qn_trace_slice_read *qn_trace_reading_slices(const qn_trace_reading *reading, size_t *n);
const qn_trace_track *qn_trace_reading_tracks(const qn_trace_reading *reading, size_t *n);

/* A number or text of the file's top level ("baseTimeNanoseconds"), or null. */
const char *qn_trace_reading_fact(const qn_trace_reading *reading, const char *name);

/* ---- self times ---- */

/* Shares the time of slices, sorted as a reading has them, so that every moment of a track in
 * which one of its slices runs belongs to exactly one: of those that run, the one that began last.
 * Calls put for each stretch, in the order of a track's time; the sum of all is the time that is
 * covered. */
qn_status qn_trace_self_times(const qn_allocator *allocator, const qn_trace_slice_read *slices,
                              size_t n, void *context,
                              qn_status (*put)(void *context, size_t slice, int64_t begin_ns,
                                               int64_t end_ns));

#endif
