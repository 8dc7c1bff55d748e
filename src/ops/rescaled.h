/* Products of I8 whose sums of I32 are shifted to I8 where they are made: the attributes that
 * devices and passes need. Each is the twin of a product (qn_op's `rescaled`), with that one's
 * attributes and, behind them, how the sums are shifted.
 *
 * Inputs: the two operands, and what is kept of the shift of steps before. Outputs: the result,
 * its shift (a scalar, QN_I32), and what is to be kept. The kept shift is tried; the sums say in
 * passing whether it was right, and if not the product is made once more. Where that takes long and
 * the shift changed of late, sums are stored instead. So what is kept saves time and changes no
 * result, unless `adapts` is set. */
#ifndef QN_OPS_RESCALED_H
#define QN_OPS_RESCALED_H

#include "ops/kept_shift.h"
#include "ops/ops.h"

typedef struct qn_rescaling {
    int bits;     /* of magnitudes, that a shift leaves */
    int rounding; /* QN_ROUND_AWAY or QN_ROUND_PSEUDO_STOCHASTIC */
    /* qn_shift_rule. Adaptive: a shift that is too large by one or two is kept for a period, which
     * doubles each time the shift is found right at its end, and the right one is taken from the
     * next step on; one that is too small by one, so that numbers are cut, is taken once. Nothing
     * is made again. */
    int adapts;
    int period; /* the longest one in steps, or the fixed one; 0: the usual one */
    /* Steps of training from which on bits are one fewer each; 0: none. */
    int64_t first_drop, second_drop, third_drop;
} qn_rescaling;

/* Where a twin's attributes have it. */
const qn_rescaling *qn_rescaling_of(const qn_op *op, const void *attributes);

/* Steps of training that have passed take their bits. */
int qn_rescaling_bits(const qn_rescaling *rescaling, uint64_t step);

/* The twin of a product with such attributes. */
const qn_node *qn_op_rescaled(qn_graph *graph, const char *name, const qn_op *product,
                              const void *attributes, const qn_value operands[2], qn_value kept,
                              const qn_rescaling *rescaling);

/* The numbers of kept from now on, in its storage. */
qn_value qn_op_keep(qn_graph *graph, const char *name, qn_value numbers, qn_value kept);

#endif
