/* One of an engine's programs: a graph with its plan and executor. */
#ifndef QN_RUN_PROGRAM_H
#define QN_RUN_PROGRAM_H

#include "quern/engine.h"
#include "run/executor.h"
#include "run/store.h"

enum { QN_MAX_INPUTS = 32 };

typedef struct qn_program {
    qn_graph *graph;
    qn_plan *plan;
    qn_executor *executor;
    bool training;
    int n_inputs, n_losses;
    qn_value inputs[QN_MAX_INPUTS]; /* (n_inputs): inputs and labels, as declared */
    qn_value losses[QN_MAX_PHASES]; /* (n_losses) */
    qn_value hyper;                 /* (QN_HYPER_COUNT), or QN_NO_VALUE */
} qn_program;

/* Builds all phases, each forward, fused, and, in a training program, with its gradients and the
 * update, or, where batches are accumulated, the sums. */
qn_status qn_program_build(qn_program *program, const qn_program_options *options,
                           const qn_engine_options *engine);

/* The update from accumulated sums, for the parameters of a training program. */
qn_status qn_program_build_update(qn_program *program, const qn_engine_options *engine,
                                  const qn_graph *training);

void qn_program_deinit(qn_program *program);

/* Binds every outside value of the program that a store holds. */
void qn_program_bind(qn_program *program, const qn_store *store);

#endif
