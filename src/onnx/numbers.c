/* Numbers out of tensors of a file, whatever their type. Unsigned 64-bit numbers are taken as
 * signed ones. */
#include "base/status.h"
#include "onnx/builder.h"
#include "tensor/number.h"

#include <string.h>

qn_dtype qn_onnx_dtype_of(qn_onnx_type type) {
    switch (type) {
    case QN_ONNX_FLOAT:
        return QN_F32;
    case QN_ONNX_DOUBLE:
        return QN_F64;
    case QN_ONNX_FLOAT16:
        return QN_F16;
    case QN_ONNX_BFLOAT16:
        return QN_BF16;
    case QN_ONNX_FLOAT8E4M3FN:
        return QN_F8E4M3;
    case QN_ONNX_FLOAT8E5M2:
        return QN_F8E5M2;
    case QN_ONNX_INT32:
        return QN_I32;
    case QN_ONNX_INT16:
        return QN_I16;
    case QN_ONNX_UINT16:
        return QN_U16;
    case QN_ONNX_INT8:
    case QN_ONNX_INT4:
        return QN_I8;
    case QN_ONNX_UINT8:
    case QN_ONNX_UINT4:
    case QN_ONNX_BOOL:
        return QN_U8;
    default:
        return QN_NONE;
    }
}

bool qn_onnx_type_is_real(qn_onnx_type type) {
    return qn_dtype_is_float(qn_onnx_dtype_of(type));
}

qn_status qn_onnx_tensor_shape(const qn_onnx_tensor *tensor, qn_shape *shape) {
    if (tensor->n_dims > QN_MAX_RANK)
        return qn_fail(QN_ERROR_UNSUPPORTED, "it has %d axes, where %d are the most here",
                       tensor->n_dims, QN_MAX_RANK);
    *shape = (qn_shape){.rank = tensor->n_dims};
    for (int i = 0; i < tensor->n_dims; i++)
        shape->dims[i] = tensor->dims[i];
    return QN_OK;
}

/* The number at an address, aligned. */
static int64_t whole_of(qn_onnx_type type, const void *number) {
    switch (type) {
    case QN_ONNX_INT64:
        return *(const int64_t *)number;
    case QN_ONNX_UINT64:
        return (int64_t) * (const uint64_t *)number;
    case QN_ONNX_UINT32:
        return *(const uint32_t *)number;
    default:
        return (int64_t)qn_number_get(qn_onnx_dtype_of(type), number, 0);
    }
}

const qn_onnx_constant *qn_onnx_read_constant(qn_arena *arena, const qn_onnx_tensor *tensor) {
    const size_t bytes = qn_onnx_type_bytes(tensor->type);
    qn_shape shape;
    if (bytes == 0) {
        qn_fail(QN_ERROR_UNSUPPORTED, "numbers of type %s cannot be read",
                qn_onnx_type_name(tensor->type));
        return NULL;
    }
    if (qn_onnx_tensor_shape(tensor, &shape) != QN_OK)
        return NULL;
    const bool is_real = qn_onnx_type_is_real(tensor->type);
    const int64_t n = (int64_t)(tensor->bytes / bytes);
    qn_onnx_constant *constant = qn_arena_allocate(arena, 1, sizeof *constant);
    double *reals = qn_arena_allocate(arena, (size_t)n + 1, sizeof(double));
    int64_t *whole = (int64_t *)(void *)reals;
    if (!constant || !reals)
        return NULL;
    for (int64_t i = 0; i < n; i++) {
        uint64_t number;
        memcpy(&number, (const char *)tensor->data + (size_t)i * bytes, bytes);
        if (is_real)
            reals[i] = qn_number_get(qn_onnx_dtype_of(tensor->type), &number, 0);
        else
            whole[i] = whole_of(tensor->type, &number);
    }
    *constant = (qn_onnx_constant){.type = tensor->type,
                                   .shape = shape,
                                   .n = n,
                                   .reals = is_real ? reals : NULL,
                                   .whole = is_real ? NULL : whole};
    return constant;
}

void qn_onnx_read_reals(const qn_onnx_tensor *tensor, qn_given *given) {
    *given = (qn_given){.dtype = qn_onnx_dtype_of(tensor->type), .data = tensor->data};
    for (int64_t i = tensor->n_dims - 1, step = 1; tensor->bytes > 0 && i >= 0 && i < QN_MAX_RANK;
         step *= tensor->dims[i--])
        given->strides[i] = step;
}
