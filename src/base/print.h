/* printf into memory, independent of the locale that the program has set: numbers have a point. All
 * text that the library makes goes through here; the linter refuses the C library's own. */
#ifndef QN_BASE_PRINT_H
#define QN_BASE_PRINT_H

#include <stdarg.h>
#include <stddef.h>

/* As snprintf of the C locale, without %n, %a and wide characters. Returns the length of the whole
 * text, which is cut where it does not fit. */
__attribute__((format(printf, 3, 4))) int qn_print(char *text, size_t bytes, const char *format,
                                                   ...);
__attribute__((format(printf, 3, 0))) int qn_print_list(char *text, size_t bytes,
                                                        const char *format, va_list arguments);

#endif
