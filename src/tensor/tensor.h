/* Descriptions of tensors: element type and shape. No data. The last axis is contiguous.
 * Axis letters: N batch, H W space, C channels, K output channels, R S filter, P Q output space. */
#ifndef QN_TENSOR_TENSOR_H
#define QN_TENSOR_TENSOR_H

#include "quern/graph.h"

/* Bytes of an element; 0 for QN_NONE. */
size_t qn_dtype_bytes(qn_dtype dtype);

/* "f32", "i32", … and back; QN_NONE for an unknown name. */
const char *qn_dtype_name(qn_dtype dtype);
qn_dtype qn_dtype_find(const char *name);

/* What kernels compute in: QN_F32 and QN_F64. */
bool qn_dtype_is_real(qn_dtype dtype);

/* Numbers with fractions, of any size. */
bool qn_dtype_is_float(qn_dtype dtype);

/* QN_BF16 and QN_F16. */
bool qn_dtype_is_half(qn_dtype dtype);

qn_shape qn_shape_make(int rank, const int64_t *dims);

/* Number of elements; a shape of rank 0 has 1. */
int64_t qn_shape_count(qn_shape shape);

/* Elements in axes [begin, end). */
int64_t qn_shape_count_range(qn_shape shape, int begin, int end);

bool qn_shape_equal(qn_shape a, qn_shape b);

/* Every extent is at least 1, the rank at most QN_MAX_RANK, and the count of bytes of any dtype
 * fits in 62 bits. */
bool qn_shape_is_valid(qn_shape shape);

/* Writes "2x3x4" (or "scalar"); returns text. */
enum { QN_SHAPE_TEXT = 128 };
char *qn_shape_print(qn_shape shape, char text[QN_SHAPE_TEXT]);

/* "28x28x1" as a shape, which is a sample's: one axis short of QN_MAX_RANK at most. False: it is
 * none, and *shape is undefined. */
bool qn_shape_parse(const char *text, qn_shape *shape);

/* A tensor's description. dtype QN_NONE: an input that is left out. */
typedef struct qn_tensor {
    qn_dtype dtype;
    qn_shape shape;
} qn_tensor;

size_t qn_tensor_bytes(qn_tensor tensor);

#endif
