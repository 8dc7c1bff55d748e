/* A ceiling of power that a sensor's watts are held to while something runs: each second's mean is
 * compared with it, and threads and the clock are chosen anew by what a core was seen to take.
 * Above the ceiling at once, to less than before; below it after some seconds, and never to more
 * than in the beginning. */
#ifndef QN_METER_POWER_CEILING_H
#define QN_METER_POWER_CEILING_H

#include "meter/sources/source.h"
#include "os/frequency.h"
#include "quern/engine.h"

typedef struct qn_power_ceiling qn_power_ceiling;

/* For n threads, by wish->most_watts. clock: what the wish has already set, to `level`, or null:
 * one is opened if the system lets it. *ceiling is null where there is no sensor. */
qn_status qn_power_ceiling_open(const qn_source_options *options, const qn_core_wish *wish, int n,
                                qn_frequency *clock, double level, qn_power_ceiling **ceiling);
void qn_power_ceiling_close(qn_power_ceiling *ceiling);

/* To be called often, as after every step, with qn_clock_ns. Whether threads or the clock have
 * changed; the clock is set by then. */
bool qn_power_ceiling_look(qn_power_ceiling *ceiling, int64_t now_ns);

int qn_power_ceiling_threads(const qn_power_ceiling *ceiling);
double qn_power_ceiling_level(const qn_power_ceiling *ceiling); /* part of the clock */
double qn_power_ceiling_watts(const qn_power_ceiling *ceiling); /* of the last second */

#endif
