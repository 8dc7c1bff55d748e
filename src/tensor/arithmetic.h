/* Descriptions of arithmetic shared by operators and kernels: windows over images, attention,
 * recurrence, activations, functions of one operand, rules for two, the coefficients of an
 * optimiser's step. No code. Axis letters as in tensor.h. */
#ifndef QN_TENSOR_ARITHMETIC_H
#define QN_TENSOR_ARITHMETIC_H

#include <stdbool.h>
#include <stdint.h>

/* A convolution or pooling window over a batch of images. */
typedef struct qn_convolution {
    int64_t n, h, w, c; /* input (N, H, W, C) */
    int64_t k, r, s;    /* filter (K, R, S, C / groups); pooling: k = c */
    int64_t p, q;       /* output (N, P, Q, K) */
    int64_t stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w;
    int64_t groups;
    int64_t batch; /* samples of the whole batch that these n are a part of; 0: n */
    bool inside;   /* average pool: the mean is that of the window's elements inside of the image */
} qn_convolution;

/* Attention of T rows of query to U keys and values, all of D numbers, in H heads of N samples. */
typedef struct qn_attention_shape {
    int64_t n, h, t, u, d;
    double scale;  /* of the scores */
    double rate;   /* of dropout on the weights; 0: none */
    int64_t first; /* number of the first sample in the batch that dropout counts elements of */
} qn_attention_shape;

/* The recurrence of an LSTM layer of K units over N sequences of T steps. */
typedef struct qn_lstm_shape {
    int64_t n, t, k;
} qn_lstm_shape;

/* Causal attention of T positions to U keys and values, all of D numbers, in heads that share those
 * of key_heads in their order. */
typedef struct qn_causal_shape {
    int64_t n, t, u, heads, key_heads, d;
    int64_t window;         /* keys that a position looks at, at most; 0: all */
    double scale, soft_cap; /* of the scores; cap 0: none */
} qn_causal_shape;

/* Rotary positions over heads of D numbers, of which the first R are turned, in N * T = rows. */
typedef struct qn_rotary_shape {
    int64_t rows, t, h, d, r, table_rows;
    bool neighbours; /* pairs are neighbours, or number j and number j + R / 2 */
    bool backwards;  /* turned back: the gradient */
} qn_rotary_shape;

/* What a gate does to its operand x. */
typedef enum qn_gate {
    QN_GATE_SILU, /* x / (1 + e^-x) */
    QN_GATE_GELU, /* x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 */
    QN_GATE_COUNT
} qn_gate;

/* Elementwise functions; each derivative is a function of the output y alone. */
typedef enum qn_activation_kind {
    QN_ACTIVATION_NONE = 0,
    QN_ACTIVATION_RELU,       /* max(x, 0)                 dx = y > 0 ? dy : 0 */
    QN_ACTIVATION_RELU6,      /* min(max(x, 0), 6)         dx = 0 < y < 6 ? dy : 0 */
    QN_ACTIVATION_LEAKY_RELU, /* x > 0 ? x : slope * x     dx = y > 0 ? dy : slope * dy */
    QN_ACTIVATION_TANH,       /*                           dx = dy * (1 - y * y) */
    QN_ACTIVATION_SIGMOID,    /* 1 / (1 + exp(-x))         dx = dy * y * (1 - y) */
} qn_activation_kind;

typedef struct qn_activation {
    qn_activation_kind kind;
    double slope; /* of leaky relu, > 0 */
} qn_activation;

/* Functions of one operand whose derivative needs x itself, with numbers a, b, least and most. */
#define QN_FUNCTION(NAME, onnx, flops, domain, numbers, value, slope) QN_FUNCTION_##NAME,
#define QN_FUNCTION_BUILDER(name, NAME)
typedef enum qn_function_kind {
#include "tensor/functions.def"
    QN_FUNCTION_COUNT
} qn_function_kind;
#undef QN_FUNCTION
#undef QN_FUNCTION_BUILDER

typedef struct qn_function {
    qn_function_kind kind;
    double a, b, least, most;
} qn_function;

/* Rules of two operands a and b, and those that their derivatives need, with dy as c. */
typedef enum qn_combination {
    QN_COMBINE_ADD,
    QN_COMBINE_SUBTRACT,
    QN_COMBINE_MULTIPLY,
    QN_COMBINE_DIVIDE,
    QN_COMBINE_POWER, /* a^b */
    QN_COMBINE_LEAST,
    QN_COMBINE_MOST,
    QN_COMBINE_SLOPE,       /* a where a > 0, else b a */
    QN_COMBINE_EQUAL,       /* 1 or 0 */
    QN_COMBINE_LESS,        /* 1 or 0 */
    QN_COMBINE_DIVIDE_B,    /* -c a / (b b) */
    QN_COMBINE_POWER_A,     /* c b a^(b - 1) */
    QN_COMBINE_POWER_B,     /* c a^b log(a) */
    QN_COMBINE_IF_LESS,     /* c where a < b, else 0 */
    QN_COMBINE_UNLESS_LESS, /* 0 where a < b, else c */
    QN_COMBINE_SLOPE_A,     /* c where a > 0, else b c */
    QN_COMBINE_SLOPE_B,     /* 0 where a > 0, else a c */
    QN_COMBINE_WHERE,       /* b where a is not 0, else c */
    QN_COMBINE_COUNT
} qn_combination;

/* The result's extents, 1 to QN_BROADCAST_RANK of them, and how far apart each operand's elements
 * are along these axes: 0 where it has one for all. Along the last axis it is 0 or 1. */
enum { QN_BROADCAST_RANK = 6 };
typedef struct qn_broadcast {
    int rank;
    int64_t extents[QN_BROADCAST_RANK], strides[3][QN_BROADCAST_RANK];
} qn_broadcast;

/* Numbers of an optimiser step, in this order, in a tensor of QN_HYPER_COUNT reals. */
enum qn_hyper {
    QN_HYPER_RATE,        /* learning rate */
    QN_HYPER_MOMENTUM,    /* SGD */
    QN_HYPER_DECAY,       /* weight decay */
    QN_HYPER_BETA1,       /* Adam */
    QN_HYPER_BETA2,       /* Adam */
    QN_HYPER_EPSILON,     /* Adam */
    QN_HYPER_CORRECTION1, /* Adam: 1 - beta1^t */
    QN_HYPER_CORRECTION2, /* Adam: 1 - beta2^t */
    QN_HYPER_GRADIENT,    /* factor of every gradient: 1 / accumulated batches */
    QN_HYPER_COUNT
};

#endif
