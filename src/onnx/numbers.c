/* Numbers out of tensors of a file, whatever their type. Unsigned 64-bit numbers are taken as
 * signed ones; halves and bfloat16s become floats. */
#include "base/status.h"
#include "onnx/builder.h"

#include <math.h>
#include <string.h>

bool qn_onnx_type_is_real(qn_onnx_type type) {
    return type == QN_ONNX_FLOAT || type == QN_ONNX_DOUBLE || type == QN_ONNX_FLOAT16 ||
           type == QN_ONNX_BFLOAT16;
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

/* IEEE 754 binary16. */
static float half(uint16_t bits) {
    const int exponent = bits >> 10 & 31;
    const int fraction = bits & 1023;
    float size = exponent == 31  ? (fraction ? NAN : INFINITY)
                 : exponent == 0 ? ldexpf((float)fraction, -24)
                                 : ldexpf((float)(fraction + 1024), exponent - 25);
    return bits >> 15 ? -size : size;
}

static float short_float(qn_onnx_type type, uint16_t bits) {
    const uint32_t word = (uint32_t)bits << 16;
    float value;
    if (type == QN_ONNX_FLOAT16)
        return half(bits);
    memcpy(&value, &word, sizeof value);
    return value;
}

static double real_at(const qn_onnx_tensor *t, int64_t i) {
    if (t->type == QN_ONNX_FLOAT)
        return ((const float *)t->data)[i];
    if (t->type == QN_ONNX_DOUBLE)
        return ((const double *)t->data)[i];
    return (double)short_float(t->type, ((const uint16_t *)t->data)[i]);
}

static int64_t whole_at(const qn_onnx_tensor *t, int64_t i) {
    switch (t->type) {
    case QN_ONNX_INT64:
        return ((const int64_t *)t->data)[i];
    case QN_ONNX_UINT64:
        return (int64_t)((const uint64_t *)t->data)[i];
    case QN_ONNX_INT32:
        return ((const int32_t *)t->data)[i];
    case QN_ONNX_UINT32:
        return ((const uint32_t *)t->data)[i];
    case QN_ONNX_INT16:
        return ((const int16_t *)t->data)[i];
    case QN_ONNX_UINT16:
        return ((const uint16_t *)t->data)[i];
    case QN_ONNX_INT8:
        return ((const int8_t *)t->data)[i];
    default:
        return ((const uint8_t *)t->data)[i];
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
        if (is_real)
            reals[i] = real_at(tensor, i);
        else
            whole[i] = whole_at(tensor, i);
    }
    *constant = (qn_onnx_constant){.type = tensor->type,
                                   .shape = shape,
                                   .n = n,
                                   .reals = is_real ? reals : NULL,
                                   .whole = is_real ? NULL : whole};
    return constant;
}

bool qn_onnx_read_reals(qn_arena *arena, const qn_onnx_tensor *tensor, qn_given *given) {
    const bool is_double = tensor->type == QN_ONNX_DOUBLE;
    *given = (qn_given){.dtype = is_double ? QN_F64 : QN_F32, .data = tensor->data};
    for (int64_t i = tensor->n_dims - 1, step = 1; tensor->bytes > 0 && i >= 0 && i < QN_MAX_RANK;
         step *= tensor->dims[i--])
        given->strides[i] = step;
    if (is_double || tensor->type == QN_ONNX_FLOAT)
        return true;
    const size_t n = tensor->bytes / sizeof(uint16_t);
    float *numbers = qn_arena_allocate(arena, n + 1, sizeof *numbers);
    for (size_t i = 0; numbers && i < n; i++)
        numbers[i] = short_float(tensor->type, ((const uint16_t *)tensor->data)[i]);
    given->data = numbers;
    return numbers != NULL;
}
