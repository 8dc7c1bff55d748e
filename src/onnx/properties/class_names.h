/* The names that the file of another program has for the outputs of a classifier. */
#ifndef QN_ONNX_CLASS_NAMES_H
#define QN_ONNX_CLASS_NAMES_H

#include "onnx/properties/class_list.h"
#include "quern/onnx.h"

typedef struct qn_onnx_class_names {
    qn_class_list list;
    const char *where; /* "its property 'names'" */
} qn_onnx_class_names;

/* The names of n_outputs outputs, in the arena; none (list.n 0) where nothing says them, and where
 * quern wrote the file, whose properties say them. What has another number is said and not used.
 * Fails where two places say different names. */
qn_status qn_onnx_find_class_names(const qn_onnx_network *network, int n_outputs, const qn_log *log,
                                   qn_arena *arena, qn_onnx_class_names *names);

/* Whether a key of a file's properties is one that programs write names of classes under. */
bool qn_onnx_is_class_key(const char *key);

#endif
