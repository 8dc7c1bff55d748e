/* The operators. */
#include "ops/integers.h"
#include "ops/shared.h"

#include <string.h>

const qn_op *const qn_ops[] = {
    &qn_op_integer_rule,
    &qn_op_integer_axis,
    &qn_op_integer_matmul,
    &qn_op_ranked_places,
    &qn_op_pick_elements,
    &qn_op_conv2d,
    &qn_op_conv2d_backward_data,
    &qn_op_conv2d_backward_filter,
    &qn_op_conv2d_transpose,
    &qn_op_linear,
    &qn_op_linear_backward_data,
    &qn_op_linear_backward_weight,
    &qn_op_matmul,
    &qn_op_bias,
    &qn_op_column_sum,
    &qn_op_batch_norm,
    &qn_op_batch_norm_backward,
    &qn_op_batch_norm_running,
    &qn_op_batch_norm_inference,
    &qn_op_relu,
    &qn_op_relu6,
    &qn_op_leaky_relu,
    &qn_op_tanh,
    &qn_op_sigmoid,
    &qn_op_activation_backward,
    &qn_op_softmax,
    &qn_op_softmax_backward,
    &qn_op_attention,
    &qn_op_attention_backward,
    &qn_op_softmax_cross_entropy,
    &qn_op_softmax_cross_entropy_backward,
    &qn_op_squared_error,
    &qn_op_squared_error_backward,
    &qn_op_binary_cross_entropy,
    &qn_op_binary_cross_entropy_backward,
    &qn_op_smooth_l1,
    &qn_op_smooth_l1_backward,
    &qn_op_peer_loss,
    &qn_op_mean,
    &qn_op_join,
    &qn_op_mean_valid,
    &qn_op_mean_valid_backward,
    &qn_op_reduce,
    &qn_op_reduce_backward,
    &qn_op_gather,
    &qn_op_gather_backward,
    &qn_op_broadcast_scalar,
    &qn_op_constant,
    &qn_op_max_pool,
    &qn_op_max_pool_backward,
    &qn_op_average_pool,
    &qn_op_average_pool_backward,
    &qn_op_global_average_pool,
    &qn_op_dropout,
    &qn_op_add,
    &qn_op_multiply,
    &qn_op_concat,
    &qn_op_slice,
    &qn_op_slice_backward,
    &qn_op_choose_channels,
    &qn_op_take_channels,
    &qn_op_put_channels,
    &qn_op_resample,
    &qn_op_resample_backward,
    &qn_op_reshape,
    &qn_op_transpose,
    &qn_op_scale,
    &qn_op_stop_gradient,
    &qn_op_embedding,
    &qn_op_embedding_backward,
    &qn_op_lstm,
    &qn_op_lstm_before,
    &qn_op_lstm_backward,
    &qn_op_layer_norm,
    &qn_op_layer_norm_backward,
    &qn_op_gelu,
    &qn_op_gelu_backward,
    &qn_op_clip,
    &qn_op_accumulation,
    &qn_op_sgd_step,
    &qn_op_adam_step,
    &qn_op_function_forward,
    &qn_op_function_backward,
    &qn_op_combine_forward,
    &qn_op_where_forward,
    &qn_op_cast_forward,
    &qn_op_quantise_number,
    &qn_op_dequantise_number,
    &qn_op_scale_of_numbers,
    &qn_op_wrap,
    &qn_op_row_number,
    &qn_op_scatter_sum,
    &qn_op_scatter_place,
    &qn_op_copy_value,
    &qn_op_wait_value,
    &qn_op_exponent_sum,
    &qn_op_integer_cross_entropy,
    &qn_op_integer_update,
    &qn_op_rescaled_linear,
    &qn_op_rescaled_linear_backward_data,
    &qn_op_rescaled_linear_backward_weight,
    &qn_op_rescaled_conv2d,
    &qn_op_rescaled_conv2d_backward_data,
    &qn_op_rescaled_conv2d_backward_filter,
    &qn_op_keep_numbers,
    &qn_op_round_numbers,
    &qn_op_settle_numbers,
    &qn_op_adapt_numbers,
    &qn_op_whole_norm,
    &qn_op_whole_norm_backward,
    &qn_op_chunked_linear,
    &qn_op_chunked_linear_backward_data,
    &qn_op_chunked_linear_backward_weight,
    &qn_op_chunked_conv2d,
    &qn_op_chunked_conv2d_backward_data,
    &qn_op_chunked_conv2d_backward_filter,
    &qn_op_frozen_linear,
    &qn_op_frozen_linear_backward_data,
    &qn_op_frozen_embedding,
    &qn_op_rms_norm,
    &qn_op_rms_norm_backward,
    &qn_op_rotary,
    &qn_op_gated,
    &qn_op_gated_backward,
    &qn_op_causal,
    &qn_op_causal_backward,
    &qn_op_sliced,
    NULL,
};

const qn_op *qn_op_find(const char *name) {
    for (int i = 0; qn_ops[i]; i++) {
        if (strcmp(qn_ops[i]->name, name) == 0)
            return qn_ops[i];
    }
    return NULL;
}

static int64_t count_bytes(const qn_tensor *tensors, int n) {
    int64_t bytes = 0;
    for (int i = 0; i < n; i++)
        bytes += (int64_t)qn_tensor_bytes(tensors[i]);
    return bytes;
}

qn_cost qn_node_cost(const qn_graph *graph, const qn_node *node) {
    qn_tensor outputs[QN_MAX_OUTPUTS];
    qn_cost cost = {0};
    if (node->op->is_view)
        return cost;
    for (int i = 0; i < node->n_outputs; i++)
        outputs[i] = qn_graph_tensor(graph, node->outputs[i]);
    if (node->op->cost)
        cost = node->op->cost(node->attributes, node->input_tensors, outputs);
    if (cost.bytes == 0)
        cost.bytes = count_bytes(node->input_tensors, node->n_inputs) +
                     count_bytes(outputs, node->n_outputs);
    return cost;
}
