/* See number.h. A table row describes each 16-bit and 8-bit type. */
#include "tensor/number.h"

#include "tensor/halves.h"
#include "tensor/integer.h"

#include <math.h>
#include <string.h>

/* A sign, an exponent and a fraction; magnitudes are all bits but the sign. */
typedef struct narrow_type {
    uint8_t sign_bit, fraction_bits;
    int16_t least_exponent;                  /* of a number with all its bits */
    uint16_t largest, beyond, infinity, nan; /* magnitudes; infinity: as nan where there is none */
} narrow_type;

static const narrow_type narrow_types[] = {
    [QN_F16] = {15, 10, -14, 0x7bff, 0x7c00, 0x7c00, 0x7e00},
    [QN_BF16] = {15, 7, -126, 0x7f7f, 0x7f80, 0x7f80, 0x7fc0},
    [QN_F8E4M3] = {7, 3, -6, 0x7e, 0x7e, 0x7f, 0x7f},
    [QN_F8E5M2] = {7, 2, -14, 0x7b, 0x7b, 0x7c, 0x7e},
};

static double power_of_two(int exponent) {
    const uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

static double narrow_get(const narrow_type *t, unsigned bits) {
    const unsigned magnitude = bits & ((1u << t->sign_bit) - 1);
    const unsigned exponent = magnitude >> t->fraction_bits;
    const unsigned hidden = exponent > 0 ? 1u << t->fraction_bits : 0;
    const unsigned digits = (magnitude & ((1u << t->fraction_bits) - 1)) | hidden;
    double size = digits * power_of_two(t->least_exponent - t->fraction_bits +
                                        (exponent > 0 ? (int)exponent - 1 : 0));
    if (magnitude > t->largest)
        size = magnitude == t->infinity && t->infinity != t->nan ? INFINITY : NAN;
    return copysign(size, bits >> t->sign_bit ? -1 : 1);
}

static unsigned narrow_set(const narrow_type *t, double number) {
    static const double whole = 0x1p52; /* from here on doubles are whole */
    const unsigned sign = (unsigned)(signbit(number) != 0) << t->sign_bit;
    const double size = fabs(number);
    int exponent = t->least_exponent;
    if (isnan(number))
        return sign | t->nan;
    if (size >= power_of_two(t->least_exponent + 257))
        return sign | t->beyond;
    uint64_t bits;
    memcpy(&bits, &size, sizeof bits);
    if ((int)(bits >> 52) - 1023 > exponent)
        exponent = (int)(bits >> 52) - 1023;
    const double digits = size * power_of_two(t->fraction_bits - exponent);
    const double rounded = digits + whole;
    const unsigned magnitude = ((unsigned)(exponent - t->least_exponent) << t->fraction_bits) +
                               (unsigned)(rounded - whole);
    return sign | (magnitude > t->largest ? t->beyond : magnitude);
}

double qn_number_get(qn_dtype dtype, const void *data, int64_t i) {
    switch (dtype) {
    case QN_F32:
        return (double)((const float *)data)[i];
    case QN_F64:
        return ((const double *)data)[i];
    case QN_I32:
        return ((const int32_t *)data)[i];
    case QN_I64:
        return (double)((const int64_t *)data)[i];
    case QN_U8:
        return ((const uint8_t *)data)[i];
    case QN_U16:
        return ((const uint16_t *)data)[i];
    case QN_I8:
        return ((const int8_t *)data)[i];
    case QN_I16:
        return ((const int16_t *)data)[i];
    case QN_F16:
    case QN_BF16:
        return narrow_get(&narrow_types[dtype], ((const uint16_t *)data)[i]);
    case QN_F8E4M3:
    case QN_F8E5M2:
        return narrow_get(&narrow_types[dtype], ((const uint8_t *)data)[i]);
    case QN_NONE:
        break;
    }
    return 0;
}

/* Cut towards 0 and to a range. */
static int32_t whole(double number, double least, double most) {
    return (int32_t)(number > most ? most : number > least ? number : number <= least ? least : 0);
}

void qn_number_set(qn_dtype dtype, void *data, int64_t i, double number) {
    switch (dtype) {
    case QN_F32:
        ((float *)data)[i] = (float)number;
        break;
    case QN_F64:
        ((double *)data)[i] = number;
        break;
    case QN_I32:
        ((int32_t *)data)[i] = whole(number, INT32_MIN, INT32_MAX);
        break;
    case QN_I64:
        ((int64_t *)data)[i] = qn_integer_of_real(number);
        break;
    case QN_U8:
        ((uint8_t *)data)[i] = (uint8_t)whole(number, 0, UINT8_MAX);
        break;
    case QN_U16:
        ((uint16_t *)data)[i] = (uint16_t)whole(number, 0, UINT16_MAX);
        break;
    case QN_I8:
        ((int8_t *)data)[i] = (int8_t)whole(number, INT8_MIN, INT8_MAX);
        break;
    case QN_I16:
        ((int16_t *)data)[i] = (int16_t)whole(number, INT16_MIN, INT16_MAX);
        break;
    case QN_F16:
    case QN_BF16:
        ((uint16_t *)data)[i] = (uint16_t)narrow_set(&narrow_types[dtype], number);
        break;
    case QN_F8E4M3:
    case QN_F8E5M2:
        ((uint8_t *)data)[i] = (uint8_t)narrow_set(&narrow_types[dtype], number);
        break;
    case QN_NONE:
        break;
    }
}

/* ---- rows of numbers: loops without branches, for compilers that make vectors of them ---- */

/* As an f16 (halves.h), with 128, whose last bit is the least number, and without infinities. */
static uint8_t e5m2_of(float x) {
    const uint32_t bits = qn_bits_of(x), size = bits & 0x7fffffff, sign = bits >> 24 & 0x80;
    const uint32_t small =
        qn_bits_of(qn_float_of(size < 0x38800000 ? size : 0) + 128.0f) - 0x43000000;
    const uint32_t usual = (size - 0x38000000 + 0xfffff + (size >> 21 & 1)) >> 21;
    uint32_t y = size < 0x38800000 ? small : usual;
    y = y > 0x7b ? 0x7b : y;
    y = size > 0x7f800000 ? 0x7e : y;
    return (uint8_t)(sign | y);
}

static float of_e5m2(uint8_t quarter) {
    return qn_of_f16((uint16_t)(quarter << 8));
}

static int8_t i8_of(float x) {
    return (int8_t)(x > 127 ? 127 : x > -128 ? (int32_t)x : x <= -128 ? -128 : 0);
}

/* A row of the table below: numbers [begin, end). */
#define ROW(name, from, to, convert)                                                               \
    static void name(const void *x, void *y, int64_t begin, int64_t end) {                         \
        const from *source = x;                                                                    \
        to *target = y;                                                                            \
        for (int64_t i = begin; i < end; i++)                                                      \
            target[i] = convert(source[i]);                                                        \
    }

ROW(f32_to_bf16, float, uint16_t, qn_bf16_of)
ROW(bf16_to_f32, uint16_t, float, qn_of_bf16)
ROW(f32_to_f16, float, uint16_t, qn_f16_of)
ROW(f16_to_f32, uint16_t, float, qn_of_f16)
ROW(f32_to_i8, float, int8_t, i8_of)
ROW(f32_to_e5m2, float, uint8_t, e5m2_of)
ROW(e5m2_to_f32, uint8_t, float, of_e5m2)
ROW(i8_to_f32, int8_t, float, (float))
ROW(i16_to_f32, int16_t, float, (float))
ROW(u8_to_f32, uint8_t, float, (float))
ROW(i32_to_f32, int32_t, float, (float))

typedef struct fast_row {
    qn_dtype from, to;
    void (*convert)(const void *x, void *y, int64_t begin, int64_t end);
} fast_row;

static const fast_row fast_rows[] = {
    {QN_F32, QN_BF16, f32_to_bf16},   {QN_BF16, QN_F32, bf16_to_f32},
    {QN_F32, QN_F16, f32_to_f16},     {QN_F16, QN_F32, f16_to_f32},
    {QN_F32, QN_I8, f32_to_i8},       {QN_I8, QN_F32, i8_to_f32},
    {QN_U8, QN_F32, u8_to_f32},       {QN_I32, QN_F32, i32_to_f32},
    {QN_I16, QN_F32, i16_to_f32},     {QN_F32, QN_F8E5M2, f32_to_e5m2},
    {QN_F8E5M2, QN_F32, e5m2_to_f32},
};

void qn_numbers_convert(qn_dtype from, const void *x, qn_dtype to, void *y, int64_t begin,
                        int64_t end) {
    const size_t size = qn_dtype_bytes(to);
    if (from == to) {
        memmove((char *)y + (size_t)begin * size, (const char *)x + (size_t)begin * size,
                (size_t)(end - begin) * size);
        return;
    }
    for (size_t r = 0; r < sizeof fast_rows / sizeof *fast_rows; r++) {
        if (fast_rows[r].from == from && fast_rows[r].to == to) {
            fast_rows[r].convert(x, y, begin, end);
            return;
        }
    }
    for (int64_t i = begin; i < end; i++)
        qn_number_set(to, y, i, qn_number_get(from, x, i));
}
