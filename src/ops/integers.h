/* Exact integers: values of QN_I64, made of QN_I32, QN_I64 and reals. Attributes that devices need,
 * and the builder functions. No gradient flows. */
#ifndef QN_OPS_INTEGERS_H
#define QN_OPS_INTEGERS_H

#include "graph/op.h"
#include "quern/ops.h"
#include "tensor/integer.h"

typedef struct qn_integer_attributes {
    int rule; /* qn_integer_rule */
    int bits; /* of the type that it wraps to */
    bool is_signed;
    int dtype; /* of the output: QN_I64, QN_I32 if the type has so many bits, or a real type */
} qn_integer_attributes;

/* Of the places of the first k. */
typedef struct qn_ranking_attributes {
    int64_t k;
    bool is_largest, is_unsigned; /* qn_integer_ranking */
} qn_ranking_attributes;

/* Of a product: the type that it wraps to. */
typedef struct qn_integer_matmul_attributes {
    int bits;
    bool is_signed;
} qn_integer_matmul_attributes;

/* A rule of one to three operands, broadcast to one shape as NumPy does it. Reals are cut towards 0
 * (qn_integer_of_real). dtype real: the number as that. */
qn_value qn_op_integer(qn_graph *graph, const char *name, const qn_integer_attributes *attributes,
                       const qn_value *operands, int n);

/* x (N, T, C) -> (N, C), or, running, (N, T, C). T is 1 or more. */
qn_value qn_op_integer_reduce(qn_graph *graph, const char *name, qn_value x,
                              const qn_integer_axis_rule *rule);

/* Elements of x, whatever its type and shape, by their places in it: the shape of places, which are
 * QN_I32 or QN_I64. Where a place is none, an integer has the least number of its type, which is no
 * index either, and a real is NaN. */
qn_value qn_op_pick(qn_graph *graph, const char *name, qn_value x, qn_value places);

/* x (N, T, C), of integers or reals -> (N, k, C): the places of the k largest or least along T, the
 * first of equal ones first. */
qn_value qn_op_ranked(qn_graph *graph, const char *name, qn_value x,
                      const qn_ranking_attributes *attributes);

/* a (N, M, K) by b (N, K, L) -> (N, M, L). */
qn_value qn_op_integer_product(qn_graph *graph, const char *name, qn_value a, qn_value b,
                               const qn_integer_matmul_attributes *attributes);

#endif
