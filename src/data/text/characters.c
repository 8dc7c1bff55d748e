/* UTF-8, and vocabularies of characters; see characters.h. */
#include "data/text/characters.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* ---- UTF-8 (RFC 3629) ---- */

/* Bytes of a character by its first one; 0: no character begins so. */
static size_t length_of(unsigned char first) {
    if (first < 0x80)
        return 1;
    if (first < 0xC2 || first > 0xF4)
        return 0;
    return first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

size_t qn_utf8_read(const char *text, size_t bytes, uint32_t *code) {
    static const unsigned char first_bits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *at = (const unsigned char *)text;
    const size_t length = length_of(at[0]);
    *code = QN_UNKNOWN_CHARACTER;
    if (length == 0 || length > bytes)
        return 1;
    uint32_t value = at[0] & first_bits[length];
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xC0) != 0x80)
            return 1;
        value = value << 6 | (at[i] & 0x3F);
    }
    if (value < least[length] || value >= QN_CODES || (value >= 0xD800 && value < 0xE000))
        return 1;
    *code = value;
    return length;
}

size_t qn_utf8_write(uint32_t code, char text[QN_UTF8_BYTES]) {
    static const unsigned char marks[] = {0, 0, 0xC0, 0xE0, 0xF0};
    const size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length; i-- > 1; code >>= 6)
        text[i] = (char)(0x80 | (code & 0x3F));
    text[0] = (char)(marks[length] | code);
    return length;
}

/* ---- vocabularies ---- */

typedef struct counted {
    uint32_t code, count;
} counted;

static int more_frequent(const void *left, const void *right) {
    const counted *a = left, *b = right;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    return a->code < b->code ? -1 : a->code > b->code;
}

static int smaller_code(const void *left, const void *right) {
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return a < b ? -1 : a > b;
}

/* The most frequent of the counted characters, in order of their codes. */
static qn_status choose(qn_arena *arena, const uint32_t *counts, counted *list, int most,
                        qn_characters *characters) {
    size_t n = 0;
    for (uint32_t code = 0; code < QN_CODES; code++) {
        if (counts[code] > 0 && code != QN_UNKNOWN_CHARACTER)
            list[n++] = (counted){code, counts[code]};
    }
    qsort(list, n, sizeof *list, more_frequent);
    n = n < (size_t)most - 1 ? n : (size_t)most - 1;
    uint32_t *codes = qn_arena_allocate(arena, n + 1, sizeof *codes);
    if (!codes)
        return QN_ERROR_MEMORY;
    codes[0] = QN_UNKNOWN_CHARACTER;
    for (size_t i = 0; i < n; i++)
        codes[i + 1] = list[i].code;
    qsort(codes + 1, n, sizeof *codes, smaller_code);
    *characters = (qn_characters){(int)n + 1, codes};
    return QN_OK;
}

qn_status qn_characters_count(qn_arena *arena, const char *text, size_t bytes, int most,
                              qn_characters *characters) {
    uint32_t *counts, code;
    counted *list;
    size_t n_different = 0;
    if (most < 2 || most > QN_MOST_CHARACTERS)
        return qn_fail(QN_ERROR_ARGUMENT, "a vocabulary of %d characters; it has 2 to %d", most,
                       QN_MOST_CHARACTERS);
    QN_TRY(qn_allocate(arena->allocator, QN_CODES, sizeof *counts, &counts));
    for (size_t at = 0; at < bytes;) {
        at += qn_utf8_read(text + at, bytes - at, &code);
        n_different += counts[code] == 0;
        counts[code] += counts[code] < UINT32_MAX;
    }
    qn_status status = qn_allocate(arena->allocator, n_different + 1, sizeof *list, &list);
    if (status == QN_OK) {
        status = n_different > (counts[QN_UNKNOWN_CHARACTER] > 0)
                     ? choose(arena, counts, list, most, characters)
                     : qn_fail(QN_ERROR_FORMAT, "the text holds no character in UTF-8");
        qn_release(arena->allocator, list, n_different + 1, sizeof *list);
    }
    qn_release(arena->allocator, counts, QN_CODES, sizeof *counts);
    return status;
}

const char *qn_characters_print(qn_arena *arena, const qn_characters *characters) {
    char *text = qn_arena_allocate(arena, (size_t)characters->n * QN_UTF8_BYTES + 1, 1), *at = text;
    for (int i = 0; text && i < characters->n; i++)
        at += qn_utf8_write(characters->codes[i], at);
    return text;
}

qn_status qn_characters_parse(qn_arena *arena, const char *text, qn_characters *characters) {
    const size_t bytes = strlen(text);
    uint32_t *codes = qn_arena_allocate(arena, bytes + 1, sizeof *codes);
    if (!codes)
        return QN_ERROR_MEMORY;
    int n = 0;
    bool is_sound = bytes < (size_t)QN_MOST_CHARACTERS * QN_UTF8_BYTES;
    for (size_t at = 0; is_sound && at < bytes; n++) {
        at += qn_utf8_read(text + at, bytes - at, &codes[n]);
        is_sound = n == 0 ? codes[0] == QN_UNKNOWN_CHARACTER : n == 1 || codes[n] > codes[n - 1];
    }
    if (!is_sound || n < 2 || n > QN_MOST_CHARACTERS)
        return qn_fail(QN_ERROR_FORMAT, "the vocabulary of characters is damaged");
    *characters = (qn_characters){n, codes};
    return QN_OK;
}

int qn_characters_find(const qn_characters *characters, uint32_t code) {
    int low = 1, high = characters->n - 1;
    while (low <= high) {
        const int middle = (low + high) / 2;
        if (characters->codes[middle] == code)
            return middle;
        if (characters->codes[middle] < code)
            low = middle + 1;
        else
            high = middle - 1;
    }
    return 0;
}
