/* The load of other programs while something is measured: processor time from /proc/stat at the
 * beginning and the end, minus that of the measured process. Time taken by the host of a virtual
 * machine (steal) counts as others' load. Reading allocates nothing; invalid text means no load,
 * never a wrong one. */
#ifndef QN_METER_LOAD_H
#define QN_METER_LOAD_H

#include "quern/base.h"

#include <stdbool.h>

/* Sums over all processors since the system started. */
typedef struct qn_load {
    bool is_known;
    int64_t all_ns, busy_ns; /* busy_ns <= all_ns; with steal, without waiting for disks */
    int64_t own_ns;          /* processor time of the measured process */
} qn_load;

/* From the text of /proc/stat, which ends with 0; own_ns is 0. */
qn_load qn_load_parse(const char *text);

/* Now. root: "" for this device; of a recorded tree own_ns is 0, for nobody runs there. process:
 * the measured one. */
qn_load qn_load_read(const char *root, int64_t process);

/* The part of the processors' time between two moments, 0 to 1, that other programs used. NaN where
 * one of the two is not known, or fewer than 10 ticks of 10 ms have passed on the processors. */
double qn_load_others(const qn_load *begin, const qn_load *end);

/* Others that use so much are worth a warning, and another measurement. */
#define QN_LOAD_NOTED 0.05

#endif
