/* Opening a task whose planning within a budget, or tuning, may take long: on a terminal, a line
 * shows the time spent from two seconds on. */
#ifndef QN_CLI_TRAIN_PATIENCE_H
#define QN_CLI_TRAIN_PATIENCE_H

#include "quern/task.h"

/* As qn_task_open. */
qn_status patience_open(const qn_task_options *options, qn_task **task);

#endif
