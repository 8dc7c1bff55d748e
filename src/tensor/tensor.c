/* See tensor.h. */
#include "tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
    [QN_NONE] = {"none", 0}, [QN_F32] = {"f32", 4},       [QN_F64] = {"f64", 8},
    [QN_I32] = {"i32", 4},   [QN_U8] = {"u8", 1},         [QN_U16] = {"u16", 2},
    [QN_I8] = {"i8", 1},     [QN_I16] = {"i16", 2},       [QN_F16] = {"f16", 2},
    [QN_BF16] = {"bf16", 2}, [QN_F8E4M3] = {"f8e4m3", 1}, [QN_F8E5M2] = {"f8e5m2", 1},
    [QN_I64] = {"i64", 8},
};

enum { N_DTYPES = sizeof dtypes / sizeof dtypes[0], LARGEST_DTYPE_BYTES = 8 };

size_t qn_dtype_bytes(qn_dtype dtype) {
    return (unsigned)dtype < N_DTYPES ? dtypes[dtype].bytes : 0;
}

const char *qn_dtype_name(qn_dtype dtype) {
    return (unsigned)dtype < N_DTYPES ? dtypes[dtype].name : "unknown";
}

qn_dtype qn_dtype_find(const char *name) {
    for (int i = QN_NONE + 1; i < N_DTYPES; i++) {
        if (strcmp(dtypes[i].name, name) == 0)
            return (qn_dtype)i;
    }
    return QN_NONE;
}

bool qn_dtype_is_real(qn_dtype dtype) {
    return dtype == QN_F32 || dtype == QN_F64;
}

bool qn_dtype_is_float(qn_dtype dtype) {
    return qn_dtype_is_real(dtype) || (dtype >= QN_F16 && dtype <= QN_F8E5M2);
}

bool qn_dtype_is_half(qn_dtype dtype) {
    return dtype == QN_BF16 || dtype == QN_F16;
}

qn_shape qn_shape_make(int rank, const int64_t *dims) {
    qn_shape shape = {.rank = rank};
    for (int i = 0; i < rank && i < QN_MAX_RANK; i++)
        shape.dims[i] = dims[i];
    return shape;
}

int64_t qn_shape_count(qn_shape shape) {
    return qn_shape_count_range(shape, 0, shape.rank);
}

int64_t qn_shape_count_range(qn_shape shape, int begin, int end) {
    int64_t count = 1;
    for (int i = begin; i < end; i++)
        count *= shape.dims[i];
    return count;
}

bool qn_shape_equal(qn_shape a, qn_shape b) {
    if (a.rank != b.rank)
        return false;
    for (int i = 0; i < a.rank; i++) {
        if (a.dims[i] != b.dims[i])
            return false;
    }
    return true;
}

bool qn_shape_is_valid(qn_shape shape) {
    if (shape.rank < 0 || shape.rank > QN_MAX_RANK)
        return false;
    int64_t left = (INT64_C(1) << 62) / LARGEST_DTYPE_BYTES;
    for (int i = 0; i < shape.rank; i++) {
        if (shape.dims[i] < 1 || shape.dims[i] > left)
            return false;
        left /= shape.dims[i];
    }
    return true;
}

char *qn_shape_print(qn_shape shape, char text[QN_SHAPE_TEXT]) {
    size_t used = 0;
    snprintf(text, QN_SHAPE_TEXT, "scalar");
    for (int i = 0; i < shape.rank && i < QN_MAX_RANK && used < QN_SHAPE_TEXT; i++)
        used += (size_t)snprintf(text + used, QN_SHAPE_TEXT - used, "%s%lld", i ? "x" : "",
                                 (long long)shape.dims[i]);
    return text;
}

size_t qn_tensor_bytes(qn_tensor tensor) {
    return (size_t)qn_shape_count(tensor.shape) * qn_dtype_bytes(tensor.dtype);
}

bool qn_shape_parse(const char *text, qn_shape *shape) {
    *shape = (qn_shape){.rank = 0};
    for (;;) {
        char *end;
        if (*text < '1' || *text > '9' || shape->rank == QN_MAX_RANK - 1)
            return false;
        const long long extent = strtoll(text, &end, 10);
        if (extent > 1000000000)
            return false;
        shape->dims[shape->rank++] = extent;
        if (!*end)
            return qn_shape_is_valid(*shape);
        if (*end != 'x')
            return false;
        text = end + 1;
    }
}
