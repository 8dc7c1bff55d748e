/* The entries of a kernel table that are the reference's source, compiled for the table's real type
 * and instruction set. A table is these and its own products: what an instruction set does better.
 * The includer defines PRODUCT and PRODUCT_BOUND, what attention multiplies with, and
 * TABLE_FORMULA, the name of what is compiled once for the real type (tables.h). */
#ifndef QN_KERNELS_REF_ENTRIES_H
#define QN_KERNELS_REF_ENTRIES_H

#include "kernels/ref/arrange.h"
#include "kernels/ref/attention.h"
#include "kernels/ref/embedding.h"
#include "kernels/ref/layer_norm.h"
#include "kernels/ref/optimizers.h"
#include "kernels/ref/pool.h"
#include "kernels/ref/reductions.h"
#include "kernels/ref/rows.h"
#include "kernels/tables.h"

/* clang-format off */
#define REFERENCE_ENTRIES \
    .lstm_forward = lstm_forward, \
    .lstm_backward = lstm_backward, \
    .lstm_workspace = lstm_workspace, \
    .column_sum = column_sum, \
    .column_sum_workspace = column_sum_workspace, \
    .column_sum_chunk = column_sum_chunk, \
    .sum = sum, \
    .sum_squares = sum_squares, \
    .sum_workspace = sum_workspace, \
    .are_moderate = are_moderate, \
    .batch_norm_forward = batch_norm_forward, \
    .batch_norm_running = batch_norm_running, \
    .batch_norm_inference = batch_norm_inference, \
    .batch_norm_backward = batch_norm_backward, \
    .batch_norm_workspace = batch_norm_workspace, \
    .layer_norm_forward = layer_norm_forward, \
    .layer_norm_backward = layer_norm_backward, \
    .layer_norm_workspace = layer_norm_workspace, \
    .layer_norm_chunk = layer_norm_chunk, \
    .activation_forward = activation_forward, \
    .activation_backward = activation_backward, \
    .add = add, \
    .multiply = multiply, \
    .scale = scale, \
    .broadcast = broadcast, \
    .bias = bias, \
    .gelu = gelu, \
    .gelu_backward = gelu_backward, \
    .smooth_l1 = TABLE_FORMULA(qn_smooth_l1), \
    .smooth_l1_backward = TABLE_FORMULA(qn_smooth_l1_backward), \
    .binary_cross_entropy = TABLE_FORMULA(qn_binary_cross_entropy), \
    .binary_cross_entropy_backward = TABLE_FORMULA(qn_binary_cross_entropy_backward), \
    .dropout = dropout, \
    .function_forward = TABLE_FORMULA(qn_function_forward), \
    .function_backward = TABLE_FORMULA(qn_function_backward), \
    .combine = TABLE_FORMULA(qn_combine), \
    .softmax = softmax, \
    .softmax_backward = softmax_backward, \
    .cross_entropy = cross_entropy, \
    .cross_entropy_backward = cross_entropy_backward, \
    .squared_error = squared_error, \
    .squared_error_backward = squared_error_backward, \
    .mean_valid = TABLE_FORMULA(qn_mean_valid), \
    .mean_valid_backward = TABLE_FORMULA(qn_mean_valid_backward), \
    .transpose = transpose, \
    .reduce_sum = reduce_sum, \
    .reduce_max = reduce_max, \
    .reduce_backward = reduce_backward, \
    .map_axis = map_axis, \
    .gather = TABLE_FORMULA(qn_gather), \
    .gather_backward = TABLE_FORMULA(qn_gather_backward), \
    .embedding = embedding, \
    .embedding_backward = embedding_backward, \
    .attention_forward = attention_forward, \
    .attention_backward = attention_backward, \
    .attention_workspace = attention_workspace, \
    .max_pool = max_pool, \
    .max_pool_backward = max_pool_backward, \
    .average_pool = average_pool, \
    .average_pool_backward = average_pool_backward, \
    .sgd = sgd, \
    .adam = adam
/* clang-format on */

#endif
