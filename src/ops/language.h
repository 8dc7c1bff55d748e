/* Operators that language models are made of, besides those of quern/ops.h: attributes that devices
 * read, and the builders. */
#ifndef QN_OPS_LANGUAGE_H
#define QN_OPS_LANGUAGE_H

#include "ops/network/frozen.h"

typedef struct qn_rms_norm_attributes {
    double epsilon, offset;
} qn_rms_norm_attributes;

typedef struct qn_rotary_attributes {
    bool neighbours, backwards;
} qn_rotary_attributes;

enum { QN_ROTARY_X, QN_ROTARY_COSINES, QN_ROTARY_SINES, QN_ROTARY_POSITIONS };

typedef struct qn_gated_attributes {
    int kind; /* qn_gate */
} qn_gated_attributes;

typedef struct qn_causal_attributes {
    double scale, soft_cap;
    int64_t window;
} qn_causal_attributes;

/* Numbers of inputs, forward and backward. */
enum {
    QN_CAUSAL_QUERY,
    QN_CAUSAL_KEY,
    QN_CAUSAL_VALUE,
    QN_CAUSAL_FIRST,
    QN_CAUSAL_LAST,
    QN_CAUSAL_N_FORWARD
};
enum {
    QN_CAUSAL_Y = 3,
    QN_CAUSAL_LOG_SUMS,
    QN_CAUSAL_DY,
    QN_CAUSAL_BACKWARD_FIRST,
    QN_CAUSAL_BACKWARD_LAST,
    QN_CAUSAL_N_BACKWARD
};

qn_causal_shape qn_causal_of(const void *attributes, const qn_tensor *inputs);

typedef struct qn_sliced_attributes {
    qn_frozen_attributes table;
    double soft_cap;
    bool makes_slopes;
} qn_sliced_attributes;

enum { QN_SLICED_X, QN_SLICED_TABLE, QN_SLICED_LABELS };

/* y = x / sqrt(mean of x^2 over the last axis + epsilon) * (scale (C) + offset) (Zhang and Sennrich
 * 2019); scale may be QN_NO_VALUE: 1, and offset 0. Gemma's offset is 1. */
qn_value qn_rms_norm(qn_graph *graph, const char *name, qn_value x, qn_value scale, double epsilon,
                     double offset);

/* Rotary positions (Su et al. 2021): the first R numbers of each head of x (N, T, H, D) are turned
 * in pairs, by angles whose cosines and sines are rows of two tables (P, R / 2); positions (N, T),
 * QN_I32, are clamped to them, and QN_NO_VALUE is 0 to T - 1. Pairs are neighbours, or number j and
 * number j + R / 2. No gradient flows to the tables. */
qn_value qn_rotary(qn_graph *graph, const char *name, qn_value x, qn_value cosines, qn_value sines,
                   qn_value positions, bool neighbours);

/* y = f(gate) * up, elementwise; up may be QN_NO_VALUE: 1. */
qn_value qn_gated(qn_graph *graph, const char *name, qn_gate kind, qn_value gate, qn_value up);

/* query (N, T, H, D), key and value (N, U, G, D), where H is a multiple of G. Position t looks at
 * keys max(first, last - window + 1) to last: first (N, T), QN_I32, or QN_NO_VALUE: 0; last
 * likewise and below U, or QN_NO_VALUE: U - T + t. A position without keys makes 0. */
typedef struct qn_causal_attention_options {
    qn_value query, key, value, first, last;
    double scale;
    double soft_cap; /* scores become cap * tanh(score / cap); 0: they do not */
    int64_t window;  /* 0: none */
} qn_causal_attention_options;

qn_value qn_causal_attention(qn_graph *graph, const char *name,
                             const qn_causal_attention_options *options);

/* losses (N) = cross entropy of softmax(x (N, C) table (V, C) transposed) with labels (N), QN_I32,
 * without the logits; a negative label makes 0. soft_cap as above, of the logits. Gradients flow to
 * x, in graphs for training. */
qn_value qn_sliced_cross_entropy(qn_graph *graph, const char *name, qn_value x, qn_frozen table,
                                 qn_value labels, double soft_cap);

#endif
