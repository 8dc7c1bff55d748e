/* Settings that say how data are read, as options of the data floor. One place for all who open
 * data by settings: training, evaluation, quern inspect. */
#ifndef QN_TASKS_READING_H
#define QN_TASKS_READING_H

#include "quern/checkpoint.h"
#include "quern/data.h"

/* Sets what the settings say of reading. Texts stay the settings'. */
void qn_reading_set(const qn_metadata *settings, qn_data_options *options);

#endif
