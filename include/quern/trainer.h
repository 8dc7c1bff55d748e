/* The trainer: an engine that trains and evaluates a classifier, or a network whose outputs are
 * numbers, batch by batch. All memory is taken when it is made; a step allocates nothing. For one
 * build on one instruction set, equal options and data give equal bits, whatever the number of
 * threads. */
#ifndef QUERN_TRAINER_H
#define QUERN_TRAINER_H

#include "quern/data.h"
#include "quern/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_trainer qn_trainer;

typedef struct qn_trainer_options {
    const qn_allocator *allocator; /* null: the C library's heap */
    const qn_model *model;         /* must outlive the trainer */
    qn_shape input;                /* of a sample; rank 0: the model's */
    int n_outputs;                 /* classes or targets; 0: the model's classes */
    bool regression;               /* targets are numbers: squared error, not cross entropy */
    qn_dtype real;                 /* QN_F32 (also for 0) or QN_F64 */
    int64_t batch;                 /* samples of a training batch, at least 1 */
    int64_t evaluation_batch;      /* 0: as batch */
    qn_update_options update;
    qn_tuning tuning;
    double label_smoothing;
    /* (n_outputs), at least 0, or null: what each class's samples count in the training loss of a
     * batch, sum(w l) / sum(w) over its samples (0 where all their weights are 0). Copied. Losses
     * of evaluations, and accuracies, count all samples alike. */
    const double *class_weights;
    int64_t micro_batch; /* as in qn_engine_options */
    bool no_dropout;     /* dropout layers pass their input through (checks against references) */
    int n_threads;       /* 0: the processors available */
    uint64_t seed;
    bool plan_only;        /* as that of qn_engine_options: cannot step, evaluate or predict */
    bool no_fusion;        /* as that of qn_engine_options */
    const char *rules;     /* likewise */
    qn_kernel_tuning tune; /* likewise */
    /* As those of qn_engine_options. The budget is of all that the trainer takes; batches are the
     * caller's. After plan_later, qn_engine_plan(qn_trainer_engine(trainer), ...) comes before the
     * first step. */
    size_t memory_budget_bytes;
    bool no_least;
    const struct qn_saved_plan *saved_plan;
    const char *swap_folder; /* as that of qn_engine_options */
    bool plan_later, aligned_inputs;
    bool budget_changes; /* qn_trainer_set_budget may be called */
} qn_trainer_options;

/* Options of the model's own recipe. */
QN_API qn_trainer_options qn_trainer_options_for(const qn_model *model);

QN_API qn_status qn_trainer_create(const qn_trainer_options *options, qn_trainer **trainer);
QN_API void qn_trainer_destroy(qn_trainer *trainer);

/* The options in force, defaults filled in. */
QN_API const qn_trainer_options *qn_trainer_get_options(const qn_trainer *trainer);

/* What one batch gave. */
typedef struct qn_step_result {
    int64_t step;    /* steps done, this one included if it was completed */
    bool completed;  /* false while batches are accumulated */
    double loss;     /* mean over the step's batches so far, before its update */
    double accuracy; /* likewise; 0 for regression */
    double rate;     /* learning rate of the step */
} qn_step_result;

/* One training batch. x (batch,) + input, reals of the trainer's type; y (batch) int32_t classes,
 * or (batch, n_outputs) reals. A loss that is not finite is QN_ERROR_NUMERIC and names the step;
 * the weights are then of no use. */
QN_API qn_status qn_trainer_step(qn_trainer *trainer, const void *x, const void *y,
                                 qn_step_result *result);

/* Sums over evaluated samples. */
typedef struct qn_evaluation {
    int64_t n_samples, n_correct;
    double loss_sum;
    int64_t *confusion; /* (n_outputs, n_outputs) samples of each class by what they were taken for;
                           null: not counted */
} qn_evaluation;

/* Adds the first n_valid samples of a batch (of the evaluation batch's size) to *sum. */
QN_API qn_status qn_trainer_evaluate(qn_trainer *trainer, const void *x, const void *y,
                                     int64_t n_valid, qn_evaluation *sum);

/* Outputs (evaluation batch, n_outputs) for x: probabilities, or values for regression. */
QN_API qn_status qn_trainer_predict(qn_trainer *trainer, const void *x, void *outputs);

/* Steps done so far. */
QN_API int64_t qn_trainer_steps(const qn_trainer *trainer);

/* Its parameters, state, memory and plans (program 0 trains, 1 evaluates): for checkpoints. Runs
 * and steps stay the trainer's. */
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
    qn_batches train;         /* positioned at batch steps * accumulate */
    qn_batches test;          /* next null: no test set */
    int64_t epoch_batches;    /* training batches in an epoch */
    int64_t steps;            /* total, resumed ones included */
    int64_t checkpoint_every; /* steps; 0: never */
    void *user;
    /* Each may be null; a failure ends the loop with it. */
    qn_status (*on_step)(void *user, const qn_step_result *result, int64_t nanoseconds);
    qn_status (*on_epoch)(void *user, const qn_epoch_result *result);
    qn_status (*on_checkpoint)(void *user);
    bool (*should_stop)(void *user); /* asked after every step */
} qn_fit_options;

/* Trains until `steps` are done or should_stop says so; QN_ERROR_INTERRUPTED in the latter case,
 * with the step completed. */
QN_API qn_status qn_trainer_fit(qn_trainer *trainer, const qn_fit_options *options);

/* Evaluates a whole test set. */
QN_API qn_status qn_trainer_evaluate_all(qn_trainer *trainer, qn_batches test,
                                         qn_evaluation *evaluation);

#ifdef __cplusplus
}
#endif
#endif
