/* See decimal.h.
 *
 * Reading multiplies the digits with a power of ten of 128 bits, whose error is known; only where
 * that error leaves open to which side a number rounds are its digits compared with those of the
 * middle between two doubles. Printing writes out all digits of a double, which has finitely many,
 * and rounds them. */
#include "base/decimal.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* ---- all digits of a double ---- */

enum {
    GROUP = 1000000000,        /* a word holds nine digits */
    WHOLE_WORDS = 36,          /* 309 digits before the point, and a carry */
    WORDS = WHOLE_WORDS + 121, /* 1,075 digits behind it */
    MOST_DIGITS = 9 * (WORDS + 1),
    FRACTION_BITS = 52,
    LEAST_EXPONENT = -1074, /* of the last bit */
    MOST_EXPONENT = 971,
};

/* 0.d1d2d3... times ten to the point; the first digit is not 0, unless there is none. */
typedef struct {
    char digits[MOST_DIGITS];
    int n, point;
} expansion;

/* Words of nine digits each: [first, WHOLE_WORDS) before the point, [WHOLE_WORDS, end) behind. */
typedef struct {
    uint32_t words[WORDS];
    int first, end;
} decimal_words;

static void double_words(decimal_words *d, int n_bits) {
    while (n_bits > 0) {
        const int bits = n_bits < 29 ? n_bits : 29;
        uint64_t carry = 0;
        for (int i = d->end - 1; i >= d->first; i--) {
            carry += (uint64_t)d->words[i] << bits;
            d->words[i] = (uint32_t)(carry % GROUP);
            carry /= GROUP;
        }
        for (; carry > 0; carry /= GROUP)
            d->words[--d->first] = (uint32_t)(carry % GROUP);
        n_bits -= bits;
    }
}

/* Nine bits at a time at most: 2^9 divides a word's range, so that a remainder is whole. */
static void halve_words(decimal_words *d, int n_bits) {
    while (n_bits > 0) {
        const int bits = n_bits < 9 ? n_bits : 9;
        const uint32_t mask = (1u << bits) - 1;
        uint32_t carry = 0;
        for (int i = d->first; i < d->end; i++) {
            const uint32_t rest = d->words[i] & mask;
            d->words[i] = (d->words[i] >> bits) + carry;
            carry = rest * ((uint32_t)GROUP >> bits);
        }
        if (carry)
            d->words[d->end++] = carry;
        while (d->first < d->end && d->words[d->first] == 0)
            d->first++;
        n_bits -= bits;
    }
}

/* All digits of mantissa * 2^exponent. */
static void expand(uint64_t mantissa, int exponent, expansion *e) {
    decimal_words d = {.first = WHOLE_WORDS, .end = WHOLE_WORDS};
    for (; mantissa > 0; mantissa /= GROUP)
        d.words[--d.first] = (uint32_t)(mantissa % GROUP);
    double_words(&d, exponent);
    halve_words(&d, -exponent);
    char *to = e->digits;
    for (int i = d.first; i < d.end; i++, to += 9) {
        uint32_t word = d.words[i];
        for (int k = 8; k >= 0; k--, word /= 10)
            to[k] = (char)('0' + word % 10);
    }
    const int n = (int)(to - e->digits);
    int blank = 0;
    while (blank < n && e->digits[blank] == '0')
        blank++;
    e->n = n - blank;
    e->point = 9 * (WHOLE_WORDS - d.first) - blank;
    memmove(e->digits, e->digits + blank, (size_t)e->n);
    while (e->n > 0 && e->digits[e->n - 1] == '0')
        e->n--;
}

static void split_double(double value, uint64_t *mantissa, int *exponent) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    const int biased = (int)(bits >> FRACTION_BITS & 0x7FF);
    *mantissa = (bits & ((1ull << FRACTION_BITS) - 1)) | (uint64_t)(biased > 0) << FRACTION_BITS;
    *exponent = (biased > 0 ? biased : 1) + LEAST_EXPONENT - 1;
}

/* ---- reading ---- */

/* A number as it stands in text: digits * 10^exponent. is_cut: more digits follow, not all 0. */
typedef struct {
    const char *text; /* behind the sign */
    uint64_t digits;
    int exponent, n_digits;
    bool is_cut;
} written;

static const char *scan_digits(const char *at, written *w) {
    bool has_point = false;
    for (;; at++) {
        if (*at == '.' && !has_point) {
            has_point = true;
            continue;
        }
        if (*at < '0' || *at > '9')
            return w->n_digits > 0 ? at : w->text;
        w->n_digits++;
        const bool fits = w->digits < UINT64_MAX / 10 - 1;
        if (fits)
            w->digits = w->digits * 10 + (uint64_t)(*at - '0');
        else
            w->is_cut |= *at != '0';
        w->exponent += !fits - has_point;
    }
}

/* e and a power of ten, if that follows. */
static const char *scan_exponent(const char *at, int *exponent) {
    if (*at != 'e' && *at != 'E')
        return at;
    const bool is_negative = at[1] == '-';
    const char *digit = at + 1 + (at[1] == '-' || at[1] == '+');
    if (*digit < '0' || *digit > '9')
        return at;
    int power = 0;
    for (; *digit >= '0' && *digit <= '9'; digit++)
        power = power < 100000 ? power * 10 + (*digit - '0') : power;
    *exponent += is_negative ? -power : power;
    return digit;
}

typedef struct {
    uint64_t high, low;
    int exponent;
} wide;

enum { TABLE_STEP = 27, TABLE_FIRST = -13, TABLE_LAST = 12 };

/* 5^(27 j) = (high * 2^64 + low + less than 1) * 2^exponent, for j from -13 on. */
static const wide fives[TABLE_LAST - TABLE_FIRST + 1] = {
    {0x8049a4ac0c5811aeu, 0x205b896d777d6278u, -942},
    {0xcf42894a5dce35eau, 0x52064cac828675b9u, -880},
    {0xa76c582338ed2621u, 0xaf2af2b80af6f24eu, -817},
    {0x873e4f75e2224e68u, 0x5a7744a6e804a291u, -754},
    {0xda7f5bf590966848u, 0xaf39a475506a899eu, -692},
    {0xb080392cc4349decu, 0xbd8d794d96aacfb3u, -629},
    {0x8e938662882af53eu, 0x547eb47b7282ee9cu, -566},
    {0xe65829b3046b0afau, 0x0cb4a5a3112a5112u, -504},
    {0xba121a4650e4ddebu, 0x92f34d62616ce413u, -441},
    {0x964e858c91ba2655u, 0x3a6a07f8d510f86fu, -378},
    {0xf2d56790ab41c2a2u, 0xfae27299423fb9c3u, -316},
    {0xc428d05aa4751e4cu, 0xaa97e14c3c26b886u, -253},
    {0x9e74d1b791e07e48u, 0x775ea264cf55347du, -190},
    {0x8000000000000000u, 0x0000000000000000u, -127},
    {0xcecb8f27f4200f3au, 0x0000000000000000u, -65},
    {0xa70c3c40a64e6c51u, 0x999090b65f67d924u, -2},
    {0x86f0ac99b4e8dafdu, 0x69a028bb3ded71a3u, 61},
    {0xda01ee641a708de9u, 0xe80e6f4820cc9495u, 123},
    {0xb01ae745b101e9e4u, 0x5ec05dcff72e7f8fu, 186},
    {0x8e41ade9fbebc27du, 0x14588f13be847307u, 249},
    {0xe5d3ef282a242e81u, 0x8f1668c8a86da5fau, 311},
    {0xb9a74a0637ce2ee1u, 0x6d953e2bd7173692u, 374},
    {0x95f83d0a1fb69cd9u, 0x4abdaf101564f98eu, 437},
    {0xf24a01a73cf2dccfu, 0xbc633b39673c8cecu, 499},
    {0xc3b8358109e84f07u, 0x0a862f80ec4700c8u, 562},
    {0x9e19db92b4e31ba9u, 0x6c07a2c26a8346d1u, 625},
};

typedef unsigned __int128 uint128;

/* The upper 128 bits of a * b, with the first bit set; b is nonzero, and a's first bit is set. */
static wide multiply(wide a, uint64_t b) {
    const int blank = __builtin_clzll(b);
    const uint64_t factor = b << blank;
    const uint128 low = (uint128)a.low * factor;
    const uint128 sum = (uint128)a.high * factor + (uint64_t)(low >> 64);
    const int shift = (int)(sum >> 127) ? 0 : 1;
    const uint128 product = sum << shift | (shift ? (uint64_t)low >> 63 : 0);
    return (wide){(uint64_t)(product >> 64), (uint64_t)product, a.exponent + 64 - blank - shift};
}

/* How the number in the text compares with mantissa * 2^exponent: below, equal, above. */
static int compare_exactly(const written *w, uint64_t mantissa, int exponent) {
    expansion e;
    expand(mantissa, exponent, &e);
    const char *at = w->text;
    while (*at == '0' || *at == '.')
        at++;
    /* Digits from the first that is not 0 to the end of what was scanned. */
    int n = 0;
    for (const char *k = at; (*k >= '0' && *k <= '9') || *k == '.'; k++)
        n += *k != '.';
    int n_value = 0;
    for (uint64_t rest = w->digits; rest > 0; rest /= 10)
        n_value++;
    const int point = w->exponent + n_value;
    if (point != e.point)
        return point < e.point ? -1 : 1;
    for (int i = 0; n > 0 || i < e.n; at++) {
        if (n > 0 && *at == '.')
            continue;
        const char own = n > 0 ? *at : '0', other = i < e.n ? e.digits[i] : '0';
        if (own != other)
            return own < other ? -1 : 1;
        n -= n > 0;
        i++;
    }
    return 0;
}

static double join_double(uint64_t mantissa, int exponent) {
    if (mantissa >> (FRACTION_BITS + 1)) {
        mantissa >>= 1;
        exponent++;
    }
    if (exponent > MOST_EXPONENT)
        return (double)INFINITY;
    const bool is_normal = mantissa >> FRACTION_BITS;
    const uint64_t biased = is_normal ? (uint64_t)(exponent - LEAST_EXPONENT + 1) : 0;
    const uint64_t bits = (mantissa & ((1ull << FRACTION_BITS) - 1)) | biased << FRACTION_BITS;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Rounds to the nearest double, to the even one of two. The product is up to `error` too small. */
static double round_product(const written *w, wide product, uint128 error) {
    int dropped = 128 - (FRACTION_BITS + 1), exponent = product.exponent + dropped;
    if (exponent > MOST_EXPONENT) /* the first bit is 1: at least 2^1024 */
        return (double)INFINITY;
    if (exponent < LEAST_EXPONENT) {
        dropped += LEAST_EXPONENT - exponent;
        exponent = LEAST_EXPONENT;
    }
    if (dropped > 128) /* below half of the least double, or so near that the error hides it */
        return dropped == 129 && compare_exactly(w, 1, LEAST_EXPONENT - 1) > 0 ? 0x1p-1074 : 0;
    const uint128 all = (uint128)product.high << 64 | product.low;
    const uint128 half = (uint128)1 << (dropped - 1);
    uint64_t mantissa = dropped == 128 ? 0 : (uint64_t)(all >> dropped);
    const uint128 rest = dropped == 128 ? all : all & (2 * half - 1);
    if (rest > half)
        mantissa++;
    else if (rest + error >= half) {
        const int side = compare_exactly(w, 2 * mantissa + 1, exponent - 1);
        mantissa += side > 0 || (side == 0 && mantissa % 2 == 1);
    }
    return join_double(mantissa, exponent);
}

static double round_written(const written *w) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (w->digits <= 1ull << 53 && w->exponent >= -22 && w->exponent <= 22) /* both are exact */
        return w->exponent < 0 ? (double)w->digits / powers[-w->exponent]
                               : (double)w->digits * powers[w->exponent];
    if (w->digits == 0 || w->exponent < -345)
        return 0;
    if (w->exponent > 310)
        return (double)INFINITY;
    const int row = (w->exponent + TABLE_STEP * -TABLE_FIRST) / TABLE_STEP;
    int left = w->exponent - TABLE_STEP * (row + TABLE_FIRST);
    uint64_t five = 1;
    for (; left > 0; left--)
        five *= 5;
    wide product = multiply(multiply(fives[row], five), w->digits);
    product.exponent += w->exponent;
    /* Three factors cut off below their last bits; digits that did not fit are less than one of
     * the last, and those that did are more than 2^60. */
    const uint128 error = w->is_cut ? (uint128)1 << 69 : 16;
    return round_product(w, product, error);
}

/* "inf", "infinity", "nan" in any case; null: none of them. */
static const char *scan_word(const char *at, double *value) {
    static const struct {
        const char *word;
        double value;
    } words[] = {{"infinity", (double)INFINITY}, {"inf", (double)INFINITY}, {"nan", (double)NAN}};
    for (int i = 0; i < 3; i++) {
        size_t n = 0;
        while (words[i].word[n] && (at[n] | 0x20) == words[i].word[n])
            n++;
        if (!words[i].word[n]) {
            *value = words[i].value;
            return at + n;
        }
    }
    return NULL;
}

/* A number without blanks; null: there is none. */
static const char *scan_number(const char *text, double *value) {
    const bool is_negative = *text == '-';
    text += *text == '-' || *text == '+';
    written w = {.text = text};
    const char *end = scan_digits(text, &w);
    if (w.n_digits == 0)
        return NULL;
    end = scan_exponent(end, &w.exponent);
    const double size = round_written(&w);
    *value = is_negative ? -size : size;
    return end;
}

bool qn_decimal_parse(const char *text, double *value) {
    const char *end = scan_number(text + strspn(text, " \t"), value);
    return end && end[strspn(end, " \t")] == 0;
}

double qn_decimal_read(const char *text, char **end) {
    double value = 0;
    const char *at = text + strspn(text, " \t\n\v\f\r");
    const char *behind = scan_number(at, &value);
    if (!behind) {
        const bool is_negative = *at == '-';
        behind = scan_word(at + (*at == '-' || *at == '+'), &value);
        value = is_negative ? -value : value;
    }
    if (end)
        *end = (char *)(behind ? behind : text);
    return behind ? value : 0;
}

/* ---- printing ---- */

/* Leaves at most n digits, rounded to the nearest, to the even of two, and no zeros at the end; n
 * may be below 1. */
static void round_digits(expansion *e, int n) {
    if (n >= e->n)
        return;
    const bool is_up =
        n >= 0 &&
        (e->digits[n] > '5' ||
         (e->digits[n] == '5' && (e->n > n + 1 || (n > 0 && (e->digits[n - 1] - '0') % 2 == 1))));
    e->n = n < 0 ? 0 : n;
    while (e->n > 0 && e->digits[e->n - 1] == (is_up ? '9' : '0'))
        e->n--;
    if (is_up && e->n > 0) {
        e->digits[e->n - 1]++;
    } else if (is_up) {
        e->digits[e->n++] = '1';
        e->point++;
    }
}

typedef struct {
    char *to;
    size_t bytes, used;
} printed;

static void put(printed *p, char c) {
    if (p->used < p->bytes)
        p->to[p->used] = c;
    p->used++;
}

static char digit_at(const expansion *e, int i) {
    return i >= 0 && i < e->n ? e->digits[i] : '0';
}

static void put_fixed(printed *p, const expansion *e, int decimals, bool has_point) {
    for (int i = e->point > 0 ? 0 : e->point - 1; i < e->point; i++)
        put(p, digit_at(e, i));
    if (decimals > 0 || has_point)
        put(p, '.');
    for (int i = 0; i < decimals; i++)
        put(p, digit_at(e, e->point + i));
}

static void put_power(printed *p, const expansion *e, int decimals, bool has_point, char letter) {
    const int power = e->n > 0 ? e->point - 1 : 0;
    put(p, digit_at(e, 0));
    if (decimals > 0 || has_point)
        put(p, '.');
    for (int i = 1; i <= decimals; i++)
        put(p, digit_at(e, i));
    put(p, letter);
    put(p, power < 0 ? '-' : '+');
    const int size = power < 0 ? -power : power;
    if (size >= 100)
        put(p, (char)('0' + size / 100));
    put(p, (char)('0' + size / 10 % 10));
    put(p, (char)('0' + size % 10));
}

static void put_word(printed *p, const char *word, bool is_upper) {
    for (; *word; word++)
        put(p, (char)(is_upper ? *word - 0x20 : *word));
}

static void put_general(printed *p, expansion *e, int digits, bool keeps_zeros, char letter) {
    digits = digits == 0 ? 1 : digits;
    round_digits(e, digits);
    const int power = e->n > 0 ? e->point - 1 : 0;
    const bool is_fixed = power >= -4 && power < digits;
    int decimals = is_fixed ? digits - 1 - power : digits - 1;
    const int needed = is_fixed ? e->n - 1 - power : e->n - 1;
    if (!keeps_zeros && decimals > needed)
        decimals = needed > 0 ? needed : 0;
    if (is_fixed)
        put_fixed(p, e, decimals, keeps_zeros);
    else
        put_power(p, e, decimals, keeps_zeros, letter);
}

size_t qn_decimal_print(double value, char kind, int precision, bool is_alternate, char *text,
                        size_t bytes) {
    printed p = {.to = text, .bytes = bytes};
    const bool is_upper = kind >= 'A' && kind <= 'Z';
    const char lower = (char)(kind | 0x20);
    value = fabs(value);
    precision = precision < 0 ? 6 : precision;
    if (!isfinite(value)) {
        put_word(&p, isnan(value) ? "nan" : "inf", is_upper);
        return p.used;
    }
    uint64_t mantissa;
    int exponent;
    expansion e;
    split_double(value, &mantissa, &exponent);
    expand(mantissa, exponent, &e);
    if (mantissa == 0)
        e.point = 1;
    if (lower == 'f') {
        round_digits(&e, e.point + precision);
        put_fixed(&p, &e, precision, is_alternate);
    } else if (lower == 'e') {
        round_digits(&e, precision + 1);
        put_power(&p, &e, precision, is_alternate, is_upper ? 'E' : 'e');
    } else {
        put_general(&p, &e, precision, is_alternate, is_upper ? 'E' : 'e');
    }
    return p.used;
}
