/* quern learn status: whether this device, or a recorded one, may train now. */
#ifndef QN_CLI_LEARN_STATUS_H
#define QN_CLI_LEARN_STATUS_H

#include "cli/options.h"

qn_status learn_status(const arguments *a);

#endif
