/* The specification of the kernels of whole numbers (integer.h): each number is the sum that its
 * definition says. */
#include "kernels/integer/pool.h"
#include "kernels/integer/rows.h"
#include "kernels/integer_tables.h"

#include <string.h>

typedef struct context {
    const qn_gemm_shape *gemm;
    const qn_conv2d_shape *conv;
    const int8_t *a, *b;
    const qn_integer_result *y;
} context;

/* Sums wrap around, as registers do. */
static int32_t add(int32_t a, int32_t b) {
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

/* The sum of products of n numbers that lie so far apart. */
static int32_t dot(int64_t n, const int8_t *a, int64_t a_step, const int8_t *b, int64_t b_step) {
    uint32_t sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (uint32_t)(a[i * a_step] * b[i * b_step]);
    return (int32_t)sum;
}

/* Number i of the result. */
static void store(const qn_integer_result *y, bool adds, int64_t column, int32_t sum, int64_t i,
                  uint32_t *largest) {
    if (adds)
        sum = add(sum, y->sums[i]);
    if (y->bias)
        sum = add(sum, y->bias[column]);
    if (y->relu && sum < 0)
        sum = 0;
    const uint32_t size = sum < 0 ? -(uint32_t)sum : (uint32_t)sum;
    *largest = size > *largest ? size : *largest;
    if (y->shifted)
        rows_shift(1, &sum, y->shift, y->shifted + i);
    else
        y->sums[i] = sum;
}

void qn_integer_largest(const qn_integer_result *y, uint32_t largest) {
    if (!y->largest)
        return;
    uint32_t seen = __atomic_load_n(y->largest, __ATOMIC_RELAXED);
    while (largest > seen && !__atomic_compare_exchange_n(y->largest, &seen, largest, true,
                                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
}

static void run(qn_team *team, int64_t n_tasks, qn_team_task *task, context *c) {
    if (c->y->largest)
        *c->y->largest = 0;
    qn_team_run(team, n_tasks, task, c);
}

/* ---- product: a task is a row ---- */

static void gemm_task(void *data, int64_t begin, int64_t end, int thread) {
    const context *c = data;
    const qn_gemm_shape *d = c->gemm;
    const int64_t a_row = d->transpose_a ? 1 : d->k, a_step = d->transpose_a ? d->m : 1;
    const int64_t b_column = d->transpose_b ? d->k : 1, b_step = d->transpose_b ? 1 : d->n;
    uint32_t largest = 0;
    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        for (int64_t j = 0; j < d->n; j++) {
            const int32_t sum = dot(d->k, c->a + i * a_row, a_step, c->b + j * b_column, b_step);
            store(c->y, d->add, j, sum, i * d->n + j, &largest);
        }
    }
    qn_integer_largest(c->y, largest);
}

static void gemm(qn_team *team, const qn_gemm_shape *shape, const int8_t *a, const int8_t *b,
                 const qn_integer_result *y, void *workspace) {
    context c = {.gemm = shape, .a = a, .b = b, .y = y};
    (void)workspace;
    run(team, shape->m, gemm_task, &c);
}

static size_t gemm_workspace(const qn_gemm_shape *shape, int n_threads) {
    (void)shape;
    (void)n_threads;
    return 0;
}

/* ---- convolution: a task is a row of an image ---- */

static int64_t step_of(const qn_conv2d_shape *d) {
    return d->y_stride ? d->y_stride : d->k;
}

static int32_t forward_sum(const context *c, int64_t n, int64_t p, int64_t q, int64_t k) {
    const qn_conv2d_shape *d = c->conv;
    const int64_t part = d->c / d->groups, first = k / (d->k / d->groups) * part;
    int32_t sum = 0;
    for (int64_t r = 0; r < d->r; r++) {
        const int64_t y = p * d->stride_h + r * d->dilation_h - d->pad_top;
        for (int64_t s = 0; s < d->s && y >= 0 && y < d->h; s++) {
            const int64_t x = q * d->stride_w + s * d->dilation_w - d->pad_left;
            if (x >= 0 && x < d->w)
                sum = add(sum, dot(part, c->a + ((n * d->h + y) * d->w + x) * d->c + first, 1,
                                   c->b + ((k * d->r + r) * d->s + s) * part, 1));
        }
    }
    return sum;
}

static void forward_task(void *data, int64_t begin, int64_t end, int thread) {
    const context *c = data;
    const qn_conv2d_shape *d = c->conv;
    uint32_t largest = 0;
    (void)thread;
    for (int64_t row = begin; row < end; row++) {
        for (int64_t q = 0; q < d->q; q++) {
            for (int64_t k = 0; k < d->k; k++)
                store(c->y, false, k, forward_sum(c, row / d->p, row % d->p, q, k),
                      (row * d->q + q) * step_of(d) + k, &largest);
        }
    }
    qn_integer_largest(c->y, largest);
}

static void conv2d_forward(qn_team *team, const qn_conv2d_shape *shape, const int8_t *x,
                           const int8_t *w, const qn_integer_result *y, void *workspace) {
    context c = {.conv = shape, .a = x, .b = w, .y = y};
    (void)workspace;
    run(team, shape->n * shape->p, forward_task, &c);
}

/* ---- to the data: a task is a row of an image ---- */

/* The output that tap t of a window over place i is of; -1: none. */
static int64_t output_of(int64_t i, int64_t t, int64_t pad, int64_t dilation, int64_t stride,
                         int64_t n) {
    const int64_t at = i + pad - t * dilation;
    return at >= 0 && at % stride == 0 && at / stride < n ? at / stride : -1;
}

static int32_t data_sum(const context *t, int64_t n, int64_t y, int64_t x, int64_t c) {
    const qn_conv2d_shape *d = t->conv;
    const int64_t part = d->c / d->groups, outputs = d->k / d->groups;
    const int64_t first = c / part * outputs, taps = d->r * d->s;
    int32_t sum = 0;
    for (int64_t r = 0; r < d->r; r++) {
        const int64_t p = output_of(y, r, d->pad_top, d->dilation_h, d->stride_h, d->p);
        for (int64_t s = 0; s < d->s && p >= 0; s++) {
            const int64_t q = output_of(x, s, d->pad_left, d->dilation_w, d->stride_w, d->q);
            if (q >= 0)
                sum = add(sum,
                          dot(outputs, t->a + ((n * d->p + p) * d->q + q) * step_of(d) + first, 1,
                              t->b + (first * taps + r * d->s + s) * part + c % part, taps * part));
        }
    }
    return sum;
}

static void data_task(void *data, int64_t begin, int64_t end, int thread) {
    const context *t = data;
    const qn_conv2d_shape *d = t->conv;
    uint32_t largest = 0;
    (void)thread;
    for (int64_t row = begin; row < end; row++) {
        for (int64_t x = 0; x < d->w; x++) {
            for (int64_t c = 0; c < d->c; c++)
                store(t->y, false, c, data_sum(t, row / d->h, row % d->h, x, c),
                      (row * d->w + x) * d->c + c, &largest);
        }
    }
    qn_integer_largest(t->y, largest);
}

static void conv2d_backward_data(qn_team *team, const qn_conv2d_shape *shape, const int8_t *dy,
                                 const int8_t *w, const qn_integer_result *dx, void *workspace) {
    context c = {.conv = shape, .a = dy, .b = w, .y = dx};
    (void)workspace;
    run(team, shape->n * shape->h, data_task, &c);
}

/* ---- to the filter: a task is an output's taps ---- */

static int32_t filter_sum(const context *t, int64_t k, int64_t r, int64_t s, int64_t c) {
    const qn_conv2d_shape *d = t->conv;
    const int64_t channel = k / (d->k / d->groups) * (d->c / d->groups) + c;
    uint32_t sum = 0;
    for (int64_t row = 0; row < d->n * d->p; row++) {
        const int64_t y = row % d->p * d->stride_h + r * d->dilation_h - d->pad_top;
        for (int64_t q = 0; q < d->q && y >= 0 && y < d->h; q++) {
            const int64_t x = q * d->stride_w + s * d->dilation_w - d->pad_left;
            if (x >= 0 && x < d->w)
                sum += (uint32_t)(t->a[((row / d->p * d->h + y) * d->w + x) * d->c + channel] *
                                  t->b[(row * d->q + q) * step_of(d) + k]);
        }
    }
    return (int32_t)sum;
}

static void filter_task(void *data, int64_t begin, int64_t end, int thread) {
    const context *t = data;
    const qn_conv2d_shape *d = t->conv;
    const int64_t part = d->c / d->groups;
    uint32_t largest = 0;
    (void)thread;
    for (int64_t i = begin * d->r * d->s * part; i < end * d->r * d->s * part; i++) {
        const int64_t tap = i / part % (d->r * d->s);
        const int32_t sum =
            filter_sum(t, i / part / (d->r * d->s), tap / d->s, tap % d->s, i % part);
        store(t->y, d->add, 0, sum, i, &largest);
    }
    qn_integer_largest(t->y, largest);
}

static void conv2d_backward_filter(qn_team *team, const qn_conv2d_shape *shape, const int8_t *x,
                                   const int8_t *dy, const qn_integer_result *dw, void *workspace) {
    context c = {.conv = shape, .a = x, .b = dy, .y = dw};
    (void)workspace;
    run(team, shape->k, filter_task, &c);
}

static size_t conv2d_workspace(const qn_conv2d_shape *shape, qn_conv2d_pass pass, int n_threads) {
    (void)shape;
    (void)pass;
    (void)n_threads;
    return 0;
}

static bool gemm_keeps(const qn_gemm_shape *shape) {
    (void)shape;
    return false;
}

static bool conv2d_keeps(const qn_conv2d_shape *shape, qn_conv2d_pass pass) {
    (void)shape;
    (void)pass;
    return false;
}

const qn_integer_kernels qn_integer_ref = {
    .name = "ref",
    .gemm = gemm,
    .gemm_workspace = gemm_workspace,
    .conv2d_forward = conv2d_forward,
    .conv2d_backward_data = conv2d_backward_data,
    .conv2d_backward_filter = conv2d_backward_filter,
    .conv2d_workspace = conv2d_workspace,
    .max_pool = int8_max_pool,
    .max_pool_backward = int8_max_pool_backward,
    .gemm_keeps = gemm_keeps,
    .conv2d_keeps = conv2d_keeps,
    .rows = QN_ROWS,
};
