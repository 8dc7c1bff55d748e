/* Accepted forms of --data: ~ is the user's home folder, and the kind of a path without prefix is
 * recognised by its content. */
#ifndef QN_CLI_DATA_NAME_H
#define QN_CLI_DATA_NAME_H

#include "base/memory.h"

/* The full form, in texts; says on standard error what a path was taken for. */
qn_status data_name_find(const char *given, qn_arena *texts, const char **name);

/* Whether two names are of one kind and their paths lead to the same places. */
bool data_name_is_same(const char *a, const char *b);

/* Whether the first path of a name, if it has one, leads anywhere from here. */
bool data_name_is_there(const char *name);

/* The name whose bytes that are no UTF-8 a checkpoint has written as \xe9; null: there are none. */
qn_status data_name_restore(const char *name, qn_arena *texts, const char **found);

/* Whether its first path is one from the current folder. */
bool data_name_is_relative(const char *name);

/* *found: the name with those of its paths that are not here but in the folder; null: there are
 * none. */
qn_status data_name_beside(const char *name, const char *folder, qn_arena *texts,
                           const char **found);

#endif
