/* Settings that say how data are read, as options of the data floor. One place for all who open
 * data by settings: training, evaluation, quern inspect. */
#ifndef QN_TASKS_READING_H
#define QN_TASKS_READING_H

#include "quern/checkpoint.h"
#include "quern/data.h"

/* Sets what the settings say of reading. Texts stay the settings'. */
void qn_reading_set(const qn_metadata *settings, qn_data_options *options);

/* Those of it that say what a sample of rows of time is, and its group. */
void qn_reading_set_windows(const qn_metadata *settings, qn_data_options *options);

/* Gives the samples of an array the network's shape where only extents of 1 differ, and refuses
 * what would have to be resized, unless the settings ask for that. Other data are left alone. */
qn_status qn_reading_fit(const qn_metadata *settings, qn_data_source *source,
                         const qn_shape *input);

/* Whether samples are series of rows of a table, or of an array, that windows were made of. */
bool qn_reading_is_series(const qn_data_source *source);

/* Refuses settings that say how arrays are read if the data are no array. */
qn_status qn_reading_check(const qn_metadata *settings, const qn_data_source *source);

#endif
