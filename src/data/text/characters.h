/* The characters of a text and their numbers. A text is UTF-8 and its characters are code points;
 * an invalid byte counts as a character. Characters outside the vocabulary have number 0. Leaves
 * out: normal forms, letters of several code points. */
#ifndef QN_DATA_TEXT_CHARACTERS_H
#define QN_DATA_TEXT_CHARACTERS_H

#include "base/memory.h"

enum {
    QN_CODES = 0x110000,           /* code points that there are */
    QN_UNKNOWN_CHARACTER = 0xFFFD, /* what stands for bytes that are no UTF-8, and for number 0 */
    QN_UTF8_BYTES = 4,             /* of a character at most */
    QN_MOST_CHARACTERS = 65536,    /* so that a number fits in 16 bits */
};

/* The first character of so many bytes, at least 1; returns how many bytes it takes. */
size_t qn_utf8_read(const char *text, size_t bytes, uint32_t *code);

/* Writes a character; returns how many bytes it took. */
size_t qn_utf8_write(uint32_t code, char text[QN_UTF8_BYTES]);

/* codes[0] is QN_UNKNOWN_CHARACTER; codes[i] < codes[i + 1] for i from 1.  2 <= n <= 65536 */
typedef struct qn_characters {
    int n;
    const uint32_t *codes; /* (n) */
} qn_characters;

/* A vocabulary of the most frequent characters of a text, at most so many with number 0; of equally
 * frequent ones those with smaller codes. The memory is the arena's. */
qn_status qn_characters_count(qn_arena *arena, const char *text, size_t bytes, int most,
                              qn_characters *characters);

/* As UTF-8 text, and back; text null: memory is out. */
const char *qn_characters_print(qn_arena *arena, const qn_characters *characters);
qn_status qn_characters_parse(qn_arena *arena, const char *text, qn_characters *characters);

/* The number of a character. */
int qn_characters_find(const qn_characters *characters, uint32_t code);

#endif
