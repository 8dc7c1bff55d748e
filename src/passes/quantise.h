/* Translation of a graph to smaller types, by a description that is data: a type, scale and
 * rounding for each role that a value has in training, and rules for weights, loss and update.
 * numerics/ reads descriptions from files. */
#ifndef QN_PASSES_QUANTISE_H
#define QN_PASSES_QUANTISE_H

#include "graph/graph.h"
#include "ops/ops.h"

typedef enum qn_role {
    QN_ROLE_WEIGHT,     /* a trained operand of products */
    QN_ROLE_ACTIVATION, /* what forward nodes make */
    QN_ROLE_ERROR,      /* gradients of activations */
    QN_ROLE_GRADIENT,   /* gradients of parameters */
    QN_ROLE_COUNT
} qn_role;

typedef enum qn_scaling {
    QN_SCALED_NONE,      /* a type with fractions, cast */
    QN_SCALED_EXPONENT,  /* one exponent for the tensor */
    QN_SCALED_SYMMETRIC, /* one real scale for the tensor */
    QN_SCALED_CHANNEL,   /* a real scale for each index of the first axis of weights, of the last
                            axis of all else */
} qn_scaling;

typedef struct qn_role_type {
    qn_dtype dtype; /* QN_F32: as the graph computes */
    qn_scaling scaling;
    int bits; /* of magnitudes, that the range rule keeps: 7 of int8 */
    qn_rounding rounding;
} qn_role_type;

/* Invariant: where is_integer, weight, activation and error are QN_I8 with an exponent. */
typedef struct qn_numerics {
    char name[32];
    qn_role_type roles[QN_ROLE_COUNT];
    bool is_integer;     /* products sum mantissas in QN_I32; else they are of what is rounded */
    bool drops_bias;     /* layers have none */
    bool stores_weights; /* as mantissas, updated by whole gradients; else the optimiser updates
                             numbers of the graph's type, which are rounded for each step */
    bool integer_loss;   /* its gradient is made of whole numbers */
    bool adapts_shifts;  /* sums are shifted by what earlier steps needed (ops/rescaled.h) */
    double loss_factor;  /* errors are made so much larger, and gradients smaller; 1: neither */
    int n_drops;         /* of the gradient's bits, one each at such a fraction of training */
    double drops[QN_MOST_DROPS];
    double weight_range; /* initial weights are so much smaller than what their type holds; 1 */
} qn_numerics;

/* A graph by other types. */
typedef struct qn_quantised {
    qn_graph *graph;
    const qn_value *values; /* (values of the old graph) in the graph's memory: the same one, in the
                               graph's type where it is a result, a loss or an input */
    int n;                  /* parameters that an optimiser is to update */
    qn_value *parameters, *gradients; /* (n), likewise */
    int forward_end;                  /* nodes of the forward part */
} qn_quantised;

/* What is translated: a graph whose first n_forward nodes are the forward part, and the gradients
 * (n) of parameters behind it. */
typedef struct qn_quantise_source {
    const qn_graph *graph;
    int n_forward;
    int n;
    const qn_value *parameters, *gradients;
    int64_t total_steps; /* of training, which the drops are fractions of */
} qn_quantise_source;

qn_status qn_quantise_graph(const qn_quantise_source *source, const qn_numerics *numerics,
                            qn_quantised *quantised);

#endif
