/* Numerics files: JSON that describes integer and mixed-precision training, and the built-in ones.
 */
#ifndef QN_NUMERICS_NUMERICS_H
#define QN_NUMERICS_NUMERICS_H

#include "base/memory.h"
#include "passes/quantise.h"
#include "quern/model.h"
#include "quern/numerics.h"

/* Parses and checks a description. Every field has a meaning, or it is refused. */
qn_status qn_numerics_read(const char *text, size_t bytes, qn_numerics *numerics);

/* The JSON of a name (a built-in one); null: there is none, and the message lists them. */
const char *qn_numerics_find(const char *name);

/* The JSON of a description without white space, in the arena's memory. */
qn_status qn_numerics_print(const char *text, size_t bytes, qn_arena *arena, const char **printed);

/* A recipe with the optimizer of the numerics, where these have one. */
qn_recipe qn_numerics_recipe(const qn_numerics *numerics, const qn_recipe *recipe);

/* How the types of a role are written: "i8, exponent". */
enum { QN_ROLE_TEXT = 48 };
extern const char *const qn_role_names[QN_ROLE_COUNT];
void qn_role_print(const qn_role_type *type, char text[QN_ROLE_TEXT]);

#endif
