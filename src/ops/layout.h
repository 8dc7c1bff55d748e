/* Operators that move elements without changing them: the attributes that devices need. */
#ifndef QN_OPS_LAYOUT_H
#define QN_OPS_LAYOUT_H

#include "graph/graph.h"
#include "quern/ops.h"

typedef struct qn_concat_attributes {
    int axis;
} qn_concat_attributes;

typedef struct qn_slice_attributes {
    int axis;
    int64_t begin, end;
    int64_t extent; /* of the axis in the larger tensor */
} qn_slice_attributes;

typedef struct qn_join_attributes {
    int64_t first, rows;
} qn_join_attributes;

typedef struct qn_transpose_attributes {
    qn_shape order; /* not extents, but numbers of axes */
} qn_transpose_attributes;

/* Channels are along an axis. */
typedef struct qn_choose_attributes {
    int axis, by; /* by: qn_part_choice */
} qn_choose_attributes;

typedef struct qn_take_attributes {
    int axis;
} qn_take_attributes;

/* What qn_op_wrap_index makes of an index that is none. */
#define QN_NO_INDEX INT32_MIN

typedef struct qn_scatter_attributes {
    int64_t rows, nth; /* nth: of several updates of a row; -1: the last */
} qn_scatter_attributes;

typedef struct qn_row_attributes {
    qn_shape extents;
    int64_t stride;
} qn_row_attributes;

typedef struct qn_wrap_attributes {
    int64_t n;
} qn_wrap_attributes;

#endif
