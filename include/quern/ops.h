/* Operators. Each adds a node to the graph and returns its result; name may be null (the
 * operator's own name and a number). Shapes: (N, H, W, C) for images, (N, C) for rows. A failure
 * (shapes that do not fit) is kept by the graph. */
#ifndef QUERN_OPS_H
#define QUERN_OPS_H

#include "quern/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A sliding window. A stride or dilation of 0 means 1. The kernel of a convolution is given by its
 * filter, and may be left 0 here. Pads are counts of zero rows and columns on each side.
 * Output extent: (input + pads - dilation * (kernel - 1) - 1) / stride + 1. */
typedef struct qn_window {
    int kernel_h, kernel_w;
    int stride_h, stride_w;
    int pad_top, pad_left, pad_bottom, pad_right;
    int dilation_h, dilation_w;
} qn_window;

/* A square window with equal strides and pads. */
QN_API qn_window qn_window_square(int kernel, int stride, int pad);

/* Convolution of x (N, H, W, C) with filter (K, R, S, C / groups), plus bias (K) unless it is
 * QN_NO_VALUE -> (N, P, Q, K). C and K are multiples of groups (0 means 1). */
QN_API qn_value qn_conv2d(qn_graph *graph, const char *name, qn_value x, qn_value filter,
                          qn_value bias, qn_window window, int groups);

/* x (N, C) times weight (K, C) transposed, plus bias (K) unless QN_NO_VALUE -> (N, K). */
QN_API qn_value qn_linear(qn_graph *graph, const char *name, qn_value x, qn_value weight,
                          qn_value bias);

/* x (..., C) plus bias (C). */
QN_API qn_value qn_bias(qn_graph *graph, const char *name, qn_value x, qn_value bias);

/* Batch norm over all axes but the last (Ioffe and Szegedy 2015, algorithm 1). In a training graph
 * it normalises with the batch's statistics and moves the running ones towards them by momentum
 * (running variance: unbiased); otherwise it uses the running ones. All four are (C). */
QN_API qn_value qn_batch_norm(qn_graph *graph, const char *name, qn_value x, qn_value scale,
                              qn_value shift, qn_value running_mean, qn_value running_variance,
                              double epsilon, double momentum);

QN_API qn_value qn_relu(qn_graph *graph, const char *name, qn_value x);
QN_API qn_value qn_relu6(qn_graph *graph, const char *name, qn_value x);
QN_API qn_value qn_leaky_relu(qn_graph *graph, const char *name, qn_value x, double slope);
QN_API qn_value qn_tanh(qn_graph *graph, const char *name, qn_value x);
QN_API qn_value qn_sigmoid(qn_graph *graph, const char *name, qn_value x);

/* Softmax over the last axis. */
QN_API qn_value qn_softmax(qn_graph *graph, const char *name, qn_value x);

/* Cross entropy of softmax(logits (N, C)) with classes labels (N), QN_I32 -> loss per sample (N).
 * Label smoothing s gives the class 1 - s + s / C and every other s / C. A negative label makes
 * the sample's loss and gradient 0. */
QN_API qn_value qn_softmax_cross_entropy(qn_graph *graph, const char *name, qn_value logits,
                                         qn_value labels, double label_smoothing);

/* Mean over the last axis of (x - target)^2 for x, target (N, C) -> (N). */
QN_API qn_value qn_squared_error(qn_graph *graph, const char *name, qn_value x, qn_value target);

/* Mean of all elements -> scalar. */
QN_API qn_value qn_mean(qn_graph *graph, const char *name, qn_value x);

/* Largest and mean element of each window of x (N, H, W, C) -> (N, P, Q, C). Padding never is the
 * largest; the mean divides by the whole kernel, zeros of the padding included. */
QN_API qn_value qn_max_pool(qn_graph *graph, const char *name, qn_value x, qn_window window);
QN_API qn_value qn_average_pool(qn_graph *graph, const char *name, qn_value x, qn_window window);

/* Mean over H and W of x (N, H, W, C) -> (N, C). */
QN_API qn_value qn_global_average_pool(qn_graph *graph, const char *name, qn_value x);

/* In a training graph: zero with probability rate, else x / (1 - rate) (Srivastava et al. 2014);
 * keyed by (seed, step, node name, element). Otherwise x itself. 0 <= rate < 1. */
QN_API qn_value qn_dropout(qn_graph *graph, const char *name, qn_value x, double rate);

/* Sum and product of two values of one shape. */
QN_API qn_value qn_add(qn_graph *graph, const char *name, qn_value a, qn_value b);
QN_API qn_value qn_multiply(qn_graph *graph, const char *name, qn_value a, qn_value b);

/* Parts side by side along an axis (negative: from the end). */
QN_API qn_value qn_concat(qn_graph *graph, const char *name, const qn_value *parts, int n_parts,
                          int axis);

/* Elements [begin, end) of an axis. */
QN_API qn_value qn_slice(qn_graph *graph, const char *name, qn_value x, int axis, int64_t begin,
                         int64_t end);

/* The same elements in another shape. An extent of -1 is worked out. */
QN_API qn_value qn_reshape(qn_graph *graph, const char *name, qn_value x, qn_shape shape);

/* (N, ...) -> (N, all the rest). */
QN_API qn_value qn_flatten(qn_graph *graph, const char *name, qn_value x);

/* ---- layers: operators with parameters of their own, "NAME.weight" and so on ---- */

/* Convolution with so many filters, with bias or without. Weights and biases of these layers start
 * uniform with bound 1 / sqrt(fan in), as PyTorch's do. */
QN_API qn_value qn_conv2d_layer(qn_graph *graph, const char *name, qn_value x, int64_t filters,
                                qn_window window, int groups, bool bias);

/* Linear layer to so many outputs with bias; flattens x. */
QN_API qn_value qn_linear_layer(qn_graph *graph, const char *name, qn_value x, int64_t outputs);

/* Batch norm with scale 1 and shift 0 at the start, running mean 0 and variance 1, momentum 0.1. */
QN_API qn_value qn_batch_norm_layer(qn_graph *graph, const char *name, qn_value x, double epsilon);

#ifdef __cplusplus
}
#endif
#endif
