/* Descriptions of integer and mixed-precision training: which type, scale and rounding weights,
 * activations, errors and gradients have, as JSON (docs/numerics.md). Tasks take one as the setting
 * "numerics", engines as an option. */
#ifndef QUERN_NUMERICS_H
#define QUERN_NUMERICS_H

#include "quern/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_numerics qn_numerics;

/* Reads a description: the name of a built-in one, or JSON. allocator null: the C library's heap.
 * An engine needs it while it is created. */
QN_API qn_status qn_numerics_create(const qn_allocator *allocator, const char *text,
                                    qn_numerics **numerics);
QN_API void qn_numerics_destroy(qn_numerics *numerics);

/* Whether weights or activations are of a type: with QN_I8, qn_onnx_export writes int8. */
QN_API bool qn_numerics_has(const qn_numerics *numerics, qn_dtype dtype);

/* The built-in descriptions by number, as JSON; null beyond the last. The name is in it. */
QN_API const char *qn_numerics_built_in(int index);

#ifdef __cplusplus
}
#endif
#endif
