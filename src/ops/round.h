/* Rounding to other numbers than those of types: the attributes that devices need.
 *
 * round: numbers of a format, over a scale or not, each group of them over one more; settle: the
 * same in the storage of what is rounded, behind an update; adapt: whole numbers whose width and
 * exponent follow what is lost by them, measured now and then. */
#ifndef QN_OPS_ROUND_H
#define QN_OPS_ROUND_H

#include "graph/graph.h"

/* A number is a fraction of so many bits times a power of two: of its own, where exponents have
 * bits, else of 2^0. All of the number is divided by the scale before and multiplied by it later,
 * if at all, by who reads it. */
typedef struct qn_format {
    int exponent_bits; /* 0: a fixed point; the least exponent holds what is below it too */
    int fraction_bits; /* behind the point */
    int top_exponent;  /* of the largest numbers, where exponents have bits */
    double limit;      /* of magnitudes at a fixed point; 0: none */
    int fine_bits; /* at a fixed point without fraction: what is at or above 2 to their number is
                      rounded to multiples of that */
    /* Axes, as a bit mask, whose numbers of equal indices share a scale: the least 2^k or 1.5 * 2^k
     * that is not below all of them. 0: there are no groups. */
    int group_axes;
    int rounding; /* qn_rounding, without the pseudo-stochastic one */
} qn_format;

typedef struct qn_round_attributes {
    qn_format format;
    int dtype;          /* of what is made */
    int64_t key, first; /* of the random stream: 0, 0, or those of a whole batch */
} qn_round_attributes;

/* What is kept of a tensor's width and exponent, reals, all 0 before the first step. */
enum {
    QN_ADAPTED_BITS,     /* of magnitudes */
    QN_ADAPTED_EXPONENT, /* of the last bit */
    QN_ADAPTED_MEAN,     /* moving, of exponents */
    QN_ADAPTED_LEFT,     /* steps for which both stay */
    QN_ADAPTED_STEPS,
    QN_ADAPTED_MEASURED, /* steps in which they were measured */
    QN_ADAPTED_COUNT,
};

typedef struct qn_adapt_attributes {
    int dtype;        /* QN_I16 */
    int least_bits;   /* of magnitudes: those of the first step */
    double most_loss; /* log2(1 + relative change of the mean magnitude) from which on 8 bits more
                         are taken */
    double moving;    /* part of a new exponent in the moving mean */
    int first_steps;  /* measured in each of them */
    int longest;      /* steps without measuring, at most */
} qn_adapt_attributes;

/* Sums as hardware with narrow accumulators makes them: each sum and each sum of chunks is rounded
 * to a format (Wang, Choi, Brand, Chen and Gopalakrishnan 2018, "Training deep neural networks with
 * 8-bit floating point numbers", section 3). */
typedef struct qn_chunked {
    int chunk;         /* products that are summed by themselves; then sums are */
    int fraction_bits; /* of a sum */
    int least, top;    /* exponents */
} qn_chunked;

const qn_chunked *qn_chunked_of(const qn_op *op, const void *attributes);

/* x over a scale (QN_NO_VALUE: 1; a vector: by the first axis) as numbers of the format. */
qn_value qn_op_round(qn_graph *graph, const char *name, qn_value x, qn_value scale, qn_dtype dtype,
                     const qn_format *format);

/* x, a parameter or what an update has made of one, rounded over a scale and back. */
qn_value qn_op_settle(qn_graph *graph, const char *name, qn_value x, qn_value scale,
                      const qn_format *format);

/* q, its exponent (outputs 0 and 1), and what is to be kept (2). */
const qn_node *qn_op_adapt(qn_graph *graph, const char *name, qn_value x, qn_value kept,
                           const qn_adapt_attributes *how);

/* The product with narrow sums; its attributes are the product's. */
qn_value qn_op_chunked(qn_graph *graph, const char *name, const qn_op *product,
                       const void *attributes, const qn_value operands[2],
                       const qn_chunked *chunked);

#endif
