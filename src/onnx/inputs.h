/* What a caller says of a file's inputs: the values of those that decide branches or shapes,
 * extents that the file leaves open, and which axis is the batch. Here the batch is always the
 * first axis of an input and of an output: where the file has it elsewhere, or has none, values are
 * moved at the network's borders, and a network without a batch takes one sample at a time. */
#ifndef QN_ONNX_INPUTS_H
#define QN_ONNX_INPUTS_H

#include "onnx/import.h"

enum { QN_ONNX_NO_BATCH = -1 }; /* qn_onnx_place.batch_axis */

/* The model with constants in place of the inputs that values ("sr=16000,size=224x224") name. They
 * are the last n_set initialisers of the result, which is in the arena. */
qn_status qn_onnx_set_values(const qn_onnx_model *model, const char *values, qn_arena *arena,
                             const qn_onnx_model **with, int *n_set);

/* These never train. */
void qn_onnx_fix_values(const qn_onnx_model *with, int n_set, qn_onnx_decisions *decisions);

/* "image=1x3x512x512,state=2xNx64,one=none:5x8": extents of inputs; N, else the first, is the
 * batch. Of outputs the batch's axis alone. */
qn_status qn_onnx_set_shapes(qn_onnx_network *network, const char *shapes);

/* Whether an input has an axis for the samples of a batch. */
bool qn_onnx_has_batch(const qn_onnx_network *network);

/* Finds the outputs' batch axes where an input has its own elsewhere than in front. */
qn_status qn_onnx_find_batches(qn_onnx_network *network);

/* The axis of the file that is an axis of the place. */
int qn_onnx_file_axis(const qn_onnx_place *place, int axis);

/* Whether the file has the axes in another order, or one less. */
bool qn_onnx_is_moved(const qn_onnx_place *place);

/* A value of a place that is moved, as the file has it, and back. QN_NO_VALUE: the graph failed. */
qn_value qn_onnx_to_file(const qn_onnx_network *network, const qn_onnx_place *place,
                         qn_graph *graph, qn_value value);
qn_value qn_onnx_from_file(const qn_onnx_place *place, qn_graph *graph, qn_value value,
                           bool is_image);

#endif
