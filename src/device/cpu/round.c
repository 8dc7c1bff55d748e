/* How the CPU rounds to formats (ops/round.h): in doubles, a number at a time; identically on every
 * instruction set and in any number of threads. */
#include "ops/round.h"
#include "device/cpu/cpu.h"
#include "ops/ops.h"
#include "ops/shared.h"
#include "tensor/number.h"

#include <math.h>
#include <string.h>

enum { AT_ONCE = 4096, AT_MOST = 256 }; /* numbers of a task, a multiple of those converted */

/* Random numbers of elements that follow each other: four words are made at once. */
typedef struct chance {
    qn_rng rng;
    uint64_t block;
    uint32_t words[4];
    bool is_made;
} chance;

static double draw(chance *c, uint64_t index) {
    if (!c->is_made || c->block != index / 4) {
        c->block = index / 4;
        c->is_made = true;
        qn_rng_block(c->rng, c->block, c->words);
    }
    return (double)qn_rng_uniform(c->words[index % 4]);
}

typedef struct rounding {
    const qn_call *call;
    const qn_format *format;
    qn_rng rng;
    double *groups;               /* their scales */
    int64_t strides[QN_MAX_RANK]; /* of the group's number, by axis; 0: no axis of groups */
    int64_t n_groups, n_parts;
} rounding;

/* 2^exponent, of a double with all its bits. */
static double power_of_two(int exponent) {
    const uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* Of what is below 2^51. */
static double nearest(double x) {
    return (x + 0x1.8p52) - 0x1.8p52;
}

static double round_whole(const qn_format *f, double x, chance *c, uint64_t index) {
    if (!(fabs(x) < 0x1p50))
        return x;
    if (f->rounding == QN_ROUND_EVEN)
        return nearest(x);
    const double cut = (double)(int64_t)x, rest = fabs(x - cut);
    const bool is_up = f->rounding == QN_ROUND_AWAY ? rest >= 0.5 : rest > draw(c, index);
    return cut + (is_up ? copysign(1, x) : 0);
}

static double clamp(double x, double limit) {
    return x > limit ? limit : x < -limit ? -limit : x;
}

static double round_float(const qn_format *f, double x, chance *c, uint64_t index) {
    const int least = f->top_exponent - (1 << f->exponent_bits) + 2;
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    exponent = exponent < least ? least : exponent;
    const double y = round_whole(f, x * power_of_two(f->fraction_bits - exponent), c, index);
    return clamp(y * power_of_two(exponent - f->fraction_bits),
                 (2 - power_of_two(-f->fraction_bits)) * power_of_two(f->top_exponent));
}

/* What is below 2^fine_bits has a grid of 1, the rest one of that. */
static double round_fine(const qn_format *f, double x, chance *c, uint64_t index) {
    const int bits = fabs(x) < power_of_two(f->fine_bits) ? 0 : f->fine_bits;
    const double y = round_whole(f, x * power_of_two(-bits), c, index) * power_of_two(bits);
    return f->limit > 0 ? clamp(y, f->limit) : y;
}

static double round_one(const qn_format *f, double x, chance *c, uint64_t index) {
    if (isnan(x) || x == 0)
        return x;
    if (f->exponent_bits > 0)
        return round_float(f, clamp(x, 0x1p200), c, index);
    if (f->fine_bits > 0)
        return round_fine(f, x, c, index);
    const double y = round_whole(f, x * power_of_two(f->fraction_bits), c, index) *
                     power_of_two(-f->fraction_bits);
    return f->limit > 0 ? clamp(y, f->limit) : y;
}

/* ---- scales ---- */

static double number_at(const qn_call *call, int64_t i) {
    return call->inputs[0].dtype == QN_F32 ? (double)((const float *)call->in[0])[i]
                                           : qn_number_get(call->inputs[0].dtype, call->in[0], i);
}

/* Where a loop over elements is: its row, whose scale and group it knows. */
typedef struct place {
    double scale;
    int64_t left, group, step; /* elements of the row that are left; of groups */
} place;

static double scale_of(const qn_call *call, int64_t i) {
    if (call->node->n_inputs < 2 || call->inputs[1].dtype == QN_NONE)
        return 1;
    const qn_shape x = call->inputs[0].shape;
    const int64_t index =
        call->inputs[1].shape.rank > 0 ? i / qn_shape_count_range(x, 1, x.rank) : 0;
    const double scale = qn_number_get(call->inputs[1].dtype, call->in[1], index);
    return call->inputs[1].dtype == QN_I32 ? ldexp(1, (int)scale) : scale;
}

static int64_t group_of(const rounding *r, int64_t i) {
    const qn_shape x = r->call->inputs[0].shape;
    int64_t group = 0;
    for (int axis = x.rank - 1; axis >= 0; axis--) {
        group += i % x.dims[axis] * r->strides[axis];
        i /= x.dims[axis];
    }
    return group;
}

/* The place of element i, the one behind the last that it was called for, if it was. */
static void move_to(const rounding *r, place *at, int64_t i) {
    const qn_shape x = r->call->inputs[0].shape;
    at->group += at->step;
    if (at->left-- > 0)
        return;
    const int64_t columns = x.rank > 1 ? x.dims[x.rank - 1] : 1;
    at->left = columns - i % columns - 1;
    at->scale = scale_of(r->call, i);
    at->group = r->n_groups > 0 ? group_of(r, i) : 0;
    at->step = r->n_groups > 0 && x.rank > 1 ? r->strides[x.rank - 1] : 0;
}

static void number_groups(rounding *r) {
    const qn_shape x = r->call->inputs[0].shape;
    r->n_groups = r->format->group_axes ? 1 : 0;
    for (int axis = x.rank - 1; axis >= 0 && r->n_groups > 0; axis--) {
        const bool is_axis = r->format->group_axes >> axis & 1;
        r->strides[axis] = is_axis ? r->n_groups : 0;
        r->n_groups *= is_axis ? x.dims[axis] : 1;
    }
}

/* The least 2^k or 1.5 * 2^k that is not below x; of 0 it is 1. */
static double group_scale(double x) {
    int exponent;
    const double part = frexp(x, &exponent);
    if (!(x > 0))
        return 1;
    return part == 0.5 ? x : ldexp(part <= 0.75 ? 0.75 : 1, exponent);
}

/* Groups of a range of the first axis, which groups must have, or of all. */
static void measure_task(void *context, int64_t begin, int64_t end, int thread) {
    const rounding *r = context;
    const int64_t inner = qn_call_count(r->call) / r->n_parts;
    place at = {0};
    (void)thread;
    for (int64_t i = begin * inner; i < end * inner; i++) {
        move_to(r, &at, i);
        const double x = fabs(number_at(r->call, i) / at.scale);
        double *most = &r->groups[at.group];
        *most = x > *most && x < (double)INFINITY ? x : *most;
    }
}

static void measure_groups(rounding *r) {
    for (int64_t g = 0; g < r->n_groups; g++)
        r->groups[g] = 0;
    r->n_parts = r->format->group_axes & 1 ? r->call->inputs[0].shape.dims[0] : 1;
    if (r->n_groups > 0)
        qn_team_run(r->call->team, r->n_parts, measure_task, r);
    for (int64_t g = 0; g < r->n_groups; g++)
        r->groups[g] = group_scale(r->groups[g]);
}

/* ---- running ---- */

static void put(const qn_call *call, int64_t i, double y) {
    switch (call->outputs[0].dtype) {
    case QN_F32:
        ((float *)call->out[0])[i] = (float)y;
        break;
    case QN_I16:
        ((int16_t *)call->out[0])[i] = (int16_t)(isnan(y) ? 0 : clamp(y, INT16_MAX));
        break;
    default:
        qn_number_set(call->outputs[0].dtype, call->out[0], i, y);
    }
}

/* Element by element, which is how the numbers of bf16 with few bits are as well. */
static void round_task(void *context, int64_t begin, int64_t end, int thread) {
    const rounding *r = context;
    const qn_call *call = r->call;
    const qn_round_attributes *a = call->attributes;
    const int64_t n = qn_call_count(call), last = end * AT_ONCE < n ? end * AT_ONCE : n;
    const bool is_half = call->outputs[0].dtype == QN_BF16;
    chance c = {.rng = r->rng};
    place at = {0};
    float few[AT_MOST];
    (void)thread;
    for (int64_t i = begin * AT_ONCE; i < last; i++) {
        move_to(r, &at, i);
        const double group = r->n_groups > 0 ? r->groups[at.group] : 1;
        const double x = number_at(call, i) / at.scale / group;
        const double y = round_one(r->format, x, &c, (uint64_t)(a->first + i)) * group;
        if (!is_half) {
            put(call, i, y);
            continue;
        }
        few[i % AT_MOST] = (float)y;
        if ((i + 1) % AT_MOST == 0 || i + 1 == last)
            qn_numbers_convert(QN_F32, few, QN_BF16,
                               (uint16_t *)call->out[0] + i / AT_MOST * AT_MOST, 0,
                               i % AT_MOST + 1);
    }
}

static void round_run(const qn_call *call) {
    const qn_round_attributes *a = call->attributes;
    const uint64_t key = a->key ? (uint64_t)a->key : call->node->key;
    rounding r = {.call = call,
                  .format = &a->format,
                  .rng = qn_rng_make(call->seed, key, call->step),
                  .groups = call->workspace};
    number_groups(&r);
    measure_groups(&r);
    qn_team_run(call->team, (qn_call_count(call) + AT_ONCE - 1) / AT_ONCE, round_task, &r);
}

static size_t round_workspace(const qn_kernels *kernels, const void *attributes,
                              const qn_tensor *inputs, const qn_tensor *outputs, int n_threads) {
    const qn_round_attributes *a = attributes;
    const qn_shape x = inputs[0].shape;
    int64_t n = a->format.group_axes ? 1 : 0;
    (void)kernels;
    (void)outputs;
    (void)n_threads;
    for (int axis = 0; axis < x.rank; axis++)
        n *= a->format.group_axes >> axis & 1 ? x.dims[axis] : 1;
    return (size_t)n * sizeof(double);
}

static void settle_task(void *context, int64_t begin, int64_t end, int thread) {
    const rounding *r = context;
    const int64_t n = qn_call_count(r->call), last = end * AT_ONCE < n ? end * AT_ONCE : n;
    chance c = {.rng = r->rng};
    place at = {0};
    (void)thread;
    for (int64_t i = begin * AT_ONCE; i < last; i++) {
        move_to(r, &at, i);
        put(r->call, i,
            round_one(r->format, number_at(r->call, i) / at.scale, &c, (uint64_t)i) * at.scale);
    }
}

static void settle_run(const qn_call *call) {
    const qn_round_attributes *a = call->attributes;
    rounding r = {.call = call,
                  .format = &a->format,
                  .rng = qn_rng_make(call->seed, call->node->key, call->step)};
    qn_team_run(call->team, (qn_call_count(call) + AT_ONCE - 1) / AT_ONCE, settle_task, &r);
}

/* ---- widths that adapt: of doubles too ---- */

typedef struct part {
    double most, sum, rounded;
} part;

typedef struct adapting {
    const qn_call *call;
    part *parts;
    int bits, exponent;
    double factor, limit; /* of numbers, as both say */
} adapting;

static void set_factor(adapting *a) {
    a->factor = ldexp(1, -a->exponent);
    a->limit = ldexp(1, a->bits) - 1;
}

static double whole_of(const adapting *a, double x) {
    return x == x ? nearest(clamp(x * a->factor, a->limit)) : 0;
}

static void add_up_task(void *context, int64_t begin, int64_t end, int thread) {
    const adapting *a = context;
    const int64_t n = qn_call_count(a->call);
    (void)thread;
    for (int64_t p = begin; p < end; p++) {
        part sums = {0};
        for (int64_t i = p * AT_ONCE; i < n && i < (p + 1) * AT_ONCE; i++) {
            const double x = fabs(number_at(a->call, i));
            if (!(x < (double)INFINITY))
                continue;
            sums.most = x > sums.most ? x : sums.most;
            sums.sum += x;
            sums.rounded += whole_of(a, x);
        }
        a->parts[p] = sums;
    }
}

static part measure(const adapting *a) {
    const int64_t n = (qn_call_count(a->call) + AT_ONCE - 1) / AT_ONCE;
    part all = {0};
    qn_team_run(a->call->team, n, add_up_task, (void *)a);
    for (int64_t p = 0; p < n; p++) {
        all.most = a->parts[p].most > all.most ? a->parts[p].most : all.most;
        all.sum += a->parts[p].sum;
        all.rounded += ldexp(a->parts[p].rounded, a->exponent);
    }
    return all;
}

/* The exponent of the last bit by which the largest number has so many. */
static int exponent_for(double most, int bits) {
    int exponent;
    const double half = frexp(most / (ldexp(1, bits) - 1), &exponent);
    return most > 0 ? exponent - (half == 0.5) : -bits;
}

/* Width and exponent by what is lost; returns the loss. */
static double fit(adapting *a, double mean[1]) {
    const qn_adapt_attributes *how = a->call->attributes;
    set_factor(a);
    const double most = measure(a).most;
    for (;;) {
        a->exponent = exponent_for(most, a->bits);
        set_factor(a);
        const part now = measure(a);
        const double loss = now.sum > 0 ? log2(fabs(now.sum - now.rounded) / now.sum + 1) : 0;
        if (!(loss > how->most_loss) || a->bits + 8 > 15)
            return loss;
        a->bits += 8;
        *mean -= 8;
    }
}

/* For how many steps both stay: fewer where exponents move or much is lost. */
static double interval(const qn_adapt_attributes *how, double moved, double loss) {
    const double rate = fmax(how->moving * fabs(moved), 100 * loss * loss);
    const double steps = rate > 0 ? round(0.1 / rate - 2) : how->longest;
    return steps < 1 ? 1 : steps > how->longest ? how->longest : steps;
}

static void adapt_task(void *context, int64_t begin, int64_t end, int thread) {
    const adapting *a = context;
    const int64_t n = qn_call_count(a->call);
    (void)thread;
    for (int64_t p = begin; p < end; p++) {
        double most = 0;
        for (int64_t i = p * AT_ONCE; i < n && i < (p + 1) * AT_ONCE; i++) {
            const double x = number_at(a->call, i), size = fabs(x);
            most = size > most ? size : most;
            ((int16_t *)a->call->out[0])[i] = (int16_t)whole_of(a, x);
        }
        a->parts[p].most = most;
    }
}

/* Whether the exponent that was taken cuts the largest number, or leaves two of the bits unused. */
static bool is_outgrown(const adapting *a) {
    const int64_t n = (qn_call_count(a->call) + AT_ONCE - 1) / AT_ONCE;
    double most = 0;
    for (int64_t p = 0; p < n; p++)
        most = a->parts[p].most > most ? a->parts[p].most : most;
    const double whole = most * a->factor;
    return whole > a->limit + 0.5 || (most > 0 && whole < a->limit / 4);
}

static void adapt_run(const qn_call *call) {
    const qn_adapt_attributes *how = call->attributes;
    const qn_dtype real = call->inputs[1].dtype;
    double kept[QN_ADAPTED_COUNT];
    for (int i = 0; i < QN_ADAPTED_COUNT; i++)
        kept[i] = qn_number_get(real, call->in[1], i);
    const bool is_first = kept[QN_ADAPTED_STEPS] <= 0;
    adapting a = {call,
                  call->workspace,
                  is_first ? how->least_bits : (int)kept[QN_ADAPTED_BITS],
                  (int)kept[QN_ADAPTED_EXPONENT],
                  0,
                  0};
    set_factor(&a);
    if (is_first || !(kept[QN_ADAPTED_LEFT] > 0)) {
        const double loss = fit(&a, &kept[QN_ADAPTED_MEAN]);
        kept[QN_ADAPTED_MEAN] =
            is_first ? a.exponent
                     : how->moving * a.exponent + (1 - how->moving) * kept[QN_ADAPTED_MEAN];
        kept[QN_ADAPTED_LEFT] = kept[QN_ADAPTED_STEPS] < how->first_steps
                                    ? 1
                                    : interval(how, a.exponent - kept[QN_ADAPTED_MEAN], loss);
        kept[QN_ADAPTED_MEASURED] += kept[QN_ADAPTED_MEASURED] < 0x1p23;
    }
    kept[QN_ADAPTED_BITS] = a.bits;
    kept[QN_ADAPTED_EXPONENT] = a.exponent;
    qn_team_run(call->team, (qn_call_count(call) + AT_ONCE - 1) / AT_ONCE, adapt_task, &a);
    kept[QN_ADAPTED_LEFT] = is_outgrown(&a) ? 0 : kept[QN_ADAPTED_LEFT] - 1;
    kept[QN_ADAPTED_STEPS] += kept[QN_ADAPTED_STEPS] < 0x1p23;
    *(int32_t *)call->out[1] = a.exponent;
    for (int i = 0; i < QN_ADAPTED_COUNT; i++)
        qn_number_set(real, call->out[2], i, kept[i]);
}

static size_t adapt_workspace(const qn_kernels *kernels, const void *attributes,
                              const qn_tensor *inputs, const qn_tensor *outputs, int n_threads) {
    (void)kernels;
    (void)attributes;
    (void)outputs;
    (void)n_threads;
    return (size_t)((qn_shape_count(inputs[0].shape) + AT_ONCE - 1) / AT_ONCE) * sizeof(part);
}

const qn_cpu_operator qn_cpu_round[] = {
    {&qn_op_round_numbers, .types = QN_TYPES_ANY, .run = round_run, .workspace = round_workspace},
    {&qn_op_settle_numbers, .types = QN_TYPES_ANY, .run = settle_run},
    {&qn_op_adapt_numbers, .types = QN_TYPES_ANY, .run = adapt_run, .workspace = adapt_workspace},
    {0},
};
