/* See decimal.h. */
#include "base/decimal.h"

#include <stdint.h>
#include <string.h>

/* value * 10^exponent; exact where both are small, which is nearly always. */
static double scale_decimal(double value, int exponent) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    for (; exponent > 22 && value < 1e300; exponent -= 22)
        value *= 1e22;
    for (; exponent < -22 && value > 0; exponent += 22)
        value /= 1e22;
    if (exponent > 22)
        return value * 1e300;
    if (exponent < -22)
        return value;
    return exponent < 0 ? value / powers[-exponent] : value * powers[exponent];
}

/* Digits with at most one point; *exponent: what the digits have to be scaled by. */
static const char *parse_digits(const char *at, uint64_t *digits, int *exponent, int *n_digits) {
    bool has_point = false;
    for (;; at++) {
        if (*at == '.' && !has_point) {
            has_point = true;
            continue;
        }
        if (*at < '0' || *at > '9')
            return at;
        ++*n_digits;
        bool fits = *digits < UINT64_MAX / 10 - 1;
        if (fits)
            *digits = *digits * 10 + (uint64_t)(*at - '0');
        *exponent += !fits - has_point;
    }
}

/* e and a power of ten, if that comes here. */
static const char *parse_exponent(const char *at, int *exponent) {
    if (*at != 'e' && *at != 'E')
        return at;
    bool is_negative = at[1] == '-';
    const char *digit = at + 1 + (at[1] == '-' || at[1] == '+');
    if (*digit < '0' || *digit > '9')
        return at;
    int power = 0;
    for (; *digit >= '0' && *digit <= '9'; digit++)
        power = power < 10000 ? power * 10 + (*digit - '0') : power;
    *exponent += is_negative ? -power : power;
    return digit;
}

bool qn_decimal_parse(const char *text, double *value) {
    uint64_t digits = 0;
    int exponent = 0, n_digits = 0;
    text += strspn(text, " \t");
    bool is_negative = *text == '-';
    text += *text == '-' || *text == '+';
    text = parse_digits(text, &digits, &exponent, &n_digits);
    if (n_digits == 0)
        return false;
    text = parse_exponent(text, &exponent);
    double size = scale_decimal((double)digits, exponent);
    *value = is_negative ? -size : size;
    return text[strspn(text, " \t")] == 0;
}
