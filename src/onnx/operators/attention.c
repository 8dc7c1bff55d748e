/* Attention of opset 23 and later (Vaswani et al. 2017), with masks, windows, caches, shared heads
 * (Ainslie et al. 2023) and a cap on scores; rotary embeddings (Su et al. 2021). Plain attention is
 * the graph's own operator. Otherwise, what may be looked at is a value of 0 and 1, and other
 * scores become -infinity, so that no gradient passes them; a query that may look at nothing gives
 * zeros. */
#include "base/status.h"
#include "onnx/axes.h"
#include "onnx/fold.h"
#include "onnx/operators/formula.h"
#include "ops/ops.h"

#include <math.h>

typedef struct attention {
    qn_onnx_call *call;
    qn_value q, k, v; /* (N, H, T, D), (N, H, U, D), (N, H, U, E) */
    qn_value bias;    /* or QN_NO_VALUE; what may not be looked at has 0 there */
    qn_value allowed; /* 0 or 1, or QN_NO_VALUE: all may be */
    qn_value ends;    /* (N, 1, 1, 1): how many keys there are; or QN_NO_VALUE */
    int64_t batch, heads, queries, keys, past;
    double scale, cap;
    bool is_packed; /* three axes: (N, T, heads * D) */
} attention;

static void allow(attention *a, qn_value part) {
    a->allowed = a->allowed.id < 0
                     ? part
                     : qn_onnx_combine(a->call, "allowed", QN_COMBINE_MULTIPLY, a->allowed, part);
}

/* ---- operands ---- */

/* (N, T, heads * D) as (N, heads, T, D). */
static qn_value split_heads(attention *a, int input, int64_t heads) {
    static const int order[] = {0, 2, 1, 3};
    qn_onnx_call *call = a->call;
    const qn_shape s = qn_onnx_shape(call, input);
    const qn_value x = qn_onnx_plain(call, input);
    if (!a->is_packed || heads < 1)
        return x;
    return qn_transpose(call->graph, qn_onnx_side_name(call, "heads"),
                        qn_onnx_reshaped(call, "split", x,
                                         QN_SHAPE(s.dims[0], s.dims[1], heads, s.dims[2] / heads)),
                        order);
}

/* Keys or values, after those of a cache; *output is given the whole. */
static qn_value read_keys(attention *a, int input, int64_t heads, int past, int output) {
    qn_onnx_call *call = a->call;
    qn_value x = split_heads(a, input, heads);
    if (qn_onnx_has(call, past)) {
        const qn_value parts[] = {qn_onnx_plain(call, past), x};
        a->past = qn_onnx_shape(call, past).dims[2];
        x = qn_concat(call->graph, qn_onnx_side_name(call, "present"), parts, 2, 2);
    }
    if (qn_onnx_is_used(call, output))
        qn_onnx_give(call, output, x, false);
    return x;
}

/* As many heads as there are queries' ones: each several times. */
static qn_value repeat_heads(attention *a, qn_value x) {
    qn_shape s = qn_graph_shape(a->call->graph, x);
    if (x.id < 0 || s.dims[1] == a->heads)
        return x;
    const qn_shape one = QN_SHAPE(s.dims[0], s.dims[1], 1, s.dims[2], s.dims[3]);
    qn_shape each = one;
    each.dims[2] = a->heads / s.dims[1];
    x = qn_onnx_reshaped(a->call, "shared", x, one);
    x = qn_expand(a->call->graph, qn_onnx_side_name(a->call, "each"), x, each);
    s.dims[1] = a->heads;
    return qn_onnx_reshaped(a->call, "repeated", x, s);
}

static qn_status check_heads(const attention *a, int64_t query_heads, int64_t key_heads) {
    const qn_onnx_call *call = a->call;
    const qn_shape q = qn_onnx_shape(call, 0), k = qn_onnx_shape(call, 1),
                   v = qn_onnx_shape(call, 2);
    bool fits = q.rank == k.rank && k.rank == v.rank && (q.rank == 3 || q.rank == 4);
    if (fits && a->is_packed)
        fits = query_heads > 0 && key_heads > 0 && query_heads < 1 << 16 && key_heads < 1 << 16 &&
               q.dims[2] % query_heads == 0 && k.dims[2] % key_heads == 0 &&
               v.dims[2] % key_heads == 0;
    if (!fits)
        return qn_fail(QN_ERROR_FORMAT,
                       "its queries, keys and values are no heads: they have %d, "
                       "%d and %d axes",
                       q.rank, k.rank, v.rank);
    const int64_t n_queries = a->is_packed ? query_heads : q.dims[1];
    const int64_t n_keys = a->is_packed ? key_heads : k.dims[1];
    return n_queries % n_keys == 0 && (a->is_packed || v.dims[1] == n_keys)
               ? QN_OK
               : qn_fail(QN_ERROR_FORMAT, "%lld heads of keys do not divide %lld of queries",
                         (long long)n_keys, (long long)n_queries);
}

static qn_status read_operands(attention *a) {
    qn_onnx_call *call = a->call;
    const int64_t query_heads = qn_onnx_int(call, "q_num_heads", 0);
    const int64_t key_heads = qn_onnx_int(call, "kv_num_heads", 0);
    a->is_packed = qn_onnx_shape(call, 0).rank == 3;
    QN_TRY(check_heads(a, query_heads, key_heads));
    if (qn_onnx_has(call, 4) != qn_onnx_has(call, 5))
        return qn_fail(QN_ERROR_FORMAT, "past keys and past values go together");
    a->q = split_heads(a, 0, query_heads);
    const qn_shape q = qn_graph_shape(call->graph, a->q);
    QN_TRY(call->graph->status);
    a->batch = q.dims[0];
    a->heads = q.dims[1];
    a->queries = q.dims[2];
    a->k = repeat_heads(a, read_keys(a, 1, key_heads, 4, 1));
    a->v = repeat_heads(a, read_keys(a, 2, key_heads, 5, 2));
    QN_TRY(call->graph->status);
    a->keys = qn_graph_shape(call->graph, a->k).dims[2];
    a->scale = qn_onnx_float(call, "scale", 1 / sqrt((double)q.dims[3]));
    a->cap = qn_onnx_float(call, "softcap", 0);
    return QN_OK;
}

/* ---- what may be looked at ---- */

/* Keys that a mask does not have may not be looked at. */
static qn_value pad_mask(attention *a, qn_value x) {
    const qn_shape s = qn_graph_shape(a->call->graph, x);
    const int64_t lacking = a->keys - s.dims[s.rank - 1];
    return x.id < 0 || lacking <= 0 || s.dims[s.rank - 1] == 1
               ? x
               : qn_pad(a->call->graph, qn_onnx_side_name(a->call, "padded"), x, s.rank - 1, 0,
                        lacking, QN_BORDER_VALUE, 0);
}

/* A mask of truths, or of numbers that are added, of which -infinity is one that may not. */
static qn_status read_mask(attention *a) {
    qn_onnx_call *call = a->call;
    if (!qn_onnx_has(call, 3))
        return QN_OK;
    if (qn_onnx_shape(call, 3).rank < 1)
        return qn_fail(QN_ERROR_FORMAT, "its mask is one number");
    const qn_value mask = qn_onnx_as_reals(call, qn_onnx_plain(call, 3));
    if (qn_onnx_type_at(call, 3) == QN_ONNX_BOOL) {
        allow(a, pad_mask(a, mask));
        return call->graph->status;
    }
    const qn_value least = qn_onnx_scalar(call, "least", -INFINITY);
    const qn_value is_not = qn_onnx_combine(call, "masked", QN_COMBINE_EQUAL, mask, least);
    allow(a, pad_mask(a, qn_onnx_line(call, "kept", is_not, -1, 1)));
    a->bias =
        pad_mask(a, qn_onnx_where(call, "bias", is_not, qn_onnx_scalar(call, "zero", 0), mask));
    return call->graph->status;
}

/* 1 where the key's number minus the query's is at most `most` and at least `least`. */
static qn_status allow_band(attention *a, double least, double most) {
    const int64_t n = a->queries * a->keys;
    QN_TRY(qn_onnx_check_made(n));
    double *band = qn_onnx_scratch(a->call, (size_t)(n + 1) * sizeof *band);
    for (int64_t i = 0; band && i < n; i++) {
        const double beyond = (double)(i % a->keys - i / a->keys);
        band[i] = beyond >= least && beyond <= most;
    }
    if (!band)
        return QN_ERROR_MEMORY;
    allow(a, qn_onnx_made_value(a->call, "band", QN_SHAPE(a->queries, a->keys), band));
    return a->call->graph->status;
}

/* The same where queries end with the last of each sample's keys: the key's number minus the
 * query's, plus the queries, less the keys. */
static qn_status allow_band_from_end(attention *a, double least, double most) {
    qn_onnx_call *call = a->call;
    const int64_t n = a->queries * a->keys;
    QN_TRY(qn_onnx_check_made(n));
    double *beyond = qn_onnx_scratch(call, (size_t)(n + 1) * sizeof *beyond);
    for (int64_t i = 0; beyond && i < n; i++)
        beyond[i] = (double)(i % a->keys - i / a->keys + a->queries);
    if (!beyond)
        return QN_ERROR_MEMORY;
    qn_value x = qn_onnx_made_value(call, "beyond", QN_SHAPE(a->queries, a->keys), beyond);
    x = qn_onnx_combine(call, "from_end", QN_COMBINE_SUBTRACT, x, a->ends);
    if (isfinite(most))
        allow(a, qn_onnx_combine(call, "before", QN_COMBINE_LESS, x,
                                 qn_onnx_scalar(call, "most", most + 0.5)));
    if (isfinite(least))
        allow(a, qn_onnx_combine(call, "after", QN_COMBINE_LESS,
                                 qn_onnx_scalar(call, "least", least - 0.5), x));
    return call->graph->status;
}

/* Causal masks and windows around each query. */
static qn_status read_band(attention *a) {
    const qn_onnx_call *call = a->call;
    const int64_t left = qn_onnx_int(call, "left_window_size", -1);
    const int64_t right = qn_onnx_int(call, "right_window_size", -1);
    double most = right < 0 ? INFINITY : (double)right;
    const double least = left < 0 ? -INFINITY : -(double)left;
    if (qn_onnx_int(call, "is_causal", 0))
        most = 0;
    if (!isfinite(most) && !isfinite(least))
        return QN_OK;
    return a->ends.id < 0 ? allow_band(a, least + (double)a->past, most + (double)a->past)
                          : allow_band_from_end(a, least, most);
}

/* Keys of each sample up to its last one. */
static qn_status read_ends(attention *a) {
    qn_onnx_call *call = a->call;
    if (!qn_onnx_has(call, 6))
        return QN_OK;
    if (qn_onnx_has(call, 4) || qn_shape_count(qn_onnx_shape(call, 6)) != a->batch)
        return qn_fail(QN_ERROR_FORMAT, "its numbers of keys are not one for each sample");
    double *places = qn_onnx_scratch(call, (size_t)(a->keys + 1) * sizeof *places);
    for (int64_t i = 0; places && i < a->keys; i++)
        places[i] = (double)i;
    if (!places)
        return QN_ERROR_MEMORY;
    a->ends = qn_onnx_reshaped(call, "ends", qn_onnx_as_reals(call, qn_onnx_plain(call, 6)),
                               QN_SHAPE(a->batch, 1, 1, 1));
    allow(a,
          qn_onnx_combine(call, "there", QN_COMBINE_LESS,
                          qn_onnx_made_value(call, "places", QN_SHAPE(a->keys), places), a->ends));
    return call->graph->status;
}

/* ---- scores ---- */

/* -infinity for what may not be looked at; 0 in rows of which nothing may be, whose softmax is no
 * number otherwise. */
static qn_value mask_scores(attention *a, qn_value scores) {
    qn_onnx_call *call = a->call;
    const int rank = qn_graph_shape(call->graph, a->allowed).rank;
    qn_value any = qn_reduce(call->graph, qn_onnx_side_name(call, "any"), a->allowed, -1, QN_MAX);
    qn_shape row = qn_graph_shape(call->graph, any);
    if (any.id < 0)
        return any;
    row.rank = rank;
    row.dims[rank - 1] = 1;
    any = qn_onnx_reshaped(call, "rows", any, row);
    const qn_value fill = qn_onnx_where(call, "fill", any, qn_onnx_scalar(call, "least", -INFINITY),
                                        qn_onnx_scalar(call, "zero", 0));
    return qn_onnx_where(call, "masked", a->allowed, scores, fill);
}

static qn_value weights_of(attention *a, qn_value scores) {
    qn_onnx_call *call = a->call;
    if (a->bias.id >= 0)
        scores = qn_onnx_combine(call, "biased", QN_COMBINE_ADD, scores, a->bias);
    if (a->allowed.id < 0)
        return qn_softmax(call->graph, qn_onnx_side_name(call, "softmax"), scores);
    scores = mask_scores(a, scores);
    return qn_onnx_combine(call, "looked_at", QN_COMBINE_MULTIPLY,
                           qn_softmax(call->graph, qn_onnx_side_name(call, "softmax"), scores),
                           a->allowed);
}

/* The fourth output: scores, capped ones, those with the bias, or weights. */
static qn_status give_scores(attention *a, const qn_value stages[4]) {
    qn_onnx_call *call = a->call;
    const int64_t mode = qn_onnx_int(call, "qk_matmul_output_mode", 0);
    if (!qn_onnx_is_used(call, 3))
        return QN_OK;
    if (mode < 0 || mode > 3)
        return qn_fail(QN_ERROR_FORMAT, "qk_matmul_output_mode is %lld", (long long)mode);
    qn_value y = stages[mode];
    if (mode == 2 && a->bias.id >= 0)
        y = qn_onnx_combine(call, "with_bias", QN_COMBINE_ADD, y, a->bias);
    if (mode == 2 && a->allowed.id >= 0)
        y = qn_onnx_where(call, "all_scores", a->allowed, y,
                          qn_onnx_scalar(call, "least", -INFINITY));
    qn_onnx_give(call, 3, y, false);
    return call->graph->status;
}

static qn_status give_result(attention *a, qn_value y) {
    static const int order[] = {0, 2, 1, 3};
    qn_onnx_call *call = a->call;
    if (a->is_packed) {
        y = qn_transpose(call->graph, qn_onnx_side_name(call, "queries"), y, order);
        y = qn_onnx_reshaped(call, NULL, y, QN_SHAPE(a->batch, a->queries, -1));
    }
    qn_onnx_give(call, 0, y, false);
    return call->graph->status;
}

static qn_status build_scores(attention *a) {
    qn_onnx_call *call = a->call;
    qn_value stages[4];
    qn_value x =
        qn_matmul(call->graph, qn_onnx_side_name(call, "product"), a->q, a->k, false, true);
    x = stages[0] = qn_scale(call->graph, qn_onnx_side_name(call, "scores"), x, a->scale);
    if (a->cap > 0) {
        x = qn_onnx_line(call, "cap", x, 1 / a->cap, 0);
        x = qn_tanh(call->graph, qn_onnx_side_name(call, "tanh"), x);
        x = qn_onnx_line(call, "capped", x, a->cap, 0);
    }
    stages[1] = stages[2] = x;
    stages[3] = weights_of(a, x);
    QN_TRY(give_scores(a, stages));
    const char *name = a->is_packed ? qn_onnx_side_name(call, "values") : call->name;
    return give_result(a, qn_matmul(call->graph, name, stages[3], a->v, false, false));
}

static qn_status build_attention(qn_onnx_call *call) {
    attention a = {.call = call, .bias = QN_NO_VALUE, .allowed = QN_NO_VALUE, .ends = QN_NO_VALUE};
    (void)qn_onnx_int(call, "softmax_precision",
                      0); /* of types of 16 bits, which are floats here */
    QN_TRY(read_operands(&a));
    QN_TRY(read_mask(&a));
    QN_TRY(read_ends(&a));
    QN_TRY(read_band(&a));
    const bool is_plain =
        a.allowed.id < 0 && a.bias.id < 0 && !(a.cap > 0) && !qn_onnx_is_used(call, 3) &&
        qn_shape_equal(qn_graph_shape(call->graph, a.k), qn_graph_shape(call->graph, a.v));
    if (!is_plain)
        return build_scores(&a);
    const char *name = a.is_packed ? qn_onnx_side_name(call, "values") : call->name;
    return give_result(&a, qn_attention(call->graph, name, a.q, a.k, a.v, QN_NO_VALUE, a.scale, 0));
}

/* ---- rotary embeddings ---- */

typedef struct rotation {
    int64_t batch, length, heads, width, rotated;
    bool is_interleaved;
} rotation;

static qn_status read_rotation(const qn_onnx_call *call, rotation *r) {
    const qn_shape x = qn_onnx_shape(call, 0);
    const int64_t heads = qn_onnx_int(call, "num_heads", 0);
    const bool is_packed = x.rank == 3;
    if (x.rank != 4 && (!is_packed || heads < 1 || x.dims[2] % heads != 0))
        return qn_fail(QN_ERROR_FORMAT, "its input of %d axes is no heads", x.rank);
    *r = (rotation){.batch = x.dims[0],
                    .length = x.dims[is_packed ? 1 : 2],
                    .heads = is_packed ? heads : x.dims[1],
                    .width = is_packed ? x.dims[2] / heads : x.dims[3],
                    .rotated = qn_onnx_int(call, "rotary_embedding_dim", 0),
                    .is_interleaved = qn_onnx_int(call, "interleaved", 0) != 0};
    if (r->rotated == 0)
        r->rotated = r->width;
    return r->rotated > 0 && r->rotated <= r->width && r->rotated % 2 == 0
               ? QN_OK
               : qn_fail(QN_ERROR_FORMAT, "it rotates %lld of %lld numbers", (long long)r->rotated,
                         (long long)r->width);
}

/* Cosines or sines, (N, T, 1, D / 2), picked by places where these are given. */
static qn_status read_cache(qn_onnx_call *call, const rotation *r, int input, qn_value *cache) {
    const qn_shape s = qn_onnx_shape(call, input);
    qn_graph *g = call->graph;
    qn_value x = qn_onnx_plain(call, input), at;
    if (s.rank != (qn_onnx_has(call, 3) ? 2 : 3) || s.dims[s.rank - 1] != r->rotated / 2)
        return qn_fail(QN_ERROR_FORMAT, "its input %d is not half as wide as what is rotated",
                       input);
    if (qn_onnx_has(call, 3)) {
        at = qn_onnx_plain(call, 3);
        at = qn_graph_tensor(g, at).dtype == QN_I32 ? at : qn_onnx_to_whole(call, "places", at);
        at = qn_onnx_reshaped(call, "flat", at, QN_SHAPE(r->batch * r->length, 1));
        at = qn_op_row_numbers(g, qn_onnx_side_name(call, "numbers"), at, QN_NO_VALUE,
                               QN_SHAPE(s.dims[0]), 1);
        x = qn_embedding(g, qn_onnx_side_name(call, "picked"), x, at);
    }
    *cache = qn_onnx_reshaped(call, "cache", x, QN_SHAPE(r->batch, r->length, 1, r->rotated / 2));
    return g->status;
}

/* Of what is rotated, (N, T, H, D), each half, (N, T, H, D / 2). */
static qn_value half_of(qn_onnx_call *call, const rotation *r, qn_value x, int side) {
    const int64_t half = r->rotated / 2;
    return r->is_interleaved
               ? qn_slice_steps(call->graph, qn_onnx_side_name(call, "half"), x, 3, side, 2, half)
               : qn_slice(call->graph, qn_onnx_side_name(call, "half"), x, 3, side * half,
                          side * half + half);
}

/* The halves as they were: one after the other, or by turns. */
static qn_value join_halves(qn_onnx_call *call, const rotation *r, qn_value halves[2]) {
    const qn_shape apart = QN_SHAPE(r->batch, r->length, r->heads, r->rotated / 2, 1);
    for (int i = 0; i < 2 && r->is_interleaved; i++)
        halves[i] = qn_onnx_reshaped(call, "apart", halves[i], apart);
    const qn_value y = qn_concat(call->graph, qn_onnx_side_name(call, "rotated"), halves, 2,
                                 r->is_interleaved ? 4 : 3);
    return qn_onnx_reshaped(call, "joined", y, QN_SHAPE(r->batch, r->length, r->heads, r->rotated));
}

static qn_value rotate(qn_onnx_call *call, const rotation *r, qn_value x, qn_value cosine,
                       qn_value sine) {
    const qn_value a = half_of(call, r, x, 0), b = half_of(call, r, x, 1);
    qn_value halves[2];
    halves[0] = qn_onnx_combine(call, "real", QN_COMBINE_SUBTRACT,
                                qn_onnx_combine(call, "part", QN_COMBINE_MULTIPLY, a, cosine),
                                qn_onnx_combine(call, "part", QN_COMBINE_MULTIPLY, b, sine));
    halves[1] = qn_onnx_combine(call, "imaginary", QN_COMBINE_ADD,
                                qn_onnx_combine(call, "part", QN_COMBINE_MULTIPLY, a, sine),
                                qn_onnx_combine(call, "part", QN_COMBINE_MULTIPLY, b, cosine));
    return join_halves(call, r, halves);
}

static qn_status build_rotary(qn_onnx_call *call) {
    static const int order[] = {0, 2, 1, 3};
    const qn_shape shape = qn_onnx_shape(call, 0);
    qn_graph *g = call->graph;
    qn_value cosine, sine;
    rotation r;
    QN_TRY(read_rotation(call, &r));
    QN_TRY(read_cache(call, &r, 1, &cosine));
    QN_TRY(read_cache(call, &r, 2, &sine));
    qn_value x = qn_onnx_plain(call, 0);
    if (shape.rank == 4)
        x = qn_transpose(g, qn_onnx_side_name(call, "places"), x, order);
    x = qn_onnx_reshaped(call, "heads", x, QN_SHAPE(r.batch, r.length, r.heads, r.width));
    qn_value y = rotate(call, &r,
                        r.rotated == r.width
                            ? x
                            : qn_slice(g, qn_onnx_side_name(call, "turned"), x, 3, 0, r.rotated),
                        cosine, sine);
    if (r.rotated < r.width) {
        const qn_value rest =
            qn_slice(g, qn_onnx_side_name(call, "rest"), x, 3, r.rotated, r.width);
        y = qn_concat(g, qn_onnx_side_name(call, "whole"), (qn_value[]){y, rest}, 2, 3);
    }
    if (shape.rank == 4)
        y = qn_transpose(g, qn_onnx_side_name(call, "back"), y, order);
    qn_onnx_give(call, 0, qn_onnx_reshaped(call, NULL, y, shape), false);
    return g->status;
}

const qn_onnx_translator qn_onnx_attention_translators[] = {
    {"Attention", 3, 7, build_attention},
    {"RotaryEmbedding", 3, 4, build_rotary},
    {NULL, 0, 0, NULL},
};
