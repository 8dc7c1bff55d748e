/* Translation of a graph to smaller types, by a description that is data: a type, scale and
 * rounding for each role that a value has in training, and rules for weights, loss and update.
 * numerics/ reads descriptions from files. */
#ifndef QN_PASSES_QUANTISE_H
#define QN_PASSES_QUANTISE_H

#include "graph/graph.h"
#include "ops/kept_shift.h"
#include "ops/ops.h"
#include "ops/round.h"
#include "passes/sparse.h"

/* Part of the names of parameters that compensate what rounding loses. */
#define QN_COMPENSATION ".compensation."

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
    QN_SCALED_AFFINE,    /* a real scale and a zero point for the tensor */
    QN_SCALED_GROUP,     /* a real scale for the tensor, and one of two bits for each group: indices
                            of the first axis, and of the last where there are four */
} qn_scaling;

/* Invariant: an all-zero one is of numbers as the graph computes. */
typedef struct qn_role_type {
    qn_dtype dtype; /* QN_F32: as the graph computes */
    qn_scaling scaling;
    int bits; /* of magnitudes, that the range rule keeps: 7 of int8 */
    qn_rounding rounding;
    qn_range range;
    int top;           /* of a fixed range: magnitudes are below 2^top */
    double clip;       /* part of the measured range that is kept; 0: all */
    int exponent_bits; /* of each number in a group */
    int fraction_bits;
    int fine_bits; /* more, of numbers below the step of all others; 0: none */
    /* Bits grow from 7 to 15 where the mean magnitude changes by more than this (as log2(1 +
     * change)), and range and bits stay for steps that grow with how steady they are; 0: no. */
    double most_loss;
} qn_role_type;

/* What an optimiser's numbers are rounded to behind each update. */
typedef struct qn_settling {
    bool is_used;
    qn_format format;
    bool has_channels; /* over a scale for each index of the first axis, measured anew */
} qn_settling;

/* Layers with products that stay as the graph computes. */
typedef enum qn_wide_layers {
    QN_WIDE_NONE,
    QN_WIDE_FIRST,
    QN_WIDE_LAST,
    QN_WIDE_BOTH,
} qn_wide_layers;

/* What the optimiser is where the user does not say. */
typedef struct qn_numerics_optimizer {
    bool is_given;
    int kind; /* qn_optimizer */
    double rate, momentum, weight_decay;
} qn_numerics_optimizer;

/* Invariant: where is_integer, weight, activation and error are QN_I8 with a scale of the tensor;
 * an update by whole gradients and shifts need exponents. */
typedef struct qn_numerics {
    char name[32];
    qn_role_type roles[QN_ROLE_COUNT];
    /* What gradients' products read of weights and activations instead; a type of f32: the same. */
    qn_role_type backward[2];
    qn_role_type norm;                         /* parameters of normalisations */
    qn_settling weight_settles, state_settles; /* of parameters of products; of optimiser state */
    qn_chunked chunked;                        /* sums of products; chunk 0: those of the graph */
    bool has_unit; /* whole gradients count 2^unit, whatever their scale */
    int unit;
    qn_wide_layers wide;
    double compensation_deviation; /* of maps that are added to results of convolutions; 0: none */
    double compensation_decay;
    bool trains_some; /* layers only, as of qn_sparse: */
    int trained_weights, trained_biases;
    qn_part_choice trained_channels;
    char trained_parts[256];
    qn_numerics_optimizer optimizer;
    bool is_integer;      /* products sum mantissas in QN_I32; else they are of what is rounded */
    bool drops_bias;      /* layers have none */
    bool stores_weights;  /* as mantissas, updated by whole gradients; else the optimiser updates
                             numbers of the graph's type, which are rounded for each step */
    bool integer_loss;    /* its gradient is made of whole numbers */
    qn_shift_rule shifts; /* whether sums are shifted by what earlier steps needed */
    int shift_period;     /* the longest, or the fixed one; 0: the usual one */
    double loss_factor;   /* errors are made so much larger, and gradients smaller; 1: neither */
    int n_drops;          /* of the gradient's bits, one each at such a fraction of training */
    double drops[QN_MOST_DROPS];
    double weight_range; /* initial weights are so much smaller than what their type holds; 1 */
} qn_numerics;

/* How the new graph has a value of the old one's forward part in whole numbers of 8 bits. What is
 * named here can be read after a run, numbers of parameters only. */
typedef struct qn_shown {
    const char *name; /* of the old value */
    bool is_parameter;
    qn_value numbers, scale, zero; /* scale: real, or an exponent; none: 1. zero: or none */
    int axis;                      /* that the scale is along, or -1 */
} qn_shown;

/* A graph by other types. */
typedef struct qn_quantised {
    qn_graph *graph;
    const qn_value *values; /* (values of the old graph) in the graph's memory: the same one, in the
                               graph's type where it is a result, a loss or an input */
    int n;                  /* parameters that an optimiser is to update */
    qn_value *parameters, *gradients; /* (n), likewise */
    int forward_end;                  /* nodes of the forward part */
    int n_shown;
    qn_shown *shown; /* (n_shown), likewise */
} qn_quantised;

/* What is translated: a graph whose first n_forward nodes are the forward part, and the gradients
 * (n) of parameters behind it. */
typedef struct qn_quantise_source {
    const qn_graph *graph;
    int n_forward;
    int n;
    const qn_value *parameters, *gradients;
    int64_t total_steps; /* of training, which the drops are fractions of */
    bool shows;          /* the types of values are wanted */
} qn_quantise_source;

/* Which layers numerics train; the text is theirs. */
qn_sparse qn_quantise_sparse(const qn_numerics *numerics);

/* What numerics change of a graph before gradients are added: maps that compensate losses.
 * *prepared is null where nothing changes; values as of qn_fuse. */
qn_status qn_quantise_prepare(qn_graph *graph, const qn_numerics *numerics, int first_node,
                              qn_graph **prepared, const qn_value **values);

/* Whether activations may be taken into normalisations and sums first: where 16-bit floats hold
 * what these make, and rounding before an activation would be a pass over memory, nothing else. */
bool qn_quantise_fuses(const qn_numerics *numerics);

/* Rounds what nodes from first_node on, an optimiser's, have made of parameters and state. */
void qn_quantise_updates(qn_graph *graph, const qn_numerics *numerics, int first_node);

qn_status qn_quantise_graph(const qn_quantise_source *source, const qn_numerics *numerics,
                            qn_quantised *quantised);

#endif
