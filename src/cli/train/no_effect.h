/* Options that a user gave and that would change nothing in this run: they are refused, since what
 * a command says and what it does would differ. */
#ifndef QN_CLI_TRAIN_NO_EFFECT_H
#define QN_CLI_TRAIN_NO_EFFECT_H

#include "cli/train/training.h"

/* Of a task that is open. QN_ERROR_ARGUMENT: the option, and what to do. */
qn_status no_effect_check(const training *t);

#endif
