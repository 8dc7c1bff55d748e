/* A model's training step without an engine: its graph, as an engine would build it, with
 * parameters and random batches in memory, so that any plan of it can be made, run and timed. */
#ifndef QN_BENCH_MEMORY_SUBJECT_H
#define QN_BENCH_MEMORY_SUBJECT_H

#include "os/files/swap_file.h"
#include "plan/baselines.h"
#include "plan/budget/budget.h"
#include "policies/policies.h"
#include "quern/quern.h"
#include "run/program.h"
#include "run/store.h"

typedef struct qn_subject {
    const qn_model *model;
    qn_engine_options engine;
    qn_program program; /* its graph alone */
    qn_machine machine;
    qn_team *team;
    qn_sequence base;
    double *node_ns;         /* (n_nodes): estimated, then measured */
    size_t *workspace;       /* (n_nodes) */
    const char *swap_folder; /* of plans that swap; null: they cannot be run */
    size_t fixed_bytes;      /* parameters and optimiser state */
    qn_unplanned unplanned;
    qn_store store;
    void **inputs; /* (program.n_inputs) */
    void *hyper;
} qn_subject;

/* The graph for a batch; size: height and width of images, 0: the model's own. */
qn_status qn_subject_open(qn_subject *subject, const char *model, int64_t batch, int64_t size,
                          int n_threads);
void qn_subject_close(qn_subject *subject);

/* Takes memory for parameters, state and the batch, and fills it. */
qn_status qn_subject_fill(qn_subject *subject);

/* Parameters and state as they began. */
qn_status qn_subject_restart(qn_subject *subject);

/* A plan that can be run. */
typedef struct qn_subject_run {
    const qn_budget_plan *plan;
    qn_executor *executor;
    qn_machine machine; /* the subject's, with a disk of its own where the plan swaps */
    void *disk;
} qn_subject_run;

qn_status qn_subject_prepare(qn_subject *subject, const qn_budget_plan *plan, void *arena,
                             qn_subject_run *run);
void qn_subject_finish(qn_subject_run *run);
qn_status qn_subject_step(qn_subject *subject, qn_subject_run *run, int64_t step);

/* As step, and the time that its steps waited for the swap file. */
qn_status qn_subject_wait(qn_subject *subject, qn_subject_run *run, int64_t step,
                          double *waited_ns);

/* A hash of all parameters and state, and whether all are finite. */
uint64_t qn_subject_hash(const qn_subject *subject, bool *is_finite);

/* Fills node_ns with medians over some steps of a plan. */
qn_status qn_subject_profile(qn_subject *subject, qn_subject_run *base, int n_steps);

qn_policy_problem qn_subject_problem(const qn_subject *subject, const qn_swap_speed *swap);

#endif
