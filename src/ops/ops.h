/* The list of operators, and the operators that only passes and optimisers add. */
#ifndef QN_OPS_OPS_H
#define QN_OPS_OPS_H

#include "graph/graph.h"
#include "quern/ops.h"

/* All operators; a null pointer ends the list. */
extern const qn_op *const qn_ops[];

const qn_op *qn_op_find(const char *name);

/* Operators that compute what another one does, otherwise (ops/twins.def). Null: it has none. */
typedef enum qn_twin {
    QN_TWIN_GIVEN_STATISTICS,
    QN_TWIN_INTEGER_LOSS,
    QN_TWIN_REQUANTISED,
    QN_TWIN_LOW_PRECISION,
    QN_TWIN_MANTISSAS,
} qn_twin;

const qn_op *qn_op_twin(const qn_op *op, qn_twin relation);

/* The work of a node by its operator's rule, and the bytes of its inputs and outputs where the rule
 * says none; of a view nothing. The one place where costs come from. */
qn_cost qn_node_cost(const qn_graph *graph, const qn_node *node);

/* A scalar constant, of the graph's real type, or of QN_F32 or QN_F64. */
qn_value qn_op_scalar(qn_graph *graph, const char *name, double value);
qn_value qn_op_scalar_of(qn_graph *graph, const char *name, double value, qn_dtype real);

/* A tensor with factor * scalar in every element. */
qn_value qn_op_broadcast(qn_graph *graph, const char *name, qn_value scalar, qn_shape shape,
                         double factor);

/* The ONNX operator that a function is, whatever its numbers; null: none, or several. */
const char *qn_function_onnx(qn_function_kind kind);

/* y = f(x), elementwise. */
qn_value qn_op_function(qn_graph *graph, const char *name, qn_value x, qn_function function);

/* A rule of a and b (QN_COMBINE_ADD to QN_COMBINE_LESS), broadcast to one shape as NumPy does it;
 * comparisons are 1 or 0. a where the condition is not 0, else b, likewise. */
qn_value qn_op_combine(qn_graph *graph, const char *name, qn_combination kind, qn_value a,
                       qn_value b);
qn_value qn_op_where(qn_graph *graph, const char *name, qn_value condition, qn_value a, qn_value b);

/* The shape that a and b are broadcast to; false: they do not go together, and *y stays. */
bool qn_shape_broadcast(qn_shape a, qn_shape b, qn_shape *y);

/* How n operands, up to 3, lie beside a result y for the kernel. */
qn_broadcast qn_broadcast_of(const qn_tensor *operands, int n, qn_shape y);

/* Numbers of any type as those of any other (tensor/number.h says how they are rounded and what is
 * beyond a type). A gradient flows where both types have fractions: it is cast back. */
qn_value qn_op_cast(qn_graph *graph, const char *name, qn_value x, qn_dtype dtype);

/* Indices (...), QN_I32 or QN_I64, of n elements, those below 0 counted from the end; rows by
 * those that are none are no numbers (ops/layout.h: QN_NO_INDEX). */
qn_value qn_op_wrap_index(qn_graph *graph, const char *name, qn_value indices, int64_t n);

/* stride * (the number of the row that each tuple of indices (n, k), QN_I32, names in a tensor of k
 * extents) + base (n), QN_I32, or QN_NO_VALUE -> (n), QN_I32. Negative indices count from the end;
 * of a tuple outside of the extents: QN_NO_INDEX. */
qn_value qn_op_row_numbers(qn_graph *graph, const char *name, qn_value indices, qn_value base,
                           qn_shape extents, int64_t stride);

/* The sum of updates (n, C) in each of so many rows, which indices (n), QN_I32, name. */
qn_value qn_op_scatter_add(qn_graph *graph, const char *name, qn_value updates, qn_value indices,
                           int64_t rows);

/* Where each row of data (rows) with updates put at indices (n) comes from: itself, or rows + i; of
 * several updates i the nth, or, nth -1, the last. QN_I32, without a gradient. */
qn_value qn_op_scatter_source(qn_graph *graph, const char *name, qn_value indices, int64_t rows,
                              int64_t nth);

/* ---- numbers with a scale ---- */

/* How a quotient becomes whole. */
typedef enum qn_rounding {
    QN_ROUND_EVEN,              /* to the nearest, of two the even one */
    QN_ROUND_AWAY,              /* to the nearest, of two the one that is farther from 0 */
    QN_ROUND_STOCHASTIC,        /* up or down, with the chance that makes it right on average */
    QN_ROUND_PSEUDO_STOCHASTIC, /* of QN_I32 by an exponent: low bits are the chance (NITI) */
} qn_rounding;

typedef struct qn_quantise {
    int axis; /* that the scale is along, one number for each index; -1: one for all */
    qn_rounding rounding;
    bool is_symmetric; /* the least number is the largest's opposite */
} qn_quantise;

/* x / scale + zero, as numbers of a type: rounded and cut to the type's range if it is whole (a NaN
 * is the zero point), else as a cast. scale: a real of x's type; or an exponent (QN_I32), whose
 * power of two it is: x may be QN_I32 then. zero: of the type, or QN_NO_VALUE. No gradient. */
qn_value qn_op_quantise(qn_graph *graph, const char *name, qn_value x, qn_value scale,
                        qn_value zero, qn_dtype dtype, const qn_quantise *how);

/* (q - zero) * scale, of the scale's type, or of the graph's where it is an exponent. */
qn_value qn_op_dequantise(qn_graph *graph, const char *name, qn_value q, qn_value scale,
                          qn_value zero, int axis);

typedef enum qn_scale_kind {
    QN_SCALE_EXPONENT,  /* ceil(log2(largest magnitude)), or 0 if that is 0, - bits: QN_I32 */
    QN_SCALE_SYMMETRIC, /* largest magnitude / (2^bits - 1), or 1 */
    QN_SCALE_AFFINE,    /* (most - least) / range of a whole type, 0 among them; and a zero point */
} qn_scale_kind;

/* The scale of x, for all of it (axis -1) or for each index of an axis. NaNs are passed over, and
 * what is beyond the largest float counts as that. *zero: of an affine scale, of the type. */
qn_value qn_op_scale_of(qn_graph *graph, const char *name, qn_value x, qn_scale_kind kind, int axis,
                        int bits, qn_dtype dtype, qn_value *zero);

/* How large numbers may be that a scale is for. */
typedef enum qn_range {
    QN_RANGE_FIT,     /* as the largest magnitude, or as the next power of two */
    QN_RANGE_NEAREST, /* as the power of two that is nearest to it: what is beyond is cut */
    QN_RANGE_FIXED,   /* as a power of two that is given: nothing is measured */
} qn_range;

typedef struct qn_scaling_rule {
    qn_scale_kind kind;
    int axis, bits;
    qn_dtype dtype; /* of the zero point */
    qn_range range; /* of an exponent */
    int top;        /* the given power */
    double clip;    /* part of the measured range of a real scale that is kept; 0: all */
} qn_scaling_rule;

/* The scale of x by such a rule. */
qn_value qn_op_scale_in(qn_graph *graph, const char *name, qn_value x, const qn_scaling_rule *rule,
                        qn_value *zero);

/* The exponent by which x (QN_I32 too) keeps so many bits; at least 0. */
qn_value qn_op_shift_of(qn_graph *graph, const char *name, qn_value x, int axis, int bits);

/* The same for bits that become one fewer at each of these steps of training (0: never). */
enum { QN_MOST_DROPS = 3 };
qn_value qn_op_falling_shift_of(qn_graph *graph, const char *name, qn_value x, int bits,
                                const int64_t drops[QN_MOST_DROPS]);

/* The sum of 1 to 3 exponents (QN_I32, scalars). */
qn_value qn_op_add_exponents(qn_graph *graph, const char *name, const qn_value *exponents, int n);

/* w - gradient in the storage of w, both QN_I8, cut to -127..127: returns the new w. */
qn_value qn_op_integer_step(qn_graph *graph, const char *name, qn_value gradient, qn_value w);

/* Which channels of w are trained, into the storage of channels (a state of QN_I32): their numbers
 * from 1 on, rising; numbers that are there and in range stay. */
qn_value qn_op_choose(qn_graph *graph, const char *name, qn_value w, qn_value channels, int axis,
                      qn_part_choice by);

/* The channels of x, by such numbers. */
qn_value qn_op_take(qn_graph *graph, const char *name, qn_value x, int axis, qn_value channels);

/* whole with its channels as part has them, in its storage. */
qn_value qn_op_put(qn_graph *graph, const char *name, qn_value part, int axis, qn_value channels,
                   qn_value whole);

/* Where only a part of a layer's weight (input 1) is trained: keeps what the gradient reads of the
 * layer's input, and adds the choice of channels where it is not there yet. */
void qn_part_keep(qn_graph *graph, const struct qn_node *layer);

/* What was kept for a layer, and the channels; false: nothing was. */
bool qn_part_find(const qn_graph *graph, const struct qn_node *layer, qn_value *x,
                  qn_value *channels);

/* What an update is to change of a parameter: itself, or a copy of what is trained of it, which
 * qn_part_end puts into it once it is updated. */
qn_value qn_part_begin(qn_graph *graph, qn_value w);
void qn_part_end(qn_graph *graph, qn_value w, qn_value updated);

/* The factor that clips gradients: min(1, limit / |factor0 * all gradients|), where factor0 is
 * hyper[QN_HYPER_GRADIENT] -> scalar. (Pascanu et al. 2013, algorithm 1.) */
qn_value qn_op_clip_factor(qn_graph *graph, const char *name, qn_value hyper,
                           const qn_value *gradients, int n_gradients, double limit);

/* sum (a source of kind gradient) + gradient, in the sum's storage. */
qn_value qn_op_accumulate(qn_graph *graph, const char *name, qn_value sum, qn_value gradient);

/* x (n, ...) as the rows from `first` on of a whole (rows, ...), which is made (QN_NO_VALUE) or, so
 * far, given; it goes on in the given one's storage. */
qn_value qn_op_join_rows(qn_graph *graph, const char *name, qn_value x, qn_value whole,
                         int64_t first, int64_t rows);

/* Optimiser steps in the storage of w and its state. hyper (QN_HYPER_COUNT); factor: scalar or
 * QN_NO_VALUE; momentum: QN_NO_VALUE for plain SGD; rate: factor of the learning rate. They return
 * the new w. */
qn_value qn_op_sgd(qn_graph *graph, const char *name, qn_value hyper, qn_value factor,
                   qn_value gradient, qn_value w, qn_value momentum, bool nesterov, double rate);
qn_value qn_op_adam(qn_graph *graph, const char *name, qn_value hyper, qn_value factor,
                    qn_value gradient, qn_value w, qn_value m, qn_value v, bool decoupled,
                    double rate);

/* The value in another memory space (plan/plan.h). */
qn_value qn_op_copy(qn_graph *graph, const char *name, qn_value value, int space);

/* From here on the value has been made. The value that it gives says nothing. */
qn_value qn_op_wait(qn_graph *graph, const char *name, qn_value value);

#endif
