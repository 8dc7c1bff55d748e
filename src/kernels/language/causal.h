/* Causal attention of grouped heads: the rows of some positions of query, for all heads of a group,
 * meet the keys tile by tile. Forward, a row keeps the largest score so far and the sum of its
 * weights, and what it has gathered is scaled down when a larger score comes; kept for the gradient
 * is the logarithm of the sum. Backward, tiles of weights are made again, and sums of a tile over
 * blocks of rows, and of a row over tiles, are added in order; so a thread may do a head, or rows
 * first and then keys, with the same bits. Nothing has the size of T times U. */
#ifndef QN_KERNELS_LANGUAGE_CAUSAL_H
#define QN_KERNELS_LANGUAGE_CAUSAL_H

#include "kernels/language/running.h"

/* Rows of a block, of all heads of a group, and keys of a tile: part of what a result is. */
enum { CAUSAL_ROWS = 192, CAUSAL_KEYS = 128 };

typedef struct causal_context {
    const qn_kernels *kernels; /* whose product it is */
    const qn_causal_shape *shape;
    const qn_causal_operands *o;
    int64_t group, positions, rows; /* heads of a group; positions of a block, and its rows */
    int64_t blocks, tiles;          /* of a group of heads */
    bool is_backward, wants_rows, wants_keys;
    char *workspace;
    size_t thread_bytes;
} causal_context;

/* Memory of one thread. */
typedef struct causal_scratch {
    real *query, *sums;    /* (rows, D): scaled; forward of y, backward of d(query) */
    real *dy;              /* (rows, D) */
    real *scores, *slopes; /* (rows, keys of a tile) */
    real *key, *value;     /* (keys of a tile, D) */
    real *largest;         /* (rows): so far; backward: the logarithms of the sums */
    double *totals;        /* (rows): sums of the weights so far; backward: of dy * y */
    int32_t *first, *last; /* (positions): the keys of each */
    void *product;
} causal_scratch;

/* ---- memory ---- */

/* Lays the scratch out at a place; the bytes that it takes. */
static size_t causal_lay_out(const causal_context *c, char *place, causal_scratch *s) {
    const int64_t d = c->shape->d, keys = CAUSAL_KEYS, rows = c->rows;
    char *at = place;
    s->query = take_reals(&at, rows * d);
    s->sums = take_reals(&at, rows * d);
    s->scores = take_reals(&at, rows * keys);
    s->key = take_reals(&at, keys * d);
    s->value = take_reals(&at, keys * d);
    s->largest = take_reals(&at, rows);
    s->totals = take_bytes(&at, rows, sizeof(double));
    s->first = take_bytes(&at, c->positions, sizeof(int32_t));
    s->last = take_bytes(&at, c->positions, sizeof(int32_t));
    s->dy = s->slopes = NULL;
    if (c->is_backward) {
        s->dy = take_reals(&at, rows * d);
        s->slopes = take_reals(&at, rows * keys);
    }
    s->product = at;
    return (size_t)(at - place);
}

/* The most of whole blocks and tiles and of those at the ends, each of which goes its own way; a
 * tile's keys end where a block's do, so that any number of them is possible. */
static size_t causal_product_bytes(const causal_context *c) {
    const int64_t d = c->shape->d, rows[] = {c->rows, c->shape->t % c->positions * c->group};
    size_t most = 0;
    for (int i = 0; i < 2; i++) {
        for (int64_t keys = 1; rows[i] > 0 && keys <= min_int(CAUSAL_KEYS, c->shape->u); keys++) {
            const qn_gemm_shape shapes[] = {
                {.m = rows[i], .n = keys, .k = d, .transpose_b = true},
                {.m = rows[i], .n = d, .k = keys},
                {.m = keys, .n = d, .k = rows[i], .transpose_a = true},
            };
            for (int k = 0; k < 2 + c->is_backward; k++) {
                const size_t bytes = c->kernels->gemm_workspace(&shapes[k], 1);
                most = bytes > most ? bytes : most;
            }
        }
    }
    return (most + QN_ALIGNMENT - 1) / QN_ALIGNMENT * QN_ALIGNMENT;
}

static causal_context causal_of(const qn_kernels *kernels, const qn_causal_shape *d,
                                bool is_backward) {
    causal_context c = {.kernels = kernels, .shape = d, .is_backward = is_backward};
    causal_scratch unused;
    char *const nowhere = (char *)(uintptr_t)QN_ALIGNMENT; /* to be measured, not to be read */
    c.group = d->heads / d->key_heads;
    c.positions = min_int(d->t, max_int(1, CAUSAL_ROWS / c.group));
    c.rows = c.positions * c.group;
    c.blocks = ceil_div(d->t, c.positions);
    c.tiles = ceil_div(d->u, CAUSAL_KEYS);
    c.thread_bytes = causal_lay_out(&c, nowhere, &unused) + causal_product_bytes(&c);
    return c;
}

static size_t causal_attention_workspace(const qn_kernels *kernels, const qn_causal_shape *shape,
                                         bool is_backward, int n_threads) {
    return causal_of(kernels, shape, is_backward).thread_bytes * (size_t)n_threads;
}

/* ---- blocks and tiles ---- */

/* A block of positions of a group of heads of a sample. */
typedef struct causal_block {
    int64_t n, head, t, positions, rows; /* head: of the keys' */
    int64_t first, last; /* keys that any of its rows looks at; none: last < first */
} causal_block;

/* The keys of each position. */
static causal_block causal_open(const causal_context *c, int64_t task, int64_t block,
                                const causal_scratch *s) {
    const qn_causal_shape *d = c->shape;
    causal_block b = {.n = task / d->key_heads,
                      .head = task % d->key_heads,
                      .t = block * c->positions,
                      .first = d->u,
                      .last = -1};
    b.positions = min_int(c->positions, d->t - b.t);
    b.rows = b.positions * c->group;
    for (int64_t i = 0; i < b.positions; i++) {
        const int64_t at = b.n * d->t + b.t + i;
        const int64_t own = c->o->last ? c->o->last[at] : b.t + i + d->u - d->t;
        const int64_t last = min_int(own, d->u - 1);
        int64_t first = max_int(0, c->o->first ? c->o->first[at] : 0);
        first = d->window > 0 ? max_int(first, last - d->window + 1) : first;
        s->first[i] = (int32_t)min_int(first, d->u);
        s->last[i] = (int32_t)max_int(last, -1);
        if (first > last)
            continue;
        b.first = min_int(b.first, first);
        b.last = max_int(b.last, last);
    }
    return b;
}

/* Element 0 of a position's rows of query, of a block. */
static int64_t causal_row(const causal_context *c, const causal_block *b, int64_t position) {
    const qn_causal_shape *d = c->shape;
    return ((b->n * d->t + b->t + position) * d->heads + b->head * c->group) * d->d;
}

static void causal_read_rows(const causal_context *c, const causal_block *b, const real *from,
                             real factor, real *to) {
    const int64_t n = c->group * c->shape->d;
    for (int64_t i = 0; i < b->positions; i++) {
        const real *row = from + causal_row(c, b, i);
        for (int64_t j = 0; j < n; j++)
            to[i * n + j] = row[j] * factor;
    }
}

/* Keys [first, first + keys) of a head. */
static void causal_read_keys(const causal_context *c, const causal_block *b, int64_t first,
                             int64_t keys, const real *from, real *to) {
    const qn_causal_shape *d = c->shape;
    for (int64_t j = 0; j < keys; j++)
        memcpy(to + j * d->d, from + ((b->n * d->u + first + j) * d->key_heads + b->head) * d->d,
               (size_t)d->d * sizeof(real));
}

static void causal_multiply(const causal_context *c, qn_gemm_shape shape, const real *a,
                            const real *b, real *y, const causal_scratch *s) {
    c->kernels->gemm(NULL, &shape, a, b, NULL, no_activation, y, s->product);
}

/* Scores (rows, keys) of keys [first, first + keys), with the cap. */
static void causal_score(const causal_context *c, const causal_block *b, int64_t keys,
                         const causal_scratch *s) {
    const qn_causal_shape *d = c->shape;
    causal_multiply(c, (qn_gemm_shape){.m = b->rows, .n = keys, .k = d->d, .transpose_b = true},
                    s->query, s->key, s->scores, s);
    const real cap = (real)d->soft_cap, inverse = cap > 0 ? 1 / cap : 0;
    for (int64_t i = 0; cap > 0 && i < b->rows * keys; i++)
        s->scores[i] = cap * REAL_TANH(s->scores[i] * inverse);
}

/* The columns of a tile that row i looks at: [*begin, *end). */
static void causal_columns(const causal_context *c, int64_t i, int64_t first, int64_t keys,
                           const causal_scratch *s, int64_t *begin, int64_t *end) {
    const int64_t position = i / c->group;
    *begin = min_int(keys, max_int(0, s->first[position] - first));
    *end = max_int(*begin, min_int(keys, s->last[position] + 1 - first));
}

/* The tile's keys that a block looks at, and whether there are any. */
static bool causal_meets(const causal_block *b, int64_t tile, int64_t *first, int64_t *keys) {
    *first = tile * CAUSAL_KEYS;
    *keys = min_int(CAUSAL_KEYS, b->last + 1 - *first);
    return *keys > 0 && *first + *keys > b->first;
}

/* ---- forward ---- */

static void causal_finish(const causal_context *c, const causal_block *b, const causal_scratch *s) {
    const int64_t d = c->shape->d;
    for (int64_t i = 0; i < b->rows; i++) {
        const double total = s->totals[i];
        const real inverse = total == 0 ? 0 : (real)(1 / total);
        const int64_t at = causal_row(c, b, i / c->group) + i % c->group * d;
        real *y = (real *)c->o->y + at;
        for (int64_t j = 0; j < d; j++)
            y[j] = s->sums[i * d + j] * inverse;
        ((real *)c->o->log_sums)[at / d] =
            total == 0 ? 0 : (real)((double)s->largest[i] + log(total));
    }
}

static void causal_forward_task(void *context, int64_t begin, int64_t end, int thread) {
    const causal_context *c = context;
    const qn_causal_shape *d = c->shape;
    causal_scratch s;
    causal_lay_out(c, c->workspace + (size_t)thread * c->thread_bytes, &s);
    for (int64_t task = begin; task < end; task++) {
        const causal_block b = causal_open(c, task / c->blocks, task % c->blocks, &s);
        causal_read_rows(c, &b, c->o->query, (real)d->scale, s.query);
        memset(s.sums, 0, (size_t)(b.rows * d->d) * sizeof(real));
        for (int64_t i = 0; i < b.rows; i++)
            s.totals[i] = 0;
        for (int64_t tile = 0, first, keys; tile < c->tiles; tile++) {
            if (!causal_meets(&b, tile, &first, &keys))
                continue;
            causal_read_keys(c, &b, first, keys, c->o->key, s.key);
            causal_read_keys(c, &b, first, keys, c->o->value, s.value);
            causal_score(c, &b, keys, &s);
            for (int64_t i = 0, from, to; i < b.rows; i++) {
                causal_columns(c, i, first, keys, &s, &from, &to);
                weigh_running(from, to, keys, d->d, s.scores + i * keys, &s.largest[i],
                              &s.totals[i], s.sums + i * d->d);
            }
            causal_multiply(c, (qn_gemm_shape){.m = b.rows, .n = d->d, .k = keys, .add = true},
                            s.scores, s.value, s.sums, &s);
        }
        causal_finish(c, &b, &s);
    }
}

static void causal_attention_forward(const qn_kernels *kernels, qn_team *team,
                                     const qn_causal_shape *shape,
                                     const qn_causal_operands *operands, void *workspace) {
    causal_context c = causal_of(kernels, shape, false);
    c.o = operands;
    c.workspace = workspace;
    qn_team_run(team, shape->n * shape->key_heads * c.blocks, causal_forward_task, &c);
}

/* ---- backward ---- */

/* Scores of a row become weights, and slopes, still d(weights), become the scores' gradient. */
static void causal_slope(int64_t begin, int64_t end, int64_t keys, real log_sum, real delta,
                         real cap, real *restrict scores, real *restrict slopes) {
    const real inverse = cap > 0 ? 1 / cap : 0;
    memset(scores, 0, (size_t)begin * sizeof(real));
    memset(slopes, 0, (size_t)begin * sizeof(real));
    for (int64_t j = begin; j < end; j++) {
        const real weight = REAL_EXP(scores[j] - log_sum), part = scores[j] * inverse;
        slopes[j] = weight * (slopes[j] - delta) * (1 - part * part);
        scores[j] = weight;
    }
    memset(scores + end, 0, (size_t)(keys - end) * sizeof(real));
    memset(slopes + end, 0, (size_t)(keys - end) * sizeof(real));
}

/* What a block of rows and a tile of keys give each other. */
static void causal_pair(const causal_context *c, const causal_block *b, int64_t first, int64_t keys,
                        const causal_scratch *s) {
    const qn_causal_shape *d = c->shape;
    const int64_t at = ((b->n * d->u + first) * d->key_heads + b->head) * d->d;
    causal_read_keys(c, b, first, keys, c->o->key, s->key);
    causal_read_keys(c, b, first, keys, c->o->value, s->value);
    causal_score(c, b, keys, s);
    causal_multiply(c, (qn_gemm_shape){.m = b->rows, .n = keys, .k = d->d, .transpose_b = true},
                    s->dy, s->value, s->slopes, s);
    for (int64_t i = 0, from, to; i < b->rows; i++) {
        causal_columns(c, i, first, keys, s, &from, &to);
        causal_slope(from, to, keys, s->largest[i], (real)s->totals[i], (real)d->soft_cap,
                     s->scores + i * keys, s->slopes + i * keys);
    }
    if (c->wants_rows)
        causal_multiply(c, (qn_gemm_shape){.m = b->rows, .n = d->d, .k = keys, .add = true},
                        s->slopes, s->key, s->sums, s);
    if (!c->wants_keys)
        return;
    const qn_gemm_shape to_keys = {.m = keys,
                                   .n = d->d,
                                   .k = b->rows,
                                   .transpose_a = true,
                                   .add = true,
                                   .c_row = d->key_heads * d->d};
    causal_multiply(c, to_keys, s->scores, s->dy, (real *)c->o->dvalue + at, s);
    causal_multiply(c, to_keys, s->slopes, s->query, (real *)c->o->dkey + at, s);
}

static causal_block causal_begin(const causal_context *c, int64_t task, int64_t block,
                                 const causal_scratch *s) {
    const int64_t d = c->shape->d;
    const causal_block b = causal_open(c, task, block, s);
    causal_read_rows(c, &b, c->o->query, (real)c->shape->scale, s->query);
    causal_read_rows(c, &b, c->o->dy, 1, s->dy);
    memset(s->sums, 0, (size_t)(b.rows * d) * sizeof(real));
    for (int64_t i = 0; i < b.rows; i++) {
        const int64_t at = causal_row(c, &b, i / c->group) + i % c->group * d;
        s->largest[i] = ((const real *)c->o->log_sums)[at / d];
        s->totals[i] = dot_of_rows(d, s->dy + i * d, (const real *)c->o->y + at);
    }
    return b;
}

/* d(query) of a block, from that of the scaled one. */
static void causal_end(const causal_context *c, const causal_block *b, const causal_scratch *s) {
    const int64_t n = c->group * c->shape->d;
    const real scale = (real)c->shape->scale;
    for (int64_t i = 0; i < b->positions; i++) {
        real *row = (real *)c->o->dquery + causal_row(c, b, i);
        for (int64_t j = 0; j < n; j++)
            row[j] = s->sums[i * n + j] * scale;
    }
}

static void causal_clear(const causal_context *c, int64_t task, int64_t first, int64_t keys) {
    const qn_causal_shape *d = c->shape;
    for (int64_t j = first; j < first + keys; j++) {
        const int64_t at = ((task / d->key_heads * d->u + j) * d->key_heads + task % d->key_heads);
        memset((real *)c->o->dkey + at * d->d, 0, (size_t)d->d * sizeof(real));
        memset((real *)c->o->dvalue + at * d->d, 0, (size_t)d->d * sizeof(real));
    }
}

/* A block of rows, and all keys. */
static void causal_block_backward(const causal_context *c, int64_t task, int64_t block,
                                  const causal_scratch *s) {
    const causal_block b = causal_begin(c, task, block, s);
    for (int64_t tile = 0, first, keys; tile < c->tiles; tile++) {
        if (causal_meets(&b, tile, &first, &keys))
            causal_pair(c, &b, first, keys, s);
    }
    causal_end(c, &b, s);
}

/* A task is a group of heads. */
static void causal_heads_task(void *context, int64_t begin, int64_t end, int thread) {
    const causal_context *c = context;
    causal_scratch s;
    causal_lay_out(c, c->workspace + (size_t)thread * c->thread_bytes, &s);
    for (int64_t task = begin; task < end; task++) {
        causal_clear(c, task, 0, c->shape->u);
        for (int64_t block = 0; block < c->blocks; block++)
            causal_block_backward(c, task, block, &s);
    }
}

/* A task is a block of rows; d(query) alone. */
static void causal_rows_task(void *context, int64_t begin, int64_t end, int thread) {
    const causal_context *c = context;
    causal_scratch s;
    causal_lay_out(c, c->workspace + (size_t)thread * c->thread_bytes, &s);
    for (int64_t task = begin; task < end; task++)
        causal_block_backward(c, task / c->blocks, task % c->blocks, &s);
}

/* A task is a tile of keys; their gradients alone. */
static void causal_keys_task(void *context, int64_t begin, int64_t end, int thread) {
    const causal_context *c = context;
    causal_scratch s;
    causal_lay_out(c, c->workspace + (size_t)thread * c->thread_bytes, &s);
    for (int64_t task = begin; task < end; task++) {
        const int64_t heads = task / c->tiles, tile = task % c->tiles;
        causal_clear(c, heads, tile * CAUSAL_KEYS,
                     min_int(CAUSAL_KEYS, c->shape->u - tile * CAUSAL_KEYS));
        for (int64_t block = 0, first, keys; block < c->blocks; block++) {
            causal_block b = causal_open(c, heads, block, &s);
            if (!causal_meets(&b, tile, &first, &keys))
                continue;
            b = causal_begin(c, heads, block, &s);
            causal_pair(c, &b, first, keys, &s);
        }
    }
}

static void causal_attention_backward(const qn_kernels *kernels, qn_team *team,
                                      const qn_causal_shape *shape,
                                      const qn_causal_operands *operands, void *workspace) {
    causal_context c = causal_of(kernels, shape, true);
    const int64_t tasks = shape->n * shape->key_heads;
    c.o = operands;
    c.workspace = workspace;
    c.wants_rows = c.wants_keys = true;
    if (tasks >= qn_team_size(team)) {
        qn_team_run(team, tasks, causal_heads_task, &c);
        return;
    }
    c.wants_keys = false;
    qn_team_run(team, tasks * c.blocks, causal_rows_task, &c);
    c.wants_keys = true;
    c.wants_rows = false;
    qn_team_run(team, tasks * c.tiles, causal_keys_task, &c);
}

#endif
