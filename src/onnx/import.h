/* The inside of an imported network, for the files of the import. */
#ifndef QN_ONNX_IMPORT_H
#define QN_ONNX_IMPORT_H

#include "base/memory.h"
#include "onnx/builder.h"
#include "onnx/trains.h"

enum { QN_ONNX_ROLES = 4 };

struct qn_onnx_network {
    const qn_allocator *allocator;
    const qn_log *log;
    bool keep_softmax;
    qn_onnx_file *file;
    const qn_onnx_model *source;
    qn_arena arena; /* places, texts, and constants that engines start from */
    qn_onnx_decisions decisions;
    int n_inputs, n_outputs;
    qn_onnx_place *inputs, *outputs;
    qn_shape *tried; /* (n_outputs), in the file's order: what a trial with guessed inputs gave */
    bool *is_said;   /* (n_outputs): the caller says which axis is the batch */
    int64_t trial_batch;           /* guess of an open batch */
    int n_set;                     /* inputs with set values: the last initialisers of base */
    const qn_onnx_model *base;     /* the file's, with these */
    const qn_onnx_record *records; /* of the last build */
    int softmax;                   /* the node of a softmax at the end that is left out; or -1 */
    qn_model model;
    bool *left_out; /* (n_nodes of source): nodes at the end that losses have of their own */
    int roles[QN_ONNX_ROLES]; /* of inputs or outputs, as the model's task has them */
};

/* Reads a file and finds its places; whether its nodes can be built is not looked at. */
qn_status qn_onnx_read(const qn_onnx_options *options, const char *path, qn_onnx_network **network);

/* A graph of the network over inputs of the file's extents; those that it leaves open are guessed:
 * a batch of 1, images of 224x224, sequences of 8. The graph is the caller's, even after a failure
 * (null if there is none). outputs (n_outputs) */
qn_status qn_onnx_try(qn_onnx_network *network, bool training, qn_graph **graph, qn_value *outputs);

/* After a trial that failed: adds to the message which guess may be the cause. */
void qn_onnx_blame_guess(const qn_onnx_network *network, qn_status status);

/* The outputs' extents as they came out of a trial. */
void qn_onnx_note_outputs(qn_onnx_network *network, const qn_graph *graph, const qn_value *outputs);

/* Marks the nodes that an output depends on, (n_nodes); null: memory is out. */
const bool *qn_onnx_mark_part(qn_onnx_network *network, int output);

/* Builds what an output depends on: inputs that it does not may be QN_NO_VALUE. */
qn_value qn_onnx_build_part(qn_onnx_network *network, qn_graph *graph, const qn_value *inputs,
                            int output);

/* Whether an input is read as an image, which follows from what reads it. */
qn_status qn_onnx_find_image(qn_onnx_network *network, int input);

/* The shape of what lies in the graph, in the place's order of axes: (N, C, H, W) of an image. */
qn_shape qn_onnx_shape_in_file(const qn_onnx_place *place, qn_shape shape);

/* The shape of a place where its open extents are guessed, channels last. */
qn_shape qn_onnx_guess_shape(const qn_onnx_place *place);

/* The shape of an input, likewise; what is open under the name of the batch is as long as that. */
qn_shape qn_onnx_guess_input(const qn_onnx_network *network, int input);

/* The network that a model of classes is of; null: of none. */
const qn_onnx_network *qn_onnx_network_of(const qn_model *model);

/* What the file says under "quern.KEY"; or null. */
const char *qn_onnx_property_of(const qn_onnx_network *network, const char *key);

/* A task that networks may fit. fit: finds roles and fills the model, but for its name; a failure
 * says what the task needs. */
typedef struct qn_onnx_task_model {
    const char *task;
    qn_status (*fit)(qn_onnx_network *network, qn_model *model);
} qn_onnx_task_model;
extern const qn_onnx_task_model qn_onnx_task_models[]; /* task_models.c; ended by a task null */

/* Makes the network's model one of the form's task; where it does not fit that is as before. */
qn_status qn_onnx_match(qn_onnx_network *network, const qn_onnx_task_model *form);

/* The model with layer norms and GELUs that are written out node by node as one node each; in the
 * arena. */
qn_status qn_onnx_recognise(const qn_onnx_model *model, qn_arena *arena,
                            const qn_onnx_model **simpler);

/* The first node whose output is a network's output: of a softmax at the end, or -1. */
int qn_onnx_softmax_at_end(const qn_onnx_model *model, bool has_batch);

/* The first parameter of PyTorch's module that the file names and has no more; null: none. *n: how
 * many there are. */
const char *qn_onnx_missing_parameter(const qn_onnx_network *network, int *n);

#endif
