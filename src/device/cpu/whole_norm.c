/* How the CPU normalises mantissas (ops/whole_norm.h): sums of a block of rows each, which are
 * whole; then a line for each channel, whose ends say the exponent; then the rows again. */
#include "ops/whole_norm.h"

#include "device/cpu/cpu.h"
#include "ops/shared.h"
#include "tensor/number.h"

#include <math.h>
#include <string.h>

enum { AT_ONCE = 65536, LEAST_ROWS = 16, MOST_ROWS = 65536, LEAST_EXPONENT = -100 };

/* A call: rows of mantissas, their blocks, and, in the workspace, what is found of each block and
 * made for each channel. */
typedef struct norming {
    const qn_call *call;
    const qn_integer_rows *rows;
    const int8_t *x, *d; /* d: null forward */
    int8_t *y;
    int64_t n, c, block, n_blocks;
    int32_t *sums, *products; /* (n_blocks, C) */
    int8_t *ends;             /* (n_blocks, 2, C) */
    float *lines;             /* (3, C): factors of x, of d, and what is added */
    float *largest;           /* (n_blocks) */
} norming;

static int64_t block_of(int64_t c) {
    const int64_t rows = AT_ONCE / (c > 0 ? c : 1);
    return rows < LEAST_ROWS ? LEAST_ROWS : rows > MOST_ROWS ? MOST_ROWS : rows;
}

static size_t norm_workspace(const qn_kernels *kernels, const void *attributes,
                             const qn_tensor *inputs, const qn_tensor *outputs, int n_threads) {
    const int64_t c = qn_shape_columns(inputs[0].shape), block = block_of(c);
    const int64_t n_blocks = (qn_shape_rows(inputs[0].shape) + block - 1) / block;
    (void)kernels;
    (void)attributes;
    (void)outputs;
    (void)n_threads;
    return (size_t)(n_blocks * (10 * c + 4) + 12 * c);
}

static norming norming_of(const qn_call *call, bool is_backward) {
    const qn_shape shape = call->inputs[0].shape;
    norming m = {.call = call,
                 .rows = &qn_integer_kernels_get(call->kernels->isa)->rows,
                 .x = call->in[0],
                 .d = is_backward ? call->in[2] : NULL,
                 .y = call->out[0],
                 .n = qn_shape_rows(shape),
                 .c = qn_shape_columns(shape)};
    m.block = block_of(m.c);
    m.n_blocks = (m.n + m.block - 1) / m.block;
    m.sums = call->workspace;
    m.products = m.sums + m.n_blocks * m.c;
    m.lines = (float *)(m.products + m.n_blocks * m.c);
    m.largest = m.lines + 3 * m.c;
    m.ends = (int8_t *)(m.largest + m.n_blocks);
    return m;
}

static int64_t rows_in(const norming *m, int64_t block) {
    const int64_t left = m->n - block * m->block;
    return left < m->block ? left : m->block;
}

static void sum_task(void *context, int64_t begin, int64_t end, int thread) {
    const norming *m = context;
    (void)thread;
    for (int64_t b = begin; b < end; b++) {
        const int64_t first = b * m->block * m->c, n = rows_in(m, b);
        int8_t *ends = m->ends + 2 * b * m->c;
        m->rows->norm_sums(n, m->c, m->x + first, m->d ? m->d + first : m->x + first,
                           m->sums + b * m->c, m->products + b * m->c);
        if (!m->d)
            m->rows->norm_ends(n, m->c, m->x + first, ends, ends + m->c);
    }
}

static void largest_task(void *context, int64_t begin, int64_t end, int thread) {
    const norming *m = context;
    (void)thread;
    for (int64_t b = begin; b < end; b++) {
        const int64_t first = b * m->block * m->c;
        m->largest[b] =
            m->rows->norm_largest(rows_in(m, b), m->c, m->x + first, m->d + first, m->lines);
    }
}

static void apply_task(void *context, int64_t begin, int64_t end, int thread) {
    const norming *m = context;
    (void)thread;
    for (int64_t b = begin; b < end; b++) {
        const int64_t first = b * m->block * m->c;
        m->rows->norm_apply(rows_in(m, b), m->c, m->x + first, m->d ? m->d + first : NULL, m->lines,
                            m->y + first);
    }
}

/* ---- channels ---- */

/* What is found of a channel in all blocks. */
typedef struct found {
    double sum, product;
    int least, most;
} found;

static found find(const norming *m, int64_t channel) {
    int64_t sum = 0, product = 0;
    found f = {0, 0, 127, -128};
    for (int64_t b = 0; b < m->n_blocks; b++) {
        const int8_t *ends = m->ends + 2 * b * m->c;
        sum += m->sums[b * m->c + channel];
        product += m->products[b * m->c + channel];
        f.least = ends[channel] < f.least ? ends[channel] : f.least;
        f.most = ends[m->c + channel] > f.most ? ends[m->c + channel] : f.most;
    }
    f.sum = (double)sum;
    f.product = (double)product;
    return f;
}

static double unit_of(const qn_call *call, int input) {
    return call->inputs[input].dtype == QN_NONE ? 1 : ldexp(1, *(const int32_t *)call->in[input]);
}

static double number(const qn_call *call, int input, int64_t i) {
    return qn_number_get(call->inputs[input].dtype, call->in[input], i);
}

static void put(const qn_call *call, int output, int64_t i, double y) {
    qn_number_set(call->outputs[output].dtype, call->out[output], i, y);
}

/* The exponent by which the largest number has its bits, and lines that make mantissas by it. */
static void set_exponent(const norming *m, float largest) {
    const qn_whole_norm_attributes *a = m->call->attributes;
    int power = 0;
    if (largest > 0 && largest < INFINITY && frexp((double)largest, &power) == 0.5)
        power--;
    const int exponent = power - a->bits < LEAST_EXPONENT ? LEAST_EXPONENT : power - a->bits;
    const float factor = ldexpf(1, -exponent);
    for (int64_t i = 0; i < 3 * m->c; i++)
        m->lines[i] *= factor;
    *(int32_t *)m->call->out[1] = exponent;
}

static float size_at(const norming *m, int64_t channel, int x) {
    return fabsf(m->lines[channel] * (float)x + m->lines[2 * m->c + channel]);
}

/* ---- running ---- */

static void forward_run(const qn_call *call) {
    const qn_whole_norm_attributes *a = call->attributes;
    norming m = norming_of(call, false);
    const double unit = unit_of(call, 1), n = (double)m.n;
    float largest = 0;
    qn_team_run(call->team, m.n_blocks, sum_task, &m);
    for (int64_t i = 0; i < m.c; i++) {
        const found f = find(&m, i);
        const double mean = f.sum / n, variance = fmax(f.product / n - mean * mean, 0);
        const double inv_std = 1 / sqrt(unit * unit * variance + a->epsilon);
        const double slope = number(call, 2, i) * inv_std * unit;
        m.lines[i] = (float)slope;
        m.lines[m.c + i] = 0;
        m.lines[2 * m.c + i] = (float)(number(call, 3, i) - slope * mean);
        put(call, 2, i, unit * mean);
        put(call, 3, i, inv_std);
        largest = fmaxf(largest, fmaxf(size_at(&m, i, f.least), size_at(&m, i, f.most)));
    }
    set_exponent(&m, largest);
    qn_team_run(call->team, m.n_blocks, apply_task, &m);
}

static void backward_run(const qn_call *call) {
    norming m = norming_of(call, true);
    const double unit = unit_of(call, 1), of_d = unit_of(call, 3), n = (double)m.n;
    float largest = 0;
    qn_team_run(call->team, m.n_blocks, sum_task, &m);
    for (int64_t i = 0; i < m.c; i++) {
        const found f = find(&m, i);
        const double mean = number(call, 5, i), inv_std = number(call, 6, i);
        const double factor = number(call, 4, i) * inv_std, shift = of_d * f.sum;
        const double scale = inv_std * (of_d * unit * f.product - mean * shift);
        const double slope = -factor * scale / n * inv_std;
        m.lines[i] = (float)(slope * unit);
        m.lines[m.c + i] = (float)(factor * of_d);
        m.lines[2 * m.c + i] = (float)(-factor * shift / n - slope * mean);
        put(call, 2, i, scale);
        put(call, 3, i, shift);
    }
    qn_team_run(call->team, m.n_blocks, largest_task, &m);
    for (int64_t b = 0; b < m.n_blocks; b++)
        largest = fmaxf(largest, m.largest[b]);
    set_exponent(&m, largest);
    qn_team_run(call->team, m.n_blocks, apply_task, &m);
}

const qn_cpu_operator qn_cpu_whole_norm[] = {
    {&qn_op_whole_norm, .types = QN_TYPES_ANY, .run = forward_run, .workspace = norm_workspace},
    {&qn_op_whole_norm_backward, .types = QN_TYPES_ANY, .run = backward_run,
     .workspace = norm_workspace},
    {0},
};
