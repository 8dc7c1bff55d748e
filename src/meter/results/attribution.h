/* Distributes readings over spans of work by time. Energy is conserved: the shares of the spans and
 * of idle time add up to the measured total, whatever ran in parallel. */
#ifndef QN_METER_RESULTS_ATTRIBUTION_H
#define QN_METER_RESULTS_ATTRIBUTION_H

#include "meter/sources/source.h"

/* A stretch of work for a row of a table. */
typedef struct qn_span {
    int64_t begin_ns, end_ns;
    int32_t row;
    float weight; /* cores that it kept busy: its part in what runs at the same time */
} qn_span;

typedef struct qn_shares {
    double *rows; /* (n_rows) value x seconds: joules of watts */
    double idle;  /* of time with no span */
    double total; /* rows + idle */
} qn_shares;

/* Adds the integral of readings (of one channel, in order) over [begin_ns, end_ns) to shares: in
 * every stretch of time between two borders of spans or readings, to the spans that run in it, in
 * proportion to their weights. spans are sorted by begin_ns. */
qn_status qn_attribute(const qn_allocator *allocator, const qn_reading *readings, size_t n_readings,
                       const qn_span *spans, size_t n_spans, int64_t begin_ns, int64_t end_ns,
                       qn_shares *shares);

#endif
