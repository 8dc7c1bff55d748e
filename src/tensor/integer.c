/* See integer.h. Sums and products are of unsigned numbers, whose overflow C defines. */
#include "tensor/integer.h"

int64_t qn_integer_wrap(qn_integer_type type, int64_t number) {
    if (type.bits >= 64)
        return number;
    const uint64_t mask = (UINT64_C(1) << type.bits) - 1, bits = (uint64_t)number & mask;
    const bool is_below_0 = type.is_signed && bits >> (type.bits - 1);
    return (int64_t)(is_below_0 ? bits | ~mask : bits);
}

int64_t qn_integer_of_real(double number) {
    return number >= -0x1p63 && number < 0x1p63 ? (int64_t)number : INT64_MIN;
}

static bool is_less(qn_integer_type type, int64_t a, int64_t b) {
    return type.is_signed ? a < b : (uint64_t)a < (uint64_t)b;
}

static int64_t divide(qn_integer_type type, int64_t a, int64_t b) {
    if (b == 0)
        return 0;
    if (!type.is_signed)
        return (int64_t)((uint64_t)a / (uint64_t)b);
    return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static int64_t remainder_of(qn_integer_type type, int64_t a, int64_t b) {
    if (b == 0 || (type.is_signed && b == -1))
        return 0;
    return type.is_signed ? a % b : (int64_t)((uint64_t)a % (uint64_t)b);
}

static int64_t modulo(qn_integer_type type, int64_t a, int64_t b) {
    const int64_t rest = remainder_of(type, a, b);
    return type.is_signed && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

/* By squares (Knuth, volume 2, 4.6.3). */
static int64_t power(qn_integer_type type, int64_t a, int64_t b) {
    uint64_t result = 1, square = (uint64_t)a;
    if (type.is_signed && b < 0)
        return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    for (uint64_t left = (uint64_t)b; left > 0; left >>= 1) {
        result *= left & 1 ? square : 1;
        square *= square;
    }
    return (int64_t)result;
}

/* To the right a sign fills what comes free, as ONNX has it from opset 28 on. */
static int64_t shift(qn_integer_type type, int64_t a, int64_t b, bool is_left) {
    if (b < 0 || b >= type.bits)
        return !is_left && type.is_signed && a < 0 ? -1 : 0;
    if (is_left)
        return (int64_t)((uint64_t)a << b);
    return type.is_signed ? a >> b : (int64_t)((uint64_t)a >> b);
}

static int64_t absolute(qn_integer_type type, int64_t a) {
    return type.is_signed && a < 0 ? (int64_t)(0 - (uint64_t)a) : a;
}

static int64_t apply(qn_integer_rule rule, qn_integer_type type, int64_t a, int64_t b, int64_t c) {
    switch (rule) {
    case QN_INTEGER_ABS:
        return absolute(type, a);
    case QN_INTEGER_NEGATE:
        return (int64_t)(0 - (uint64_t)a);
    case QN_INTEGER_SIGN:
        return is_less(type, a, 0) ? -1 : a != 0;
    case QN_INTEGER_INVERT:
        return ~a;
    case QN_INTEGER_ADD:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    case QN_INTEGER_SUBTRACT:
        return (int64_t)((uint64_t)a - (uint64_t)b);
    case QN_INTEGER_MULTIPLY:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case QN_INTEGER_DIVIDE:
        return divide(type, a, b);
    case QN_INTEGER_MODULO:
        return modulo(type, a, b);
    case QN_INTEGER_REMAINDER:
        return remainder_of(type, a, b);
    case QN_INTEGER_POWER:
        return power(type, a, b);
    case QN_INTEGER_LEAST:
        return is_less(type, b, a) ? b : a;
    case QN_INTEGER_MOST:
        return is_less(type, a, b) ? b : a;
    case QN_INTEGER_AND:
        return a & b;
    case QN_INTEGER_OR:
        return a | b;
    case QN_INTEGER_XOR:
        return a ^ b;
    case QN_INTEGER_SHIFT_LEFT:
    case QN_INTEGER_SHIFT_RIGHT:
        return shift(type, a, b, rule == QN_INTEGER_SHIFT_LEFT);
    case QN_INTEGER_EQUAL:
        return a == b;
    case QN_INTEGER_LESS:
        return is_less(type, a, b);
    case QN_INTEGER_WHERE:
        return a != 0 ? b : c;
    default:
        return a;
    }
}

int64_t qn_integer_apply(qn_integer_rule rule, qn_integer_type type, int64_t a, int64_t b,
                         int64_t c) {
    return qn_integer_wrap(type, apply(rule, type, a, b, c));
}

/* ---- loops ---- */

int64_t qn_integer_at(qn_dtype dtype, const void *data, int64_t i) {
    switch (dtype) {
    case QN_I64:
        return ((const int64_t *)data)[i];
    case QN_I32:
        return ((const int32_t *)data)[i];
    case QN_F32:
        return qn_integer_of_real((double)((const float *)data)[i]);
    default:
        return qn_integer_of_real(((const double *)data)[i]);
    }
}

/* An unsigned number of 64 bits is its bits. */
static void put(qn_dtype dtype, void *y, int64_t i, int64_t number, bool is_unsigned) {
    if (dtype == QN_I64)
        ((int64_t *)y)[i] = number;
    else if (dtype == QN_I32)
        ((int32_t *)y)[i] = (int32_t)number;
    else if (dtype == QN_F32)
        ((float *)y)[i] = is_unsigned ? (float)(uint64_t)number : (float)number;
    else
        ((double *)y)[i] = is_unsigned ? (double)(uint64_t)number : (double)number;
}

/* Moves to the next element of the result: the last axis first. */
static void advance(const qn_broadcast *b, int n_operands, int64_t *index, int64_t *at) {
    for (int axis = b->rank - 1; axis >= 0; axis--) {
        const bool is_end = ++index[axis] == b->extents[axis];
        for (int k = 0; k < n_operands; k++)
            at[k] += is_end ? -b->strides[k][axis] * (b->extents[axis] - 1) : b->strides[k][axis];
        if (!is_end)
            return;
        index[axis] = 0;
    }
}

void qn_integer_combine(qn_integer_rule rule, qn_integer_type type, const qn_broadcast *layout,
                        int64_t n, int n_operands, const qn_dtype *dtypes,
                        const void *const *operands, qn_dtype to, void *y) {
    const bool is_unsigned = !type.is_signed && rule != QN_INTEGER_EQUAL && rule != QN_INTEGER_LESS;
    int64_t at[3] = {0}, index[QN_BROADCAST_RANK] = {0}, number[3] = {0};
    for (int64_t i = 0; i < n; i++) {
        for (int k = 0; k < n_operands; k++)
            number[k] = qn_integer_at(dtypes[k], operands[k], at[k]);
        put(to, y, i, qn_integer_apply(rule, type, number[0], number[1], number[2]), is_unsigned);
        advance(layout, n_operands, index, at);
    }
}

static const qn_integer_rule steps[] = {
    [QN_INTEGER_SUM] = QN_INTEGER_ADD,
    [QN_INTEGER_PRODUCT] = QN_INTEGER_MULTIPLY,
    [QN_INTEGER_MINIMUM] = QN_INTEGER_LEAST,
    [QN_INTEGER_MAXIMUM] = QN_INTEGER_MOST,
    [QN_INTEGER_PLACE_OF_MINIMUM] = QN_INTEGER_LESS,
    [QN_INTEGER_PLACE_OF_MAXIMUM] = QN_INTEGER_LESS,
};

/* One column of x: n elements, `stride` apart. */
typedef struct column {
    const qn_integer_axis_rule *rule;
    qn_integer_type type;
    qn_dtype dtype;
    const void *x;
    int64_t begin, stride, n;
} column;

static int64_t element(const column *c, int64_t j) {
    return qn_integer_at(c->dtype, c->x, c->begin + j * c->stride);
}

static void run_sums(const column *c, int64_t *y) {
    int64_t sum = 0;
    for (int64_t j = 0; j < c->n; j++) {
        const int64_t place = c->rule->is_reverse ? c->n - 1 - j : j;
        const int64_t next = qn_integer_apply(QN_INTEGER_ADD, c->type, sum, element(c, place), 0);
        y[c->begin + place * c->stride] = c->rule->is_exclusive ? sum : next;
        sum = next;
    }
}

static int64_t find_place(const column *c) {
    const bool is_least = c->rule->how == QN_INTEGER_PLACE_OF_MINIMUM;
    int64_t place = 0;
    for (int64_t j = 1; j < c->n; j++) {
        const int64_t old = element(c, place), next = element(c, j);
        const bool is_better = is_least ? is_less(c->type, next, old) : is_less(c->type, old, next);
        if (is_better || (c->rule->is_last && old == next))
            place = j;
    }
    return place;
}

static int64_t reduce_column(const column *c) {
    if (steps[c->rule->how] == QN_INTEGER_LESS)
        return find_place(c);
    int64_t y = element(c, 0);
    for (int64_t j = 1; j < c->n; j++)
        y = qn_integer_apply(steps[c->rule->how], c->type, y, element(c, j), 0);
    return qn_integer_wrap(c->type, y);
}

void qn_integer_reduce(const qn_integer_axis_rule *rule, qn_dtype dtype, const void *x,
                       int64_t outer, int64_t n, int64_t inner, int64_t *y) {
    column c = {rule, {rule->bits, rule->is_signed}, dtype, x, 0, inner, n};
    for (int64_t i = 0; i < outer; i++) {
        for (int64_t k = 0; k < inner; k++) {
            c.begin = i * n * inner + k;
            if (rule->is_running)
                run_sums(&c, y);
            else
                y[i * inner + k] = reduce_column(&c);
        }
    }
}
