/* Text as one types it on a phone: words in lower case with a blank behind each, and "." where a
 * sentence ends. A word is letters, marks and digits, and apostrophes between them (U+2019 is read
 * as one); hyphens and everything else separate words. */
#ifndef QN_DATA_TEXT_TYPED_H
#define QN_DATA_TEXT_TYPED_H

#include "base/memory.h"

/* text (bytes of UTF-8; what is none of it separates words) to *typed, which has *n bytes of
 * *capacity and is released with qn_release(allocator, *typed, *capacity, 1). */
qn_status qn_text_type(const qn_allocator *allocator, const char *text, size_t bytes, char **typed,
                       size_t *n, size_t *capacity);

/* Whether a typed word is the end of a sentence. */
static inline bool qn_word_is_end(const char *word, size_t bytes) {
    return bytes == 1 && *word == '.';
}

/* Characters of a word. */
int qn_word_letters(const char *word, size_t bytes);

#endif
