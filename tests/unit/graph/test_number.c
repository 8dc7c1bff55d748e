/* Numbers of every type: all 256 and all 65,536 patterns of the narrow types against tables and
 * definitions written here, rounding to the nearest at, below and above the middle of every two
 * neighbours, what is beyond a type, infinities and NaNs, and conversions between all types. (NumPy
 * and PyTorch say the same: torch/test_torch_numbers.py.) */
#include "check.h"
#include "tensor/number.h"

#include <math.h>

/* clang-format off */
/* OCP OFP8 1.0, S.EEEE.MMM: patterns 0x00 to 0x7f. */
static const double e4m3[128] = {
    0, 0x1p-9, 0x1p-8, 3 * 0x1p-9, 0x1p-7, 5 * 0x1p-9, 3 * 0x1p-8, 7 * 0x1p-9, 0.015625,
    9 * 0x1p-9, 5 * 0x1p-8, 11 * 0x1p-9, 3 * 0x1p-7, 13 * 0x1p-9, 7 * 0x1p-8, 15 * 0x1p-9,
    0.03125, 9 * 0x1p-8, 5 * 0x1p-7, 11 * 0x1p-8, 0.046875, 13 * 0x1p-8, 7 * 0x1p-7, 15 * 0x1p-8,
    0.0625, 9 * 0x1p-7, 0.078125, 11 * 0x1p-7, 0.09375, 13 * 0x1p-7, 0.109375, 15 * 0x1p-7, 0.125,
    0.140625, 0.15625, 0.171875, 0.1875, 0.203125, 0.21875, 0.234375, 0.25, 0.28125, 0.3125,
    0.34375, 0.375, 0.40625, 0.4375, 0.46875, 0.5, 0.5625, 0.625, 0.6875, 0.75, 0.8125, 0.875,
    0.9375, 1, 1.125, 1.25, 1.375, 1.5, 1.625, 1.75, 1.875, 2, 2.25, 2.5, 2.75, 3, 3.25, 3.5,
    3.75, 4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 26,
    28, 30, 32, 36, 40, 44, 48, 52, 56, 60, 64, 72, 80, 88, 96, 104, 112, 120, 128, 144, 160, 176,
    192, 208, 224, 240, 256, 288, 320, 352, 384, 416, 448, NAN,
};
/* S.EEEEE.MM. */
static const double e5m2[128] = {
    0, 0x1p-16, 0x1p-15, 3 * 0x1p-16, 0x1p-14, 5 * 0x1p-16, 3 * 0x1p-15, 7 * 0x1p-16, 0x1p-13,
    5 * 0x1p-15, 3 * 0x1p-14, 7 * 0x1p-15, 0x1p-12, 5 * 0x1p-14, 3 * 0x1p-13, 7 * 0x1p-14,
    0x1p-11, 5 * 0x1p-13, 3 * 0x1p-12, 7 * 0x1p-13, 0x1p-10, 5 * 0x1p-12, 3 * 0x1p-11,
    7 * 0x1p-12, 0x1p-9, 5 * 0x1p-11, 3 * 0x1p-10, 7 * 0x1p-11, 0x1p-8, 5 * 0x1p-10, 3 * 0x1p-9,
    7 * 0x1p-10, 0x1p-7, 5 * 0x1p-9, 3 * 0x1p-8, 7 * 0x1p-9, 0.015625, 5 * 0x1p-8, 3 * 0x1p-7,
    7 * 0x1p-8, 0.03125, 5 * 0x1p-7, 0.046875, 7 * 0x1p-7, 0.0625, 0.078125, 0.09375, 0.109375,
    0.125, 0.15625, 0.1875, 0.21875, 0.25, 0.3125, 0.375, 0.4375, 0.5, 0.625, 0.75, 0.875, 1,
    1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56,
    64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536,
    1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480,
    24576, 28672, 32768, 40960, 49152, 57344, INFINITY, NAN, NAN, NAN,
};
/* clang-format on */

static double half_of(unsigned bits) {
    const int exponent = (int)(bits >> 10), fraction = (int)(bits & 1023);
    if (exponent == 31)
        return fraction ? NAN : INFINITY;
    return exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
}

static double bfloat_of(unsigned bits) {
    const uint32_t wide = bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return (double)value;
}

static double e4m3_of(unsigned bits) {
    return e4m3[bits];
}

static double e5m2_of(unsigned bits) {
    return e5m2[bits];
}

/* What a magnitude means, the largest finite one, and what comes of larger numbers. */
static const struct narrow {
    qn_dtype dtype;
    int sign_bit;
    double (*value_of)(unsigned magnitude);
    unsigned largest, beyond;
} narrows[] = {
    {QN_F16, 15, half_of, 0x7bff, 0x7c00},
    {QN_BF16, 15, bfloat_of, 0x7f7f, 0x7f80},
    {QN_F8E4M3, 7, e4m3_of, 0x7e, 0x7e},
    {QN_F8E5M2, 7, e5m2_of, 0x7b, 0x7b},
};

enum { N_NARROWS = sizeof narrows / sizeof *narrows };

static unsigned bits_of(qn_dtype dtype, double value) {
    uint16_t bits = 0;
    qn_number_set(dtype, &bits, 0, value);
    return bits;
}

static double value_of(qn_dtype dtype, unsigned bits) {
    const uint16_t pattern = (uint16_t)bits;
    return qn_number_get(dtype, &pattern, 0);
}

/* Every pattern is what it is said to be, and goes back to itself; NaNs to one of their sign. */
static void test_patterns(const struct narrow *t) {
    const unsigned sign = 1u << t->sign_bit;
    for (unsigned bits = 0; bits < 2 * sign; bits++) {
        const double value = value_of(t->dtype, bits), size = t->value_of(bits & (sign - 1));
        CHECK(!signbit(value) == !(bits & sign));
        if (isnan(size)) {
            const double again = value_of(t->dtype, bits_of(t->dtype, value));
            CHECK(isnan(value) && isnan(again) && !signbit(again) == !signbit(value));
            continue;
        }
        CHECK(fabs(value) == size);
        if (isfinite(value))
            CHECK(bits_of(t->dtype, value) == bits);
    }
}

/* Between each two neighbours: to the nearest, from the middle to the even one. */
static void test_rounding(const struct narrow *t) {
    const unsigned sign = 1u << t->sign_bit;
    for (unsigned bits = 0; bits < t->largest; bits++) {
        const double low = t->value_of(bits), high = t->value_of(bits + 1);
        const double middle = (low + high) / 2;
        CHECK(bits_of(t->dtype, middle) == bits + bits % 2);
        CHECK(bits_of(t->dtype, -middle) == (sign | (bits + bits % 2)));
        CHECK(bits_of(t->dtype, nextafter(middle, 0)) == bits);
        CHECK(bits_of(t->dtype, nextafter(middle, INFINITY)) == bits + 1);
        CHECK(bits_of(t->dtype, -nextafter(middle, INFINITY)) == (sign | (bits + 1)));
    }
}

static void test_beyond(const struct narrow *t) {
    const unsigned sign = 1u << t->sign_bit;
    const double largest = t->value_of(t->largest), step = largest - t->value_of(t->largest - 1);
    const double middle = largest + step / 2;
    CHECK(bits_of(t->dtype, nextafter(middle, 0)) == t->largest);
    const double large[] = {middle + step / 4, middle + step, 2 * largest,
                            0x1p200,           0x1p1023,      INFINITY};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        CHECK(bits_of(t->dtype, large[i]) == t->beyond);
        CHECK(bits_of(t->dtype, -large[i]) == (sign | t->beyond));
    }
    CHECK(bits_of(t->dtype, 0x1p-1074) == 0 && bits_of(t->dtype, -0x1p-1074) == sign);
    CHECK(bits_of(t->dtype, 0x1p-1022) == 0 && bits_of(t->dtype, -0.0) == sign);
}

static void test_whole(void) {
    static const struct {
        qn_dtype dtype;
        double least, most;
    } types[] = {{QN_I8, -128, 127},
                 {QN_U8, 0, 255},
                 {QN_I16, -32768, 32767},
                 {QN_U16, 0, 65535},
                 {QN_I32, -2147483648.0, 2147483647}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const double numbers[][2] = {{types[i].least, types[i].least},
                                     {types[i].most, types[i].most},
                                     {types[i].least - 1, types[i].least},
                                     {types[i].most + 0.99, types[i].most},
                                     {types[i].most + 1, types[i].most},
                                     {-1e300, types[i].least},
                                     {INFINITY, types[i].most},
                                     {NAN, 0},
                                     {2.99, 2},
                                     {-0.99, 0},
                                     {-2.99, types[i].least < 0 ? -2 : 0}};
        for (size_t j = 0; j < sizeof numbers / sizeof *numbers; j++) {
            int32_t memory = 0;
            qn_number_set(types[i].dtype, &memory, 0, numbers[j][0]);
            CHECK(qn_number_get(types[i].dtype, &memory, 0) == numbers[j][1]);
        }
    }
}

/* Between all types: what get and set say; every number that both have comes back. */
static void test_all_pairs(void) {
    static const double numbers[] = {0,   1,  2,  3,  5,   8,   14,   96,
                                     112, -1, -2, -7, -56, 0.5, 1.75, 300};
    enum { N = sizeof numbers / sizeof *numbers };
    for (int from = QN_F32; from <= QN_F8E5M2; from++) {
        for (int to = QN_F32; to <= QN_F8E5M2; to++) {
            double x[N] = {0}, y[N] = {0}, back[N] = {0};
            for (int i = 0; i < N; i++)
                qn_number_set((qn_dtype)from, x, i, numbers[i]);
            qn_numbers_convert((qn_dtype)from, x, (qn_dtype)to, y, 0, N / 2);
            qn_numbers_convert((qn_dtype)from, x, (qn_dtype)to, y, N / 2, N);
            qn_numbers_convert((qn_dtype)to, y, (qn_dtype)from, back, 0, N);
            for (int i = 0; i < N; i++) {
                double set = 0;
                const double is = qn_number_get((qn_dtype)from, x, i);
                qn_number_set((qn_dtype)to, &set, 0, is);
                const double wanted = qn_number_get((qn_dtype)to, &set, 0);
                CHECK(qn_number_get((qn_dtype)to, y, i) == wanted);
                if (is == wanted)
                    CHECK(qn_number_get((qn_dtype)from, back, i) == is);
            }
        }
    }
}

int main(void) {
    for (int i = 0; i < N_NARROWS; i++) {
        test_patterns(&narrows[i]);
        test_rounding(&narrows[i]);
        test_beyond(&narrows[i]);
    }
    test_whole();
    test_all_pairs();
    return checks_finish();
}
