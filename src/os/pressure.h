/* Watches how short of memory the system is: the share of time in which some program waits for
 * memory (Linux's pressure stall information). A thread calls back when the pressure becomes high
 * and when it has been low again for a while. */
#ifndef QN_OS_PRESSURE_H
#define QN_OS_PRESSURE_H

#include "quern/base.h"

typedef struct qn_pressure qn_pressure;

typedef struct qn_pressure_options {
    const qn_allocator *allocator; /* null: the heap */
    const char *path;              /* null: /proc/pressure/memory */
    double high_percent;           /* of the time of ten seconds that something waits; 0: 10 */
    int64_t calm_ns;               /* below it for so long: at ease again; 0: 10 s */
    int64_t every_ns;              /* between looks at the file; 0: 1 s */
    void *user;
    /* On a thread of its own; may take its time. */
    void (*changed)(void *user, bool is_short);
} qn_pressure_options;

/* Where the system lets it, it also wakes us as soon as it becomes short (a trigger). A system that
 * does not say its pressure is QN_ERROR_UNSUPPORTED. */
qn_status qn_pressure_open(const qn_pressure_options *options, qn_pressure **pressure);

/* Waits for a callback that is under way. Null is fine. */
void qn_pressure_close(qn_pressure *pressure);

#endif
