/* Arithmetic of integers of 8 to 64 bits as ONNX and C have it: exact, wrapping at the ends of a
 * type, division towards 0. A number is an int64_t; one of an unsigned type of 64 bits is its
 * bits. */
#ifndef QN_TENSOR_INTEGER_H
#define QN_TENSOR_INTEGER_H

#include "tensor/arithmetic.h"
#include "tensor/tensor.h"

typedef enum qn_integer_rule {
    QN_INTEGER_CAST = 0, /* a */
    QN_INTEGER_ABS,
    QN_INTEGER_NEGATE,
    QN_INTEGER_SIGN,
    QN_INTEGER_INVERT, /* every bit */
    QN_INTEGER_ADD,
    QN_INTEGER_SUBTRACT,
    QN_INTEGER_MULTIPLY,
    QN_INTEGER_DIVIDE,    /* by 0: 0 */
    QN_INTEGER_MODULO,    /* with the sign of b; by 0: 0 */
    QN_INTEGER_REMAINDER, /* with the sign of a; by 0: 0 */
    QN_INTEGER_POWER,     /* b below 0: 0, unless a is 1 or -1 */
    QN_INTEGER_LEAST,
    QN_INTEGER_MOST,
    QN_INTEGER_AND,
    QN_INTEGER_OR,
    QN_INTEGER_XOR,
    QN_INTEGER_SHIFT_LEFT, /* by the type's bits or more, or below 0: 0, or all of the sign */
    QN_INTEGER_SHIFT_RIGHT,
    QN_INTEGER_EQUAL, /* 1 or 0 */
    QN_INTEGER_LESS,
    QN_INTEGER_WHERE, /* b where a is not 0, else c */
    QN_INTEGER_RULES
} qn_integer_rule;

typedef struct qn_integer_type {
    int bits; /* 8, 16, 32 or 64 */
    bool is_signed;
} qn_integer_type;

/* What is left of a number in a type. */
int64_t qn_integer_wrap(qn_integer_type type, int64_t number);

/* A rule of operands of a type; those that it does not read are ignored. */
int64_t qn_integer_apply(qn_integer_rule rule, qn_integer_type type, int64_t a, int64_t b,
                         int64_t c);

/* A real cut towards 0; INT64_MIN where no int64_t is that: NaN, or too large. */
int64_t qn_integer_of_real(double number);

/* Number i of QN_I64, QN_I32 or a real type. */
int64_t qn_integer_at(qn_dtype dtype, const void *data, int64_t i);

/* A rule of operands, each (layout) of one of these types, as (n) numbers of QN_I64, QN_I32 or a
 * real type. */
void qn_integer_combine(qn_integer_rule rule, qn_integer_type type, const qn_broadcast *layout,
                        int64_t n, int n_operands, const qn_dtype *dtypes,
                        const void *const *operands, qn_dtype to, void *y);

/* What an axis of integers comes to. */
typedef enum qn_integer_reduction {
    QN_INTEGER_SUM = 0,
    QN_INTEGER_PRODUCT,
    QN_INTEGER_MINIMUM,
    QN_INTEGER_MAXIMUM,
    QN_INTEGER_PLACE_OF_MINIMUM, /* the first */
    QN_INTEGER_PLACE_OF_MAXIMUM,
} qn_integer_reduction;

typedef struct qn_integer_axis_rule {
    int how; /* qn_integer_reduction */
    int bits;
    bool is_signed;
    bool is_last;                  /* of equal ones the last place */
    bool is_running;               /* the sum up to each element instead of one for all */
    bool is_exclusive, is_reverse; /* of running sums: without the element itself; from the end */
} qn_integer_axis_rule;

/* x (outer, n, inner) of QN_I64 or QN_I32 -> y (outer, inner), or, running, (outer, n, inner). */
void qn_integer_reduce(const qn_integer_axis_rule *rule, qn_dtype dtype, const void *x,
                       int64_t outer, int64_t n, int64_t inner, int64_t *y);

/* The places of the k first of each column of x (outer, n, inner), the largest or the least first,
 * of equal ones the one in front: y (outer, k, inner). NaN is larger than any number. column: room
 * for the n numbers of one. */
typedef struct qn_ranked {
    uint64_t key;
    int64_t place;
} qn_ranked;
typedef struct qn_integer_ranking {
    int64_t k;
    bool is_largest;
    bool is_unsigned; /* of 64 bits, which are as their bits */
} qn_integer_ranking;
void qn_integer_rank(const qn_integer_ranking *ranking, qn_dtype dtype, const void *x,
                     int64_t outer, int64_t n, int64_t inner, qn_ranked *column, int64_t *y);

/* y (n_matrices, rows, columns) = a (n_matrices, rows, n) by b (n_matrices, n, columns), wrapped to
 * a type; those of QN_I64 or QN_I32. */
typedef struct qn_integer_matrices {
    qn_integer_type type;
    qn_dtype a, b;
    int64_t n_matrices, rows, n, columns;
} qn_integer_matrices;
void qn_integer_multiply(const qn_integer_matrices *m, const void *a, const void *b, int64_t *y);

#endif
