/* The operators of ONNX that can be built: a list for each file of translators. */
#include "onnx/translate.h"

#include <stddef.h>

const qn_onnx_translator *const qn_onnx_translators[] = {
    qn_onnx_image_translators,       qn_onnx_matrix_translators,
    qn_onnx_elementwise_translators, qn_onnx_reduce_translators,
    qn_onnx_shape_translators,       qn_onnx_index_translators,
    qn_onnx_recurrent_translators,   qn_onnx_norm_translators,
    qn_onnx_resample_translators,    NULL};
