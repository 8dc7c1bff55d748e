/* Maps the clock of another program's trace to ours. The clocks are compared repeatedly while the
 * program runs; between two comparisons their difference is interpolated linearly. The trace's
 * clock is identified by its own marks or, without any, by when the program ran. */
#ifndef QN_METER_CLOCKS_H
#define QN_METER_CLOCKS_H

#include "format/trace.h"
#include "os/os.h"

enum { QN_CLOCK_MOST = 256 };

/* No mapping is given out that may be further from the truth. */
#define QN_CLOCK_MOST_ERROR_NS 1000000

/* Comparisons, in order of time. When there is no room, every other one goes, and from then on
 * every other call of add is passed over, and so on. */
typedef struct qn_clock_log {
    int n;
    int64_t n_added, stride;
    qn_clock_offset offsets[QN_CLOCK_MOST][QN_CLOCK_COUNT]; /* (n) */
} qn_clock_log;

void qn_clock_log_init(qn_clock_log *log);
void qn_clock_log_add(qn_clock_log *log);
/* The same, whatever the stride: the last one. */
void qn_clock_log_end(qn_clock_log *log);

typedef struct qn_clock_point {
    int64_t file_ns, our_ns;
} qn_clock_point;

/* Straight lines between points; before the first and after the last, time runs as ours does. */
typedef struct qn_clock_map {
    char how[160];    /* "the wall clock", in words */
    int64_t error_ns; /* most */
    int n;
    qn_clock_point points[QN_CLOCK_MOST]; /* (n), both rising */
} qn_clock_map;

/* "realtime", "monotonic", "boottime". */
const char *qn_clock_name(qn_clock clock);

typedef struct qn_clock_question {
    const char *path; /* of the trace, for messages */
    const qn_trace_reading *reading;
    const qn_clock_log *log;
    int64_t begin_ns, end_ns; /* when the program ran */
    const char *clock;        /* qn_clock_name of the trace's clock; null: find out */
} qn_clock_question;

/* Finds how the slices' times are ours. In this order:
 * 1. marks of the trace: slices named CLOCK_ns=NUMBER (monotonic_ns=12561819861725), two or more
 * in a row on one track, each made right after CLOCK was read: they say the time themselves;
 * 2. the clock in which all slices lie within the run; the file's baseTimeNanoseconds is added
 * where there is one. Fails where none fits, two fit differently, or the error would be too large,
 * and says what to do. */
qn_status qn_clock_map_find(const qn_clock_question *question, qn_clock_map *map);

int64_t qn_clock_map_apply(const qn_clock_map *map, int64_t file_ns);

/* Whether a slice is such a mark, and its clock and time. */
bool qn_clock_mark(const char *name, qn_clock *clock, int64_t *at_ns);

#endif
