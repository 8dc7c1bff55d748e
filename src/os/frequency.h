/* The clocks of the cores, where the system lets this process set them: Linux's cpufreq, whose
 * limit scaling_max_freq of each core is written. The limits come back when it is closed. */
#ifndef QN_OS_FREQUENCY_H
#define QN_OS_FREQUENCY_H

#include "quern/base.h"

typedef struct qn_frequency qn_frequency;

enum { QN_FREQUENCY_LEVELS = 8 };

/* root: "", or the folder of a tree of files that stands for a device. *frequency is null where no
 * clock can be set. */
qn_status qn_frequency_open(const qn_allocator *allocator, const char *root,
                            qn_frequency **frequency);
void qn_frequency_close(qn_frequency *frequency);

/* Parts of the clocks as they were found, falling from 1: those that the driver lists, or some. */
int qn_frequency_levels(const qn_frequency *frequency, double levels[QN_FREQUENCY_LEVELS]);

/* Keeps every core to a part of its clock; false: the system did not take it from some core. */
bool qn_frequency_set(qn_frequency *frequency, double part);

#endif
