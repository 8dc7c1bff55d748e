/* Networks that come and go as ONNX files (opset 7 to 17). An imported network is built by the
 * public builder into any graph; images are turned to channels last inside, so that data are given
 * as (N, H, W, C) where the file says (N, C, H, W). */
#ifndef QUERN_ONNX_H
#define QUERN_ONNX_H

#include "quern/checkpoint.h"
#include "quern/engine.h"
#include "quern/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_onnx_network qn_onnx_network;

typedef struct qn_onnx_options {
    const qn_allocator *allocator; /* null: the C library's heap */
    const qn_log *log;             /* what is changed or left out on import; may be null */
    bool keep_softmax; /* a softmax at the end stays (inference); else a classifier's is left out,
                          since the loss has it */
} qn_onnx_options;

/* Reads a file and checks that every node can be built. QN_ERROR_UNSUPPORTED names the first node
 * that cannot, with what to do; qn_onnx_report says all of them. */
QN_API qn_status qn_onnx_open(const qn_onnx_options *options, const char *path,
                              qn_onnx_network **network);
QN_API void qn_onnx_close(qn_onnx_network *network);

/* The network as a model of the task "classification": its build makes logits (N, n_outputs) of x.
 * Its input is the first input's shape for one sample, its name the file's. Parameters bear the
 * names of the file's initialisers and start with their values. It lives as long as the network. A
 * network that is no classifier (several inputs or outputs, an output that is not (N, C)) gives
 * QN_ERROR_UNSUPPORTED. */
QN_API qn_status qn_onnx_model_of(qn_onnx_network *network, const qn_model **model);

/* The network as a model of a task ("language"; null: the one that the file says it was exported
 * from, else the first that it fits), whose recipe is that of a model of the zoo. Inputs and
 * outputs must be those that the task has, as docs/onnx.md says; QN_ERROR_UNSUPPORTED says what is
 * needed. It lives as long as the network, and takes the place of one that was there before. */
QN_API qn_status qn_onnx_model_for(qn_onnx_network *network, const char *task,
                                   const qn_model **model);

/* Pairs that the file was exported with (see qn_onnx_export_options.properties), added to others
 * where these have none of that name: settings of a task. */
QN_API qn_status qn_onnx_properties(const qn_onnx_network *network, qn_metadata *metadata);

/* Inputs and outputs as the file has them, for networks of any kind. Extents that the file leaves
 * open are -1. */
typedef struct qn_onnx_place {
    const char *name;
    qn_dtype dtype; /* QN_F32, or QN_I32 for whole numbers of any width and bools */
    int n_dims;     /* -1: not said */
    int64_t dims[QN_MAX_RANK];
    bool is_image; /* channels go last: given, or made, as (N, H, W, C) */
} qn_onnx_place;
QN_API int qn_onnx_input_count(const qn_onnx_network *network);
QN_API int qn_onnx_output_count(const qn_onnx_network *network);
QN_API const qn_onnx_place *qn_onnx_input(const qn_onnx_network *network, int index);
QN_API const qn_onnx_place *qn_onnx_output(const qn_onnx_network *network, int index);

/* Builds the network over the given inputs (as many as it has) and writes its outputs. Extents that
 * were open are those of the inputs. A failure is kept by the graph, too. */
QN_API qn_status qn_onnx_build(qn_onnx_network *network, qn_graph *graph, const qn_value *inputs,
                               qn_value *outputs);

/* What is in the file, a JSON object: opset, operators with counts and whether each is supported,
 * inputs, outputs, parameters with shapes and whether they train, nodes that cannot be built and
 * why. Made on qn_onnx_inspect, which fails only where the file is no ONNX file at all. */
QN_API qn_status qn_onnx_inspect(const qn_onnx_options *options, const char *path, char **json);
QN_API void qn_onnx_free_text(const qn_onnx_options *options, char *text);

/* Writes a network as ONNX: that of a classifier over input, or the bare one of another task's,
 * with its dropout, weights from the engine's parameters by name
 * (null: their starting values by seed). Node and parameter names are kept, so that what is
 * imported again is the same network, dropout's random stream included. Images go in as (N, C, H,
 * W) as is the custom there; N is open. is_outside: weights in PATH.data. */
typedef struct qn_onnx_export_options {
    const qn_allocator *allocator;
    const qn_model *model;
    qn_shape input;                /* rank 0: the model's */
    int n_outputs;                 /* 0: the model's */
    const qn_network_sizes *sizes; /* of a network that is no classifier; null: the model's */
    uint64_t seed;
    const qn_engine *engine;
    bool is_outside;
    const qn_metadata *properties; /* pairs that are kept in the file, such as a vocabulary; null:
                                      none. Read by qn_onnx_properties */
} qn_onnx_export_options;
QN_API qn_status qn_onnx_export(const qn_onnx_export_options *options, const char *path);

#ifdef __cplusplus
}
#endif
#endif
