/* Batch norm on mantissas: the attributes that devices need. Both operators stand in for those of
 * ops/network/batch_norm.c where what these read and make is I8 with an exponent; each tensor of
 * mantissas has its exponent (none: 0) behind it among the inputs and outputs, else they are alike:
 * x, scale, shift to y, mean, inv_std; x, dy, scale, mean, inv_std to dx, dscale, dshift. */
#ifndef QN_OPS_WHOLE_NORM_H
#define QN_OPS_WHOLE_NORM_H

typedef struct qn_whole_norm_attributes {
    double epsilon;
    int bits; /* of the largest magnitude that is made */
} qn_whole_norm_attributes;

#endif
