/* One of a trainer's plans: a graph of the model with its plan and executor. */
#ifndef QN_RUN_PROGRAM_H
#define QN_RUN_PROGRAM_H

#include "quern/trainer.h"
#include "run/executor.h"
#include "run/store.h"

/* Values that are not in the graph are QN_NO_VALUE. */
typedef struct qn_program {
    qn_graph *graph;
    qn_plan *plan;
    qn_executor *executor;
    qn_value x, y;    /* (batch,) + input; (batch) or (batch, n_outputs) */
    qn_value hyper;   /* (QN_HYPER_COUNT) */
    qn_value loss;    /* scalar: mean of losses */
    qn_value losses;  /* (batch) */
    qn_value outputs; /* (batch, n_outputs): logits, or values for regression */
    qn_value chances; /* (batch, n_outputs): softmax of outputs; evaluation only */
} qn_program;

/* Forward, backward, and the update, or, where batches are accumulated, the sums. */
qn_status qn_program_build_training(qn_program *program, const qn_trainer_options *options);

/* The update from accumulated sums, for the parameters of the training program. */
qn_status qn_program_build_update(qn_program *program, const qn_trainer_options *options,
                                  const qn_graph *training);

/* Forward with the loss of every sample. */
qn_status qn_program_build_evaluation(qn_program *program, const qn_trainer_options *options);

void qn_program_deinit(qn_program *program);

/* Binds every outside value of the program that a store holds. */
void qn_program_bind(qn_program *program, const qn_store *store);

#endif
