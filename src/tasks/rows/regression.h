/* Regression in the units of its targets: what networks give is scaled back, and errors are counted
 * as root mean square, mean absolute error and R2 beside the error of always answering the mean. */
#ifndef QN_TASKS_ROWS_REGRESSION_H
#define QN_TASKS_ROWS_REGRESSION_H

#include "base/memory.h"
#include "quern/data.h"
#include "quern/task.h"

/* Outputs (n, n_outputs) of a network in the units of its targets; nothing where they are not
 * scaled. */
void qn_targets_restore(const qn_preparation *preparation, int n_outputs, int64_t n,
                        float *outputs);

/* Sums over samples, by target; the targets are relative to the first. */
typedef struct qn_errors {
    int n_targets;
    int64_t n;
    double *square, *absolute, *first, *sum, *sum_square; /* (n_targets) */
} qn_errors;

qn_status qn_errors_init(qn_errors *errors, const qn_allocator *allocator, int n_targets);
void qn_errors_deinit(qn_errors *errors, const qn_allocator *allocator);
void qn_errors_clear(qn_errors *errors);

/* Adds n samples: outputs and targets (n, n_targets), as the network has them. */
void qn_errors_add(qn_errors *errors, const qn_preparation *preparation, const float *outputs,
                   const float *targets, int64_t n);

/* The metrics rmse_of_mean, r2, mae and rmse; of several targets the means of theirs. */
void qn_errors_report(const qn_errors *errors, qn_metrics *metrics);

/* Tells the errors of each target, where there are several. */
void qn_errors_tell(const qn_errors *errors, const qn_preparation *preparation, const qn_log *log);

#endif
