/* quern train --personalise: what was trained, made a user's. */
#ifndef QN_CLI_TRAIN_PERSONAL_H
#define QN_CLI_TRAIN_PERSONAL_H

#include "cli/train/training.h"

/* Of --personalise and what goes with it. */
extern const option_list personal_options;

/* Wrong usage of them is QN_ERROR_ARGUMENT. */
qn_status personal_check(const arguments *a);
qn_status personal_check_model(const arguments *a, const qn_model *model);

/* After training, where it is asked for. */
qn_status personal_run(training *t);

#endif
