/* The inside of an imported network, for the files of the import. */
#ifndef QN_ONNX_IMPORT_H
#define QN_ONNX_IMPORT_H

#include "base/memory.h"
#include "onnx/builder.h"

struct qn_onnx_network {
    const qn_allocator *allocator;
    const qn_log *log;
    bool keep_softmax;
    qn_onnx_file *file;
    const qn_onnx_model *source;
    qn_arena arena; /* places, texts, and constants that engines start from */
    int n_inputs, n_outputs;
    qn_onnx_place *inputs, *outputs;
    int softmax; /* the node of a softmax at the end that is left out; or -1 */
    qn_model model;
};

/* Reads a file and finds its places; whether its nodes can be built is not looked at. */
qn_status qn_onnx_read(const qn_onnx_options *options, const char *path, qn_onnx_network **network);

/* A graph of the network over inputs of the file's extents; those that it leaves open are guessed:
 * a batch of 1, images of 224x224, sequences of 8. The graph is the caller's, even after a failure
 * (null if there is none). outputs (n_outputs) */
qn_status qn_onnx_try(qn_onnx_network *network, bool training, qn_graph **graph, qn_value *outputs);

/* The model with layer norms and GELUs that are written out node by node as one node each; in the
 * arena. */
qn_status qn_onnx_recognise(const qn_onnx_model *model, qn_arena *arena,
                            const qn_onnx_model **simpler);

/* The first node whose output is a network's output: of a softmax at the end, or -1. */
int qn_onnx_softmax_at_end(const qn_onnx_model *model);

#endif
