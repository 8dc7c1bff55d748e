/* A simulated device for tests: a host thread with the CPU's operators stands for each of its
 * queues, in memory that the host can access only while it is mapped (page protection ends a
 * program that tries). Work is delayed at random and fails on demand, so plans for devices can be
 * tested without any. */
#ifndef QN_DEVICE_SIMULATED_H
#define QN_DEVICE_SIMULATED_H

#include "device/device.h"

typedef struct qn_simulated_options {
    uint64_t seed;         /* of its delays */
    int64_t most_delay_ns; /* before a work; 0: none */
    int slowed_percent;    /* of the time of a core that a work takes; up to 100: that of a core */
    int64_t lost_at;       /* it is lost when this many works have begun; negative: never */
} qn_simulated_options;

extern const qn_device qn_device_simulated; /* opened with qn_simulated_options */

/* The same in the host's memory, which cannot be lost: a core that is slower than others. */
extern const qn_device qn_device_slowed;

/* It is lost from now on, as if its process had been killed: what runs ends, nothing begins. From
 * any thread. */
void qn_simulated_kill(void *state);

/* It is as if it had been opened anew, to be lost at another work; while it does nothing. */
void qn_simulated_revive(void *state, int64_t lost_at);

#endif
