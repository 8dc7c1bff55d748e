/* See classes.h. */
#include "data/tokens/classes.h"

#include <utf8proc.h>

static bool is_space(int32_t c) {
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

static qn_class class_of(int32_t c) {
    const utf8proc_category_t category = utf8proc_category(c);
    if (c == '\r' || c == '\n')
        return QN_CLASS_BREAK;
    if (is_space(c))
        return QN_CLASS_SPACE;
    if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO)
        return QN_CLASS_LETTER;
    if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO)
        return QN_CLASS_NUMBER;
    return QN_CLASS_OTHER;
}

void qn_classes_fill(uint8_t table[QN_CLASSES_BYTES]) {
    for (int32_t c = 0; c < QN_CLASSES_BYTES; c++)
        table[c] = (uint8_t)class_of(c);
}

int qn_classes_character(const uint8_t *at, const uint8_t *end, int32_t *character) {
    const utf8proc_ssize_t n = utf8proc_iterate(at, end - at < 4 ? end - at : 4, character);
    return n > 0 ? (int)n : 0;
}

qn_class qn_classes_get(const uint8_t *table, const uint8_t *at, const uint8_t *end, int *bytes) {
    int32_t c;
    *bytes = 1;
    if (*at < 0x80)
        return (qn_class)table[*at];
    const int n = qn_classes_character(at, end, &c);
    if (n == 0)
        return QN_CLASS_OTHER;
    *bytes = n;
    return c < QN_CLASSES_BYTES ? (qn_class)table[c] : class_of(c);
}
