/* Recorded use of a device: a CSV file with a column "second" (of local time, rising) and "in_use"
 * (0 or 1), and any of charging (0 or 1), battery (per cent), celsius, load (per core), stall (per
 * cent), memory (MiB free). A row holds until the next. A trace that is asked beyond its end begins
 * again at its first day. */
#ifndef QN_LEARN_TRACE_H
#define QN_LEARN_TRACE_H

#include "format/csv.h"
#include "learn/policy.h"

/* sense[QN_SENSE_IDLE] is 0 or 1 here: whether nobody uses the device. */
typedef struct qn_trace {
    const qn_allocator *allocator;
    qn_moment *rows; /* (n_rows), seconds rise */
    size_t n_rows, room;
    int64_t n_days; /* that it covers, from the midnight before its first row */
} qn_trace;

enum { QN_TRACE_MOST_DAYS = 3660 };

qn_status qn_trace_open(const qn_allocator *allocator, const char *path, qn_trace *trace);

/* The same of a text in memory; name: for messages. */
qn_status qn_trace_parse(const qn_allocator *allocator, const char *name, const char *text,
                         size_t bytes, qn_trace *trace);
void qn_trace_close(qn_trace *trace);

/* What it says at a second since the midnight of its first day. */
const qn_moment *qn_trace_at(const qn_trace *trace, int64_t second);

#endif
