/* Numerics (numerics/numerics.h) as values of --numerics: "f32", or a description in one line, as
 * checkpoints keep it. */
#ifndef QN_CLI_NUMERICS_H
#define QN_CLI_NUMERICS_H

#include "base/memory.h"

/* value: "f32", the name of built-in numerics, a description, or the path of a file with one. */
qn_status numerics_canonical(const char *value, qn_arena *texts, const char **canonical);

#endif
