/* Options that decide how data are read, of all commands that read a data set; settings of a run,
 * which checkpoints keep. */
#ifndef QN_CLI_LOOK_READING_H
#define QN_CLI_LOOK_READING_H

#include "cli/options.h"
#include "quern/checkpoint.h"

extern const option_list reading_options;

/* Puts those of these options and of tables' that were given into settings, under their names. */
qn_status reading_store(const arguments *a, qn_metadata *settings);

#endif
