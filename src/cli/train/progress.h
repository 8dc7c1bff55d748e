/* The output of training: a progress bar on a terminal, plain lines elsewhere, or JSON lines.
 * Results and JSON go to standard output, the bar to standard error. */
#ifndef QN_CLI_TRAIN_PROGRESS_H
#define QN_CLI_TRAIN_PROGRESS_H

#include "quern/task.h"

enum { PROGRESS_TIMES = 1 << 16 };

/* Step times of this run for their median: all, or every stride-th once there are many.
 *     n_times <= PROGRESS_TIMES */
typedef struct step_times {
    int64_t ns[PROGRESS_TIMES]; /* (n_times) */
    int n_times;
    int64_t n_skipped; /* the first so many are left out */
    int64_t stride, n_seen;
} step_times;

typedef struct progress {
    bool is_json, has_bar;
    bool is_quiet;                   /* steps are counted, and nothing is told of them */
    int64_t first_step, total_steps; /* of this run: steps (first_step, total_steps] */
    double epoch_steps;              /* steps in an epoch */
    int64_t step_samples;            /* samples in a step */
    int64_t begin_ns, shown_ns;      /* of the run and of the last line; 0: not yet */
    qn_metrics sums;                 /* since the last line, or of late where there is a bar */
    double weights[8];               /* steps in them */
    double epoch_loss;               /* sum over the epoch's steps */
    int64_t n_epoch_steps, epoch_ns;
    int64_t n_steps, training_ns; /* of this run */
    int64_t step;                 /* steps done */
    const char *unit;             /* "samples" */
    bool has_test, has_validation;
    qn_metrics test, validation; /* of the last test, of the last epoch that was validated */
    step_times times;
} progress;

/* Zero but for what the caller has filled above begin_ns. */
void progress_begin(progress *p);
void progress_step(progress *p, int64_t step, const qn_metrics *metrics, int64_t nanoseconds);

/* test, validation null: nothing was measured. */
void progress_epoch(progress *p, int64_t epoch, const qn_metrics *test,
                    const qn_metrics *validation);

/* Adds what a test gave to a JSON object: null for each metric where it was none; and what
 * validation gave, if it did. */
void progress_add_test(const progress *p);

/* The same in words: ", validation loss 0.2104, test loss 0.2201, test accuracy 93.10 %". */
void progress_test_text(const progress *p, size_t bytes, char *text);

/* Takes the bar away, so that something else can be printed. */
void progress_clear(progress *p);

/* Median and mean of the step times without the first ones, in milliseconds; NaN when there are
 * none. */
double progress_median_ms(progress *p);
double progress_mean_ms(const progress *p);
double progress_samples_per_second(const progress *p);

#endif
