/* quern train --start: trained weights as a start for photos. The body stays as it is, and the head
 * is fitted to its features at once, instead of in steps: the fit counts as the run's only step. */
#ifndef QN_CLI_TRAIN_START_H
#define QN_CLI_TRAIN_START_H

#include "cli/train/training.h"

extern const option_list start_options;

/* Which start the options and the data ask for, before the model is found: *name gets the model
 * that the command line does not name. Nothing where none is asked for. */
qn_status start_choose(training *t, const char **name);

/* Gives the settings what the start needs. */
qn_status start_set(training *t);

/* After the task did not fit into the budget: whether a smaller batch, which is set now, may. It
 * changes no bit of the result. */
bool start_shrinks_batch(training *t);

/* Whether the run fits a head: it is one of a start, and has not done so yet. */
bool start_is_due(const training *t);

/* Fits the head, and says what came of it. */
qn_status start_fit(training *t);

#endif
