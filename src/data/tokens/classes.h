/* Classes of characters as the split patterns of tokenizers tell them apart: letters (\p{L}),
 * numbers (\p{N}), white space (\s) and others. Unicode's tables are utf8proc's. A byte that is no
 * UTF-8 counts as a character of the others. */
#ifndef QN_DATA_TOKENS_CLASSES_H
#define QN_DATA_TOKENS_CLASSES_H

#include "quern/base.h"

typedef enum qn_class {
    QN_CLASS_OTHER,
    QN_CLASS_LETTER,
    QN_CLASS_NUMBER,
    QN_CLASS_SPACE,
    QN_CLASS_BREAK, /* carriage return and line feed, which are white space too */
} qn_class;

enum { QN_CLASSES_BYTES = 1 << 16 };

/* Fills a table of the characters below 2^16. */
void qn_classes_fill(uint8_t table[QN_CLASSES_BYTES]);

/* The character at `at`, before end: its class, and its bytes in *bytes. */
qn_class qn_classes_get(const uint8_t *table, const uint8_t *at, const uint8_t *end, int *bytes);

/* Bytes of the character at `at`, before end; 0: it is no UTF-8. */
int qn_classes_character(const uint8_t *at, const uint8_t *end, int32_t *character);

#endif
