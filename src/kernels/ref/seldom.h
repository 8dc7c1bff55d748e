/* Kernels of losses and of single elements that run over few numbers a step: no instruction set
 * does them better, so they are compiled once for each real type, and all tables name these. */
#ifndef QN_KERNELS_REF_SELDOM_H
#define QN_KERNELS_REF_SELDOM_H

#include "kernels/ref/formula.h"

static void smooth_l1_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const elementwise_context *e = context;
    const real *x = e->a, *target = e->b;
    real *y = e->y;
    ELEMENT_LOOP(e, i) {
        const real d = x[i] - target[i], size = d < 0 ? -d : d;
        y[i] = size < 1 ? d * d / 2 : size - (real)0.5;
    }
}

void FORMULA_NAME(qn_smooth_l1)(qn_team *team, int64_t n, const void *x, const void *target,
                                void *y) {
    elementwise_context e = {.n = n, .a = x, .b = target, .y = y};
    run_elementwise(team, smooth_l1_task, &e);
}

static void smooth_l1_backward_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const elementwise_context *e = context;
    const real *x = e->a, *target = e->b, *dy = e->dy;
    real *dx = e->y;
    ELEMENT_LOOP(e, i) {
        real slope = x[i] - target[i];
        slope = slope < -1 ? -1 : slope;
        slope = slope > 1 ? 1 : slope;
        dx[i] = dy[i] * slope;
    }
}

void FORMULA_NAME(qn_smooth_l1_backward)(qn_team *team, int64_t n, const void *x,
                                         const void *target, const void *dy, void *dx) {
    elementwise_context e = {.n = n, .a = x, .b = target, .dy = dy, .y = dx};
    run_elementwise(team, smooth_l1_backward_task, &e);
}

/* The loop over elements with each one's target as t. */
#define TARGET_LOOP(BODY)                                                                          \
    if (e->b) {                                                                                    \
        ELEMENT_LOOP(e, i) {                                                                       \
            const real t = e->b[i];                                                                \
            BODY;                                                                                  \
        }                                                                                          \
    } else {                                                                                       \
        const real t = e->factor;                                                                  \
        ELEMENT_LOOP(e, i) {                                                                       \
            BODY;                                                                                  \
        }                                                                                          \
    }

static void binary_cross_entropy_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const elementwise_context *e = context;
    const real *x = e->a;
    real *y = e->y;
    TARGET_LOOP(const real size = x[i] < 0 ? -x[i] : x[i]; const real most = x[i] > 0 ? x[i] : 0;
                y[i] = most - x[i] * t + REAL_LOG1P(REAL_EXP(-size)))
}

void FORMULA_NAME(qn_binary_cross_entropy)(qn_team *team, int64_t n, const void *x,
                                           const void *targets, double target, void *y) {
    elementwise_context e = {.n = n, .factor = (real)target, .a = x, .b = targets, .y = y};
    run_elementwise(team, binary_cross_entropy_task, &e);
}

static void binary_cross_entropy_backward_task(void *context, int64_t begin, int64_t end,
                                               int thread) {
    (void)thread;
    const elementwise_context *e = context;
    const real *x = e->a, *dy = e->dy;
    real *dx = e->y;
    TARGET_LOOP(dx[i] = dy[i] * (1 / (1 + REAL_EXP(-x[i])) - t))
}

void FORMULA_NAME(qn_binary_cross_entropy_backward)(qn_team *team, int64_t n, const void *x,
                                                    const void *targets, double target,
                                                    const void *dy, void *dx) {
    elementwise_context e = {
        .n = n, .factor = (real)target, .a = x, .b = targets, .dy = dy, .y = dx};
    run_elementwise(team, binary_cross_entropy_backward_task, &e);
}

/* Few numbers: nothing to share out. */
static int64_t count_valid(int64_t n, const int32_t *labels) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        count += labels[i] >= 0;
    return max_int(count, 1);
}

void FORMULA_NAME(qn_mean_valid)(int64_t n, const void *losses, const int32_t *labels, void *mean) {
    const real *loss = losses;
    double total = 0;
    for (int64_t i = 0; i < n; i++)
        total += labels[i] >= 0 ? (double)loss[i] : 0;
    *(real *)mean = (real)(total / (double)count_valid(n, labels));
}

void FORMULA_NAME(qn_mean_valid_backward)(int64_t n, const int32_t *labels, const void *dmean,
                                          void *dlosses) {
    const real share = *(const real *)dmean / (real)count_valid(n, labels);
    real *dloss = dlosses;
    for (int64_t i = 0; i < n; i++)
        dloss[i] = labels[i] >= 0 ? share : 0;
}

/* ---- one element of each row of x (rows, C) ---- */

static int64_t nearest_index(int32_t index, int64_t c) {
    return max_int(0, min_int(index, c - 1));
}

/* Few numbers: nothing to share out. */
void FORMULA_NAME(qn_gather)(int64_t rows, int64_t c, const void *x_, const int32_t *indices,
                             void *y_) {
    const real *x = x_;
    real *y = y_;
    for (int64_t row = 0; row < rows; row++)
        y[row] = x[row * c + nearest_index(indices[row], c)];
}

void FORMULA_NAME(qn_gather_backward)(int64_t rows, int64_t c, const void *dy_,
                                      const int32_t *indices, void *dx_) {
    const real *dy = dy_;
    real *dx = dx_;
    memset(dx, 0, (size_t)(rows * c) * sizeof *dx);
    for (int64_t row = 0; row < rows; row++)
        dx[row * c + nearest_index(indices[row], c)] = dy[row];
}

#endif
