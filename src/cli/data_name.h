/* Accepted forms of --data: ~ is the user's home folder, and the kind of a path without prefix is
 * recognised by its content. */
#ifndef QN_CLI_DATA_NAME_H
#define QN_CLI_DATA_NAME_H

#include "base/memory.h"

/* The full form, in texts; says on standard error what a path was taken for. */
qn_status data_name_find(const char *given, qn_arena *texts, const char **name);

#endif
