/* How the CPU runs quantisation: in doubles, one number at a time, or, for what training does most,
 * by kernels; identically on every instruction set. */
#include "ops/quantise.h"
#include "device/cpu/cpu.h"
#include "ops/shared.h"
#include "tensor/number.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { AT_ONCE = 4096 }; /* numbers of a task */

/* Numbers that share a scale: that of i is i / inner % n of the scale's n. */
typedef struct along {
    int64_t n, inner;
} along;

static along along_of(qn_shape x, int axis) {
    if (axis < 0)
        return (along){1, 1};
    return (along){x.dims[axis], qn_shape_count_range(x, axis + 1, x.rank)};
}

/* The scale as a factor, by which numbers are divided or multiplied. */
static double factor_of(const qn_call *call, int64_t index) {
    const qn_dtype dtype = call->inputs[1].dtype;
    const double scale = qn_number_get(dtype, call->in[1], index);
    return dtype == QN_I32 ? ldexp(1, (int)scale) : scale;
}

static double zero_of(const qn_call *call, int64_t index) {
    const bool has_zero = call->node->n_inputs > 2 && call->inputs[2].dtype != QN_NONE;
    return has_zero ? qn_number_get(call->inputs[2].dtype, call->in[2], index) : 0;
}

/* ---- rounding ---- */

/* Towards 0, and then away from it where a number in [0, 1) is below what was cut off; at a half
 * for a number of exactly that. */
static double round_above(double x, double limit, bool is_half_up) {
    const double cut = fabs(x) < 0x1p62 ? (double)(int64_t)x : x, rest = fabs(x - cut);
    return cut + (rest > limit || (is_half_up && rest == limit) ? copysign(1, x) : 0);
}

/* The low half of the bits that a shift cuts off is the random number for the high half (Wang,
 * Rasoulinezhad, Leong and So, "NITI", 2020, section 4.3, and its authors' code). */
static double round_pseudo(double x, int shift) {
    if (shift <= 0)
        return ldexp(x, -shift);
    if (shift > 31)
        return 0;
    const int64_t number = (int64_t)x, cut = number / (INT64_C(1) << shift);
    const int64_t rest = llabs(number - cut * (INT64_C(1) << shift));
    const int64_t high = rest >> (shift >> 1), low = rest - (high << (shift >> 1));
    return (double)(cut + (high > low << (shift & 1) ? number < 0 ? -1 : 1 : 0));
}

typedef struct quantising {
    const qn_call *call;
    qn_rng rng;
    along along;
} quantising;

/* Random words of elements that follow each other: four are made at once. */
typedef struct words {
    uint64_t block;
    uint32_t of[4];
    bool are_made;
} words;

static double draw(const quantising *q, words *w, uint64_t index) {
    if (!w->are_made || w->block != index / 4) {
        *w = (words){.block = index / 4, .are_made = true};
        qn_rng_block(q->rng, w->block, w->of);
    }
    return (double)qn_rng_uniform(w->of[index % 4]);
}

static double round_number(const quantising *q, words *w, int64_t i, double scaled, double x,
                           int64_t index) {
    const qn_quantise_attributes *a = q->call->attributes;
    switch ((qn_rounding)a->rounding) {
    case QN_ROUND_EVEN:
        return rint(scaled);
    case QN_ROUND_AWAY:
        return round_above(scaled, 0.5, true);
    case QN_ROUND_STOCHASTIC:
        return round_above(scaled, draw(q, w, (uint64_t)(a->first + i)), false);
    case QN_ROUND_PSEUDO_STOCHASTIC:
        return round_pseudo(x, (int)qn_number_get(QN_I32, q->call->in[1], index));
    }
    return scaled;
}

/* The quotient of floats is a float, as ONNX has it. */
static double divide(const qn_call *call, double x, double scale) {
    return call->inputs[1].dtype == QN_F32 ? (double)((float)x / (float)scale) : x / scale;
}

static void quantise_one(const quantising *q, words *w, int64_t i) {
    const qn_call *call = q->call;
    const qn_quantise_attributes *a = call->attributes;
    const qn_dtype to = call->outputs[0].dtype;
    const int64_t index = i / q->along.inner % q->along.n;
    const double x = qn_number_get(call->inputs[0].dtype, call->in[0], i);
    const double scaled = divide(call, x, factor_of(call, index));
    if (qn_dtype_is_float(to)) {
        qn_number_set(to, call->out[0], i, scaled);
        return;
    }
    const double least = qn_quantise_least(to, a->is_symmetric), most = qn_quantise_largest(to);
    double y = zero_of(call, index);
    if (!isnan(scaled))
        y += round_number(q, w, i, scaled, x, index);
    qn_number_set(to, call->out[0], i, y < least ? least : y > most ? most : y);
}

/* ---- kernels, where there is one scale ---- */

static const qn_integer_rows *rows_of(const qn_call *call) {
    return &qn_integer_kernels_get(call->kernels->isa)->rows;
}

static bool round_fast(const quantising *q, int64_t begin, int64_t end) {
    const qn_call *call = q->call;
    const qn_quantise_attributes *a = call->attributes;
    if (a->axis >= 0 || !a->is_symmetric || a->rounding != QN_ROUND_AWAY ||
        call->inputs[0].dtype != QN_F32 || call->inputs[1].dtype != QN_I32 ||
        call->outputs[0].dtype != QN_I8 || call->node->n_inputs > 2 ||
        abs(*(const int32_t *)call->in[1]) > 120)
        return false;
    rows_of(call)->round_away(end - begin, (const float *)call->in[0] + begin,
                              (float)(1 / factor_of(call, 0)), (int8_t *)call->out[0] + begin);
    return true;
}

/* Numbers [begin, end) of a symmetric range; false: the slow way. */
static bool shift_fast(const quantising *q, int64_t begin, int64_t end) {
    const qn_call *call = q->call;
    const qn_quantise_attributes *a = call->attributes;
    const bool is_pseudo = a->rounding == QN_ROUND_PSEUDO_STOCHASTIC;
    if (a->axis >= 0 || !a->is_symmetric || call->inputs[0].dtype != QN_I32 ||
        call->inputs[1].dtype != QN_I32 || call->outputs[0].dtype != QN_I8 ||
        call->node->n_inputs > 2 || (!is_pseudo && a->rounding != QN_ROUND_AWAY))
        return false;
    const qn_shift shift = {*(const int32_t *)call->in[1], is_pseudo};
    if (shift.bits < 0 || shift.bits > 30)
        return false;
    rows_of(call)->shift(end - begin, (const int32_t *)call->in[0] + begin, shift,
                         (int8_t *)call->out[0] + begin);
    return true;
}

/* The nearest whole number, of two the even one; of what is below 2^51. */
static double nearest(double x) {
    return (x + 0x1.8p52) - 0x1.8p52;
}

/* Floats with one scale to whole numbers of a symmetric range or with a zero point. */
static bool round_floats(const quantising *q, words *w, int64_t begin, int64_t end) {
    const qn_call *call = q->call;
    const qn_quantise_attributes *a = call->attributes;
    const qn_dtype to = call->outputs[0].dtype;
    if (a->axis >= 0 || call->inputs[0].dtype != QN_F32 || (to != QN_I8 && to != QN_I16) ||
        (a->rounding != QN_ROUND_EVEN && a->rounding != QN_ROUND_STOCHASTIC))
        return false;
    const bool is_even = a->rounding == QN_ROUND_EVEN, is_byte = to == QN_I8;
    const float *x = call->in[0];
    const double factor = factor_of(call, 0), zero = zero_of(call, 0);
    const double least = qn_quantise_least(to, a->is_symmetric), most = qn_quantise_largest(to);
    const double beyond = 0x1p50;
    for (int64_t i = begin; i < end; i++) {
        double y = divide(call, (double)x[i], factor);
        y = y > beyond ? beyond : y < -beyond ? -beyond : y == y ? y : 0;
        y = is_even ? nearest(y) : round_above(y, draw(q, w, (uint64_t)(a->first + i)), false);
        y += zero;
        y = y < least ? least : y > most ? most : y;
        if (is_byte)
            ((int8_t *)call->out[0])[i] = (int8_t)y;
        else
            ((int16_t *)call->out[0])[i] = (int16_t)y;
    }
    return true;
}

/* Numbers [begin, end) by one of the loops above; false: there is none for them. */
static bool quantise_fast(const quantising *q, int64_t begin, int64_t end) {
    const qn_call *call = q->call;
    const qn_quantise_attributes *a = call->attributes;
    const qn_dtype to = call->outputs[0].dtype;
    if (shift_fast(q, begin, end) || round_fast(q, begin, end))
        return true;
    if (a->axis >= 0 || a->rounding != QN_ROUND_EVEN || call->inputs[1].dtype != QN_F32 ||
        (to != QN_I8 && to != QN_U8))
        return false;
    const float *x = (const float *)call->in[0] + begin;
    const float least = (float)qn_quantise_least(to, a->is_symmetric);
    const float most = (float)qn_quantise_largest(to);
    const float scale = (float)factor_of(call, 0), zero = (float)zero_of(call, 0);
    rows_of(call)->round_even(end - begin, x, scale, zero, least, most,
                              (int8_t *)call->out[0] + begin);
    return true;
}

static void quantise_task(void *context, int64_t begin, int64_t end, int thread) {
    const quantising *q = context;
    const int64_t n = qn_call_count(q->call), last = end * AT_ONCE;
    words w = {0};
    (void)thread;
    if (quantise_fast(q, begin * AT_ONCE, last < n ? last : n) ||
        round_floats(q, &w, begin * AT_ONCE, last < n ? last : n))
        return;
    for (int64_t i = begin * AT_ONCE; i < last && i < n; i++)
        quantise_one(q, &w, i);
}

static int64_t count_tasks(int64_t n) {
    return (n + AT_ONCE - 1) / AT_ONCE;
}

static void quantise_run(const qn_call *call) {
    const qn_quantise_attributes *a = call->attributes;
    quantising q = {.call = call,
                    .rng = qn_rng_make(call->seed, qn_quantise_key(call->node), call->step),
                    .along = along_of(call->inputs[0].shape, a->axis)};
    qn_team_run(call->team, count_tasks(qn_call_count(call)), quantise_task, &q);
}

/* ---- dequantise ---- */

/* Bytes by one factor. */
static bool dequantise_fast(const qn_call *call, int64_t begin, int64_t end) {
    const qn_quantise_attributes *a = call->attributes;
    if (a->axis >= 0 || call->inputs[0].dtype != QN_I8 || call->outputs[0].dtype != QN_F32 ||
        call->node->n_inputs > 2)
        return false;
    rows_of(call)->widen(end - begin, (const int8_t *)call->in[0] + begin, factor_of(call, 0),
                         (float *)call->out[0] + begin);
    return true;
}

/* Any numbers that floats hold, by one factor. */
static bool dequantise_floats(const qn_call *call, int64_t begin, int64_t end) {
    const qn_quantise_attributes *a = call->attributes;
    if (a->axis >= 0 || call->outputs[0].dtype != QN_F32 || call->inputs[0].dtype == QN_I32)
        return false;
    float *y = call->out[0];
    const double factor = factor_of(call, 0), zero = zero_of(call, 0);
    qn_numbers_convert(call->inputs[0].dtype, call->in[0], QN_F32, y, begin, end);
    for (int64_t i = begin; i < end; i++)
        y[i] = (float)(((double)y[i] - zero) * factor);
    return true;
}

static void dequantise_task(void *context, int64_t begin, int64_t end, int thread) {
    const quantising *q = context;
    const qn_call *call = q->call;
    const int64_t n = qn_call_count(call), last = end * AT_ONCE;
    (void)thread;
    if (dequantise_fast(call, begin * AT_ONCE, last < n ? last : n) ||
        dequantise_floats(call, begin * AT_ONCE, last < n ? last : n))
        return;
    for (int64_t i = begin * AT_ONCE; i < last && i < n; i++) {
        const int64_t index = i / q->along.inner % q->along.n;
        const double number = qn_number_get(call->inputs[0].dtype, call->in[0], i);
        qn_number_set(call->outputs[0].dtype, call->out[0], i,
                      (number - zero_of(call, index)) * factor_of(call, index));
    }
}

static void dequantise_run(const qn_call *call) {
    const qn_quantise_attributes *a = call->attributes;
    quantising q = {.call = call, .along = along_of(call->inputs[0].shape, a->axis)};
    qn_team_run(call->team, count_tasks(qn_call_count(call)), dequantise_task, &q);
}

/* ---- scales ---- */

/* The least and the largest number, 0 among them; NaNs are passed over, and what is beyond floats
 * counts as the largest of them. */
typedef struct range {
    double least, most;
} range;

static range join(range r, double x) {
    const double number = x > (double)FLT_MAX    ? (double)FLT_MAX
                          : x < -(double)FLT_MAX ? -(double)FLT_MAX
                                                 : x;
    r.least = number < r.least ? number : r.least;
    r.most = number > r.most ? number : r.most;
    return r;
}

/* Of numbers that lie together; of I32 only the magnitude counts. */
static range range_of(const qn_integer_rows *rows, qn_dtype dtype, const void *x, int64_t begin,
                      int64_t end) {
    float low, high;
    range r = {0};
    if (dtype == QN_I32)
        return (range){0, rows->largest(end - begin, (const int32_t *)x + begin)};
    if (dtype == QN_F32) {
        rows->range(end - begin, (const float *)x + begin, &low, &high);
        return join(join(r, (double)low), (double)high);
    }
    for (int64_t i = begin; i < end; i++)
        r = join(r, qn_number_get(dtype, x, i));
    return r;
}

typedef struct measuring {
    const qn_call *call;
    along along;
    range *parts; /* of tasks where there is one scale, else of scales */
} measuring;

static void measure_part(void *context, int64_t begin, int64_t end, int thread) {
    const measuring *m = context;
    const qn_tensor x = m->call->inputs[0];
    const int64_t n = qn_shape_count(x.shape), block = m->along.n * m->along.inner;
    (void)thread;
    for (int64_t part = begin; part < end; part++) {
        range r = {0};
        if (block == 1)
            r = range_of(rows_of(m->call), x.dtype, m->call->in[0], part * AT_ONCE,
                         (part + 1) * AT_ONCE < n ? (part + 1) * AT_ONCE : n);
        for (int64_t row = part * m->along.inner; block > 1 && row < n; row += block) {
            for (int64_t i = 0; i < m->along.inner; i++)
                r = join(r, qn_number_get(x.dtype, m->call->in[0], row + i));
        }
        m->parts[part] = r;
    }
}

static int64_t count_parts(const qn_scale_of_attributes *a, qn_shape x) {
    const along s = along_of(x, a->axis);
    return s.n * s.inner == 1 ? count_tasks(qn_shape_count(x)) : s.n;
}

static size_t scale_of_workspace(const qn_kernels *kernels, const void *attributes,
                                 const qn_tensor *inputs, const qn_tensor *outputs, int n_threads) {
    (void)kernels;
    (void)outputs;
    (void)n_threads;
    return (size_t)count_parts(attributes, inputs[0].shape) * sizeof(range);
}

/* The least exponent of a power of two that is not below the number; 0 of 0. */
static int ceil_log2(double number) {
    int exponent = 0;
    const double part = frexp(number, &exponent);
    return number > 0 && part == 0.5 ? exponent - 1 : exponent;
}

/* Of what is kept at a step of training. */
static int bits_at(const qn_scale_of_attributes *a, uint64_t step) {
    const int64_t drops[] = {a->first_drop, a->second_drop, a->third_drop};
    int bits = a->bits;
    for (int i = 0; i < 3; i++)
        bits -= drops[i] > 0 && step >= (uint64_t)drops[i];
    return bits;
}

/* The exponent of a power of two that is nearest by its logarithm; 0 of 0. */
static int nearest_log2(double number) {
    int exponent = 0;
    const double half = frexp(number, &exponent);
    return number > 0 && half < 0x1.6a09e667f3bcdp-1 ? exponent - 1 : exponent;
}

static int power_of(const qn_scale_of_attributes *a, double size) {
    return a->range == QN_RANGE_FIXED     ? a->top
           : a->range == QN_RANGE_NEAREST ? nearest_log2(size)
                                          : ceil_log2(size);
}

static void put_scale(const qn_call *call, int64_t index, range r) {
    const qn_scale_of_attributes *a = call->attributes;
    const double clip = a->clip > 0 ? a->clip : 1;
    r = (range){clip * r.least, clip * r.most};
    const double size = -r.least > r.most ? -r.least : r.most, span = r.most - r.least;
    double scale = 1;
    if (a->kind == QN_SCALE_EXPONENT) {
        const int exponent = power_of(a, size) - bits_at(a, call->step);
        scale = exponent < a->least ? a->least : exponent;
    } else if (a->kind == QN_SCALE_SYMMETRIC) {
        scale = size > 0 ? size / (ldexp(1, a->bits) - 1) : 1;
    } else {
        const double least = qn_quantise_least((qn_dtype)a->dtype, false);
        const double most = qn_quantise_largest((qn_dtype)a->dtype);
        scale = span > 0 ? span / (most - least) : 1;
        qn_number_set((qn_dtype)a->dtype, call->out[1], index, rint(least - r.least / scale));
    }
    qn_number_set(call->outputs[0].dtype, call->out[0], index, scale);
}

static void scale_of_run(const qn_call *call) {
    const qn_scale_of_attributes *a = call->attributes;
    const qn_shape x = call->inputs[0].shape;
    measuring m = {call, along_of(x, a->axis), call->workspace};
    const int64_t n_parts = count_parts(a, x), n = qn_shape_count(call->outputs[0].shape);
    if (a->kind == QN_SCALE_EXPONENT && a->range == QN_RANGE_FIXED) {
        for (int64_t i = 0; i < n; i++)
            put_scale(call, i, (range){0});
        return;
    }
    qn_team_run(call->team, n_parts, measure_part, &m);
    for (int64_t i = 1; n == 1 && i < n_parts; i++)
        m.parts[0] = join(join(m.parts[0], m.parts[i].least), m.parts[i].most);
    for (int64_t i = 0; i < n; i++)
        put_scale(call, i, m.parts[i]);
}

const qn_cpu_operator qn_cpu_quantise[] = {
    {&qn_op_quantise_number, .types = QN_TYPES_ANY, .run = quantise_run},
    {&qn_op_dequantise_number, .types = QN_TYPES_ANY, .run = dequantise_run},
    {&qn_op_scale_of_numbers, .types = QN_TYPES_ANY, .run = scale_of_run,
     .workspace = scale_of_workspace},
    {0},
};
