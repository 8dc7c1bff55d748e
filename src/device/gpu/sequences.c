/* How a GPU runs attention and LSTM layers: products by tiles, weights and cells beside them. All
 * scores of an attention are in the workspace; an LSTM starts a product and its cells every step.
 */
#include "device/gpu/operators.h"
#include "ops/network/attention.h"
#include "ops/network/lstm.h"
#include "ops/shared.h"

#include <stdint.h>

/* ---- attention; numbers as in kernels/sequences.cl ---- */

enum { HEAD_ROWS = 1, HEADS, HAS_LENGTHS, ALL_ROWS, DEPTH };

static int64_t count_scores(const qn_attention_shape *d) {
    return d->n * d->h * d->t * d->u;
}

/* Places are numbers of 32 bits. */
static bool attention_supports(const qn_query *query) {
    const qn_attention_shape d = qn_attention_of(query->attributes, query->inputs);
    return count_scores(&d) < INT32_MAX / 4;
}

static size_t attention_workspace(const qn_query *query) {
    const qn_attention_shape d = qn_attention_of(query->attributes, query->inputs);
    return (size_t)count_scores(&d) * sizeof(float);
}

static size_t attention_backward_workspace(const qn_query *query) {
    return 2 * attention_workspace(query);
}

static qn_gpu_arguments rows_of(qn_gpu_line *line, const qn_call *call, const qn_attention_shape *d,
                                const int32_t *lengths) {
    const qn_rng rng = qn_rng_make(call->seed, qn_attention_key(call->node), call->step);
    const double rate = d->rate;
    qn_gpu_arguments a = {
        .p = {[7] = qn_gpu_place(line, lengths),
              [8] = rng.key,
              [9] = rng.step,
              [10] = (uint64_t)(d->first * d->h * d->t * d->u)},
        .n = {(int32_t)d->u, [HEAD_ROWS] = (int32_t)d->t, [HEADS] = (int32_t)d->h,
              [HAS_LENGTHS] = lengths != NULL, [ALL_ROWS] = (int32_t)(d->n * d->h * d->t),
              [DEPTH] = (int32_t)d->d},
        .f = {(float)d->scale, (float)rate, (float)(1 / (1 - rate))}};
    return a;
}

static qn_gpu_matrices of_heads(const qn_attention_shape *d, int64_t m, int64_t n, int64_t k) {
    return (qn_gpu_matrices){.m = m, .n = n, .k = k, .matrices = d->n * d->h};
}

/* (T, U) = (T, D) (U, D)^T of each head. */
static void start_scores(qn_gpu_line *line, const qn_attention_shape *d, const void *rows,
                         const void *columns, const void *to) {
    qn_gpu_matrices x = of_heads(d, d->t, d->u, d->d);
    x.transpose_b = true;
    qn_gpu_start_matrices(line, &x, rows, columns, to);
}

/* (T, D) = (T, U) (U, D) of each head. */
static void start_mix(qn_gpu_line *line, const qn_attention_shape *d, const void *weights,
                      const void *of, const void *to) {
    const qn_gpu_matrices x = of_heads(d, d->t, d->d, d->u);
    qn_gpu_start_matrices(line, &x, weights, of, to);
}

/* (U, D) = (T, U)^T (T, D) of each head. */
static void start_return(qn_gpu_line *line, const qn_attention_shape *d, const void *weights,
                         const void *of, const void *to) {
    qn_gpu_matrices x = of_heads(d, d->u, d->d, d->t);
    x.transpose_a = true;
    qn_gpu_start_matrices(line, &x, weights, of, to);
}

static void attention_run(qn_gpu_line *line, const qn_call *call) {
    const qn_attention_shape d = qn_attention_of(call->attributes, call->inputs);
    const bool has_lengths = call->node->n_inputs > QN_ATTENTION_LENGTHS;
    start_scores(line, &d, call->in[QN_ATTENTION_QUERY], call->in[QN_ATTENTION_KEY],
                 call->workspace);
    qn_gpu_arguments a =
        rows_of(line, call, &d, has_lengths ? call->in[QN_ATTENTION_LENGTHS] : NULL);
    a.p[0] = qn_gpu_place(line, call->workspace);
    a.p[1] = qn_gpu_place(line, call->out[1]);
    qn_gpu_start(line, QN_GPU_attention_weights, &a, a.n[ALL_ROWS], 1, 1);
    start_mix(line, &d, call->workspace, call->in[QN_ATTENTION_VALUE], call->out[0]);
}

static void attention_backward_run(qn_gpu_line *line, const qn_call *call) {
    const qn_attention_shape d = qn_attention_of(call->attributes, call->inputs);
    const float *weights = call->workspace, *slopes = weights + count_scores(&d);
    const void *query = call->in[QN_ATTENTION_QUERY], *key = call->in[QN_ATTENTION_KEY];
    const void *dy = call->in[QN_ATTENTION_DY];
    start_scores(line, &d, query, key, weights);
    start_scores(line, &d, dy, call->in[QN_ATTENTION_VALUE], slopes);
    qn_gpu_arguments a = rows_of(line, call, &d, call->in[QN_ATTENTION_BACKWARD_LENGTHS]);
    a.p[0] = qn_gpu_place(line, weights);
    a.p[1] = qn_gpu_place(line, slopes);
    a.p[2] = qn_gpu_place(line, call->in[QN_ATTENTION_LOG_SUMS]);
    a.p[3] = qn_gpu_place(line, call->in[QN_ATTENTION_Y]);
    a.p[4] = qn_gpu_place(line, dy);
    qn_gpu_start(line, QN_GPU_attention_slopes, &a, a.n[ALL_ROWS], 1, 1);
    start_mix(line, &d, slopes, key, call->out[0]);
    start_return(line, &d, slopes, query, call->out[1]);
    start_return(line, &d, weights, dy, call->out[2]);
}

/* ---- LSTM; numbers as in kernels/sequences.cl ---- */

enum { STEPS = 2, STEP, OPERANDS };
enum { LENGTHS, STATE_C, SUMS, GATES, CELLS, IN_X, OUT_Y, LAST_H, LAST_C };
enum { OUT_DX = 5, IN_DY, IN_DH, IN_DC, RUNNING_DC, OUT_DC };
enum { N_GATES = 4 };

static qn_gpu_arguments units_of(const qn_lstm_shape *d) {
    return (qn_gpu_arguments){.n = {(int32_t)d->k, (int32_t)d->n, [STEPS] = (int32_t)d->t}};
}

static void set_operand(qn_gpu_line *line, qn_gpu_arguments *a, int i, const void *address) {
    a->p[i] = qn_gpu_place(line, address);
    a->n[OPERANDS] = (int32_t)((a->n[OPERANDS] & ~(1 << i)) | (address != NULL) << i);
}

/* Sums of all gates, forwards; of all units, backwards with the cells' gradients behind them. */
static size_t lstm_workspace(const qn_query *query) {
    const qn_lstm_shape d = qn_lstm_of(query->inputs);
    return (size_t)(d.n * N_GATES * d.k) * sizeof(float);
}

static size_t lstm_backward_workspace(const qn_query *query) {
    const qn_lstm_shape d = qn_lstm_of(query->inputs);
    return (size_t)(2 * d.n * d.k) * sizeof(float);
}

/* The state before a step: that of the step before, or the one that is given; null: zeros. */
static void start_gates(qn_gpu_line *line, const qn_call *call, const qn_lstm_shape *d, int64_t t) {
    const float *y = call->out[QN_LSTM_OUT_Y], *state = call->in[QN_LSTM_IN_H];
    const qn_gpu_matrices x = {.m = d->n,
                               .n = N_GATES * d->k,
                               .k = d->k,
                               .matrices = 1,
                               .transpose_b = true,
                               .row_a = t > 0 ? d->t * d->k : d->k};
    qn_gpu_start_matrices(line, &x, t > 0 ? y + (t - 1) * d->k : state, call->in[QN_LSTM_IN_WEIGHT],
                          call->workspace);
}

static void lstm_run(qn_gpu_line *line, const qn_call *call) {
    const qn_lstm_shape d = qn_lstm_of(call->inputs);
    qn_gpu_arguments a = units_of(&d);
    set_operand(line, &a, LENGTHS, call->in[QN_LSTM_IN_LENGTHS]);
    set_operand(line, &a, STATE_C, call->in[QN_LSTM_IN_C]);
    set_operand(line, &a, GATES, call->out[QN_LSTM_OUT_GATES]);
    set_operand(line, &a, CELLS, call->out[QN_LSTM_OUT_CELLS]);
    set_operand(line, &a, IN_X, call->in[QN_LSTM_IN_X]);
    set_operand(line, &a, OUT_Y, call->out[QN_LSTM_OUT_Y]);
    set_operand(line, &a, LAST_H, call->out[QN_LSTM_OUT_H]);
    set_operand(line, &a, LAST_C, call->out[QN_LSTM_OUT_C]);
    for (int64_t t = 0; t < d.t; t++) {
        const bool has_state = t > 0 || call->in[QN_LSTM_IN_H];
        if (has_state)
            start_gates(line, call, &d, t);
        set_operand(line, &a, SUMS, has_state ? call->workspace : NULL);
        a.n[STEP] = (int32_t)t;
        qn_gpu_start(line, QN_GPU_lstm_cell, &a, d.k, d.n, 1);
    }
}

/* What the gates of a step give the state before it: (N, K) = (N, 4 K) (4 K, K). */
static void start_state(qn_gpu_line *line, const qn_call *call, const qn_lstm_shape *d, int64_t t,
                        const void *to) {
    const qn_gpu_matrices x = {
        .m = d->n, .n = d->k, .k = N_GATES * d->k, .matrices = 1, .row_a = d->t * N_GATES * d->k};
    qn_gpu_start_matrices(line, &x, (const float *)call->out[0] + t * N_GATES * d->k,
                          call->in[QN_LSTM_BACK_WEIGHT], to);
}

static void lstm_backward_run(qn_gpu_line *line, const qn_call *call) {
    const bool has_state = ((const qn_lstm_backward_attributes *)call->attributes)->state;
    const qn_lstm_shape d = qn_lstm_of(call->inputs);
    const float *sums = call->workspace;
    qn_gpu_arguments a = units_of(&d);
    set_operand(line, &a, LENGTHS, call->in[QN_LSTM_BACK_LENGTHS]);
    set_operand(line, &a, STATE_C, call->in[QN_LSTM_BACK_C]);
    set_operand(line, &a, GATES, call->in[QN_LSTM_BACK_GATES]);
    set_operand(line, &a, CELLS, call->in[QN_LSTM_BACK_CELLS]);
    set_operand(line, &a, IN_DY, call->in[QN_LSTM_BACK_DY]);
    set_operand(line, &a, IN_DH, call->in[QN_LSTM_BACK_DH]);
    set_operand(line, &a, IN_DC, call->in[QN_LSTM_BACK_DC]);
    set_operand(line, &a, OUT_DX, call->out[0]);
    set_operand(line, &a, OUT_DC, has_state ? call->out[2] : NULL);
    set_operand(line, &a, RUNNING_DC, sums + d.n * d.k);
    for (int64_t t = d.t - 1; t >= 0; t--) {
        const bool is_last = t == d.t - 1;
        if (!is_last)
            start_state(line, call, &d, t + 1, sums);
        set_operand(line, &a, SUMS, is_last ? NULL : sums);
        a.n[STEP] = (int32_t)t;
        qn_gpu_start(line, QN_GPU_lstm_cell_backward, &a, d.k, d.n, 1);
    }
    if (has_state)
        start_state(line, call, &d, 0, call->out[1]);
}

static void lstm_before_run(qn_gpu_line *line, const qn_call *call) {
    const qn_shape y = call->inputs[0].shape;
    const int64_t n = y.dims[0], all = y.dims[1] * y.dims[2];
    const qn_gpu_arguments a = {
        .p = {qn_gpu_place(line, call->in[0]), qn_gpu_place(line, call->in[1]),
              qn_gpu_place(line, call->out[0])},
        .n = {(int32_t)all, (int32_t)n, (int32_t)y.dims[2], call->in[1] != NULL}};
    qn_gpu_start(line, QN_GPU_lstm_before, &a, all, n, 1);
}

const qn_gpu_operator qn_gpu_sequences[] = {
    {&qn_op_attention, .run = attention_run, .supports = attention_supports,
     .workspace = attention_workspace},
    {&qn_op_attention_backward, .run = attention_backward_run, .supports = attention_supports,
     .workspace = attention_backward_workspace},
    {&qn_op_lstm, .run = lstm_run, .workspace = lstm_workspace},
    {&qn_op_lstm_before, .run = lstm_before_run},
    {&qn_op_lstm_backward, .run = lstm_backward_run, .workspace = lstm_backward_workspace},
    {0},
};
