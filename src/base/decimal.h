/* Decimal numbers in text, independent of the locale. */
#ifndef QN_BASE_DECIMAL_H
#define QN_BASE_DECIMAL_H

#include <stdbool.h>

/* A number with or without sign, point and power of ten, and blanks around it; what is beyond the
 * largest double is infinite. False: it is none. Exact where digits and power are small, else
 * within some units in the last place. */
bool qn_decimal_parse(const char *text, double *value);

#endif
