/* What training tells: a bar on a terminal, plain lines elsewhere, or JSON lines. Results and JSON
 * go to standard output, the bar to standard error. */
#ifndef QN_CLI_PROGRESS_H
#define QN_CLI_PROGRESS_H

#include "quern/trainer.h"

enum { PROGRESS_TIMES = 1 << 16 };

/* Step times of this run for their median: all, or every stride-th once there are many.
 *     n_times <= PROGRESS_TIMES */
typedef struct step_times {
    int64_t ns[PROGRESS_TIMES]; /* (n_times) */
    int n_times;
    int64_t stride, n_seen;
} step_times;

typedef struct progress {
    bool is_json, has_bar;
    int64_t first_step, total_steps; /* of this run: steps (first_step, total_steps] */
    double epoch_steps;              /* steps in an epoch */
    int64_t step_samples;            /* samples in a step */
    int64_t begin_ns, shown_ns;      /* of the run and of the last line; 0: not yet */
    double loss, accuracy;           /* sums since the last line, or of late where there is a bar */
    double weight;                   /* steps in them */
    int64_t n_steps, training_ns;    /* of this run */
    int64_t step;                    /* steps done */
    bool is_regression;
    bool has_test;
    double test_loss, test_accuracy; /* of the last test */
    step_times times;
} progress;

/* Zero but for what the caller has filled above begin_ns. */
void progress_begin(progress *p);
void progress_step(progress *p, const qn_step_result *result, int64_t nanoseconds);
void progress_epoch(progress *p, const qn_epoch_result *result);

/* Takes the bar away, so that something else can be printed. */
void progress_clear(progress *p);

/* Median of the step times without the first three, in milliseconds; NaN when there are none. */
double progress_median_ms(progress *p);
double progress_samples_per_second(const progress *p);

#endif
