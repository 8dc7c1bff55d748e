/* What a device says of itself now, for a policy: power supplies, temperatures, load average,
 * memory and its pressure, and when a terminal was last typed at. All files are read below a root,
 * so that a recorded tree (tests/devices) can stand for a device. What it does not say is NaN. */
#ifndef QN_LEARN_SENSES_SENSES_H
#define QN_LEARN_SENSES_SENSES_H

#include "learn/policy.h"

typedef struct qn_senses_options {
    const qn_allocator *allocator;
    const char *root; /* null: this device; else the folder of a recorded tree */
} qn_senses_options;

/* cool_celsius: the usual limit of "cool": 38 where the battery's temperature is known, which is
 * close to what a hand feels, else 65, of the processor. */
qn_status qn_senses_read(const qn_senses_options *options, qn_moment *moment, double *cool_celsius);

/* Minutes since a terminal was typed at; NaN: unknown. Quick enough for every step. */
double qn_senses_idle(void);

#endif
