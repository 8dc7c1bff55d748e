/* See typed.h. */
#include "data/text/typed.h"

#include "base/status.h"
#include "os/heap.h"

#include <string.h>
#include <utf8proc.h>

enum { MOST_BYTES = 4, APOSTROPHE = 0x27, CURLY_APOSTROPHE = 0x2019 };

typedef struct writer {
    const qn_allocator *allocator;
    char **data; /* (*n) of *capacity */
    size_t *n, *capacity;
    bool is_in_word, has_apostrophe; /* which a letter has to follow */
    bool is_in_sentence;
} writer;

static qn_status put(writer *w, const char *bytes, size_t n) {
    QN_TRY(qn_grow(w->allocator, w->data, w->capacity, *w->n + n, 1));
    memcpy(*w->data + *w->n, bytes, n);
    *w->n += n;
    return QN_OK;
}

static qn_status put_letter(writer *w, utf8proc_int32_t code) {
    char bytes[MOST_BYTES];
    const utf8proc_ssize_t n =
        utf8proc_encode_char(utf8proc_tolower(code), (utf8proc_uint8_t *)bytes);
    if (w->has_apostrophe)
        QN_TRY(put(w, "'", 1));
    w->has_apostrophe = false;
    w->is_in_word = w->is_in_sentence = true;
    return put(w, bytes, (size_t)n);
}

static qn_status end_word(writer *w) {
    const bool is_in_word = w->is_in_word;
    w->is_in_word = w->has_apostrophe = false;
    return is_in_word ? put(w, " ", 1) : QN_OK;
}

static bool is_of_word(utf8proc_int32_t code) {
    const utf8proc_category_t c = utf8proc_category(code);
    return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_ME) || c == UTF8PROC_CATEGORY_ND;
}

static bool ends_sentence(utf8proc_int32_t code) {
    return code == '.' || code == '!' || code == '?' || code == 0x2026;
}

static qn_status put_character(writer *w, utf8proc_int32_t code) {
    if (code >= 0 && is_of_word(code))
        return put_letter(w, code);
    if (w->is_in_word && !w->has_apostrophe && (code == APOSTROPHE || code == CURLY_APOSTROPHE)) {
        w->has_apostrophe = true;
        return QN_OK;
    }
    QN_TRY(end_word(w));
    if (!ends_sentence(code) || !w->is_in_sentence)
        return QN_OK;
    w->is_in_sentence = false;
    return put(w, ". ", 2);
}

qn_status qn_text_type(const qn_allocator *allocator, const char *text, size_t bytes, char **typed,
                       size_t *n, size_t *capacity) {
    writer w = {.allocator = allocator, .data = typed, .n = n, .capacity = capacity};
    *n = 0;
    for (size_t at = 0; at < bytes;) {
        utf8proc_int32_t code;
        const utf8proc_ssize_t used = utf8proc_iterate((const utf8proc_uint8_t *)text + at,
                                                       (utf8proc_ssize_t)(bytes - at), &code);
        QN_TRY(put_character(&w, used > 0 ? code : -1));
        at += used > 0 ? (size_t)used : 1;
    }
    return end_word(&w);
}

int qn_word_letters(const char *word, size_t bytes) {
    int n = 0;
    for (size_t i = 0; i < bytes; i++)
        n += ((unsigned char)word[i] & 0xC0) != 0x80;
    return n;
}
