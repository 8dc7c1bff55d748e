/* quern learn ACTION DIR: the service that learns in a folder, and what it did there. */
#ifndef QN_CLI_LEARN_SERVICE_H
#define QN_CLI_LEARN_SERVICE_H

#include "cli/options.h"

#define LEARN_ACTIONS                                                                              \
    "start, status, versions, samples, log, pause, resume, undo, forget (each with DIR)"

/* Whether an action is one that means nothing without a folder. */
bool learn_needs_folder(const char *action);

qn_status learn_in_folder(const arguments *a);

#endif
