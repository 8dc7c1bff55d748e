/* Softmax and losses over rows of x (rows, C). A task is a bundle of rows. */
#ifndef QN_KERNELS_REF_ROWS_H
#define QN_KERNELS_REF_ROWS_H

#include "kernels/ref/elementwise.h"
#include "kernels/ref/lanes.h"

typedef struct rows_context {
    int64_t rows, c;
    const real *x, *other; /* (rows, C) */
    const int32_t *labels; /* (rows) */
    const real *dloss;     /* (rows) */
    double smoothing;
    real *loss; /* (rows) */
    real *y;    /* (rows, C) */
} rows_context;

static void run_rows(qn_team *team, qn_team_task *task, rows_context *context) {
    qn_team_run(team, ceil_div(context->rows, rows_per_task(context->c)), task, context);
}

#define ROW_LOOP(context, row)                                                                     \
    for (int64_t row = begin * rows_per_task((context)->c),                                        \
                 row##_end = min_int((context)->rows, end * rows_per_task((context)->c));          \
         row < row##_end; row++)

/* y = softmax(x); *log_sum = log of the sum of e^x. */
static void softmax_row(int64_t c, const real *x, real *y, double *log_sum) {
    const real largest = largest_of_row(c, x);
    for (int64_t j = 0; j < c; j++)
        y[j] = REAL_EXP(x[j] - largest);
    const double sum = sum_of_row(c, y);
    const real inverse = (real)(1 / sum);
    for (int64_t j = 0; j < c; j++)
        y[j] *= inverse;
    *log_sum = (double)largest + log(sum);
}

static void softmax_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const rows_context *r = context;
    double log_sum;
    ROW_LOOP(r, row)
    softmax_row(r->c, r->x + row * r->c, r->y + row * r->c, &log_sum);
}

static void softmax(qn_team *team, int64_t rows, int64_t c, const void *x, void *y) {
    rows_context r = {.rows = rows, .c = c, .x = x, .y = y};
    run_rows(team, softmax_task, &r);
}

static void softmax_backward_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const rows_context *r = context;
    ROW_LOOP(r, row) {
        const real *y = r->x + row * r->c, *dy = r->other + row * r->c;
        real *dx = r->y + row * r->c;
        const real dot = (real)dot_of_rows(r->c, y, dy);
        for (int64_t j = 0; j < r->c; j++)
            dx[j] = y[j] * (dy[j] - dot);
    }
}

static void softmax_backward(qn_team *team, int64_t rows, int64_t c, const void *y, const void *dy,
                             void *dx) {
    rows_context r = {.rows = rows, .c = c, .x = y, .other = dy, .y = dx};
    run_rows(team, softmax_backward_task, &r);
}

/* With q = (1 - smoothing) * one-hot + smoothing / C:
 * loss = log sum e^x - sum q x. */
static void cross_entropy_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const rows_context *r = context;
    ROW_LOOP(r, row) {
        const real *x = r->x + row * r->c;
        double log_sum, mean = 0;
        softmax_row(r->c, x, r->y + row * r->c, &log_sum);
        if (r->smoothing != 0)
            mean = sum_of_row(r->c, x) / (double)r->c;
        int32_t label = r->labels[row];
        double at_label = label < 0 ? 0 : (double)x[label];
        double loss = log_sum - (1 - r->smoothing) * at_label - r->smoothing * mean;
        r->loss[row] = label < 0 ? 0 : (real)loss;
    }
}

static void cross_entropy(qn_team *team, int64_t rows, int64_t c, const void *logits,
                          const int32_t *labels, double smoothing, void *loss,
                          void *probabilities) {
    rows_context r = {.rows = rows,
                      .c = c,
                      .x = logits,
                      .labels = labels,
                      .smoothing = smoothing,
                      .loss = loss,
                      .y = probabilities};
    run_rows(team, cross_entropy_task, &r);
}

static void cross_entropy_backward_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const rows_context *r = context;
    const real background = (real)(r->smoothing / (double)r->c);
    ROW_LOOP(r, row) {
        const real *p = r->x + row * r->c;
        real *dx = r->y + row * r->c;
        const int32_t label = r->labels[row];
        const real dloss = label < 0 ? 0 : r->dloss[row];
        const real at_label = label < 0 ? 0 : p[label];
        for (int64_t j = 0; j < r->c; j++)
            dx[j] = (p[j] - background) * dloss;
        if (label >= 0)
            dx[label] = (at_label - (real)(1 - r->smoothing) - background) * dloss;
        else
            memset(dx, 0, (size_t)r->c * sizeof *dx);
    }
}

static void cross_entropy_backward(qn_team *team, int64_t rows, int64_t c,
                                   const void *probabilities, const int32_t *labels,
                                   double smoothing, const void *dloss, void *dlogits) {
    rows_context r = {.rows = rows,
                      .c = c,
                      .x = probabilities,
                      .labels = labels,
                      .dloss = dloss,
                      .smoothing = smoothing,
                      .y = dlogits};
    run_rows(team, cross_entropy_backward_task, &r);
}

static void squared_error_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const rows_context *r = context;
    ROW_LOOP(r, row) {
        const real *x = r->x + row * r->c, *target = r->other + row * r->c;
        double sum = 0;
        for (int64_t j = 0; j < r->c; j++) {
            double difference = (double)x[j] - (double)target[j];
            sum += difference * difference;
        }
        r->loss[row] = (real)(sum / (double)r->c);
    }
}

static void squared_error(qn_team *team, int64_t rows, int64_t c, const void *x, const void *target,
                          void *loss) {
    rows_context r = {.rows = rows, .c = c, .x = x, .other = target, .loss = loss};
    run_rows(team, squared_error_task, &r);
}

static void squared_error_backward_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const rows_context *r = context;
    ROW_LOOP(r, row) {
        const real *x = r->x + row * r->c, *target = r->other + row * r->c;
        real *dx = r->y + row * r->c;
        const real factor = r->dloss[row] * 2 / (real)r->c;
        for (int64_t j = 0; j < r->c; j++)
            dx[j] = factor * (x[j] - target[j]);
    }
}

static void squared_error_backward(qn_team *team, int64_t rows, int64_t c, const void *x,
                                   const void *target, const void *dloss, void *dx) {
    rows_context r = {.rows = rows, .c = c, .x = x, .other = target, .dloss = dloss, .y = dx};
    run_rows(team, squared_error_backward_task, &r);
}

#endif
