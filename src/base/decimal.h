/* Decimal numbers in text, independent of the locale that the program has set: the C library's
 * strtod and printf read and write a comma where the user's country has one. Both directions round
 * correctly: to the nearest, and to the even one of two. */
#ifndef QN_BASE_DECIMAL_H
#define QN_BASE_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>

/* A number with or without sign, point and power of ten, and blanks around it; what is beyond the
 * largest double is infinite. False: it is none. */
bool qn_decimal_parse(const char *text, double *value);

/* strtod of the C locale, without hexadecimal numbers: white space, then a number, "inf" or "nan".
 * *end (unless null): what follows, or text itself if that is no number; 0 then. */
double qn_decimal_read(const char *text, char **end);

/* The number without its sign, as printf of the C locale writes it: kind is one of e, f, g, E, F,
 * G; precision below 0 is 6; is_alternate: as with "#". Writes at most `bytes` characters and no
 * final zero; returns how many there are. */
size_t qn_decimal_print(double value, char kind, int precision, bool is_alternate, char *text,
                        size_t bytes);

#endif
