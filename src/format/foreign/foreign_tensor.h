/* A tensor in a file that another program wrote. */
#ifndef QN_FORMAT_FOREIGN_TENSOR_H
#define QN_FORMAT_FOREIGN_TENSOR_H

#include "tensor/tensor.h"

/* The first element is at byte `begin` of the file, and element (i, j, ...) lies i * strides[0] +
 * j * strides[1] + ... elements behind it, within `bytes`. */
typedef struct qn_foreign_tensor {
    const char *name;
    qn_dtype dtype;   /* QN_NONE: one that quern has none of */
    const char *type; /* as the file has it, "BF16" or "bfloat16" */
    qn_shape shape;
    int64_t strides[QN_MAX_RANK];
    int64_t begin;
    size_t bytes; /* from the first element to the last; 0: no elements */
} qn_foreign_tensor;

/* Strides of elements without gaps, the last dimension fastest. */
static inline void qn_foreign_tensor_pack(qn_foreign_tensor *tensor) {
    int64_t stride = 1;
    for (int i = tensor->shape.rank - 1; i >= 0; i--) {
        tensor->strides[i] = stride;
        stride *= tensor->shape.dims[i];
    }
}

#endif
