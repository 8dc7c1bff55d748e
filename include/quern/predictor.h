/* The predictor: trained weights at work. It opens a checkpoint or an ONNX file, prepares images
 * exactly as training did, and says what it sees in them:
 *
 *     qn_predictor *predictor;
 *     qn_prediction best;
 *     if (qn_predictor_open("mine.safetensors", NULL, &predictor) == QN_OK &&
 *         qn_predictor_classify(predictor, &(qn_image){pixels, height, width, 3}, &best) == QN_OK)
 *         printf("%s %.1f %%\n", best.name, 100 * best.value);
 *     qn_predictor_close(predictor);
 *
 * It holds the weights once and the values of one forward pass: no gradients, no optimiser state.
 * What it computes is bit for bit what qn_trainer_predict computes with the same weights.
 *
 * Threads: a predictor serves one call at a time; several predictors work side by side. */
#ifndef QUERN_PREDICTOR_H
#define QUERN_PREDICTOR_H

#include "quern/data.h"
#include "quern/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_predictor qn_predictor;

typedef struct qn_predictor_options {
    size_t size;                   /* QN_OPTIONS_INIT(qn_predictor_options) */
    const qn_allocator *allocator; /* null: the C library's heap; it outlives the predictor */
    const qn_log *log;             /* messages about the import of an ONNX file; may be null */
    const char *model; /* for a checkpoint: name of a built-in model or an ONNX file; null: the
                          one stored in the checkpoint */
    const qn_model *own_model; /* instead: a custom model, which checkpoints cannot name */
    /* Preparation of images for files that do not contain it. Null: as in the file. Class names
     * must outlive the predictor, the rest is copied. */
    const qn_preparation *preparation;
    int64_t batch; /* images computed together, at least 1; 0: 1; of a file that can only be built
                      for its own batch it is that */
    int n_threads; /* 0: one if a call is little work, otherwise all processors; does not affect
                      results */
    /* How an ONNX file is read: shapes, values, follow_links, train_only and requires_grad, where
     * the checkpoint does not say it otherwise. Null: as the checkpoint says. */
    const struct qn_onnx_options *onnx;
} qn_predictor_options;

/* Opens a checkpoint or, if the path ends in ".onnx", a network with its weights. options null:
 * all defaults. QN_ERROR_FORMAT if neither file nor options define the preparation;
 * QN_ERROR_UNSUPPORTED if the network is neither a classifier nor a regression. */
QN_API qn_status qn_predictor_open(const char *path, const qn_predictor_options *options,
                                   qn_predictor **predictor);
QN_API void qn_predictor_close(qn_predictor *predictor);

/* An output: a class with its probability, or the value of a numeric target. */
typedef struct qn_prediction {
    int index;        /* of the output, from 0 */
    const char *name; /* of the class, valid as long as the predictor; null: unnamed */
    double value;     /* probability, or the target's value */
} qn_prediction;

/* The most likely class of an image in memory; for numeric targets, the first. */
QN_API qn_status qn_predictor_classify(qn_predictor *predictor, const qn_image *image,
                                       qn_prediction *best);

/* The same for an image file (qn_image_prepare lists the formats). */
QN_API qn_status qn_predictor_classify_file(qn_predictor *predictor, const char *path,
                                            qn_prediction *best);

/* All outputs of n images, (n, n_outputs): probabilities, or values of numeric targets. */
QN_API qn_status qn_predictor_predict(qn_predictor *predictor, const qn_image *images, int64_t n,
                                      float *outputs);

/* All outputs of an image file, (n_outputs). */
QN_API qn_status qn_predictor_predict_file(qn_predictor *predictor, const char *path,
                                           float *outputs);

/* All outputs of n samples that are already prepared, x (n,) + input. */
QN_API qn_status qn_predictor_predict_prepared(qn_predictor *predictor, const float *x, int64_t n,
                                               float *outputs);

/* The n_best most likely classes of a row of outputs, in falling order, ties by index; for
 * numeric targets the first n_best. Returns their number: at most n_outputs. */
QN_API int qn_predictor_rank(const qn_predictor *predictor, const float *outputs, int n_best,
                             qn_prediction *best);

/* Properties of a predictor. */
typedef struct qn_predictor_facts {
    const char *model; /* its name, valid as long as the predictor */
    qn_shape input;    /* (H, W, C) of a prepared image, or (C) of a row of numbers */
    int n_outputs;
    bool is_regression;               /* outputs are values of numeric targets, not probabilities */
    size_t weight_bytes, arena_bytes; /* the parameters; the values of a forward pass */
    size_t held_bytes, peak_bytes;    /* from its allocator, now and at its peak */
    int n_names;                      /* outputs that have a name, from the first */
    const char *const *names;         /* (n_names) of classes, valid as long as the predictor */
} qn_predictor_facts;

QN_API qn_predictor_facts qn_predictor_get_facts(const qn_predictor *predictor);

#ifdef __cplusplus
}
#endif
#endif
