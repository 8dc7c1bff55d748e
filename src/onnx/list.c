/* The operators of ONNX that can be built: a list for each file of translators. */
#include "onnx/translate.h"

#include <stddef.h>

const qn_onnx_translator *const qn_onnx_translators[] = {qn_onnx_conv_pool_translators,
                                                         qn_onnx_matrix_translators,
                                                         qn_onnx_elementwise_translators,
                                                         qn_onnx_reduce_translators,
                                                         qn_onnx_shape_translators,
                                                         qn_onnx_index_translators,
                                                         qn_onnx_recurrent_translators,
                                                         qn_onnx_norm_translators,
                                                         qn_onnx_resample_translators,
                                                         qn_onnx_select_translators,
                                                         qn_onnx_known_translators,
                                                         qn_onnx_function_translators,
                                                         qn_onnx_einsum_translators,
                                                         qn_onnx_control_translators,
                                                         qn_onnx_sequence_translators,
                                                         qn_onnx_quantise_translators,
                                                         qn_onnx_spectrum_translators,
                                                         qn_onnx_scatter_translators,
                                                         qn_onnx_grid_translators,
                                                         qn_onnx_attention_translators,
                                                         qn_onnx_loss_translators,
                                                         qn_onnx_change_translators,
                                                         qn_onnx_integer_translators,
                                                         qn_onnx_region_translators,
                                                         NULL};
