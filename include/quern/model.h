/* Models: a function that builds a network, and a recipe for training it. Built-in models are
 * found by name; a custom model is a qn_model that the caller fills. */
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

/* Default training settings of a model. */
typedef struct qn_recipe {
    qn_optimizer optimizer;
    double rate, momentum, weight_decay;
    bool nesterov;
    qn_schedule schedule;
    int64_t warmup; /* steps of linear rise from 0 */
    int64_t epochs, batch;
    int64_t steps; /* for unlimited data, which has no epochs */
    double label_smoothing;
    double beta1, clip_norm; /* of Adam, 0: 0.9; largest norm of the whole gradient, 0: none */
} qn_recipe;

/* Sizes of a network that is not a classifier; fields without meaning for a model are 0. */
typedef struct qn_network_sizes {
    int64_t batch;
    int64_t length, target_length; /* tokens of a sequence; of a decoder's */
    int64_t n_inputs, n_outputs;   /* input vocabulary; output vocabulary, or actions */
    int64_t hidden;                /* units of a layer, if a model allows a choice; 0: its
                                      default */
    int variant;                   /* of a model with several networks ("--net") */
    bool is_bare; /* only the network, whose outputs are the results, without labels and losses:
                     for files and agents */
} qn_network_sizes;

/* Limits: updates of a step, and values passed from the first to the second. */
enum { QN_MAX_PHASES = 2, QN_MAX_KEPT = 4 };

typedef struct qn_model {
    const char *name, *domain, *source; /* "resnet18", "image classification", "He et al. 2016" */
    qn_shape input;                     /* (H, W, C) of a sample, or (C) */
    int n_classes;                      /* outputs, unless the data says otherwise */
    int64_t large_size;                 /* input height from which the ImageNet form is built, by
                                           default with 1000 classes; 0: only one form */
    qn_recipe recipe;
    void *user;
    /* Builds the network: x (N,) + input -> logits (N, n_outputs). A failure is kept by graph. */
    qn_value (*build)(qn_graph *graph, void *user, qn_value x, int n_outputs);
    bool has_fixed_outputs; /* build always makes n_classes outputs; for another number, a tuning
                               must replace the last layer */
    /* models other than classifiers; build is null */
    const char *task;       /* "language", "generation", …; null: "classification" */
    const char *input_text; /* of the published model, "100 of 96 characters" */
    qn_network_sizes
        sizes; /* of the published model, for one sample (batch 1); of a classifier only
                               batch, where a file is made for one, and may fit no other; else 0 */
    /* Builds the program (see qn_program_options.build; phases and trained likewise) with the
     * inputs, labels and results that the task defines. The first result is the loss; with two
     * phases, results 0 and 1 are the two losses. A bare network has one phase. */
    qn_value (*network)(qn_graph *graph, void *user, const qn_network_sizes *sizes, int phase,
                        qn_value *kept);
    bool has_words;                     /* language: its tokens are words, not characters */
    bool has_fixed_length;              /* can only be built for sizes.length */
    bool has_one_variant;               /* translation: encoder and decoder cannot be built
                                           separately */
    int n_phases;                       /* 0: 1 */
    const char *trained[QN_MAX_PHASES]; /* by phase */
} qn_model;

/* The built-in models in a fixed order; null beyond the last. */
QN_API const qn_model *qn_model_at(int index);

/* A built-in model by name, or null (the message suggests the nearest). */
QN_API const qn_model *qn_model_find(const char *name);

/* Default number of classes of a model for an input shape. */
QN_API int qn_model_classes(const qn_model *model, qn_shape input);

/* Size of a network for one sample. */
typedef struct qn_model_size {
    int64_t n_parameters;  /* trainable numbers */
    int64_t forward_flops; /* a multiply-add counts 2; products only, padding included */
    int64_t feature_bytes; /* all values that the forward pass writes, float */
} qn_model_size;

/* Networks other than classifiers are measured at their published sizes, ignoring input and
 * n_outputs. */
QN_API qn_status qn_model_measure(const qn_model *model, qn_shape input, int n_outputs,
                                  qn_model_size *size);

#ifdef __cplusplus
}
#endif
#endif
