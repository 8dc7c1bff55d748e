/* Values of images and volumes at places between their elements: rows of the table that the
 * elements are, picked by whole coordinates, and weighed. */
#ifndef QN_ONNX_SAMPLE_H
#define QN_ONNX_SAMPLE_H

#include "onnx/translate.h"

enum { QN_ONNX_MOST_SPACE = 3 };

typedef struct qn_onnx_sampling {
    qn_onnx_call *call;
    qn_value table; /* (elements, C) */
    int n_axes;     /* of space */
    int64_t n;      /* places */
    int64_t extents[QN_ONNX_MOST_SPACE];
    qn_value
        sample;    /* (n, 1): which sample a place is in, as a real; or QN_NO_VALUE: base says it */
    qn_value base; /* (n), QN_I32: the number of the sample's first element */
    int64_t n_samples;
    bool is_zero_outside;
} qn_onnx_sampling;

/* The first input as a table, (N * elements, C), and its extents. */
qn_status qn_onnx_sampling_init(qn_onnx_call *call, int64_t n, qn_onnx_sampling *s);

/* Elements at whole coordinates, reals (n, 1) for each axis, which are cut to the extents; (n, C).
 */
qn_value qn_onnx_pick(const qn_onnx_sampling *s, const qn_value *at);

/* 1 where coordinates are inside, (n, 1). */
qn_value qn_onnx_is_inside(const qn_onnx_sampling *s, int axis, qn_value at);

/* Between the two nearest elements along each axis, of coordinates (n, 1); (n, C). is_most: the
 * largest of the weighed elements, else their sum. */
qn_value qn_onnx_sample_linear(const qn_onnx_sampling *s, const qn_value *at, bool is_most);

#endif
