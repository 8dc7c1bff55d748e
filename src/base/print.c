/* See print.h. */
#include "base/print.h"

#include "base/decimal.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* What stands between % and the letter. */
typedef struct {
    char flags[8];
    int n_flags, width, precision; /* precision -1: not given */
    char length[3];
    char letter;
} conversion;

typedef struct {
    char *text;
    size_t bytes, used;
    va_list arguments;
} printer;

static void put_bytes(printer *p, const char *from, size_t n) {
    if (p->used < p->bytes) {
        const size_t left = p->bytes - p->used;
        memcpy(p->text + p->used, from, n < left ? n : left);
    }
    p->used += n;
}

static void put_many(printer *p, char c, size_t n) {
    for (size_t i = 0; i < n; i++)
        put_bytes(p, &c, 1);
}

static bool has_flag(const conversion *c, char flag) {
    return memchr(c->flags, flag, (size_t)c->n_flags) != NULL;
}

static void add_flag(conversion *c, char flag) {
    if (!has_flag(c, flag) && c->n_flags < (int)sizeof c->flags)
        c->flags[c->n_flags++] = flag;
}

static const char *scan_count(printer *p, const char *at, int *count) {
    if (*at == '*') {
        *count = va_arg(p->arguments, int);
        return at + 1;
    }
    for (*count = 0; *at >= '0' && *at <= '9'; at++)
        *count = *count * 10 + (*at - '0');
    return at;
}

static const char *scan_conversion(printer *p, const char *at, conversion *c) {
    *c = (conversion){.precision = -1};
    for (; *at && strchr("-+ #0", *at); at++)
        add_flag(c, *at);
    at = scan_count(p, at, &c->width);
    if (c->width < 0) {
        add_flag(c, '-');
        c->width = -c->width;
    }
    if (*at == '.')
        at = scan_count(p, at + 1, &c->precision);
    for (int i = 0; *at && strchr("hlzjtL", *at); at++)
        if (i < 2)
            c->length[i++] = *at;
    c->letter = *at;
    return *at ? at + 1 : at;
}

/* Pads to the width: blanks before the sign or behind, or zeros between sign and digits. */
static void put_padded(printer *p, const conversion *c, const char *sign, const char *digits,
                       size_t n, bool may_have_zeros) {
    const size_t length = strlen(sign) + n;
    const size_t blank = (size_t)c->width > length ? (size_t)c->width - length : 0;
    const bool is_left = has_flag(c, '-');
    const bool has_zeros = !is_left && may_have_zeros && has_flag(c, '0');
    put_many(p, ' ', is_left || has_zeros ? 0 : blank);
    put_bytes(p, sign, strlen(sign));
    put_many(p, '0', has_zeros ? blank : 0);
    put_bytes(p, digits, n);
    put_many(p, ' ', is_left ? blank : 0);
}

static const char *sign_of(const conversion *c, bool is_negative) {
    return is_negative ? "-" : has_flag(c, '+') ? "+" : has_flag(c, ' ') ? " " : "";
}

enum { MOST_PRECISION = 1100, NUMBER_BYTES = 320 + MOST_PRECISION };

static void put_real(printer *p, const conversion *c) {
    char digits[NUMBER_BYTES];
    const double value = c->length[0] == 'L' ? (double)va_arg(p->arguments, long double)
                                             : va_arg(p->arguments, double);
    const int precision = c->precision < MOST_PRECISION ? c->precision : MOST_PRECISION;
    const size_t n =
        qn_decimal_print(value, c->letter, precision, has_flag(c, '#'), digits, sizeof digits);
    put_padded(p, c, sign_of(c, signbit(value)), digits, n, isfinite(value));
}

static intmax_t take_signed(printer *p, const conversion *c) {
    switch (c->length[0]) {
    case 'h': {
        const int value = va_arg(p->arguments, int);
        return c->length[1] == 'h' ? (signed char)value : (short)value;
    }
    case 'l':
        return c->length[1] == 'l' ? va_arg(p->arguments, long long) : va_arg(p->arguments, long);
    case 'z':
    case 't':
        return va_arg(p->arguments, ptrdiff_t);
    case 'j':
        return va_arg(p->arguments, intmax_t);
    default:
        return va_arg(p->arguments, int);
    }
}

static uintmax_t take_unsigned(printer *p, const conversion *c) {
    switch (c->length[0]) {
    case 'h': {
        const unsigned value = va_arg(p->arguments, unsigned);
        return c->length[1] == 'h' ? (unsigned char)value : (unsigned short)value;
    }
    case 'l':
        return c->length[1] == 'l' ? va_arg(p->arguments, unsigned long long)
                                   : va_arg(p->arguments, unsigned long);
    case 'z':
    case 't':
        return va_arg(p->arguments, size_t);
    case 'j':
        return va_arg(p->arguments, uintmax_t);
    default:
        return va_arg(p->arguments, unsigned);
    }
}

/* Writes a number's digits up to `end`; returns their beginning. 0 with precision 0 has none. */
static char *write_digits(uintmax_t value, unsigned base, char ten, int precision, char *end) {
    char *at = end;
    for (; value > 0; value /= base) {
        const unsigned digit = (unsigned)(value % base);
        *--at = (char)(digit < 10 ? '0' + digit : ten + digit - 10);
    }
    const int least = precision < 0 ? 1 : precision < 64 ? precision : 64;
    while (end - at < least)
        *--at = '0';
    return at;
}

static void put_integer(printer *p, const conversion *c) {
    char digits[80], *end = digits + sizeof digits;
    const bool is_signed = c->letter == 'd' || c->letter == 'i';
    const bool is_hex = c->letter == 'x' || c->letter == 'X';
    const unsigned base = is_hex ? 16 : c->letter == 'o' ? 8 : 10;
    const intmax_t number = is_signed ? take_signed(p, c) : 0;
    const uintmax_t size = !is_signed   ? take_unsigned(p, c)
                           : number < 0 ? -(uintmax_t)number
                                        : (uintmax_t)number;
    const char *at = write_digits(size, base, c->letter == 'X' ? 'A' : 'a', c->precision, end);
    const char *prefix =
        is_hex && has_flag(c, '#') && size > 0 ? c->letter == 'X' ? "0X" : "0x" : "";
    put_padded(p, c, is_signed ? sign_of(c, number < 0) : prefix, at, (size_t)(end - at),
               c->precision < 0);
}

static void put_text(printer *p, const conversion *c) {
    const char *text = va_arg(p->arguments, const char *);
    if (!text)
        text = "(null)";
    const size_t n = c->precision < 0 ? strlen(text) : strnlen(text, (size_t)c->precision);
    put_padded(p, c, "", text, n, false);
}

static void put_conversion(printer *p, const conversion *c) {
    char one;
    switch (c->letter) {
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
        put_integer(p, c);
        break;
    case 's':
        put_text(p, c);
        break;
    case 'c':
        one = (char)va_arg(p->arguments, int);
        put_padded(p, c, "", &one, 1, false);
        break;
    case 'p': {
        const uintptr_t address = (uintptr_t)va_arg(p->arguments, void *);
        char digits[32], *end = digits + sizeof digits,
                         *at = write_digits(address, 16, 'a', -1, end);
        put_padded(p, c, "0x", at, (size_t)(end - at), false);
        break;
    }
    case '%':
        put_bytes(p, "%", 1);
        break;
    default:
        put_real(p, c);
    }
}

int qn_print_list(char *text, size_t bytes, const char *format, va_list arguments) {
    printer p = {.text = text, .bytes = bytes};
    va_copy(p.arguments, arguments);
    while (*format) {
        const size_t n = strcspn(format, "%");
        put_bytes(&p, format, n);
        format += n;
        if (*format) {
            conversion c;
            format = scan_conversion(&p, format + 1, &c);
            put_conversion(&p, &c);
        }
    }
    va_end(p.arguments);
    if (bytes > 0)
        text[p.used < bytes ? p.used : bytes - 1] = 0;
    return p.used > INT_MAX ? INT_MAX : (int)p.used;
}

int qn_print(char *text, size_t bytes, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int length = qn_print_list(text, bytes, format, arguments);
    va_end(arguments);
    return length;
}
