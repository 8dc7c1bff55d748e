/* The kernel table: pure functions over plain memory, one table per real type. It is filled by ref/
 * (the specification, one source for float and double) and, for float, overlaid by each instruction
 * set that the machine has (docs: design, decision 7).
 *
 * Guarantees of every kernel: results do not depend on the size of the team; reductions follow a
 * fixed tree over chunks of the shape alone; nothing is allocated; pointers are aligned to
 * QN_ALIGNMENT unless said; outputs do not overlap inputs unless said "may be in place".
 * Tensors are dense, channels last, but for those that are said to have a step: their rows (all
 * axes but the last) may lie apart and begin at any element; what lies between is neither read into
 * a result nor written. `void *` is float or double, by the table. Axis letters as in tensor.h.
 * Workspace is scratch of the size that the _workspace twin says for a team size. */
#ifndef QN_KERNELS_KERNELS_H
#define QN_KERNELS_KERNELS_H

#include "base/rng.h"
#include "os/os.h"
#include "os/team.h"
#include "tensor/arithmetic.h"

/* A window over a batch of images (qn_convolution), and how a kernel goes about it. */
typedef struct qn_conv2d_shape {
    int64_t n, h, w, c; /* input (N, H, W, C) */
    int64_t k, r, s;    /* filter (K, R, S, C / groups); pooling: k = c */
    int64_t p, q;       /* output (N, P, Q, K) */
    int64_t stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w;
    int64_t groups;
    int64_t y_stride; /* elements from one pixel of y or dy to the next; 0: k, dense */
    int64_t batch;    /* samples of the whole batch that these n are a part of; 0: n */
    bool add;         /* backward filter: go on from the sums that dw holds */
    bool inside; /* average pool: the mean is that of the window's elements inside of the image */
    const struct qn_rules *rules; /* by which a convolution's algorithm is chosen; null: built-in */
    const struct qn_tilings
        *tilings; /* how its work is tiled (tilings.h); null: by the fixed rules */
} qn_conv2d_shape;

/* How numbers are read that are held as 16-bit floats, and rounded to such. */
typedef struct qn_half_rows {
    void (*widen)(int64_t n, const uint16_t *x, float *y);
    void (*narrow)(int64_t n, const float *x, uint16_t *y);
} qn_half_rows;

/* Rows (rows, c), dense in f32 and a step apart as 16-bit floats. */
static inline void qn_half_rows_widen(const qn_half_rows *how, int64_t rows, int64_t c,
                                      const uint16_t *from, int64_t step, float *to) {
    const bool is_dense = step == c;
    for (int64_t row = 0; row < (is_dense ? 1 : rows); row++)
        how->widen(is_dense ? rows * c : c, from + row * step, to + row * c);
}

static inline void qn_half_rows_narrow(const qn_half_rows *how, int64_t rows, int64_t c,
                                       const float *from, uint16_t *to, int64_t step) {
    const bool is_dense = step == c;
    for (int64_t row = 0; row < (is_dense ? 1 : rows); row++)
        how->narrow(is_dense ? rows * c : c, from + row * c, to + row * step);
}

/* Tensors of one shape (rows, C), and for each that is said to have a step, in the order of the
 * arguments, the elements from one of its rows to the next; 0: c, dense. */
typedef struct qn_rows {
    int64_t rows, c;
    int64_t strides[3];
    const qn_half_rows *halves; /* of batch norm of f32: x, y, dy and dx are held so; or null */
} qn_rows;

/* The three products of a convolution. */
typedef enum qn_conv2d_pass {
    QN_CONV2D_FORWARD,
    QN_CONV2D_BACKWARD_DATA,
    QN_CONV2D_BACKWARD_FILTER,
} qn_conv2d_pass;

/* A sum over a batch may be made in several calls, the later ones with `add`: where each but the
 * last has a whole number of the chunks that the _chunk twin says, the bits are those of one call.
 */

/* C (M, N) = op(A) op(B), row-major, where op(A) is (M, K): A is (M, K), or (K, M) if transpose_a;
 * op(B) is (K, N): B is (K, N), or (N, K) if transpose_b. Dense, but for what is
 * said to have rows apart. */
typedef struct qn_gemm_shape {
    int64_t m, n, k;
    bool transpose_a, transpose_b;
    /* Go on from the sums that C holds, with bias and activation behind them; not where B alone is
     * transposed. */
    bool add;
    int64_t a_row, c_row;             /* elements from one row of A or C to the next; 0: dense */
    const struct qn_tilings *tilings; /* as that of a convolution */
} qn_gemm_shape;

/* Sums of rows of an axis of n as the m rows of another: row i is the sum of weights[e] times row
 * at[e] for first[i] <= e < first[i + 1], or `fill` where there is no e. */
typedef struct qn_axis_map {
    int64_t outer, n, m, inner;
    const int32_t *first;  /* (m + 1) */
    const int32_t *at;     /* (first[m]), each 0 to n - 1 */
    const double *weights; /* (first[m]) */
    double fill;
} qn_axis_map;

typedef struct qn_lstm_forward {
    const void *x;          /* (N, T, 4, K): what the input gives the gates, biases included */
    const void *weight;     /* (4, K, K) */
    const void *h, *c;      /* (N, K): the state before; null: zeros */
    const int32_t *lengths; /* (N): steps of each sequence, clamped to 1 to T; null: all T */
    void *gates;            /* (N, T, 4, K): input, forget, cell, output; may be in place of x */
    void *y, *cells;        /* (N, T, K): h, but 0 from a sequence's end on, and c of each step */
    void *h_last, *c_last;  /* (N, K): after the last step of each sequence */
} qn_lstm_forward;

typedef struct qn_lstm_backward {
    const void *gates, *cells, *weight, *c; /* as above; c: the state before */
    const int32_t *lengths;
    const void *dy, *dh, *dc; /* of y, h_last and c_last; null: zeros */
    void *dx;                 /* (N, T, 4, K); may be in place of gates */
    void *dh0, *dc0;          /* (N, K): of the state before; null: not wanted */
} qn_lstm_backward;

typedef struct qn_kernels {
    const char *name; /* "ref", "avx512", …: the highest overlay */
    qn_dtype real;    /* QN_F32 or QN_F64 */
    qn_isa isa;       /* that it is compiled for */
    /* What operators put into the shapes of convolutions; null: the built-in rules. */
    const struct qn_rules *rules;
    /* And into those of large products; null: by the fixed rules. */
    const struct qn_tilings *tilings;

    /* ---- products ---- */

    /* y (N,P,Q,K) = x (N,H,W,C) * w (K,R,S,C/groups) + bias (K; null: none), then the activation.
     * y and, below, dy have a step. */
    void (*conv2d_forward)(qn_team *team, const qn_conv2d_shape *shape, const void *x,
                           const void *w, const void *bias, qn_activation activation, void *y,
                           void *workspace);
    /* dx (N,H,W,C) from dy (N,P,Q,K) and w. */
    void (*conv2d_backward_data)(qn_team *team, const qn_conv2d_shape *shape, const void *dy,
                                 const void *w, void *dx, void *workspace);
    /* dw (K,R,S,C/groups) from x and dy: a left chain over fixed chunks of the batch. */
    void (*conv2d_backward_filter)(qn_team *team, const qn_conv2d_shape *shape, const void *x,
                                   const void *dy, void *dw, void *workspace);
    size_t (*conv2d_workspace)(const qn_conv2d_shape *shape, qn_conv2d_pass pass, int n_threads);
    /* Samples; 0: the filter's gradient is made in one call. By batch, not by n. */
    int64_t (*conv2d_filter_chunk)(const qn_conv2d_shape *shape);

    /* c = op(a) op(b) + bias (N; null: none) in every row, then the activation. Matrices need no
     * alignment, so that a task may call it with a null team for one of many. */
    void (*gemm)(qn_team *team, const qn_gemm_shape *shape, const void *a, const void *b,
                 const void *bias, qn_activation activation, void *c, void *workspace);
    size_t (*gemm_workspace)(const qn_gemm_shape *shape, int n_threads);
    int64_t gemm_chunk; /* of k */

    /* ---- LSTM: the steps, one after the other ---- */

    /* c = forget * c + input * cell; h = output * tanh(c), with the gates' sums x + h weight^T
     * through sigmoid, but the cell's through tanh. */
    void (*lstm_forward)(qn_team *team, const qn_lstm_shape *shape, const qn_lstm_forward *operands,
                         void *workspace);
    void (*lstm_backward)(qn_team *team, const qn_lstm_shape *shape,
                          const qn_lstm_backward *operands, void *workspace);
    size_t (*lstm_workspace)(const qn_lstm_shape *shape, bool is_backward, int n_threads);

    /* ---- reductions over rows ---- */

    /* sums (C) of the columns of x (N, rows, C), or, with add, added to what is there. */
    void (*column_sum)(qn_team *team, int64_t n, int64_t rows, int64_t c, const void *x, bool add,
                       void *sums, void *workspace);
    size_t (*column_sum_workspace)(int64_t n, int64_t rows, int64_t c, int n_threads);
    int64_t (*column_sum_chunk)(int64_t rows, int64_t c); /* samples */

    /* Sum of n elements -> *sum. */
    void (*sum)(qn_team *team, int64_t n, const void *x, void *sum, void *workspace);
    /* Sum of the squares of n elements -> *sum. */
    void (*sum_squares)(qn_team *team, int64_t n, const void *x, void *sum, void *workspace);
    size_t (*sum_workspace)(int64_t n, int n_threads);
    /* Whether the magnitudes of n elements are at most 2^60; that of NaN is not. */
    bool (*are_moderate)(int64_t n, const void *x);

    /* ---- batch norm over x (rows, C); steps: x, y, and backward dy ---- */

    /* mean, inv_std (C) = 1 / sqrt(biased variance + epsilon);
     * y = activation((x - mean) * inv_std * scale + shift). */
    void (*batch_norm_forward)(qn_team *team, const qn_rows *shape, const void *x,
                               const void *scale, const void *shift, double epsilon,
                               qn_activation activation, void *y, void *mean, void *inv_std,
                               void *workspace);
    /* running = (1 - momentum) * running + momentum * batch's, the variance made unbiased. */
    void (*batch_norm_running)(int64_t rows, int64_t c, const void *mean, const void *inv_std,
                               double epsilon, double momentum, void *running_mean,
                               void *running_variance);
    /* y from the running statistics; may be in place. */
    void (*batch_norm_inference)(qn_team *team, const qn_rows *shape, const void *x,
                                 const void *scale, const void *shift, const void *running_mean,
                                 const void *running_variance, double epsilon,
                                 qn_activation activation, void *y);
    /* dx, dscale, dshift of the above. y is its output, read only where there is an activation
     * (else null). dx is dense; it may be in place of a dense dy. */
    void (*batch_norm_backward)(qn_team *team, const qn_rows *shape, const void *x, const void *y,
                                const void *dy, const void *scale, const void *mean,
                                const void *inv_std, qn_activation activation, void *dx,
                                void *dscale, void *dshift, void *workspace);
    size_t (*batch_norm_workspace)(const qn_rows *shape, int n_threads);

    /* ---- layer norm of the rows of x (rows, C) ---- */

    /* mean, inv_std (rows) = 1 / sqrt(biased variance + epsilon); y = (x - mean) * inv_std * scale
     * (C)
     * + shift (C); may be in place. */
    void (*layer_norm_forward)(qn_team *team, int64_t rows, int64_t c, const void *x,
                               const void *scale, const void *shift, double epsilon, void *y,
                               void *mean, void *inv_std);
    /* dx, dscale, dshift of the above, the latter two, with add, added to what is there; dx may be
     * in place of dy. */
    void (*layer_norm_backward)(qn_team *team, int64_t rows, int64_t c, const void *x,
                                const void *dy, const void *scale, const void *mean,
                                const void *inv_std, bool add, void *dx, void *dscale, void *dshift,
                                void *workspace);
    size_t (*layer_norm_workspace)(int64_t rows, int64_t c, int n_threads);
    int64_t (*layer_norm_chunk)(int64_t c); /* rows */

    /* ---- elementwise; all may be in place, of operands with the same step ---- */

    /* Steps: x, y. */
    void (*activation_forward)(qn_team *team, qn_activation activation, const qn_rows *shape,
                               const void *x, void *y);
    /* Steps: y, dy, dx. */
    void (*activation_backward)(qn_team *team, qn_activation activation, const qn_rows *shape,
                                const void *y, const void *dy, void *dx);
    /* y = activation(a + b). Steps: a, b, y. */
    void (*add)(qn_team *team, const qn_rows *shape, const void *a, const void *b,
                qn_activation activation, void *y);

    /* n elements each. */
    void (*multiply)(qn_team *team, int64_t n, const void *a, const void *b, void *y);
    /* y = factor * x. */
    void (*scale)(qn_team *team, int64_t n, double factor, const void *x, void *y);
    /* y = factor * *scalar in each of n elements. */
    void (*broadcast)(qn_team *team, int64_t n, double factor, const void *scalar, void *y);
    /* y (rows, C) = x + bias (C). */
    void (*bias)(qn_team *team, int64_t rows, int64_t c, const void *x, const void *bias, void *y);
    /* y = x * Phi(x), Phi the normal distribution; dx = dy * (Phi(x) + x * phi(x)). */
    void (*gelu)(qn_team *team, int64_t n, const void *x, void *y);
    void (*gelu_backward)(qn_team *team, int64_t n, const void *x, const void *dy, void *dx);
    /* y = d * d / 2 where |d| < 1, else |d| - 1 / 2, for d = x - target; dx = dy * d clamped to
     * [-1, 1]. */
    void (*smooth_l1)(qn_team *team, int64_t n, const void *x, const void *target, void *y);
    void (*smooth_l1_backward)(qn_team *team, int64_t n, const void *x, const void *target,
                               const void *dy, void *dx);
    /* y = max(x, 0) - x * t + log(1 + exp(-|x|)); dx = dy * (1 / (1 + exp(-x)) - t), where t is the
     * element's in targets, or target for all where that is null. */
    void (*binary_cross_entropy)(qn_team *team, int64_t n, const void *x, const void *targets,
                                 double target, void *y);
    void (*binary_cross_entropy_backward)(qn_team *team, int64_t n, const void *x,
                                          const void *targets, double target, const void *dy,
                                          void *dx);
    /* y[i] = x[i] / (1 - rate), or 0 where qn_rng_uniform(word first + i of the stream) < rate. */
    void (*dropout)(qn_team *team, int64_t n, qn_rng rng, uint64_t first, double rate,
                    const void *x, void *y);

    /* ---- formulas, elementwise; where an operand has the result's shape, they may be in place
     * ---- */

    /* y = f(x); dx = dy f'(x); n elements. */
    void (*function_forward)(qn_team *team, const qn_function *function, int64_t n, const void *x,
                             void *y);
    void (*function_backward)(qn_team *team, const qn_function *function, int64_t n, const void *x,
                              const void *dy, void *dx);
    /* y = the rule of a, b, and c where it has one (else null). */
    void (*combine)(qn_team *team, qn_combination kind, const qn_broadcast *shape, const void *a,
                    const void *b, const void *c, void *y);

    /* ---- rows of x (rows, C) ---- */

    void (*softmax)(qn_team *team, int64_t rows, int64_t c, const void *x, void *y);
    /* dx = y * (dy - sum over the row of y * dy). */
    void (*softmax_backward)(qn_team *team, int64_t rows, int64_t c, const void *y, const void *dy,
                             void *dx);
    /* loss (rows), probabilities (rows, C); labels (rows): negative: loss 0. */
    void (*cross_entropy)(qn_team *team, int64_t rows, int64_t c, const void *logits,
                          const int32_t *labels, double smoothing, void *loss, void *probabilities);
    /* dlogits = (probabilities - smoothed one-hot) * dloss of the row; 0 for negative labels.
     * May be in place of probabilities. */
    void (*cross_entropy_backward)(qn_team *team, int64_t rows, int64_t c,
                                   const void *probabilities, const int32_t *labels,
                                   double smoothing, const void *dloss, void *dlogits);
    /* loss (rows) = mean over C of (x - target)^2. */
    void (*squared_error)(qn_team *team, int64_t rows, int64_t c, const void *x, const void *target,
                          void *loss);
    /* dx = 2 (x - target) / C * dloss of the row. */
    void (*squared_error_backward)(qn_team *team, int64_t rows, int64_t c, const void *x,
                                   const void *target, const void *dloss, void *dx);

    /* Mean of the losses (n) whose label is not negative -> *mean; 0 if there are none. */
    void (*mean_valid)(int64_t n, const void *losses, const int32_t *labels, void *mean);
    void (*mean_valid_backward)(int64_t n, const int32_t *labels, const void *dmean, void *dlosses);

    /* ---- attention ---- */

    /* y (N,H,T,D) = dropout(softmax(scale * query key^T)) value for query (N,H,T,D), key and value
     * (N,H,U,D), of which lengths (N; null: all) keys are looked at; none: y is 0. The mask is that
     * of `dropout` over weights (N,H,T,U). log_sums (N,H,T): log of the sum of a row's e^score. */
    void (*attention_forward)(qn_team *team, const qn_attention_shape *shape, qn_rng rng,
                              const void *query, const void *key, const void *value,
                              const int32_t *lengths, void *y, void *log_sums, void *workspace);
    void (*attention_backward)(qn_team *team, const qn_attention_shape *shape, qn_rng rng,
                               const void *query, const void *key, const void *value,
                               const int32_t *lengths, const void *y, const void *log_sums,
                               const void *dy, void *dquery, void *dkey, void *dvalue,
                               void *workspace);
    size_t (*attention_workspace)(const qn_attention_shape *shape, bool is_backward, int n_threads);

    /* ---- elements in other places ---- */

    /* y, dense with these extents (2 to QN_MAX_RANK of them), where element (i, j, ...) is
     * x[i * strides[0] + j * strides[1] + ...]. */
    void (*transpose)(qn_team *team, int rank, const int64_t *extents, const int64_t *strides,
                      const void *x, void *y);
    /* y (outer, inner) = factor * sum over the middle axis of x (outer, n, inner). */
    void (*reduce_sum)(qn_team *team, int64_t outer, int64_t n, int64_t inner, double factor,
                       const void *x, void *y);
    /* The largest instead, and index (outer, inner), where it is first. NaN is the largest. */
    void (*reduce_max)(qn_team *team, int64_t outer, int64_t n, int64_t inner, const void *x,
                       void *y, int32_t *index);
    /* dx (outer, n, inner) = factor * dy (outer, inner), where index (null: anywhere) says. */
    void (*reduce_backward)(qn_team *team, int64_t outer, int64_t n, int64_t inner, double factor,
                            const void *dy, const int32_t *index, void *dx);
    /* y (outer, m, inner) of x (outer, n, inner) by the map of the middle axis. */
    void (*map_axis)(qn_team *team, const qn_axis_map *map, const void *x, void *y);
    /* y (rows): of each row of x (rows, C) the element indices[row], clamped to [0, C). */
    void (*gather)(int64_t rows, int64_t c, const void *x, const int32_t *indices, void *y);
    void (*gather_backward)(int64_t rows, int64_t c, const void *dy, const int32_t *indices,
                            void *dx);

    /* y (rows, C) = rows of the table (table_rows, C) by indices (rows), which are clamped to its
     * rows; of INT32_MIN, which is none, a row of NaN, and no gradient. */
    void (*embedding)(qn_team *team, int64_t rows, int64_t c, int64_t table_rows, const void *table,
                      const int32_t *indices, void *y);
    /* dtable (table_rows, C): sums of the rows of dy (rows, C) with that index, added in order,
     * with add to what is there; its chunk is one row. */
    void (*embedding_backward)(qn_team *team, int64_t rows, int64_t c, int64_t table_rows,
                               const void *dy, const int32_t *indices, bool add, void *dtable);

    /* ---- pooling; shape.k = shape.c, groups ignored; y and dy have a step, index has none ---- */

    /* index (N,P,Q,C): position r * S + s of the first largest element in its window. */
    void (*max_pool)(qn_team *team, const qn_conv2d_shape *shape, const void *x, void *y,
                     uint16_t *index);
    void (*max_pool_backward)(qn_team *team, const qn_conv2d_shape *shape, const void *dy,
                              const uint16_t *index, void *dx);
    void (*average_pool)(qn_team *team, const qn_conv2d_shape *shape, const void *x, void *y);
    void (*average_pool_backward)(qn_team *team, const qn_conv2d_shape *shape, const void *dy,
                                  void *dx);

    /* ---- optimisers; all in place; *factor multiplies the gradient (clipping), null: 1 ---- */

    /* g = gradient * factor * hyper gradient + decay * w; m = momentum * m + g;
     * w -= rate * (nesterov ? g + momentum * m : m). m null: momentum 0. (Sutskever et al. 2013,
     * in PyTorch's form.) */
    void (*sgd)(qn_team *team, int64_t n, const void *hyper, bool nesterov, const void *factor,
                const void *gradient, void *w, void *m);
    /* Adam (Kingma and Ba 2015, algorithm 1) with weight decay added to the gradient, or decoupled
     * (AdamW, Loshchilov and Hutter 2019, algorithm 2): w -= rate * decay * w first.
     * w -= rate * (m / correction1) / (sqrt(v / correction2) + epsilon). */
    void (*adam)(qn_team *team, int64_t n, const void *hyper, bool decoupled, const void *factor,
                 const void *gradient, void *w, void *m, void *v);
} qn_kernels;

/* The table for a real type (QN_F32, QN_F64) and an instruction set; never fails: a missing fast
 * kernel is the reference's. */
const qn_kernels *qn_kernels_get(qn_dtype real, qn_isa isa);

#endif
