/* What an export puts into a file beside the network, and an import knows again: constants that
 * never train, the nodes that read them, and the properties that say so. */
#ifndef QN_ONNX_INSIDE_H
#define QN_ONNX_INSIDE_H

/* In front of the network: mean and deviation of samples. */
#define QN_ONNX_PREPARED_INSIDE   "prepared_inside"
#define QN_ONNX_PREPARATION_SCALE "preparation/scale"
#define QN_ONNX_PREPARATION_SHIFT "preparation/shift"

/* At its end: targets that training scales, in their own units. An import as a classifier leaves
 * these nodes out. */
#define QN_ONNX_TARGETS_INSIDE "targets_inside"
#define QN_ONNX_TARGETS_SCALED "targets/scaled"
#define QN_ONNX_TARGET_SCALE   "targets/scale"
#define QN_ONNX_TARGET_MEAN    "targets/mean"

#endif
