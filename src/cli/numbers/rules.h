/* Tables of rules (kernels/rules.h) as values of --rules: "built-in", or all of a table's rows in
 * one line, as checkpoints keep them. */
#ifndef QN_CLI_RULES_H
#define QN_CLI_RULES_H

#include "base/memory.h"

/* value: "built-in", a table's text, or the path of a file with one. A table that is none is
 * QN_ERROR_FORMAT with the file and the line. */
qn_status rules_canonical(const char *value, qn_arena *texts, const char **canonical);

enum { RULES_NAME = 32 };

/* What to call a value in messages: "built-in", or its hash. */
const char *rules_name(const char *canonical, char text[RULES_NAME]);

#endif
