/* The reference's table for one real type; a file defines QN_TABLE and includes this. */
#include "kernels/ref/arrange.h"
#include "kernels/ref/conv.h"
#include "kernels/ref/embedding.h"
#include "kernels/ref/formula.h"
#include "kernels/ref/gemm.h"
#include "kernels/ref/layer_norm.h"
#include "kernels/ref/lstm_tile.h"
#include "kernels/ref/optimizers.h"
#include "kernels/ref/pool.h"
#include "kernels/ref/reductions.h"
#include "kernels/ref/rows.h"
#include "kernels/tables.h"

#define PRODUCT       gemm
#define PRODUCT_BOUND gemm_workspace
#include "kernels/ref/attention.h"

const qn_kernels QN_TABLE = {
    .name = "ref",
    .real = QN_REAL_DTYPE,
    .conv2d_forward = conv2d_forward,
    .conv2d_backward_data = conv2d_backward_data,
    .conv2d_backward_filter = conv2d_backward_filter,
    .conv2d_workspace = conv2d_workspace,
    .conv2d_filter_chunk = conv2d_filter_chunk,
    .gemm = gemm,
    .gemm_workspace = gemm_workspace,
    .gemm_chunk = DEPTH_BLOCK,
    .lstm_forward = lstm_forward,
    .lstm_backward = lstm_backward,
    .lstm_workspace = lstm_workspace,
    .column_sum = column_sum,
    .column_sum_workspace = column_sum_workspace,
    .column_sum_chunk = column_sum_chunk,
    .sum = sum,
    .sum_squares = sum_squares,
    .sum_workspace = sum_workspace,
    .batch_norm_forward = batch_norm_forward,
    .batch_norm_running = batch_norm_running,
    .batch_norm_inference = batch_norm_inference,
    .batch_norm_backward = batch_norm_backward,
    .batch_norm_workspace = batch_norm_workspace,
    .layer_norm_forward = layer_norm_forward,
    .layer_norm_backward = layer_norm_backward,
    .layer_norm_workspace = layer_norm_workspace,
    .layer_norm_chunk = layer_norm_chunk,
    .activation_forward = activation_forward,
    .activation_backward = activation_backward,
    .add = add,
    .multiply = multiply,
    .scale = scale,
    .broadcast = broadcast,
    .bias = bias,
    .gelu = gelu,
    .gelu_backward = gelu_backward,
    .smooth_l1 = smooth_l1,
    .smooth_l1_backward = smooth_l1_backward,
    .binary_cross_entropy = binary_cross_entropy,
    .binary_cross_entropy_backward = binary_cross_entropy_backward,
    .dropout = dropout,
    .function_forward = FORMULA_NAME(qn_function_forward),
    .function_backward = FORMULA_NAME(qn_function_backward),
    .combine = FORMULA_NAME(qn_combine),
    .cast = FORMULA_NAME(qn_cast),
    .softmax = softmax,
    .softmax_backward = softmax_backward,
    .cross_entropy = cross_entropy,
    .cross_entropy_backward = cross_entropy_backward,
    .squared_error = squared_error,
    .squared_error_backward = squared_error_backward,
    .mean_valid = mean_valid,
    .mean_valid_backward = mean_valid_backward,
    .transpose = transpose,
    .reduce_sum = reduce_sum,
    .reduce_max = reduce_max,
    .reduce_backward = reduce_backward,
    .map_axis = map_axis,
    .gather = gather,
    .gather_backward = gather_backward,
    .embedding = embedding,
    .embedding_backward = embedding_backward,
    .attention_forward = attention_forward,
    .attention_backward = attention_backward,
    .attention_workspace = attention_workspace,
    .max_pool = max_pool,
    .max_pool_backward = max_pool_backward,
    .average_pool = average_pool,
    .average_pool_backward = average_pool_backward,
    .sgd = sgd,
    .adam = adam,
};
