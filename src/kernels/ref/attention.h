/* Scaled dot-product attention, head by head: some rows of query meet all keys that are looked at,
 * so that scores are a block in the cache and never a tensor. Kept for the gradient are only the
 * logarithms of the rows' sums, from which the backward pass makes the weights again, and with them
 * what dropout left of them.
 *
 * The includer defines its matrix product: PRODUCT, as in the kernel table, and PRODUCT_BOUND, the
 * workspace of this shape and of all smaller ones. It is called with no team: a task is a block of
 * rows (forward) or a head (backward). */
#ifndef QN_KERNELS_REF_ATTENTION_H
#define QN_KERNELS_REF_ATTENTION_H

#include "base/memory.h"
#include "kernels/ref/elementwise.h"
#include "kernels/ref/lanes.h"

/* Scores of a block: what should fit in a second cache beside as many slopes. Not to be tuned at
 * run time: gradients of keys and values are sums over blocks. */
enum { ATTENTION_SCORES = 32768, ATTENTION_ROWS_UNIT = 12 };

/* Bytes of each part of a thread's memory; slopes and part are the backward pass's. */
typedef struct scratch_bytes {
    size_t weights, kept, slopes, part, product;
} scratch_bytes;

typedef struct attention_context {
    const qn_attention_shape *shape;
    qn_rng rng;
    const real *query, *key, *value;
    const int32_t *lengths;
    real *y, *log_sums;                  /* forward */
    const real *y_in, *log_sums_in, *dy; /* backward */
    real *dquery, *dkey, *dvalue;
    int64_t rows, blocks; /* of query: in a block, and blocks of a head */
    char *workspace;
    scratch_bytes bytes;
} attention_context;

/* Memory of one thread. */
typedef struct attention_scratch {
    real *weights, *slopes; /* (rows, U) */
    real *part;             /* (U, D) */
    real *kept;             /* (U): what dropout multiplies a row of weights by */
    void *product;
} attention_scratch;

/* ---- rows ---- */

/* scores (n) become weights; returns log of the sum of e^(scale * score). */
static real weigh_row(int64_t n, real scale, real *scores) {
    for (int64_t j = 0; j < n; j++)
        scores[j] *= scale;
    const real largest = largest_of_row(n, scores);
    for (int64_t j = 0; j < n; j++)
        scores[j] = REAL_EXP(scores[j] - largest);
    const double sum = sum_of_row(n, scores);
    const real inverse = (real)(1 / sum);
    for (int64_t j = 0; j < n; j++)
        scores[j] *= inverse;
    return (real)((double)largest + log(sum));
}

/* kept[j] = 0 or 1 / (1 - rate), as dropout of element first + j of a tensor. */
static void draw_kept(qn_rng rng, uint64_t first, int64_t n, double rate_, real *kept) {
    const float rate = (float)rate_;
    const real factor = (real)(1 / (1 - rate_));
    uint32_t words[4 * RNG_BLOCKS];
    for (int64_t j = 0, count; j < n; j += count) {
        const uint64_t at = first + (uint64_t)j;
        const int64_t skipped = (int64_t)(at % 4);
        count = min_int(n - j, 4 * RNG_BLOCKS - skipped);
        for (int64_t b = 0; 4 * b < skipped + count; b += RNG_LANES)
            rng_lanes(rng, at / 4 + (uint64_t)b, words + 4 * b);
        for (int64_t i = 0; i < count; i++) {
            const float uniform = (float)(int32_t)(words[skipped + i] >> 8) * 0x1p-24f;
            kept[j + i] = uniform < rate ? 0 : factor;
        }
    }
}

/* ---- what both passes have in common ---- */

static int64_t attention_rows(const qn_attention_shape *d) {
    const int64_t blocks = ceil_div(d->t, max_int(ATTENTION_ROWS_UNIT, ATTENTION_SCORES / d->u));
    return min_int(d->t, round_up(ceil_div(d->t, blocks), ATTENTION_ROWS_UNIT));
}

/* Keys that a head looks at. */
static int64_t count_keys(const attention_context *a, int64_t head) {
    const int64_t u = a->shape->u;
    return a->lengths ? max_int(0, min_int(u, a->lengths[head / a->shape->h])) : u;
}

/* c (m, n) = op(a) op(b), by one thread. */
static void multiply_block(qn_gemm_shape shape, const real *a, const real *b, real *c,
                           const attention_scratch *scratch) {
    PRODUCT(NULL, &shape, a, b, NULL, (qn_activation){QN_ACTIVATION_NONE, 0}, c, scratch->product);
}

static size_t aligned_bytes(size_t bytes) {
    return (bytes + QN_ALIGNMENT - 1) / QN_ALIGNMENT * QN_ALIGNMENT;
}

/* No product has more keys or rows than these. */
static size_t product_bytes(const qn_attention_shape *d, int64_t rows) {
    const qn_gemm_shape shapes[] = {
        {.m = rows, .n = d->u, .k = d->d, .transpose_b = true},
        {.m = rows, .n = d->d, .k = d->u},
        {.m = d->u, .n = d->d, .k = rows, .transpose_a = true},
    };
    size_t most = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const size_t bytes = PRODUCT_BOUND(&shapes[i], 1);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static scratch_bytes size_scratch(const qn_attention_shape *d, bool is_backward) {
    const int64_t rows = attention_rows(d);
    const size_t block = aligned_bytes((size_t)(rows * d->u) * sizeof(real));
    return (scratch_bytes){
        .weights = block,
        .kept = aligned_bytes((size_t)d->u * sizeof(real)),
        .slopes = is_backward ? block : 0,
        .part = is_backward ? aligned_bytes((size_t)(d->u * d->d) * sizeof(real)) : 0,
        .product = aligned_bytes(product_bytes(d, rows)),
    };
}

static size_t sum_scratch(const scratch_bytes *b) {
    return b->weights + b->kept + b->slopes + b->part + b->product;
}

static size_t attention_workspace(const qn_attention_shape *shape, bool is_backward,
                                  int n_threads) {
    const scratch_bytes bytes = size_scratch(shape, is_backward);
    return (size_t)n_threads * sum_scratch(&bytes);
}

static attention_scratch scratch_of(const attention_context *a, int thread) {
    const scratch_bytes *b = &a->bytes;
    char *weights = a->workspace + (size_t)thread * sum_scratch(b), *kept = weights + b->weights;
    char *slopes = kept + b->kept, *part = slopes + b->slopes, *space = part + b->part;
    return (attention_scratch){.weights = (real *)weights,
                               .slopes = (real *)slopes,
                               .part = (real *)part,
                               .kept = (real *)kept,
                               .product = space};
}

static void attention_init(attention_context *a, bool is_backward, void *workspace) {
    a->rows = attention_rows(a->shape);
    a->blocks = ceil_div(a->shape->t, a->rows);
    a->workspace = workspace;
    a->bytes = size_scratch(a->shape, is_backward);
}

/* Index of the first weight of row t of a head, among all weights. */
static uint64_t first_weight(const attention_context *a, int64_t head, int64_t t) {
    const qn_attention_shape *d = a->shape;
    return (uint64_t)(((d->first * d->h + head) * d->t + t) * d->u);
}

/* ---- forward ---- */

static void attention_block(const attention_context *a, int64_t head, int64_t first,
                            const attention_scratch *scratch) {
    const qn_attention_shape *d = a->shape;
    const int64_t rows = min_int(a->rows, d->t - first), keys = count_keys(a, head);
    const int64_t at = head * d->t + first;
    real *y = a->y + at * d->d, *log_sums = a->log_sums + at;
    if (keys == 0) {
        memset(y, 0, (size_t)(rows * d->d) * sizeof *y);
        memset(log_sums, 0, (size_t)rows * sizeof *log_sums);
        return;
    }
    multiply_block((qn_gemm_shape){.m = rows, .n = keys, .k = d->d, .transpose_b = true},
                   a->query + at * d->d, a->key + head * d->u * d->d, scratch->weights, scratch);
    for (int64_t i = 0; i < rows; i++) {
        real *weights = scratch->weights + i * keys;
        log_sums[i] = weigh_row(keys, (real)d->scale, weights);
        if (d->rate == 0)
            continue;
        draw_kept(a->rng, first_weight(a, head, first + i), keys, d->rate, scratch->kept);
        for (int64_t j = 0; j < keys; j++)
            weights[j] *= scratch->kept[j];
    }
    multiply_block((qn_gemm_shape){.m = rows, .n = d->d, .k = keys}, scratch->weights,
                   a->value + head * d->u * d->d, y, scratch);
}

static void attention_forward_task(void *context, int64_t begin, int64_t end, int thread) {
    const attention_context *a = context;
    const attention_scratch scratch = scratch_of(a, thread);
    for (int64_t task = begin; task < end; task++)
        attention_block(a, task / a->blocks, task % a->blocks * a->rows, &scratch);
}

static void attention_forward(qn_team *team, const qn_attention_shape *shape, qn_rng rng,
                              const void *query, const void *key, const void *value,
                              const int32_t *lengths, void *y, void *log_sums, void *workspace) {
    attention_context a = {.shape = shape,
                           .rng = rng,
                           .query = query,
                           .key = key,
                           .value = value,
                           .lengths = lengths,
                           .y = y,
                           .log_sums = log_sums};
    attention_init(&a, false, workspace);
    qn_team_run(team, shape->n * shape->h * a.blocks, attention_forward_task, &a);
}

/* ---- backward ---- */

/* weights (n), still scores, become what the values met; slopes (n), still d(what they met), become
 * the scores' gradient. delta is the sum of dy * y. */
static void slope_row(int64_t n, real scale, real log_sum, real delta, const real *kept,
                      real *restrict weights, real *restrict slopes) {
    if (!kept) {
        for (int64_t j = 0; j < n; j++) {
            weights[j] = REAL_EXP(weights[j] * scale - log_sum);
            slopes[j] = weights[j] * (slopes[j] - delta) * scale;
        }
        return;
    }
    for (int64_t j = 0; j < n; j++) {
        const real weight = REAL_EXP(weights[j] * scale - log_sum);
        slopes[j] = weight * (kept[j] * slopes[j] - delta) * scale;
        weights[j] = weight * kept[j];
    }
}

/* sum (n) = a^T b, or that is added to it. */
static void add_transposed(const attention_context *a, bool is_first, int64_t rows, int64_t keys,
                           const real *left, const real *right, real *sum,
                           const attention_scratch *scratch) {
    const int64_t n = keys * a->shape->d;
    const qn_gemm_shape shape = {.m = keys, .n = a->shape->d, .k = rows, .transpose_a = true};
    multiply_block(shape, left, right, is_first ? sum : scratch->part, scratch);
    for (int64_t i = 0; !is_first && i < n; i++)
        sum[i] += scratch->part[i];
}

static void attention_backward_block(const attention_context *a, int64_t head, int64_t first,
                                     int64_t keys, const attention_scratch *scratch) {
    const qn_attention_shape *d = a->shape;
    const int64_t rows = min_int(a->rows, d->t - first), at = head * d->t + first;
    const real *query = a->query + at * d->d, *dy = a->dy + at * d->d, *y = a->y_in + at * d->d;
    const real *key = a->key + head * d->u * d->d, *value = a->value + head * d->u * d->d;
    const qn_gemm_shape by_keys = {.m = rows, .n = keys, .k = d->d, .transpose_b = true};
    multiply_block(by_keys, query, key, scratch->weights, scratch);
    multiply_block(by_keys, dy, value, scratch->slopes, scratch);
    for (int64_t i = 0; i < rows; i++) {
        const real *kept = d->rate == 0 ? NULL : scratch->kept;
        if (kept)
            draw_kept(a->rng, first_weight(a, head, first + i), keys, d->rate, scratch->kept);
        slope_row(keys, (real)d->scale, a->log_sums_in[at + i],
                  (real)dot_of_rows(d->d, dy + i * d->d, y + i * d->d), kept,
                  scratch->weights + i * keys, scratch->slopes + i * keys);
    }
    multiply_block((qn_gemm_shape){.m = rows, .n = d->d, .k = keys}, scratch->slopes, key,
                   a->dquery + at * d->d, scratch);
    add_transposed(a, first == 0, rows, keys, scratch->weights, dy, a->dvalue + head * d->u * d->d,
                   scratch);
    add_transposed(a, first == 0, rows, keys, scratch->slopes, query, a->dkey + head * d->u * d->d,
                   scratch);
}

static void attention_backward_task(void *context, int64_t begin, int64_t end, int thread) {
    const attention_context *a = context;
    const qn_attention_shape *d = a->shape;
    const attention_scratch scratch = scratch_of(a, thread);
    for (int64_t head = begin; head < end; head++) {
        const int64_t keys = count_keys(a, head), at = (head * d->u + keys) * d->d;
        const size_t unseen = (size_t)((d->u - keys) * d->d) * sizeof(real);
        memset(a->dkey + at, 0, unseen);
        memset(a->dvalue + at, 0, unseen);
        if (keys == 0)
            memset(a->dquery + head * d->t * d->d, 0, (size_t)(d->t * d->d) * sizeof(real));
        for (int64_t first = 0; keys > 0 && first < d->t; first += a->rows)
            attention_backward_block(a, head, first, keys, &scratch);
    }
}

static void attention_backward(qn_team *team, const qn_attention_shape *shape, qn_rng rng,
                               const void *query, const void *key, const void *value,
                               const int32_t *lengths, const void *y, const void *log_sums,
                               const void *dy, void *dquery, void *dkey, void *dvalue,
                               void *workspace) {
    attention_context a = {.shape = shape,
                           .rng = rng,
                           .query = query,
                           .key = key,
                           .value = value,
                           .dy = dy,
                           .lengths = lengths,
                           .y_in = y,
                           .log_sums_in = log_sums,
                           .dquery = dquery,
                           .dkey = dkey,
                           .dvalue = dvalue};
    attention_init(&a, true, workspace);
    qn_team_run(team, shape->n * shape->h, attention_backward_task, &a);
}

#endif
