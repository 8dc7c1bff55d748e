/* Models: a function that builds the network over an input, with what it suggests for training.
 * The zoo's are found by name; a model of one's own is a qn_model that the caller fills. */
#ifndef QUERN_MODEL_H
#define QUERN_MODEL_H

#include "quern/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum qn_optimizer { QN_SGD = 0, QN_ADAM, QN_ADAMW } qn_optimizer;

/* Learning rate over the steps after warm-up: constant; a tenth after each third; half a cosine
 * down to 0 (Loshchilov and Hutter 2017, equation 5, without restarts). */
typedef enum qn_schedule { QN_CONSTANT = 0, QN_STEP, QN_COSINE } qn_schedule;

/* How a model is trained unless said otherwise. */
typedef struct qn_recipe {
    qn_optimizer optimizer;
    double rate, momentum, weight_decay;
    bool nesterov;
    qn_schedule schedule;
    int64_t warmup; /* steps of linear rise from 0 */
    int64_t epochs, batch;
    int64_t steps; /* of data without an end, which has no epochs */
    double label_smoothing;
    double beta1, clip_norm; /* of Adam, 0: 0.9; largest norm of the whole gradient, 0: none */
} qn_recipe;

/* Extents of a network that is not a classifier; what is of no meaning to a model is 0. */
typedef struct qn_network_sizes {
    int64_t batch;
    int64_t length, target_length; /* tokens of a sequence; of a decoder's */
    int64_t n_inputs, n_outputs;   /* vocabulary of what goes in; of what comes out; actions */
    int64_t hidden;                /* units of a layer, where a model lets one choose; 0: its own */
    int variant;                   /* of a model with several networks ("--net") */
    bool is_bare; /* the network alone, from its inputs to its outputs, which are the results:
                     without labels and losses, for files and for what acts */
} qn_network_sizes;

/* Updates of a step, and values that the first of them leaves for the second. */
enum { QN_MAX_PHASES = 2, QN_MAX_KEPT = 4 };

typedef struct qn_model {
    const char *name, *domain, *source; /* "resnet18", "image classification", "He et al. 2016" */
    qn_shape input;                     /* (H, W, C) of a sample, or (C) */
    int n_classes;                      /* outputs, unless the data says otherwise */
    int64_t large_size;                 /* input height from which on the ImageNet form is built,
                                           with 1000 classes unless said otherwise; 0: one form */
    qn_recipe recipe;
    void *user;
    /* Builds the network: x (N,) + input -> logits (N, n_outputs). A failure is kept by graph. */
    qn_value (*build)(qn_graph *graph, void *user, qn_value x, int n_outputs);
    bool has_fixed_outputs; /* build makes n_classes; of another number the last layer begins anew,
                               where a tuning says so */
    /* ---- models that are no classifiers; build is null then ---- */
    const char *task;       /* "language", "generation", …; null: "classification" */
    const char *input_text; /* of the published model, "100 of 96 characters" */
    qn_network_sizes sizes; /* of the published model, for one sample (batch 1) */
    /* Its program (see qn_program_options.build, phases and trained too); inputs, labels and
     * results are those that the task says. The first result is the loss; with two phases the first
     * marks its loss alone, so that results 0 and 1 are the two losses. A bare network has one
     * phase. */
    qn_value (*network)(qn_graph *graph, void *user, const qn_network_sizes *sizes, int phase,
                        qn_value *kept);
    bool has_fixed_length;              /* it can be built for sizes.length alone */
    bool has_one_variant;               /* of translation: no encoder, no decoder's step, apart */
    int n_phases;                       /* 0: 1 */
    const char *trained[QN_MAX_PHASES]; /* by phase */
} qn_model;

/* The zoo in a fixed order; null beyond its end. */
QN_API const qn_model *qn_model_at(int index);

/* A model of the zoo by name, or null (the message names the nearest). */
QN_API const qn_model *qn_model_find(const char *name);

/* Classes of a model for an input shape when nothing says otherwise. */
QN_API int qn_model_classes(const qn_model *model, qn_shape input);

/* Size of a network for one sample. */
typedef struct qn_model_size {
    int64_t n_parameters;  /* trainable numbers */
    int64_t forward_flops; /* a multiply-add counts 2; products only, padding included */
    int64_t feature_bytes; /* all values that the forward pass writes, float */
} qn_model_size;

/* Of a network that is no classifier, its published sizes are measured; input and n_outputs are not
 * looked at. */
QN_API qn_status qn_model_measure(const qn_model *model, qn_shape input, int n_outputs,
                                  qn_model_size *size);

#ifdef __cplusplus
}
#endif
#endif
