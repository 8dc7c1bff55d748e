/* How the CPU runs products with narrow sums (ops/round.h): in floats that are rounded after each
 * product, a row of sums at a time, so that compilers make vectors of the loops; with the same bits
 * on every instruction set. The order of products is that of the filter, then of channels; of a
 * weight's gradient that of samples, then of pixels. */
#include "device/cpu/cpu.h"
#include "ops/network/convolution.h"
#include "ops/round.h"
#include "ops/shared.h"
#include "tensor/number.h"

#include <string.h>

/* How a float is rounded: by whole bits, in the range where exponents have all of them; below it by
 * adding a number whose last bit is the least one. */
typedef struct narrowing {
    uint32_t half, mask;
    int shift;
    float least, magic, most;
} narrowing;

static float power(int exponent) {
    const uint32_t bits = (uint32_t)(exponent + 127) << 23;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static narrowing narrowing_of(const qn_chunked *how) {
    const int shift = 23 - how->fraction_bits;
    const int magic = how->least - how->fraction_bits + 23;
    const float ulp = power(how->top - how->fraction_bits);
    return (narrowing){.shift = shift,
                       .half = shift > 0 ? (UINT32_C(1) << (shift - 1)) - 1 : 0,
                       .mask = ~((UINT32_C(1) << shift) - 1),
                       .least = power(how->least),
                       .magic = 1.5f * power(magic),
                       .most = power(how->top) + (power(how->top) - ulp)};
}

static inline float narrow(const narrowing *n, float x) {
    uint32_t bits;
    float y;
    memcpy(&bits, &x, sizeof bits);
    bits += n->shift > 0 ? n->half + (bits >> n->shift & 1) : 0;
    bits &= n->mask;
    memcpy(&y, &bits, sizeof y);
    y = y > n->most ? n->most : y < -n->most ? -n->most : y;
    const float small = (x + n->magic) - n->magic;
    y = x < n->least && x > -n->least ? small : y;
    return x == x ? y : x;
}

/* Sums that grow side by side, and those of their chunks. */
typedef struct sums {
    const narrowing *how;
    int chunk, in_chunk;
    int64_t n;
    float *chunks, *totals; /* (n) */
} sums;

static void begin_sums(sums *s) {
    memset(s->chunks, 0, (size_t)s->n * sizeof(float));
    memset(s->totals, 0, (size_t)s->n * sizeof(float));
    s->in_chunk = 0;
}

static void end_chunk(sums *s) {
    for (int64_t i = 0; i < s->n && s->in_chunk > 0; i++) {
        s->totals[i] = narrow(s->how, s->totals[i] + s->chunks[i]);
        s->chunks[i] = 0;
    }
    s->in_chunk = 0;
}

static void add_products(sums *s, float a, const float *b) {
    const narrowing how = *s->how;
    float *chunks = s->chunks;
    for (int64_t i = 0; i < s->n; i++) {
        const float product = a * b[i];
        chunks[i] = narrow(&how, chunks[i] + product);
    }
    if (++s->in_chunk == s->chunk)
        end_chunk(s);
}

/* ---- calls ---- */

/* A product: its window (a linear layer is one of a pixel), its operands as floats, and per task
 * two rows of sums. */
typedef struct chunking {
    const qn_call *call;
    qn_convolution d;
    narrowing how;
    int chunk;
    const float *a, *b; /* b: as the loops read it */
    float *rows;        /* (threads, 2, longest row) */
    int64_t longest;
} chunking;

static int64_t filter_columns(const qn_convolution *d) {
    return d->r * d->s * (d->c / d->groups);
}

static int64_t largest(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static sums sums_of(const chunking *c, int thread, int64_t n) {
    float *row = c->rows + 2 * thread * c->longest;
    return (sums){&c->how, c->chunk, 0, n, row, row + c->longest};
}

static void store(const chunking *c, const float *row, int64_t n, int64_t first, int64_t step) {
    for (int64_t i = 0; i < n; i++)
        qn_number_set(c->call->outputs[0].dtype, c->call->out[0], first + i * step, (double)row[i]);
}

/* The input pixel that a place of the filter has below an output pixel; false: none. */
static bool find_pixel(const qn_convolution *d, int64_t p, int64_t q, int64_t r, int64_t s,
                       int64_t *h, int64_t *w) {
    *h = p * d->stride_h - d->pad_top + r * d->dilation_h;
    *w = q * d->stride_w - d->pad_left + s * d->dilation_w;
    return *h >= 0 && *h < d->h && *w >= 0 && *w < d->w;
}

/* The output pixel above which a place of the filter has an input pixel. */
static bool find_output(const qn_convolution *d, int64_t h, int64_t w, int64_t r, int64_t s,
                        int64_t *p, int64_t *q) {
    const int64_t y = h + d->pad_top - r * d->dilation_h, x = w + d->pad_left - s * d->dilation_w;
    *p = y / d->stride_h;
    *q = x / d->stride_w;
    return y >= 0 && x >= 0 && y % d->stride_h == 0 && x % d->stride_w == 0 && *p < d->p &&
           *q < d->q;
}

/* A task is a pixel of the output: rows over the filters of a group. b: (G, R, S, C / G, K / G). */
static void forward_task(void *context, int64_t begin, int64_t end, int thread) {
    const chunking *c = context;
    const qn_convolution *d = &c->d;
    const int64_t channels = d->c / d->groups, filters = d->k / d->groups;
    int64_t h, w;
    for (int64_t i = begin; i < end; i++) {
        const int64_t n = i / (d->p * d->q), p = i / d->q % d->p, q = i % d->q;
        for (int64_t g = 0; g < d->groups; g++) {
            sums s = sums_of(c, thread, filters);
            begin_sums(&s);
            for (int64_t rs = 0; rs < d->r * d->s; rs++) {
                if (!find_pixel(d, p, q, rs / d->s, rs % d->s, &h, &w))
                    continue;
                const float *x = c->a + ((n * d->h + h) * d->w + w) * d->c + g * channels;
                const float *b = c->b + ((g * d->r * d->s + rs) * channels) * filters;
                for (int64_t ch = 0; ch < channels; ch++)
                    add_products(&s, x[ch], b + ch * filters);
            }
            end_chunk(&s);
            store(c, s.totals, filters, i * d->k + g * filters, 1);
        }
    }
}

/* A task is a pixel of the input: rows over its channels of a group. b: the filter as it is. */
static void data_task(void *context, int64_t begin, int64_t end, int thread) {
    const chunking *c = context;
    const qn_convolution *d = &c->d;
    const int64_t channels = d->c / d->groups, filters = d->k / d->groups;
    int64_t p, q;
    for (int64_t i = begin; i < end; i++) {
        const int64_t n = i / (d->h * d->w), h = i / d->w % d->h, w = i % d->w;
        for (int64_t g = 0; g < d->groups; g++) {
            sums s = sums_of(c, thread, channels);
            begin_sums(&s);
            for (int64_t rs = 0; rs < d->r * d->s; rs++) {
                if (!find_output(d, h, w, rs / d->s, rs % d->s, &p, &q))
                    continue;
                const float *dy = c->a + ((n * d->p + p) * d->q + q) * d->k + g * filters;
                for (int64_t k = 0; k < filters; k++)
                    add_products(&s, dy[k],
                                 c->b + ((g * filters + k) * d->r * d->s + rs) * channels);
            }
            end_chunk(&s);
            store(c, s.totals, channels, i * d->c + g * channels, 1);
        }
    }
}

/* A task is a place of the filter in a channel: rows over the filters of its group. a: x, b: dy. */
static void filter_task(void *context, int64_t begin, int64_t end, int thread) {
    const chunking *c = context;
    const qn_convolution *d = &c->d;
    const int64_t channels = d->c / d->groups, filters = d->k / d->groups;
    int64_t h, w;
    for (int64_t i = begin; i < end; i++) {
        const int64_t place = i / d->c, channel = i % d->c, g = channel / channels;
        sums s = sums_of(c, thread, filters);
        begin_sums(&s);
        for (int64_t pixel = 0; pixel < d->n * d->p * d->q; pixel++) {
            const int64_t n = pixel / (d->p * d->q);
            if (!find_pixel(d, pixel / d->q % d->p, pixel % d->q, place / d->s, place % d->s, &h,
                            &w))
                continue;
            add_products(&s, c->a[((n * d->h + h) * d->w + w) * d->c + channel],
                         c->b + pixel * d->k + g * filters);
        }
        end_chunk(&s);
        store(c, s.totals, filters,
              (g * filters * d->r * d->s + place) * channels + channel % channels,
              d->r * d->s * channels);
    }
}

/* ---- setting up ---- */

/* A linear layer as a convolution of a pixel. */
static qn_convolution pixel(int64_t n, int64_t c, int64_t k) {
    return (qn_convolution){.n = n,
                            .h = 1,
                            .w = 1,
                            .c = c,
                            .k = k,
                            .r = 1,
                            .s = 1,
                            .p = 1,
                            .q = 1,
                            .stride_h = 1,
                            .stride_w = 1,
                            .dilation_h = 1,
                            .dilation_w = 1,
                            .groups = 1};
}

static size_t workspace_of(const qn_convolution *d, int64_t a, int64_t b, int n_threads) {
    const int64_t longest = largest(d->k, d->c) + 16;
    return (size_t)(a + b + 2 * longest * (n_threads > 0 ? n_threads : 1)) * sizeof(float);
}

/* Numbers as floats, which they are but in checks. */
static const float *floats_of(const qn_call *call, int input, float *room) {
    const int64_t n = qn_shape_count(call->inputs[input].shape);
    const int64_t columns = qn_shape_columns(call->inputs[input].shape);
    const int64_t stride = qn_call_in_stride(call, input);
    for (int64_t i = 0; i < n; i++)
        room[i] = (float)qn_number_get(call->inputs[input].dtype, call->in[input],
                                       i / columns * stride + i % columns);
    return room;
}

/* Filters side by side in each group. */
static const float *turn_filter(const qn_call *call, const qn_convolution *d, float *room) {
    const int64_t columns = filter_columns(d), filters = d->k / d->groups;
    for (int64_t k = 0; k < d->k; k++) {
        for (int64_t i = 0; i < columns; i++)
            room[(k / filters * columns + i) * filters + k % filters] =
                (float)qn_number_get(call->inputs[1].dtype, call->in[1], k * columns + i);
    }
    return room;
}

typedef void task(void *context, int64_t begin, int64_t end, int thread);

static void run(const qn_call *call, const qn_convolution *d, task *work, int64_t n_tasks,
                bool is_turned) {
    const qn_chunked *how = qn_chunked_of(call->node->op, call->attributes);
    float *room = call->workspace;
    const int64_t n_a = qn_shape_count(call->inputs[0].shape);
    const int64_t n_b = qn_shape_count(call->inputs[1].shape);
    chunking c = {.call = call,
                  .d = *d,
                  .how = narrowing_of(how),
                  .chunk = how->chunk,
                  .rows = room + n_a + n_b,
                  .longest = largest(d->k, d->c) + 16};
    c.a = floats_of(call, 0, room);
    c.b = is_turned ? turn_filter(call, d, room + n_a) : floats_of(call, 1, room + n_a);
    qn_team_run(call->team, n_tasks, work, &c);
}

static void linear_run(const qn_call *call) {
    const qn_shape x = call->inputs[0].shape, w = call->inputs[1].shape;
    const qn_convolution d = pixel(x.dims[0], x.dims[1], w.dims[0]);
    run(call, &d, forward_task, d.n, true);
}

static void linear_data_run(const qn_call *call) {
    const qn_shape dy = call->inputs[0].shape, w = call->inputs[1].shape;
    const qn_convolution d = pixel(dy.dims[0], w.dims[1], dy.dims[1]);
    run(call, &d, data_task, d.n, false);
}

static void linear_weight_run(const qn_call *call) {
    const qn_shape x = call->inputs[0].shape, dy = call->inputs[1].shape;
    const qn_convolution d = pixel(x.dims[0], x.dims[1], dy.dims[1]);
    run(call, &d, filter_task, d.c, false);
}

static void conv2d_run(const qn_call *call) {
    const qn_convolution d = qn_conv2d_of(call->attributes, call->inputs);
    run(call, &d, forward_task, d.n * d.p * d.q, true);
}

static void conv2d_data_run(const qn_call *call) {
    const qn_convolution *d = &((const qn_conv2d_backward_attributes *)call->attributes)->shape;
    run(call, d, data_task, d->n * d->h * d->w, false);
}

static void conv2d_filter_run(const qn_call *call) {
    const qn_convolution *d = &((const qn_conv2d_backward_attributes *)call->attributes)->shape;
    run(call, d, filter_task, d->r * d->s * d->c, false);
}

/* By the extents of the operands and the result alone: rows are over channels or filters. */
static size_t chunked_workspace(const qn_kernels *kernels, const void *attributes,
                                const qn_tensor *inputs, const qn_tensor *outputs, int n_threads) {
    qn_convolution d = {0};
    (void)kernels;
    (void)attributes;
    d.c = largest(qn_shape_columns(inputs[0].shape), qn_shape_columns(inputs[1].shape));
    d.k = largest(qn_shape_columns(outputs[0].shape),
                  largest(inputs[1].shape.dims[0], outputs[0].shape.dims[0]));
    return workspace_of(&d, qn_shape_count(inputs[0].shape), qn_shape_count(inputs[1].shape),
                        n_threads);
}

#define ROW(op, function)                                                                          \
    {                                                                                              \
        &op, .types = QN_TYPES(QN_F32) | QN_TYPES(QN_F64), .run = function,                        \
             .workspace = chunked_workspace                                                        \
    }

const qn_cpu_operator qn_cpu_chunked[] = {
    ROW(qn_op_chunked_linear, linear_run),
    ROW(qn_op_chunked_linear_backward_data, linear_data_run),
    ROW(qn_op_chunked_linear_backward_weight, linear_weight_run),
    ROW(qn_op_chunked_conv2d, conv2d_run),
    ROW(qn_op_chunked_conv2d_backward_data, conv2d_data_run),
    ROW(qn_op_chunked_conv2d_backward_filter, conv2d_filter_run),
    {0},
};
