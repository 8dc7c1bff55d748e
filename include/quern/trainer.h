/* The trainer: an engine that trains and evaluates a classifier, or a network with numeric outputs,
 * batch by batch. All memory is allocated on creation; a step allocates nothing. For one build on
 * one instruction set, equal options and data give equal bits for any number of threads.
 *
 * Threads: one call at a time per trainer; qn_trainer_set_budget at any time. */
#ifndef QUERN_TRAINER_H
#define QUERN_TRAINER_H

#include "quern/data.h"
#include "quern/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_trainer qn_trainer;

/* Sizes of qn_trainer_options and the engine options in it. */
#ifdef __cplusplus
#define QN_TRAINER_OPTIONS_INIT                                                                    \
    sizeof(qn_trainer_options), {                                                                  \
        sizeof(qn_engine_options)                                                                  \
    }
#else
#define QN_TRAINER_OPTIONS_INIT                                                                    \
    QN_OPTIONS_INIT(qn_trainer_options), .engine.size = sizeof(qn_engine_options)
#endif

typedef struct qn_trainer_options {
    size_t size;              /* QN_TRAINER_OPTIONS_INIT, or qn_trainer_options_for */
    qn_engine_options engine; /* also initialised with its size. The budget limits everything
                                 that the trainer allocates; batches belong to the caller. With
                                 plan_later, call qn_engine_plan(qn_trainer_engine(trainer), ...)
                                 before the first step */
    const qn_model *model;    /* must outlive the trainer */
    qn_shape input;           /* of a sample; rank 0: the model's */
    int n_outputs;            /* classes or targets; 0: the model's classes */
    bool regression;          /* targets are numbers: squared error, not cross entropy */
    int64_t batch;            /* samples of a training batch, at least 1 */
    int64_t evaluation_batch; /* 0: as batch */
    double label_smoothing;
    /* (n_outputs), at least 0, or null: weights of the classes in the training loss of a batch,
     * sum(w l) / sum(w) over its samples (0 if all weights are 0). Copied. Losses of
     * evaluations, and accuracies, weigh all samples equally. */
    const double *class_weights;
    bool only_evaluates; /* the network may have nothing to train */
    bool sample_weights; /* qn_trainer_step_weighted will be called: weights of samples multiply
                            those of their classes */
    bool labels;         /* with regression: targets are 0 or 1, each of its own: binary cross
                            entropy; outputs of evaluations are chances */
    bool features;       /* evaluations also give what the last layer is given */
} qn_trainer_options;

/* Options of the model's recipe, with sizes set. */
QN_API qn_trainer_options qn_trainer_options_for(const qn_model *model);

QN_API qn_status qn_trainer_create(const qn_trainer_options *options, qn_trainer **trainer);
QN_API void qn_trainer_destroy(qn_trainer *trainer);

/* The options in force, defaults filled in. */
QN_API const qn_trainer_options *qn_trainer_get_options(const qn_trainer *trainer);

/* The result of one batch. */
typedef struct qn_step_result {
    int64_t step;    /* steps done, including this one if it was completed */
    bool completed;  /* false while batches are accumulated */
    double loss;     /* mean over the batches of the step so far, before its update */
    double accuracy; /* likewise; 0 for regression */
    double rate;     /* learning rate of the step */
} qn_step_result;

/* One training batch. x (batch,) + input, reals of the trainer's type; y (batch) int32_t classes,
 * or (batch, n_outputs) reals. NaN or infinity in x or y is QN_ERROR_ARGUMENT, names the sample,
 * and changes nothing: the next batch may follow. A loss that is not finite although they are is
 * QN_ERROR_NUMERIC, names the step, and changes nothing either, but as qn_engine_run says. */
QN_API qn_status qn_trainer_step(qn_trainer *trainer, const void *x, const void *y,
                                 qn_step_result *result);

/* The same with weights (batch) of the samples, at least 0, as class_weights are of classes. Needs
 * options.sample_weights. */
QN_API qn_status qn_trainer_step_weighted(qn_trainer *trainer, const void *x, const void *y,
                                          const float *weights, qn_step_result *result);

/* Sums over evaluated samples. */
typedef struct qn_evaluation {
    int64_t n_samples, n_correct;
    double loss_sum;
    int32_t *taken; /* (evaluation batch) receives the predicted classes of the last batch; null:
                       not needed. Not written for regression */
} qn_evaluation;

/* Evaluates the first n_valid samples of a batch (of the evaluation batch's size) and adds to
 * *sum. */
QN_API qn_status qn_trainer_evaluate(qn_trainer *trainer, const void *x, const void *y,
                                     int64_t n_valid, qn_evaluation *sum);

/* Outputs (evaluation batch, n_outputs) for x: probabilities, or values for regression. */
QN_API qn_status qn_trainer_predict(qn_trainer *trainer, const void *x, void *outputs);

/* Steps done so far. */
QN_API int64_t qn_trainer_steps(const qn_trainer *trainer);

/* Its engine, with parameters, state, memory and plans (program 0 trains, 1 evaluates): for
 * checkpoints. Only the trainer runs programs. */
QN_API qn_engine *qn_trainer_engine(const qn_trainer *trainer);

/* As qn_engine_set_budget. */
QN_API qn_status qn_trainer_set_budget(qn_trainer *trainer, size_t bytes);

/* ---- the loop ---- */

typedef struct qn_epoch_result {
    int64_t epoch; /* epochs done */
    double train_loss;
    bool has_test;
    double test_loss, test_accuracy;
    double samples_per_second; /* of training */
} qn_epoch_result;

typedef struct qn_fit_options {
    size_t size;              /* QN_OPTIONS_INIT(qn_fit_options) */
    qn_batches train;         /* positioned at batch steps * accumulate */
    qn_batches test;          /* next null: no test set */
    int64_t epoch_batches;    /* training batches in an epoch */
    int64_t steps;            /* total, including those before a resume */
    int64_t checkpoint_every; /* steps; 0: never */
    void *user;
    /* Each may be null; a failure ends the loop with it. */
    qn_status (*on_step)(void *user, const qn_step_result *result, int64_t nanoseconds);
    qn_status (*on_epoch)(void *user, const qn_epoch_result *result);
    qn_status (*on_checkpoint)(void *user);
    bool (*should_stop)(void *user); /* asked after every step */
} qn_fit_options;

/* Trains until `steps` are done or should_stop returns true; QN_ERROR_INTERRUPTED in the latter
 * case, after completing the step. */
QN_API qn_status qn_trainer_fit(qn_trainer *trainer, const qn_fit_options *options);

/* Evaluates a whole test set. */
QN_API qn_status qn_trainer_evaluate_all(qn_trainer *trainer, qn_batches test,
                                         qn_evaluation *evaluation);

#ifdef __cplusplus
}
#endif
#endif
