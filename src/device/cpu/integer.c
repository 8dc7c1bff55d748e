/* How the CPU runs what integer training computes besides products and shifts: sums of exponents,
 * the loss and the update in whole numbers. Identical on every instruction set. */
#include "device/cpu/cpu.h"
#include "ops/quantise.h"
#include "ops/shared.h"

#include <string.h>

/* ---- exponents ---- */

static void exponents_run(const qn_call *call) {
    int64_t sum = 0;
    for (int i = 0; i < call->node->n_inputs; i++)
        sum += *(const int32_t *)call->in[i];
    sum = sum < INT32_MIN ? INT32_MIN : sum > INT32_MAX ? INT32_MAX : sum;
    *(int32_t *)call->out[0] = (int32_t)sum;
}

/* ---- the loss ---- */

/* Where powers are series, squares fit in 50 bits from here on; below, all are alike. */
enum { SERIES_BELOW = -6, LEAST_EXPONENT = -24, MOST_EXPONENT = 30, RANGE = 10 };

static int64_t series(int64_t a, int e) {
    return (INT64_C(1) << (1 - 2 * e)) + a * (INT64_C(1) << (1 - e)) + a * a;
}

/* a * 2^e * log2(e) */
static int64_t power_of(int64_t a, int e) {
    const int64_t s = a * 47274 / (INT64_C(1) << 15);
    return e >= 0 ? s * (INT64_C(1) << e) : s / (INT64_C(1) << -e);
}

/* Numbers in the proportion of a row's softmax, of 50 bits at most. */
static int64_t weigh_power(int8_t logit, int e, int64_t most) {
    const int64_t s = power_of(logit, e) - (most - RANGE);
    return (INT64_C(1) << (s < 0 ? 0 : s)) - 1;
}

static int64_t weigh_series(int8_t logit, int e, int64_t most) {
    (void)most;
    return series(logit, e);
}

/* A 16th of g, up or down by chance. */
static int64_t round_stochastic(int64_t g, uint32_t word) {
    const int64_t cut = g / 16, rest = (g < 0 ? -g : g) % 16;
    return cut + (rest > (int64_t)(word >> 28) ? g < 0 ? -1 : 1 : 0);
}

static void entropy_row(const int8_t *logits, int64_t n, int e, int32_t label, qn_rng rng,
                        uint64_t first, int8_t *errors) {
    int64_t (*weight)(int8_t, int, int64_t) = e < SERIES_BELOW ? weigh_series : weigh_power;
    int64_t most = INT64_MIN, sum = 0, total = 0;
    memset(errors, 0, (size_t)n);
    if (label < 0 || label >= n)
        return;
    for (int64_t i = 0; i < n && e >= SERIES_BELOW; i++) {
        const int64_t s = power_of(logits[i], e);
        most = s > most ? s : most;
    }
    for (int64_t i = 0; i < n; i++)
        sum += weight(logits[i], e, most);
    for (int64_t i = 0; i < n; i++)
        total += weight(logits[i], e, most) * 2048 / sum;
    for (int64_t i = 0; i < n; i++) {
        const int64_t g = weight(logits[i], e, most) * 2048 / sum - (i == label ? total : 0);
        const int64_t rounded = round_stochastic(g, qn_rng_word(rng, first + (uint64_t)i));
        errors[i] = (int8_t)(rounded < -127 ? -127 : rounded > 127 ? 127 : rounded);
    }
}

/* A task is a row. */
static void entropy_task(void *context, int64_t begin, int64_t end, int thread) {
    const qn_call *call = context;
    const qn_integer_entropy_attributes *a = call->attributes;
    const int64_t n = qn_shape_columns(call->inputs[0].shape);
    const uint64_t key = a->key ? (uint64_t)a->key : call->node->key;
    const qn_rng rng = qn_rng_make(call->seed, key, call->step);
    int32_t e = *(const int32_t *)call->in[1];
    (void)thread;
    e = e < LEAST_EXPONENT ? LEAST_EXPONENT : e > MOST_EXPONENT ? MOST_EXPONENT : e;
    for (int64_t row = begin; row < end; row++)
        entropy_row((const int8_t *)call->in[0] + row * n, n, e,
                    ((const int32_t *)call->in[2])[row], rng, (uint64_t)(a->first + row * n),
                    (int8_t *)call->out[0] + row * n);
}

static void entropy_run(const qn_call *call) {
    qn_team_run(call->team, qn_shape_rows(call->inputs[0].shape), entropy_task, (void *)call);
}

/* ---- updates ---- */

static void keep_run(const qn_call *call) {
    memmove(call->out[0], call->in[0], qn_tensor_bytes(call->outputs[0]));
}

enum { AT_ONCE = 16384 }; /* numbers of a task */

static void step_task(void *context, int64_t begin, int64_t end, int thread) {
    const qn_call *call = context;
    const int64_t n = qn_call_count(call), last = end * AT_ONCE < n ? end * AT_ONCE : n;
    (void)thread;
    qn_integer_kernels_get(call->kernels->isa)
        ->rows.step(last - begin * AT_ONCE, (const int8_t *)call->in[0] + begin * AT_ONCE,
                    (int8_t *)call->out[0] + begin * AT_ONCE);
}

static void step_run(const qn_call *call) {
    qn_team_run(call->team, (qn_call_count(call) + AT_ONCE - 1) / AT_ONCE, step_task, (void *)call);
}

const qn_cpu_operator qn_cpu_integer[] = {
    {&qn_op_exponent_sum, .types = QN_TYPES_ANY, .run = exponents_run},
    {&qn_op_integer_cross_entropy, .types = QN_TYPES_ANY, .run = entropy_run},
    {&qn_op_keep_numbers, .types = QN_TYPES_ANY, .run = keep_run},
    {&qn_op_integer_update, .types = QN_TYPES_ANY, .run = step_run},
    {0},
};
