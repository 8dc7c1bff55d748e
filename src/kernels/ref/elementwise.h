/* Elementwise kernels. A task is a run of elements; loops are plain, so that the compiler makes
 * vector code for the instruction set of the including file. */
#ifndef QN_KERNELS_REF_ELEMENTWISE_H
#define QN_KERNELS_REF_ELEMENTWISE_H

#include "kernels/ref/real.h"

/* Calls a loop with the kind as a constant, so that the choice is made outside of the loop. */
#define WITH_ACTIVATION(kind, LOOP)                                                                \
    switch (kind) {                                                                                \
    case QN_ACTIVATION_NONE:                                                                       \
        LOOP(QN_ACTIVATION_NONE);                                                                  \
        break;                                                                                     \
    case QN_ACTIVATION_RELU:                                                                       \
        LOOP(QN_ACTIVATION_RELU);                                                                  \
        break;                                                                                     \
    case QN_ACTIVATION_RELU6:                                                                      \
        LOOP(QN_ACTIVATION_RELU6);                                                                 \
        break;                                                                                     \
    case QN_ACTIVATION_LEAKY_RELU:                                                                 \
        LOOP(QN_ACTIVATION_LEAKY_RELU);                                                            \
        break;                                                                                     \
    case QN_ACTIVATION_TANH:                                                                       \
        LOOP(QN_ACTIVATION_TANH);                                                                  \
        break;                                                                                     \
    case QN_ACTIVATION_SIGMOID:                                                                    \
        LOOP(QN_ACTIVATION_SIGMOID);                                                               \
        break;                                                                                     \
    }

/* The same where the loop does something else too: only for the kinds that a layer often has, what
 * is the same for all others being done with OTHERS. Six copies of a loop are a lot of code. */
#define WITH_OFTEN(kind, LOOP, OTHERS)                                                             \
    switch (kind) {                                                                                \
    case QN_ACTIVATION_NONE:                                                                       \
        LOOP(QN_ACTIVATION_NONE);                                                                  \
        break;                                                                                     \
    case QN_ACTIVATION_RELU:                                                                       \
        LOOP(QN_ACTIVATION_RELU);                                                                  \
        break;                                                                                     \
    case QN_ACTIVATION_RELU6:                                                                      \
        LOOP(QN_ACTIVATION_RELU6);                                                                 \
        break;                                                                                     \
    default:                                                                                       \
        OTHERS;                                                                                    \
    }

/* NaN stays NaN. */
static inline __attribute__((always_inline)) real activate(qn_activation_kind kind, real slope,
                                                           real x) {
    switch (kind) {
    case QN_ACTIVATION_NONE:
        return x;
    case QN_ACTIVATION_RELU:
        return x < 0 ? 0 : x;
    case QN_ACTIVATION_RELU6:
        x = x < 0 ? 0 : x;
        return x > 6 ? 6 : x;
    case QN_ACTIVATION_LEAKY_RELU:
        return x > 0 ? x : slope * x;
    case QN_ACTIVATION_TANH:
        return REAL_TANH(x);
    case QN_ACTIVATION_SIGMOID:
        return 1 / (1 + REAL_EXP(-x));
    }
    return x;
}

/* dy times the derivative where the output is y. */
static inline __attribute__((always_inline)) real derive(qn_activation_kind kind, real slope,
                                                         real y, real dy) {
    switch (kind) {
    case QN_ACTIVATION_NONE:
        return dy;
    case QN_ACTIVATION_RELU:
        return y > 0 ? dy : 0;
    case QN_ACTIVATION_RELU6:
        return ((y > 0) & (y < 6)) ? dy : 0;
    case QN_ACTIVATION_LEAKY_RELU:
        return y > 0 ? dy : slope * dy;
    case QN_ACTIVATION_TANH:
        return dy * (1 - y * y);
    case QN_ACTIVATION_SIGMOID:
        return dy * (y * (1 - y));
    }
    return dy;
}

/* One activation over a row; may be in place. */
static void activate_row(qn_activation activation, int64_t n, const real *x, real *y) {
    const real slope = (real)activation.slope;
#define LOOP(KIND)                                                                                 \
    for (int64_t i = 0; i < n; i++)                                                                \
    y[i] = activate(KIND, slope, x[i])
    WITH_ACTIVATION(activation.kind, LOOP)
#undef LOOP
}

/* Its derivative times dy over a row whose outputs are y; may be in place. */
static void derive_row(qn_activation activation, int64_t n, const real *y, const real *dy,
                       real *dx) {
    const real slope = (real)activation.slope;
#define LOOP(KIND)                                                                                 \
    for (int64_t i = 0; i < n; i++)                                                                \
    dx[i] = derive(KIND, slope, y[i], dy[i])
    WITH_ACTIVATION(activation.kind, LOOP)
#undef LOOP
}

/* The operands of an elementwise kernel; what is unused is null or zero. */
typedef struct elementwise_context {
    qn_activation activation;
    int64_t n, c;
    int64_t rows, bundle, strides[3]; /* of kernels with strides; bundle: rows of a task */
    real factor;
    const real *a, *b, *dy;
    real *y;
    qn_rng rng;
    uint64_t first; /* word of the stream */
    double rate;
} elementwise_context;

/* The elements of the tasks [begin, end), up to n. */
#define ELEMENT_LOOP(context, i)                                                                   \
    for (int64_t i = begin * ELEMENTS_PER_TASK,                                                    \
                 i##_end = min_int((context)->n, end * ELEMENTS_PER_TASK);                         \
         i < i##_end; i++)

static void run_elementwise(qn_team *team, qn_team_task *task, elementwise_context *context) {
    qn_team_run(team, ceil_div(context->n, ELEMENTS_PER_TASK), task, context);
}

/* Rows of this many elements or more are tasks of their own; shorter ones are bundled. */
static int64_t rows_per_task(int64_t c) {
    return max_int(1, ELEMENTS_PER_TASK / max_int(c, 1));
}

/* A kernel over rows that may lie apart. Dense rows are taken as longer ones, of a task's elements,
 * of which the last may be shorter. */
static void run_rows_apart(qn_team *team, qn_team_task *task, elementwise_context *e,
                           const qn_rows *shape) {
    bool is_dense = true;
    e->n = shape->rows * shape->c;
    e->rows = shape->rows;
    e->c = shape->c;
    for (int i = 0; i < 3; i++) {
        e->strides[i] = row_stride(shape, i);
        is_dense = is_dense && e->strides[i] == e->c;
    }
    if (is_dense) {
        e->c = e->strides[0] = e->strides[1] = e->strides[2] = ELEMENTS_PER_TASK;
        e->rows = ceil_div(e->n, e->c);
    }
    e->bundle = rows_per_task(e->c);
    qn_team_run(team, ceil_div(e->rows, e->bundle), task, e);
}

/* The rows of the tasks [begin, end), each of n elements. */
#define APART_LOOP(context, row, n)                                                                \
    for (int64_t row = begin * (context)->bundle,                                                  \
                 row##_end = min_int((context)->rows, end * (context)->bundle),                    \
                 n = min_int((context)->c, (context)->n - row * (context)->c);                     \
         row < row##_end; row++, n = min_int((context)->c, (context)->n - row * (context)->c))

static void activation_forward_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const elementwise_context *e = context;
    APART_LOOP(e, row, n)
    activate_row(e->activation, n, e->a + row * e->strides[0], e->y + row * e->strides[1]);
}

static void activation_forward(qn_team *team, qn_activation activation, const qn_rows *shape,
                               const void *x, void *y) {
    elementwise_context e = {.activation = activation, .a = x, .y = y};
    run_rows_apart(team, activation_forward_task, &e, shape);
}

static void activation_backward_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const elementwise_context *e = context;
    APART_LOOP(e, row, n)
    derive_row(e->activation, n, e->a + row * e->strides[0], e->b + row * e->strides[1],
               e->y + row * e->strides[2]);
}

static void activation_backward(qn_team *team, qn_activation activation, const qn_rows *shape,
                                const void *y, const void *dy, void *dx) {
    elementwise_context e = {.activation = activation, .a = y, .b = dy, .y = dx};
    run_rows_apart(team, activation_backward_task, &e, shape);
}

/* x clamped to where e^(-x^2 / 2) is no subnormal number; NaN stays NaN. */
static inline real bell_argument(real x) {
    x = x > BELL_END ? BELL_END : x;
    return x < -BELL_END ? -BELL_END : x;
}

/* Phi(x), the normal distribution, where bell is e^(-x^2 / 2). */
static inline real normal_below(real x, real bell) {
    return (real)0.5 + (real)0.5 * REAL_ERF(x * (real)0.70710678118654752440, bell);
}

static void gelu_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const elementwise_context *e = context;
    const real *x = e->a;
    real *y = e->y;
    ELEMENT_LOOP(e, i) {
        const real clamped = bell_argument(x[i]);
        y[i] = x[i] * normal_below(x[i], REAL_BELL((real)-0.5 * clamped * clamped));
    }
}

static void gelu(qn_team *team, int64_t n, const void *x, void *y) {
    elementwise_context e = {.n = n, .a = x, .y = y};
    run_elementwise(team, gelu_task, &e);
}

static void gelu_backward_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const elementwise_context *e = context;
    const real *x = e->a, *dy = e->b;
    real *dx = e->y;
    ELEMENT_LOOP(e, i) {
        const real clamped = bell_argument(x[i]), bell = REAL_BELL((real)-0.5 * clamped * clamped);
        const real density = (real)0.39894228040143267794 * bell;
        dx[i] = dy[i] * (normal_below(x[i], bell) + clamped * density);
    }
}

static void gelu_backward(qn_team *team, int64_t n, const void *x, const void *dy, void *dx) {
    elementwise_context e = {.n = n, .a = x, .b = dy, .y = dx};
    run_elementwise(team, gelu_backward_task, &e);
}

static void add_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const elementwise_context *e = context;
    const real slope = (real)e->activation.slope;
    APART_LOOP(e, row, n) {
        const real *a = e->a + row * e->strides[0], *b = e->b + row * e->strides[1];
        real *y = e->y + row * e->strides[2];
#define LOOP(KIND)                                                                                 \
    for (int64_t i = 0; i < n; i++)                                                                \
    y[i] = activate(KIND, slope, a[i] + b[i])
        WITH_OFTEN(e->activation.kind, LOOP, {
            LOOP(QN_ACTIVATION_NONE);
            activate_row(e->activation, n, y, y);
        })
#undef LOOP
    }
}

static void add(qn_team *team, const qn_rows *shape, const void *a, const void *b,
                qn_activation activation, void *y) {
    elementwise_context e = {.activation = activation, .a = a, .b = b, .y = y};
    run_rows_apart(team, add_task, &e, shape);
}

static void multiply_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const elementwise_context *e = context;
    const real *a = e->a, *b = e->b;
    real *y = e->y;
    ELEMENT_LOOP(e, i)
    y[i] = a[i] * b[i];
}

static void multiply(qn_team *team, int64_t n, const void *a, const void *b, void *y) {
    elementwise_context e = {.n = n, .a = a, .b = b, .y = y};
    run_elementwise(team, multiply_task, &e);
}

static void scale_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const elementwise_context *e = context;
    const real *x = e->a, factor = e->factor;
    real *y = e->y;
    ELEMENT_LOOP(e, i)
    y[i] = factor * x[i];
}

static void scale(qn_team *team, int64_t n, double factor, const void *x, void *y) {
    elementwise_context e = {.n = n, .factor = (real)factor, .a = x, .y = y};
    run_elementwise(team, scale_task, &e);
}

static void broadcast_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const elementwise_context *e = context;
    const real value = e->factor;
    real *y = e->y;
    ELEMENT_LOOP(e, i)
    y[i] = value;
}

static void broadcast(qn_team *team, int64_t n, double factor, const void *scalar, void *y) {
    elementwise_context e = {.n = n, .factor = (real)factor * *(const real *)scalar, .y = y};
    run_elementwise(team, broadcast_task, &e);
}

static void bias_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const elementwise_context *e = context;
    const int64_t bundle = rows_per_task(e->c), c = e->c;
    const real *bias = e->b;
    for (int64_t row = begin * bundle; row < min_int(e->n, end * bundle); row++) {
        const real *x = e->a + row * c;
        real *y = e->y + row * c;
        for (int64_t j = 0; j < c; j++)
            y[j] = x[j] + bias[j];
    }
}

static void bias(qn_team *team, int64_t rows, int64_t c, const void *x, const void *bias_,
                 void *y) {
    elementwise_context e = {.n = rows, .c = c, .a = x, .b = bias_, .y = y};
    qn_team_run(team, ceil_div(rows, rows_per_task(c)), bias_task, &e);
}

enum { RNG_LANES = 16, RNG_BLOCKS = 64 };

/* A round of qn_rng_block (base/rng.c) on the words x0 to x3 with the keys k0 and k1. */
#define RNG_ROUND                                                                                  \
    do {                                                                                           \
        const uint64_t p0 = (uint64_t)0xd2511f53u * x0, p1 = (uint64_t)0xcd9e8d57u * x2;           \
        x0 = (uint32_t)(p1 >> 32) ^ x1 ^ k0;                                                       \
        x2 = (uint32_t)(p0 >> 32) ^ x3 ^ k1;                                                       \
        x1 = (uint32_t)p1;                                                                         \
        x3 = (uint32_t)p0;                                                                         \
        k0 += 0x9e3779b9u;                                                                         \
        k1 += 0xbb67ae85u;                                                                         \
    } while (0)

/* Words 4 * block to 4 * (block + RNG_LANES) of a stream, blocks side by side: without an inner
 * loop, the compiler makes vector code of it. */
static void rng_lanes(qn_rng rng, uint64_t block, uint32_t *restrict words) {
    for (uint64_t i = 0; i < RNG_LANES; i++) {
        uint32_t x0 = (uint32_t)(block + i), x1 = (uint32_t)((block + i) >> 32);
        uint32_t x2 = (uint32_t)rng.step, x3 = (uint32_t)(rng.step >> 32);
        uint32_t k0 = (uint32_t)rng.key, k1 = (uint32_t)(rng.key >> 32);
        RNG_ROUND;
        RNG_ROUND;
        RNG_ROUND;
        RNG_ROUND;
        RNG_ROUND;
        RNG_ROUND;
        RNG_ROUND;
        RNG_ROUND;
        RNG_ROUND;
        RNG_ROUND;
        words[4 * i] = x0;
        words[4 * i + 1] = x1;
        words[4 * i + 2] = x2;
        words[4 * i + 3] = x3;
    }
}

static void dropout_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const elementwise_context *e = context;
    const float rate = (float)e->rate;
    const real factor = e->factor;
    uint32_t words[4 * RNG_BLOCKS];
    const int64_t last = min_int(e->n, end * ELEMENTS_PER_TASK);
    for (int64_t first = begin * ELEMENTS_PER_TASK, count; first < last; first += count) {
        const uint64_t at = e->first + (uint64_t)first;
        const uint32_t *drawn = words + at % 4;
        count = min_int(4 * RNG_BLOCKS - (int64_t)(at % 4), last - first);
        for (int b = 0; b < RNG_BLOCKS; b += RNG_LANES)
            rng_lanes(e->rng, at / 4 + (uint64_t)b, words + 4 * b);
        const real *x = e->a + first;
        real *y = e->y + first;
        for (int64_t i = 0; i < count; i++) {
            const float uniform = (float)(int32_t)(drawn[i] >> 8) * 0x1p-24f;
            y[i] = uniform < rate ? 0 : x[i] * factor;
        }
    }
}

static void dropout(qn_team *team, int64_t n, qn_rng rng, uint64_t first, double rate,
                    const void *x, void *y) {
    elementwise_context e = {.n = n,
                             .factor = (real)(1 / (1 - rate)),
                             .a = x,
                             .y = y,
                             .rng = rng,
                             .first = first,
                             .rate = rate};
    run_elementwise(team, dropout_task, &e);
}

#endif
