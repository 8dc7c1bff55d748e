/* What is known of watts and clocks for --prefer and --power: a sensor's watts where the device has
 * one, and the clock that is best by them, where the system lets it be set. */
#ifndef QN_METER_CORE_POWER_H
#define QN_METER_CORE_POWER_H

#include "meter/sources/source.h"
#include "os/frequency.h"
#include "quern/engine.h"

/* Fills the watts of a wish by the first sensor of the device or its processor: idle, then with n
 * threads at work, about a third of a second in all. False, and nothing changed: there is none, or
 * its readings do not rise. */
bool qn_core_power_sense(const qn_source_options *options, int n, qn_core_wish *wish);

/* Opens the first source with the measured watts of the device or its processor that gives them at
 * least every so often; null: there is none. */
enum { QN_CORE_POWER_CHANNELS = 64 };
const qn_source_kind *qn_core_power_find(const qn_source_options *options, int64_t period_ns,
                                         void **source, int *channel);

/* The level (a part of the clock) that is best for a wish on n cores, of those that are given. A
 * core's watts rise with the square of its clock, as in the meter's model, and time is taken to
 * rise as the clock falls. Under a ceiling that is the one at which as many cores as it allows do
 * most. */
double qn_core_power_choose(const qn_core_wish *wish, int n, const double *levels, int n_levels);

/* Sets the clock that is best for a wish, whose watts become those at it. *frequency: to be closed
 * when training has ended; null: nothing was set. *level: the part of the clock. */
qn_status qn_core_power_begin(const char *root, int n, qn_core_wish *wish, qn_frequency **frequency,
                              double *level);

#endif
