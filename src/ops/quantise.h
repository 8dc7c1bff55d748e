/* Quantisation: the attributes that devices need. */
#ifndef QN_OPS_QUANTISE_H
#define QN_OPS_QUANTISE_H

#include "graph/graph.h"
#include "ops/ops.h"

typedef struct qn_quantise_attributes {
    int dtype;    /* of what is made; of dequantise: where the scale is an exponent */
    int axis;     /* that the scale is along, one number for each index; -1: one for all */
    int rounding; /* qn_rounding */
    bool is_symmetric;
    int64_t key, first; /* of the random stream: 0, 0, or those of a whole batch */
} qn_quantise_attributes;

typedef struct qn_scale_of_attributes {
    int kind; /* qn_scale_kind */
    int axis; /* as above */
    int bits;
    int least;   /* an exponent is not below */
    int dtype;   /* of the zero point */
    int range;   /* qn_range */
    int top;     /* of QN_RANGE_FIXED: magnitudes are below this power of two */
    double clip; /* so much of the range is kept, of a real scale; 0: all */
    /* Steps of training from which on bits are one fewer each; 0: none. */
    int64_t first_drop, second_drop, third_drop;
} qn_scale_of_attributes;

typedef struct qn_integer_entropy_attributes {
    int64_t key, first; /* as above */
} qn_integer_entropy_attributes;

uint64_t qn_quantise_key(const qn_node *node);

/* The least and the largest of a whole type; of a symmetric range the least is less by one. */
double qn_quantise_least(qn_dtype dtype, bool is_symmetric);
double qn_quantise_largest(qn_dtype dtype);

#endif
