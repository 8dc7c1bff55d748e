/* Import and export of ONNX files (opset 6 to 28). The public builder builds an imported network
 * into any graph; images are converted to channels last, so data is passed as (N, H, W, C) where
 * the file has (N, C, H, W).
 *
 * Threads: one call at a time per network; several networks can be used in parallel. */
#ifndef QUERN_ONNX_H
#define QUERN_ONNX_H

#include "quern/checkpoint.h"
#include "quern/engine.h"
#include "quern/model.h"
#include "quern/numerics.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_onnx_network qn_onnx_network;

typedef struct qn_onnx_options {
    size_t size;                   /* QN_OPTIONS_INIT(qn_onnx_options) */
    const qn_allocator *allocator; /* null: the C library's heap */
    const qn_log *log;             /* messages about changes on import; may be null */
    bool keep_softmax; /* keep a softmax at the end, for inference; otherwise a classifier's is
                          dropped, since the loss contains one; likewise the nodes by which an
                          export gives targets in their units */
    /* Extents of inputs that the file leaves open, in its order, with the batch:
     * "image=1x3x512x512,mask=1x512x512". N marks the batch where it is not the first axis,
     * "state=2xNx64", and "none:" says that there is none, "sample=none:3x64x64" (or
     * "sample=none"). The axis of an output's batch follows, or is said alike. Null: none are
     * known, and guesses stand for them while the file is inspected. */
    const char *shapes;
    /* Patterns of initialisers that train where the file does not say so: a name written in full
     * trains whatever real initialiser it is, one with "*" or "?" those whose decision is unsure.
     * The pattern list of qn_tuning.train_only may be given. Null: none. */
    const char *train_only;
    /* Names, one a line, of the initialisers that train; no other does. Null: the file decides. */
    const char *requires_grad;
    /* Values of inputs that decide branches or shapes, "sr=16000,size=224x224" (x between the
     * numbers of a list): these are inputs no more, and constants instead. An export has them as
     * inputs again. Null: none. */
    const char *values;
    bool follow_links; /* data outside of the file may be links that lead out of its folder; paths
                          that do are refused all the same */
} qn_onnx_options;

/* The options that a checkpoint of an imported network keeps among its settings, where they are
 * not set. The texts stay those of the settings (null: there are none). */
QN_API void qn_onnx_options_read(const qn_metadata *settings, qn_onnx_options *options);

/* Reads a file and verifies that every node is supported. QN_ERROR_UNSUPPORTED names the first
 * node that is not, with what to do; qn_onnx_inspect lists all of them. */
QN_API qn_status qn_onnx_open(const qn_onnx_options *options, const char *path,
                              qn_onnx_network **network);
QN_API void qn_onnx_close(qn_onnx_network *network);

/* The network as a model of the task "classification": its build computes logits (N, n_outputs)
 * of x. Its input is the shape of one sample of the first input, its name the file's. Parameters
 * have the names and initial values of the file's initialisers. Valid as long as the network.
 * QN_ERROR_UNSUPPORTED for a network that is not a classifier (several inputs or outputs, an
 * output that is not (N, C)). */
QN_API qn_status qn_onnx_model_of(qn_onnx_network *network, const qn_model **model);

/* The network as a model of a task ("language"; null: the one it was exported from, otherwise
 * the first that fits), with the recipe of a built-in model. Inputs and outputs must be those of
 * the task (docs/onnx.md); QN_ERROR_UNSUPPORTED says what is required. Valid as long as the
 * network; replaces an earlier one. */
QN_API qn_status qn_onnx_model_for(qn_onnx_network *network, const char *task,
                                   const qn_model **model);

/* Adds the pairs stored in the file (qn_onnx_export_options.properties), the settings of a task,
 * to metadata, except for names that it already has. */
QN_API qn_status qn_onnx_properties(const qn_onnx_network *network, qn_metadata *metadata);

/* A hash of the file's content, including external data, in sixteen digits. Reads the file
 * again. */
enum { QN_ONNX_HASH_TEXT = 17 };
QN_API qn_status qn_onnx_hash(const qn_onnx_network *network, char text[QN_ONNX_HASH_TEXT]);

/* Inputs and outputs as in the file, for networks of any kind. Open extents are -1. */
typedef struct qn_onnx_place {
    const char *name;
    qn_dtype dtype;            /* QN_F32, or QN_I32 for whole numbers of any width and bools */
    int n_dims;                /* -1: not said */
    int64_t dims[QN_MAX_RANK]; /* the batch first, and 1 where the file has none */
    bool is_image;             /* an image: passed or returned as (N, H, W, C) */
    int batch_axis; /* of the file's axes: 0 unless the shapes say another; -1: none. Values are
                       passed and returned with the batch in front all the same */
} qn_onnx_place;
QN_API int qn_onnx_input_count(const qn_onnx_network *network);
QN_API int qn_onnx_output_count(const qn_onnx_network *network);
QN_API const qn_onnx_place *qn_onnx_input(const qn_onnx_network *network, int index);
QN_API const qn_onnx_place *qn_onnx_output(const qn_onnx_network *network, int index);

/* An initialiser of the file, and whether it trains: as the file says (PyTorch's current exporter
 * marks parameters, buffers and constants), else by its name and the operators that read it. */
typedef struct qn_onnx_initializer {
    const char *name, *type; /* "float" */
    int n_dims;
    int64_t dims[QN_MAX_RANK]; /* in the file's order */
    bool trains;
    bool is_sure;       /* false: the file does not say it */
    const char *reason; /* "the file says that it is a parameter" */
} qn_onnx_initializer;
QN_API int qn_onnx_initializer_count(const qn_onnx_network *network);
QN_API const qn_onnx_initializer *qn_onnx_initializer_at(const qn_onnx_network *network, int index);

/* Builds the network for the given inputs (as many as it has) and returns its outputs. Open
 * extents are taken from the inputs. Failures are also kept by the graph. */
QN_API qn_status qn_onnx_build(qn_onnx_network *network, qn_graph *graph, const qn_value *inputs,
                               qn_value *outputs);

/* Contents of the file as a JSON object: opset, operators with counts and whether each is
 * supported, inputs, outputs, parameters with shapes and whether they train, initialisers with
 * whether they train and why, and unsupported nodes with the reason. Fails only if the file is not
 * ONNX. */
QN_API qn_status qn_onnx_inspect(const qn_onnx_options *options, const char *path, char **json);
QN_API void qn_onnx_free_text(const qn_onnx_options *options, char *text);

/* Writes a network as ONNX: a classifier's, or the bare network of another task, with dropout,
 * and with the engine's parameters by name (null: initial values by seed). Names of nodes and
 * parameters are kept, so that an import gives the same network, including the random numbers of
 * dropout. Images are (N, C, H, W), as usual in ONNX; N is open. is_outside: weights in
 * PATH.SUM.data, where SUM is a checksum of them. */
typedef struct qn_onnx_export_options {
    size_t size; /* QN_OPTIONS_INIT(qn_onnx_export_options) */
    const qn_allocator *allocator;
    const qn_model *model;
    qn_shape input;                /* rank 0: the model's */
    int n_outputs;                 /* 0: the model's */
    const qn_network_sizes *sizes; /* of a network that is no classifier; null: the model's */
    uint64_t seed;
    const qn_engine *engine;
    bool is_outside;
    const qn_metadata *properties; /* pairs to store in the file, such as a vocabulary; null:
                                      none. Read by qn_onnx_properties */
    /* Preparation of samples, stored for users of the file (qn_predictor_open): shape, mean,
     * deviation, class names. Null: none. Scaled targets leave the file in their own units, and
     * samples of numbers (rows of a table; others if the properties have "preparation.elements" as
     * "numbers") enter it as they are: the file has nodes for both. */
    const qn_preparation *preparation;
    bool with_preparation;         /* let the network prepare bytes, too: its input is then bytes as
                              numbers 0 to 255 */
    const qn_onnx_network *source; /* the file that the model was imported from: written again with
                                      the engine's parameters, otherwise unchanged; null: the model
                                      is written as quern has it */
    /* Those of the engine's weights and activations that these hold in int8 pass through
     * QuantizeLinear and DequantizeLinear; the others are floats. Only of classifiers. Scales of
     * activations are those of samples, (n_samples) + input, prepared. Null: all are floats. */
    const qn_numerics *numerics;
    const float *samples;
    int64_t n_samples;
    /* With a source: the checkpoint whose parameters take the place of the file's, by name,
     * without an engine: nothing is planned, and any network that was trained comes back. Null:
     * those of the engine. */
    const char *weights;
} qn_onnx_export_options;
QN_API qn_status qn_onnx_export(const qn_onnx_export_options *options, const char *path);

#ifdef __cplusplus
}
#endif
#endif
