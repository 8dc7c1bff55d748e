/* Files with lists of names. */
#ifndef QN_CLI_NAME_LIST_H
#define QN_CLI_NAME_LIST_H

#include "base/memory.h"
#include "quern/base.h"

/* The names of a file: its lines without blanks around them, except empty ones and those that
 * begin with "#", or the texts of a JSON list. As a text in which a line break stands before
 * each name; one that begins so already stays. */
qn_status name_list_read(const char *value, qn_arena *texts, const char **names);

#endif
