/* Utilisation from a counter of busy time. Such counters lag: running time is added when a task
 * stops, or at a tick of the scheduler. So a difference may exceed the interval; the excess is
 * carried over to the next reading, and nothing is lost. */
#ifndef QN_METER_SOURCES_BUSY_H
#define QN_METER_SOURCES_BUSY_H

#include "meter/sources/source.h"

typedef struct qn_busy {
    bool is_known;
    int64_t begin_ns; /* of the next reading */
    int64_t counter_ns;
    int64_t carry_ns; /* busy time that no reading has yet; below 0: that one had too early */
} qn_busy;

/* The reading of what was busy since the last call, at most so many cores. False: there is none,
 * since this is the first call, no time has passed, or the counter went back (it begins anew). */
bool qn_busy_add(qn_busy *busy, int64_t now_ns, int64_t counter_ns, double most_cores,
                 qn_reading *reading);

/* The same by what was counted since the last call, for counters of something else. */
bool qn_busy_add_span(qn_busy *busy, int64_t now_ns, int64_t counted_ns, double most_cores,
                      qn_reading *reading);

#endif
