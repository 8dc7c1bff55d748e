/* Operators. Each adds a node to the graph and returns its result; name may be null (the
 * operator's name and a number). Shapes: (N, H, W, C) for images, (N, C) for rows. Failures
 * (incompatible shapes) are kept by the graph. */
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

/* Products (conv2d, linear, matmul) are of f32, f64 or i8. Those of i8 are i32, exact unless a sum
 * of more than 131,071 products wraps around; their bias is i32, their only activation ReLU, and
 * autodiff has no gradients for them. */

/* Convolution of x (N, H, W, C) with filter (K, R, S, C / groups), plus bias (K) unless it is
 * QN_NO_VALUE -> (N, P, Q, K). C and K are multiples of groups (0 means 1). */
QN_API qn_value qn_conv2d(qn_graph *graph, const char *name, qn_value x, qn_value filter,
                          qn_value bias, qn_window window, int groups);

/* The transpose of a convolution, "deconvolution": x (N, P, Q, K) with filter (K, R, S, C), plus
 * bias (C) unless QN_NO_VALUE -> (N, H, W, C), where H = (P - 1) * stride + R - pads (dilation 1):
 * the gradient of qn_conv2d with respect to its data. */
QN_API qn_value qn_conv2d_transpose(qn_graph *graph, const char *name, qn_value x, qn_value filter,
                                    qn_value bias, qn_window window);

/* Convolution over time: x (N, T, C) with filter (K, R, C), plus bias (K) unless QN_NO_VALUE, with
 * so many zeros before and after -> (N, T + pads - R + 1, K). Pad R - 1 before and 0 after: causal.
 */
QN_API qn_value qn_conv1d(qn_graph *graph, const char *name, qn_value x, qn_value filter,
                          qn_value bias, int pad_before, int pad_after);

/* x (N, C) times weight (K, C) transposed, plus bias (K) unless QN_NO_VALUE -> (N, K). */
QN_API qn_value qn_linear(qn_graph *graph, const char *name, qn_value x, qn_value weight,
                          qn_value bias);

/* x (..., C) plus bias (C). */
QN_API qn_value qn_bias(qn_graph *graph, const char *name, qn_value x, qn_value bias);

/* x (N, ...) plus rows of the shape of one sample (...): embeddings of positions. It is qn_bias
 * over views. */
QN_API qn_value qn_add_rows(qn_graph *graph, const char *name, qn_value x, qn_value rows);

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

/* x * Phi(x), with the error function (Hendrycks and Gimpel 2016, section 2). */
QN_API qn_value qn_gelu(qn_graph *graph, const char *name, qn_value x);

/* Layer norm over the last axis (Ba et al. 2016, equation 4; biased variance); scale, shift (C). */
QN_API qn_value qn_layer_norm(qn_graph *graph, const char *name, qn_value x, qn_value scale,
                              qn_value shift, double epsilon);

/* Rows of table (V, C) by indices (...), QN_I32, clamped to 0 to V - 1 -> indices' shape + (C). */
QN_API qn_value qn_embedding(qn_graph *graph, const char *name, qn_value table, qn_value indices);

/* Results of qn_lstm. */
typedef struct qn_lstm_result {
    qn_value y;    /* h at every step */
    qn_value h, c; /* (N, K): after the last step of each sequence */
} qn_lstm_result;

/* A layer of LSTM over whole sequences (Hochreiter and Schmidhuber 1997 with the forget gate of
 * Gers et al. 2000): x (N, T, C); weight_x (4 K, C), weight_h (4 K, K) and bias (4 K) hold input,
 * forget, cell and output gate, in this order (one bias: the sum of PyTorch's two); h, c (N, K) are
 * the state before, QN_NO_VALUE: zeros; lengths (N), QN_I32, of the sequences, 1 to T, QN_NO_VALUE:
 * all T. After a sequence's end y is 0 and the state stays. Gradients flow to all reals. */
QN_API qn_lstm_result qn_lstm(qn_graph *graph, const char *name, qn_value x, qn_value weight_x,
                              qn_value weight_h, qn_value bias, qn_value h, qn_value c,
                              qn_value lengths);

/* Matrix products over all leading axes, which are equal: a (..., M, K) or, if transpose_a,
 * (..., K, M); b (..., K, N) or, if transpose_b, (..., N, K) -> (..., M, N). */
QN_API qn_value qn_matmul(qn_graph *graph, const char *name, qn_value a, qn_value b,
                          bool transpose_a, bool transpose_b);

/* Scaled dot-product attention (Vaswani et al. 2017, equation 1) for query (N, H, T, D), key and
 * value (N, H, U, D) -> (N, H, T, D): softmax(scale * query key^T) value. lengths (N), QN_I32: keys
 * from there on are not looked at; QN_NO_VALUE: all are. dropout: rate on the softmax, in training.
 */
QN_API qn_value qn_attention(qn_graph *graph, const char *name, qn_value query, qn_value key,
                             qn_value value, qn_value lengths, double scale, double dropout);

/* Softmax over the last axis. */
QN_API qn_value qn_softmax(qn_graph *graph, const char *name, qn_value x);

/* Cross entropy of softmax(logits (..., C)) with classes labels (...), QN_I32 -> losses (...): of
 * samples (N), of the tokens of sequences (N, T). Label smoothing s gives the class 1 - s + s / C
 * and every other s / C. A negative label makes its loss and gradient 0. */
QN_API qn_value qn_softmax_cross_entropy(qn_graph *graph, const char *name, qn_value logits,
                                         qn_value labels, double label_smoothing);

/* Mean over the last axis of (x - target)^2 for x, target (N, C) -> (N). */
QN_API qn_value qn_squared_error(qn_graph *graph, const char *name, qn_value x, qn_value target);

/* Binary cross entropy of sigmoid(x) with target, both of one shape: the loss of each element,
 * max(x, 0) - x * target + log(1 + exp(-|x|)). */
QN_API qn_value qn_binary_cross_entropy(qn_graph *graph, const char *name, qn_value x,
                                        qn_value target);

/* The same with one target, 0 to 1, for all. */
QN_API qn_value qn_binary_cross_entropy_with(qn_graph *graph, const char *name, qn_value x,
                                             double target);

/* Smooth L1, or Huber's loss with delta 1 (Girshick 2015, equation 3), of each element of x -
 * target. */
QN_API qn_value qn_smooth_l1(qn_graph *graph, const char *name, qn_value x, qn_value target);

/* Mean of all elements -> scalar. */
QN_API qn_value qn_mean(qn_graph *graph, const char *name, qn_value x);

/* Mean of the losses whose label, QN_I32, of the same shape, is not negative -> scalar; 0 if there
 * are none. */
QN_API qn_value qn_mean_valid(qn_graph *graph, const char *name, qn_value losses, qn_value labels);

/* Sum, mean or largest of the elements along one axis (negative: from the end), which goes away. */
typedef enum qn_reduction { QN_SUM = 0, QN_MEAN, QN_MAX } qn_reduction;
QN_API qn_value qn_reduce(qn_graph *graph, const char *name, qn_value x, int axis,
                          qn_reduction reduction);

/* For each row of x (N, C) the element indices (N), QN_I32, clamped to 0 to C - 1 -> (N). */
QN_API qn_value qn_gather(qn_graph *graph, const char *name, qn_value x, qn_value indices);

/* factor * x. */
QN_API qn_value qn_scale(qn_graph *graph, const char *name, qn_value x, double factor);

/* x, through which no gradient flows. */
QN_API qn_value qn_stop_gradient(qn_graph *graph, const char *name, qn_value x);

/* Largest and mean element of each window of x (N, H, W, C) -> (N, P, Q, C). Padding never is the
 * largest; the mean divides by the whole kernel, zeros of the padding included. (A last window that
 * is only partly inside, "ceil mode", is a larger pad_bottom and pad_right.) */
QN_API qn_value qn_max_pool(qn_graph *graph, const char *name, qn_value x, qn_window window);
QN_API qn_value qn_average_pool(qn_graph *graph, const char *name, qn_value x, qn_window window);

/* Mean of the elements of each window that are inside the image: padding is not counted. */
QN_API qn_value qn_average_pool_inside(qn_graph *graph, const char *name, qn_value x,
                                       qn_window window);

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

/* Interpolation between the elements of an axis. The QN_NEAREST variants differ in rounding
 * halves. Cubic: Keys 1981, equation 4, with a custom factor a. */
typedef enum qn_interpolation {
    QN_NEAREST = 0,
    QN_NEAREST_UP,
    QN_NEAREST_FLOOR,
    QN_NEAREST_CEIL,
    QN_LINEAR,
    QN_CUBIC
} qn_interpolation;

/* Values outside an axis: a constant, the edge, the mirror image (without repeating the edge),
 * periodic. */
typedef enum qn_border {
    QN_BORDER_VALUE = 0,
    QN_BORDER_EDGE,
    QN_BORDER_REFLECT,
    QN_BORDER_WRAP
} qn_border;

/* Element i is the value at position (i + shift) * step / scale + offset. */
typedef struct qn_resampling {
    qn_interpolation interpolation;
    qn_border border;
    double value; /* of a constant border */
    double shift, step, scale, offset;
    double cubic;     /* a */
    bool leaves_outs; /* linear, cubic: outside values get no weight, and the other weights are
                         normalised */
} qn_resampling;

/* Resamples an axis (negative: from the end) to an extent. Integers (QN_I32) only with
 * interpolations that select one element. */
QN_API qn_value qn_resample(qn_graph *graph, const char *name, qn_value x, int axis, int64_t extent,
                            const qn_resampling *how);

/* Special cases: elements begin, begin + step, ...; and padding before and after (negative:
 * cropping). */
QN_API qn_value qn_slice_steps(qn_graph *graph, const char *name, qn_value x, int axis,
                               int64_t begin, int64_t step, int64_t extent);
QN_API qn_value qn_pad(qn_graph *graph, const char *name, qn_value x, int axis, int64_t before,
                       int64_t after, qn_border border, double value);

/* x repeated along axes of extent 1, and along new axes in front, to the given shape. */
QN_API qn_value qn_expand(qn_graph *graph, const char *name, qn_value x, qn_shape shape);

/* The same elements in another shape. An extent of -1 is computed. */
QN_API qn_value qn_reshape(qn_graph *graph, const char *name, qn_value x, qn_shape shape);

/* Axes in another order: axis i of the result is axis order[i] of x. */
QN_API qn_value qn_transpose(qn_graph *graph, const char *name, qn_value x, const int *order);

/* (N, ...) -> (N, all the rest). */
QN_API qn_value qn_flatten(qn_graph *graph, const char *name, qn_value x);

/* ---- layers: operators with parameters of their own, "NAME.weight" and so on ---- */

/* Convolution with a number of filters, with or without bias. Weights and biases of these layers
 * start uniform with bound 1 / sqrt(fan in), as in PyTorch. */
QN_API qn_value qn_conv2d_layer(qn_graph *graph, const char *name, qn_value x, int64_t filters,
                                qn_window window, int groups, bool bias);

/* Linear layer with bias; flattens x. */
QN_API qn_value qn_linear_layer(qn_graph *graph, const char *name, qn_value x, int64_t outputs);

/* Batch norm with scale 1 and shift 0 at the start, running mean 0 and variance 1, momentum 0.1. */
QN_API qn_value qn_batch_norm_layer(qn_graph *graph, const char *name, qn_value x, double epsilon);

/* conv1d, conv2d_transpose, embedding (normal with deviation 1, as PyTorch's), layer norm (scale 1,
 * shift 0), and LSTM (uniform with bound 1 / sqrt(K)) with parameters of their own. */
QN_API qn_value qn_conv1d_layer(qn_graph *graph, const char *name, qn_value x, int64_t filters,
                                int kernel, int pad_before, int pad_after);
QN_API qn_value qn_conv2d_transpose_layer(qn_graph *graph, const char *name, qn_value x,
                                          int64_t channels, qn_window window, bool bias);
QN_API qn_value qn_embedding_layer(qn_graph *graph, const char *name, qn_value indices,
                                   int64_t n_rows, int64_t channels, double deviation);
QN_API qn_value qn_layer_norm_layer(qn_graph *graph, const char *name, qn_value x, double epsilon);
QN_API qn_lstm_result qn_lstm_layer(qn_graph *graph, const char *name, qn_value x, int64_t outputs,
                                    qn_value h, qn_value c, qn_value lengths);

/* Linear layer over the last axis: x (..., C) -> (..., outputs). */
QN_API qn_value qn_linear_last_layer(qn_graph *graph, const char *name, qn_value x,
                                     int64_t outputs);

#ifdef __cplusplus
}
#endif
#endif
