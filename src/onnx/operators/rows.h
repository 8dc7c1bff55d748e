/* Rows of a tensor that lists of indices name: those of GatherElements and ScatterElements, whose
 * rows are single elements, and the tuples of GatherND and ScatterND. What is known at import is a
 * list; what changes is a value. Indices below 0 count from the end. */
#ifndef QN_ONNX_ROWS_H
#define QN_ONNX_ROWS_H

#include "onnx/translate.h"

typedef struct qn_onnx_rows {
    int64_t rows, width, n; /* of the tensor; elements in a row; rows that are named */
    const int64_t *known;   /* (n), or null */
    qn_value changing;      /* (n), QN_I32, where they are not known */
} qn_onnx_rows;

/* Inputs: data, indices; each index replaces a coordinate along an axis. */
qn_status qn_onnx_element_rows(qn_onnx_call *call, int axis, qn_onnx_rows *rows);

/* Inputs: data, indices (..., k). batch_dims: leading axes that both have. *picked: the shape of
 * the rows that are named. */
qn_status qn_onnx_tuple_rows(qn_onnx_call *call, int64_t batch_dims, qn_onnx_rows *rows,
                             qn_shape *picked);

/* A list as a value, (n). */
qn_value qn_onnx_listed(qn_onnx_call *call, const int64_t *numbers, int64_t n);

/* The rows as a value, (n). */
qn_value qn_onnx_rows_value(qn_onnx_call *call, const qn_onnx_rows *rows);

#endif
