/* Axes and lists of whole numbers, for translators of operators that move elements. */
#ifndef QN_ONNX_AXES_H
#define QN_ONNX_AXES_H

#include "onnx/translate.h"

/* An input as it lies, with its shape in the file's order of axes. */
typedef struct qn_onnx_operand {
    qn_value x;
    bool is_image;
    qn_shape shape;
} qn_onnx_operand;

qn_onnx_operand qn_onnx_operand_of(qn_onnx_call *call, int input);

/* Which axis of what lies there is an axis of the file's. */
int qn_onnx_place_axis(const qn_onnx_operand *operand, int axis);

/* An axis, negative: from the end; QN_ERROR_FORMAT where there is none. */
qn_status qn_onnx_axis(int64_t axis, int rank, int *result);

/* Whole numbers that older operators have as an attribute and newer ones as an input; null and *n 0
 * where there are none. QN_ERROR_UNSUPPORTED where they are known only when it runs. */
qn_status qn_onnx_list(const qn_onnx_call *call, const char *attribute, int input,
                       const int64_t **list, int *n);

/* A list as a shape; QN_ERROR_UNSUPPORTED above QN_MAX_RANK, or where constants of that shape would
 * be absurdly large. */
qn_status qn_onnx_shape_of_list(const int64_t *list, int n, qn_shape *shape);

/* Folds: gives, of the numbers of input 0, element begin + i * strides[0] + j * strides[1] + ... as
 * element (i, j, ...) of a shape. */
qn_status qn_onnx_give_selection(qn_onnx_call *call, int output, qn_shape shape, int64_t begin,
                                 const int64_t *strides);

/* Elements from one to the next along each axis of a dense tensor. */
void qn_onnx_strides(qn_shape shape, int64_t strides[QN_MAX_RANK]);

/* Gives a value of the type of input 0. */
void qn_onnx_give_like(qn_onnx_call *call, int output, qn_value value, bool is_image);

/* The name of a step: the node's own for the last. */
const char *qn_onnx_step_name(qn_onnx_call *call, bool is_last);

#endif
